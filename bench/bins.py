"""Balls in bins with correlated noise: certified bounds next to the Monte Carlo of the peers.

Run by itself, `python bench/bins.py`, or with the others.  The peers are no dependencies: where
one is not installed its columns stay empty.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Final

import numpy as np
import opake_module
import timing
from rich.console import Console
from scipy.stats import norm
from verdicts import Verdict, grid, progress, seconds, word

import privplan as pp
from privplan import events as ev
from privplan.accountant.arrays import FloatArray
from privplan.accountant.sensitivity.matrix import strategy_matrix

SAMPLES: Final = 20_000
"""Samples of jax_privacy's Monte Carlo: seconds at 1,000 rounds."""

CHUNK: Final = 2_000

SEED: Final = 7

STANDARD_ERRORS: Final = 5.0
"""How far the mean of the samples may lie from the truth: more in 6e-7 of all runs."""

QUADRATURE_POINTS: Final = 4_000

NOTE = f"""\
delta at epsilon, add-remove. ours holds with certainty. exact: a quadrature over the plane of two
bins. jax_privacy: the mean of {SAMPLES:,} samples where the unit is removed, and what its rule lets
one report of it (get_overall_delta). opake: its compiled functions, an upper end
that fails with probability 1e-6 and is never below its resolution (quick: 1e-4; else its default,
1e-5). Without correlation opake has a transform that needs no samples. Times are of all cores."""


