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

**Fields** of a `BandMFConfig` that are left out have the library's defaults, and what the library
refuses is refused.  Printed text is parsed in a closed grammar and never evaluated; an array that
numpy printed with dots in it is known by its length only.

Source: jax_privacy 2.2 and the head of August 2026, module execution_plan (`BandMFConfig`; until
2.2 `BandMFExecutionPlanConfig` with `sampling_prob`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.events import Event, Gaussian, NoGuarantee, Poisson, Repeat, TruncatedPoisson
from .content import known_fields
from .dp_accounting_events import called_name, literal, outside, parsed

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
            "that the noise relative to the largest column is not known: there is no event.",
        )
    if norm >= 1.0:
        return noise, ()
    if norm >= SHORT_NORM:
        return noise * norm, ()
    return noise * norm, (
        f"The strategy has norm {norm:.4g} and its columns are normalised: the noise is only "
        f"{norm:.4g} times what the noise multiplier says. The library asks for norm 1.",
    )


CONFIG_NAMES: Final = ("BandMFConfig", "BandMFExecutionPlanConfig")
RATES: Final = ("expected_participations", "sampling_prob")
FIELDS: Final = (
    "iterations",
    *RATES,
    "strategy",
    "noise_multiplier",
    "l2_clip_norm",
    "rescale_to_unit_norm",
    "normalize_by",
    "truncated_batch_size",
    "num_examples",
    "column_normalize",
)


def checked(fields: Mapping[str, Any]) -> BandMF:
    """Return a configuration whose fields are in their ranges.

    Raises `InvalidInput` for an unknown or missing field, and a value that the library refuses.
    """
    known_fields(fields, FIELDS, "", "jax_privacy")
    iterations = validate.count(iterations=_needed(fields, "iterations"))
    strategy = _strategy(_needed(fields, "strategy"), iterations)
    optional = {key: fields.get(key) for key in FIELDS}
    noise, truncated, records = (
        optional[key] for key in ("noise_multiplier", "truncated_batch_size", "num_examples")
    )
    validate.non_negative(normalize_by=fields.get("normalize_by", 1.0))
    normalised = fields.get("column_normalize", False)
    if not isinstance(normalised, bool):
        raise InvalidInput("`column_normalize` must be true or false.")
    return BandMF(
        iterations,
        strategy,
        _rate(fields, iterations, strategy.bands),
        None if noise is None else validate.non_negative(noise_multiplier=noise),
        validate.non_negative(l2_clip_norm=fields.get("l2_clip_norm", 1.0)),
        None if truncated is None else validate.count(truncated_batch_size=truncated),
        None if records is None else validate.count(num_examples=records),
        normalised,
    )


def _rate(fields: Mapping[str, Any], iterations: int, bands: int) -> float:
    if all(fields.get(key) is not None for key in RATES):
        raise InvalidInput("`sampling_prob` and `expected_participations` are both given.")
    if fields.get("expected_participations") is None:
        rate = validate.probability(sampling_prob=fields.get("sampling_prob", 1.0))
        field = "sampling_prob"
    else:
        field = "expected_participations"
        expected = validate.non_negative(expected_participations=fields[field])
        if expected > iterations // bands:
            raise InvalidInput(
                f"`expected_participations` is {expected:g}; one record can take part in "
                f"{iterations // bands:,} iterations in full cycles.",
                "The library refuses more.",
                "Correct the configuration.",
            )
        rate = min(expected * bands / iterations, 1.0)
    if rate == 0.0:
        raise InvalidInput(f"`{field}` is 0: nothing would ever be sampled.")
    return rate


def _strategy(value: object, iterations: int) -> BandedStrategy:
    if isinstance(value, BandedStrategy):
        strategy = value
    elif isinstance(value, list) and value:
        coefficients = tuple(_coefficient(item) for item in value)
        strategy = BandedStrategy(len(coefficients), coefficients)
    else:
        raise InvalidInput("`strategy` must be a list of at least one coefficient.")
    if strategy.bands > iterations:
        raise InvalidInput(
            f"`strategy` has {strategy.bands:,} bands for {iterations:,} iterations.",
            "The library refuses more bands than iterations.",
            "Correct the configuration.",
        )
    return strategy


def _coefficient(value: object) -> float:
    magnitude = abs(value) if isinstance(value, (int, float)) else value
    return validate.non_negative(strategy=magnitude)


def _needed(fields: Mapping[str, Any], field: str) -> Any:
    if fields.get(field) is None:
        raise InvalidInput(
            f"`{field}` is missing.",
            "Every configuration of the library has it.",
            "Check that the file is whole.",
        )
    return fields[field]


def printed_fields(text: str) -> dict[str, object]:
    """Return the fields of a configuration as it is printed.

    Raises `InvalidInput` for text outside the grammar.
    """
    tree = parsed(text)
    if not isinstance(tree, ast.Call) or tree.args or called_name(tree) not in CONFIG_NAMES:
        raise outside("it is no configuration with named fields")
    fields: dict[str, object] = {}
    for keyword in tree.keywords:
        if keyword.arg is None or keyword.arg in fields:
            raise outside("it has a field without a name, or one twice")
        is_strategy = keyword.arg == "strategy"
        shortened = _shortened(keyword.value) if is_strategy else None
        fields[keyword.arg] = shortened or literal(keyword.value, 0)
    return fields


def _shortened(node: ast.expr) -> BandedStrategy | None:
    """Return the strategy of an array that is printed with dots in it; its shape says how long."""
    if not isinstance(node, ast.Call) or not any(
        isinstance(part, ast.Constant) and part.value is ... for part in ast.walk(node)
    ):
        return None
    for keyword in node.keywords:
        if keyword.arg == "shape":
            shape = literal(keyword.value, 0)
            if isinstance(shape, list) and len(shape) == 1:
                return BandedStrategy(validate.count(shape=shape[0]), None)
    raise InvalidInput(
        "`strategy` is printed with dots in it, and without its length.",
        "The number of bands decides how often a record takes part.",
        "Save the coefficients in full: config.strategy.tolist().",
    )
