"""The banded matrix factorisation of a `BandMFConfig`: its event, and when there is one.

With b bands and T iterations, each record is put into one of b groups that take turns, and is
sampled in its group's turns with probability p = (expected participations) b / T.  Two
participations are then at least b iterations apart, where the columns of a b-banded strategy C do
not overlap, so all turns together are

    Repeat(ceil(T / b), Poisson(p, Gaussian(z)))

for noise of z times the largest column norm of C.  The library draws noise of z |c| (c are the
coefficients).  Without column normalisation |c| is the largest column norm; with it that norm is
1, and the multiplier is z |c|, which is less than z where |c| < 1.

Neighbours: add-remove without `num_examples` (each record takes a group of its own, at random),
zero-out with it (groups of equal size; what is left over is never used).  With
`truncated_batch_size`, Poisson samples of a group are cut: TruncatedPoisson of num_examples // b.

Source: Choquette-Choo et al. (2023), "(Amplified) Banded Matrix Factorization", Theorem 4 and its
proof; jax_privacy 2.2 and the head of August 2026: `execution_plan.BandMFConfig`, `accounting`,
`batch_selection.CyclicPoissonSampling`, `toeplitz.inverse_as_streaming_matrix`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.events import Event, Gaussian, NoGuarantee, Poisson, Repeat, TruncatedPoisson

NORM_ROUNDING: Final = 1e-15
NEAR_ONE: Final = 1e-9

SHORT_NORM: Final = 1.0 - 1e-6
"""Norms of coefficients in single precision that are meant to be 1 are above this."""

NOT_CALIBRATED: Final = (
    "The configuration has no noise multiplier: calibrate() has not been called, or its result was "
    "not saved. There is no event without it."
)


@dataclass(frozen=True)
class BandedStrategy:
    """Coefficients of a banded strategy: their number, and their values where all are printed."""

    bands: int
    coefficients: tuple[float, ...] | None

    def smallest_norm(self) -> float | None:
        """Return the L2 norm, rounded down; None where some coefficients are not printed."""
        if self.coefficients is None:
            return None
        total = math.fsum(value * value for value in self.coefficients)
        if abs(total - 1.0) < NEAR_ONE and sum(Fraction(c) ** 2 for c in self.coefficients) >= 1:
            return 1.0
        return math.nextafter(math.sqrt(total), 0.0) * (1.0 - NORM_ROUNDING)


@dataclass(frozen=True)
class BandMF:
    """A checked configuration; `rate` is that of a group's turn."""

    iterations: int
    strategy: BandedStrategy
    rate: float
    noise_multiplier: float | None
    clip: float
    truncated_batch: int | None
    records: int | None
    column_normalize: bool

    @property
    def bands(self) -> int:
        """Return the number of bands, and of groups."""
        return self.strategy.bands

    @property
    def turns(self) -> int:
        """Return in how many iterations one record can take part: ceil(T / b)."""
        return -(-self.iterations // self.bands)

    @property
    def upper_only(self) -> str:
        """Why a record may lose less than the event says; empty where it loses as much.

        Groups have unequal numbers of turns where b does not divide T, the last columns are cut
        off, and without `num_examples` nobody knows the group of a record.
        """
        whole = self.iterations % self.bands == 0 and self.records is not None
        if self.bands == 1 or (whole and self.column_normalize):
            return ""
        return (
            "The library counts the group with the most turns and the longest columns; another "
            "group, and one that nobody knows, loses less."
        )

    @property
    def neighbours(self) -> str:
        """Return the relation that the library accounts for."""
        return "add-remove" if self.records is None else "zero-out"


def event_of(run: BandMF) -> tuple[Event | None, tuple[str, ...]]:
    """Return the event of a run and the doubts about it; no event where its conditions fail.

    Raises `InvalidInput` for a cut batch that no group can fill.
    """
    if run.noise_multiplier is None:
        return None, (NOT_CALIBRATED,)
    multiplier, doubts = _multiplier(run, run.noise_multiplier)
    if multiplier is None:
        return None, doubts
    if multiplier == 0.0:
        return NoGuarantee("its noise multiplier is 0"), doubts
    gaussian = Gaussian(multiplier)
    if run.truncated_batch is None:
        return Repeat(run.turns, Poisson(run.rate, gaussian)), doubts
    if run.records is None:
        raise InvalidInput(
            "`truncated_batch_size` needs `num_examples`, which is missing.",
            "What truncation costs depends on the number of records.",
            "Give the configuration that the library accepted.",
        )
    group = run.records // run.bands
    if group < 1:
        raise InvalidInput(
            f"`num_examples` is {run.records:,} and the strategy has {run.bands:,} bands.",
            "Every group would be empty.",
            "Correct the configuration.",
        )
    # A cap that no group exceeds cuts nothing, and one that is a group's size means the same.
    batch = min(run.truncated_batch, group)
    return Repeat(run.turns, TruncatedPoisson(run.rate, batch, group, gaussian)), doubts


def _multiplier(run: BandMF, noise: float) -> tuple[float | None, tuple[str, ...]]:
    if not run.column_normalize:
        return noise, ()
    norm = run.strategy.smallest_norm()
    if norm is None:
        return None, (
            "The columns are normalised and not all coefficients of the strategy are printed, so "
            "that the noise beside the largest column is not known: there is no event.",
        )
    if norm >= 1.0:
        return noise, ()
    if norm >= SHORT_NORM:
        return noise * norm, ()
    return noise * norm, (
        f"The strategy has norm {norm:.4g} and its columns are normalised: the noise is only "
        f"{norm:.4g} times what the noise multiplier says. The library asks for norm 1.",
    )