@dataclass(frozen=True)
class Case:
    """A banded Toeplitz strategy whose rounds are cycled through bins."""

    coefficients: tuple[float, ...]
    rounds: int
    bins: int
    noise: float
    epsilon: float

    @property
    def name(self) -> str:
        listed = ", ".join(f"{each:g}" for each in self.coefficients)
        return f"[{listed}], {self.rounds:,} rounds, {self.bins} bins, noise {self.noise:g}"

    @property
    def strategy(self) -> ev.Strategy:
        return ev.ToeplitzStrategy(self.rounds, self.coefficients)

    def ours(self) -> pp.Bounds:
        """Return our bounds on delta."""
        event = ev.MatrixGaussian(self.noise, self.strategy, ev.BallsInBins(self.bins))
        return pp.account(event, epsilon=self.epsilon).delta

    def exact(self) -> float | None:
        """Return delta by quadrature, where two bins span a plane."""
        if self.bins != 2:
            return None
        matrix = strategy_matrix(self.strategy) / self.noise
        means = np.stack([matrix[:, first :: self.bins].sum(axis=1) for first in range(2)], axis=1)
        left, _, _ = np.linalg.svd(means, full_matrices=False)
        return _plane_delta(left.T @ means, self.epsilon)

    def samples(self, count: int) -> FloatArray:
        """Return losses that jax_privacy draws."""
        from jax_privacy import batch_selection
        from jax_privacy.experimental.monte_carlo import sample_generation

        sampling = batch_selection.BallsInBinsSampling(
            iterations=self.rounds, cycle_length=self.bins
        )
        generator, column = np.random.default_rng(SEED), np.array(self.coefficients)
        return np.concatenate(
            [
                sample_generation.get_privacy_loss_sample(
                    sampling, self.noise, column, seed=generator, num_samples=CHUNK
                )[0]
                for _ in range(count // CHUNK)
            ]
        )

    def opake(self, resolution: float) -> float:
        """Return opake's upper end of delta."""
        module = opake_module.load()
        epochs = self.rounds // self.bins
        if len(self.coefficients) == 1:
            config = module.DiscretizationConfig()
            noise = self.noise / (self.coefficients[0] * math.sqrt(epochs))
            loss = module.random_allocation_gaussian_pld(noise, self.bins, 1, config)
        else:
            config = module.DiscretizationConfig(mc_resolution=resolution)
            gram = module.toeplitz_gram_matrix(
                list(self.coefficients), self.rounds, self.bins, epochs, False
            )
            loss = module.bnb_mc_pld(gram, self.bins, self.noise, config)
        return float(loss.delta_at(self.epsilon))


def _plane_delta(means: FloatArray, epsilon: float) -> float:
    """Return the larger hockey-stick divergence of an even mixture of two N(m, I) and N(0, I)."""
    grids, masses = [], np.ones(1)
    for row in means:
        edges = np.linspace(min(row.min(), 0.0) - 7.0, max(row.max(), 0.0) + 7.0, QUADRATURE_POINTS)
        grids.append(0.5 * (edges[1:] + edges[:-1]))
        masses = np.multiply.outer(masses, np.diff(norm.cdf(edges)))
    first, second = np.meshgrid(*grids, indexing="ij")
    ratio = sum(np.exp(x * first + y * second - 0.5 * (x * x + y * y)) for x, y in means.T) / 2.0
    order, weights = math.exp(epsilon), masses.reshape(ratio.shape)
    removed = float((weights * np.maximum(ratio - order, 0.0)).sum())
    return max(removed, float((weights * np.maximum(1.0 - order * ratio, 0.0)).sum()))


CASES: Final = (
    Case((1.0, 0.5), 4, 2, 1.5, 1.0),
    Case((1.0, 0.5), 100, 10, 4.0, 0.5),
    Case((1.0, 0.5, 0.25), 1_000, 100, 2.0, 1.0),
    Case((1.0, 0.5, 0.25), 1_000, 100, 4.0, 1.0),
    Case((1.0,), 1_000, 100, 1.0, 1.0),
)


@dataclass(frozen=True)
class Estimate:
    """The mean of samples, its standard error, and what may be reported of it."""

    mean: float
    error: float
    reported: float


@dataclass(frozen=True)
class Row:
    """What everybody says of a case."""

    case: Case
    ours: timing.Timing[pp.Bounds]
    exact: float | None
    jax: timing.Timing[Estimate] | None
    opake: timing.Timing[float] | None


def _estimate(case: Case) -> Estimate:
    from jax_privacy.experimental.monte_carlo import delta_calculation

    losses = case.samples(SAMPLES)
    mean = float(delta_calculation.delta_from_epsilon_and_samples(case.epsilon, losses))
    each = -np.expm1(np.minimum(case.epsilon - losses, 0.0))
    # The rule needs a delta that was set beforehand: at least that of a single sample.
    reported = delta_calculation.get_overall_delta(SAMPLES, max(mean, 1.0 / SAMPLES))
    return Estimate(mean, float(each.std()) / math.sqrt(SAMPLES), float(reported))


def rows(quick: bool) -> Iterator[Row]:
    """Yield a row for each case."""
    for case in CASES[:4] if quick else CASES:
        progress(f"balls in bins, {case.name}")
        ours = timing.timed(case.ours, 3, time.process_time)
        jax = opake = None
        if find_spec("jax_privacy") is not None:
            jax = timing.call_once(partial(_estimate, case), time.process_time)
        if opake_module.installed():
            call = partial(case.opake, 1e-4 if quick else 1e-5)
            opake = timing.call_once(call, time.process_time)
        yield Row(case, ours, case.exact(), jax, opake)


def show(console: Console, quick: bool = False) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    measured = list(rows(quick))
    table = grid(
        "Balls in bins: delta",
        "<C, rounds",
        "epsilon",
        "lower",
        "upper",
        "exact",
        "CPU",
        "jax_privacy, mean",
        "reported",
        "CPU",
        opake_module.name(),
        "CPU",
    )
    for row in measured:
        ends = row.ours.result
        table.add_row(
            row.case.name,
            f"{row.case.epsilon:g}",
            f"{ends.lower:.3g}",
            f"{ends.upper:.3g}",
            "-" if row.exact is None else f"{row.exact:.5g}",
            seconds(row.ours.seconds),
            *_jax_cells(row.jax),
            *(
                ("-", "-")
                if row.opake is None
                else (f"{row.opake.result:.3g}", seconds(row.opake.seconds))
            ),
        )
    console.print(table, NOTE, "", sep="\n")
    return verdicts(measured)


def _jax_cells(answer: timing.Timing[Estimate] | None) -> tuple[str, str, str]:
    if answer is None:
        return "-", "-", "-"
    estimate = answer.result
    return (
        f"{estimate.mean:.3g} +- {estimate.error:.1g}",
        f"{estimate.reported:.3g}",
        seconds(answer.seconds),
    )


def verdicts(measured: list[Row]) -> list[Verdict]:
    """Return what was asked, and what came out."""
    exact = all(
        row.ours.result.lower <= row.exact <= row.ours.result.upper
        for row in measured
        if row.exact is not None
    )
    asked = [Verdict("balls in bins: quadrature between our ends", "each", word(exact), exact)]
    sampled = [(row.ours.result, row.jax.result) for row in measured if row.jax is not None]
    if sampled:
        held = all(ends.upper >= each.mean - STANDARD_ERRORS * each.error for ends, each in sampled)
        below = sum(ends.upper < each.reported for ends, each in sampled)
        asked += [
            Verdict(
                "balls in bins: our upper end at or above the mean of jax_privacy's samples",
                f"each, less {STANDARD_ERRORS:g} standard errors",
                word(held),
                held,
            ),
            Verdict(
                "balls in bins: our upper end below what jax_privacy's samples let one report",
                "some",
                f"{below} of {len(sampled)}",
                below > 0,
            ),
        ]
    bounded = [(row.ours.result, row.opake.result) for row in measured if row.opake is not None]
    if bounded:
        above = all(theirs >= ends.lower for ends, theirs in bounded)
        asked.append(
            Verdict("balls in bins: our lower end below opake's number", "each", word(above), above)
        )
    return asked


if __name__ == "__main__":
    from verdicts import summary

    wide = Console(width=180)
    wide.print(summary(show(wide)))
