"""Epsilon of runs with correlated noise, next to jax_privacy and opake: one Gaussian, and cycles.

Run by itself, `python bench/matrix_epsilons.py`, or with the others.  The peers are no
dependencies: where one is not installed its rows are missing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import mpmath
import opake_module
import timing
from dp_accounting import DpEvent, GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, word

import privplan as pp
from privplan import events as ev
from privplan.accountant.sensitivity.matrix import sensitivity_bounds

DELTA: Final = 1e-6

NARROW: Final = 1e-3
"""Width of our answer, relative to epsilon, that was asked."""

FINE_GRID: Final = 1e-5

DIGITS: Final = 40

NOTE = f"""\
delta {DELTA:g}. known rounds: the whole run is one Gaussian of noise over sensitivity, and its
epsilon is solved for with {DIGITS} digits (exact). cycles: bands in turns, each Poisson sampled
(Choquette-Choo et al. 2023). jax_privacy: the event that it makes, by the PLD of dp_accounting.
opake: its compiled functions at its default grid, 1e-4, and a finer one. over: the number less the
exact one, relative; what is below 0 is below the truth. All are given our sensitivity. Times are of
all cores, of second calls."""


class Accounted:
    """A run of which privplan is asked."""

    def event(self) -> ev.Event:
        raise NotImplementedError

    def ours(self) -> pp.Bounds:
        return pp.account(self.event(), delta=DELTA).epsilon


@dataclass(frozen=True)
class KnownRounds(Accounted):
    """A strategy under a public participation."""

    name: str
    noise: float
    strategy: ev.Strategy
    participation: ev.Participation

    def event(self) -> ev.Event:
        return ev.MatrixGaussian(self.noise, self.strategy, self.participation)

    @property
    def sensitivity(self) -> float:
        return sensitivity_bounds(self.strategy, self.participation).bounds.upper

    def exact(self) -> float:
        """Return epsilon by the closed form of delta, to many digits."""
        with mpmath.workdps(DIGITS):
            mu = mpmath.mpf(self.sensitivity) / mpmath.mpf(self.noise)
            low, high = mpmath.mpf(0), mpmath.mpf(200)
            while high - low > mpmath.mpf(10) ** (-DIGITS // 2):
                middle = (low + high) / 2
                over = mpmath.ncdf(mu / 2 - middle / mu)
                delta = over - mpmath.exp(middle) * mpmath.ncdf(-mu / 2 - middle / mu)
                low, high = (middle, high) if delta > DELTA else (low, middle)
            return float(high)

    def jax(self) -> DpEvent:
        return GaussianDpEvent(self.noise / self.sensitivity)

    def opake(self, width: float) -> float:
        module = opake_module.load()
        config = module.DiscretizationConfig(discretization=width)
        return float(module.mf_gaussian_pld(self.noise, self.sensitivity, config).epsilon_at(DELTA))


@dataclass(frozen=True)
class Cycles(Accounted):
    """Bands in turns, each a Poisson sample of its own part of the data."""

    name: str
    noise: float
    rounds: int
    bands: int
    rate: float

    def event(self) -> ev.Event:
        cycles = math.ceil(self.rounds / self.bands)
        return ev.Repeat(cycles, ev.Poisson(self.rate, ev.Gaussian(self.noise)))

    def exact(self) -> float | None:
        return None

    def jax(self) -> DpEvent:
        from jax_privacy.experimental import accounting

        return accounting.amplified_bandmf_event(
            self.noise, self.rounds, num_bands=self.bands, sampling_prob=self.rate
        )

    def opake(self, width: float) -> float:
        module = opake_module.load()
        config = module.DiscretizationConfig(discretization=width)
        cycle = module.poisson_pld(module.gaussian_pld(self.noise, config), self.rate)
        return float(cycle.self_compose(math.ceil(self.rounds / self.bands)).epsilon_at(DELTA))


BLT = ev.BufferedToeplitzStrategy(1_000, [0.99, 0.8], [0.05, 0.2])

CASES: Final[tuple[KnownRounds | Cycles, ...]] = (
    KnownRounds("BLT, single", 1.0, BLT, ev.SingleParticipation()),
    KnownRounds("BLT, 50 apart", 10.0, BLT, ev.SeparatedParticipation(20, 50)),
    KnownRounds("tree, single", 0.5, ev.TreeStrategy(1_000, 2), ev.SingleParticipation()),
    Cycles("10 bands, rate .1", 1.0, 1_000, 10, 0.1),
    Cycles("20 bands, rate .2", 2.0, 2_000, 20, 0.2),
)


@dataclass(frozen=True)
class Row:
    """What one party says of a case; `exact` where a closed form is known."""

    case: str
    party: str
    lower: float | None
    upper: float
    seconds: float
    exact: float | None

    @property
    def over(self) -> float | None:
        return None if self.exact is None else self.upper / self.exact - 1.0


def rows() -> Iterator[Row]:
    """Yield ours and then the peers', case by case."""
    for case in CASES:
        progress(f"epsilon of {case.name}")
        exact = case.exact()
        case.ours()
        mine = timing.timed(case.ours, 3, time.process_time)
        ends = mine.result
        yield Row(case.name, "ours", ends.lower, ends.upper, mine.seconds, exact)
        for party, call in _peers(case):
            call()
            theirs = timing.timed(call, 3, time.process_time)
            yield Row(case.name, party, None, theirs.result, theirs.seconds, exact)


def _peers(case: KnownRounds | Cycles) -> Iterator[tuple[str, Callable[[], float]]]:
    if find_spec("jax_privacy") is not None:
        event = case.jax()
        yield "jax_privacy", lambda: float(PLDAccountant().compose(event).get_epsilon(DELTA))
    if opake_module.installed():
        yield opake_module.name(), lambda: case.opake(1e-4)
        yield f"{opake_module.name()}, {FINE_GRID:g}", lambda: case.opake(FINE_GRID)


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid(
        "Correlated noise: epsilon",
        "<run",
        "<party",
        "lower",
        "upper",
        "exact",
        "over",
        "CPU",
        "<below the truth",
    )
    measured = list(rows())
    for row in measured:
        table.add_row(
            row.case,
            row.party,
            "-" if row.lower is None else f"{row.lower:.8f}",
            f"{row.upper:.8f}",
            "-" if row.exact is None else f"{row.exact:.8f}",
            "-" if row.over is None else f"{row.over:+.1e}",
            seconds(row.seconds),
            "-" if row.over is None else word(row.over < 0.0),
        )
    console.print(table, NOTE, "", sep="\n")
    return verdicts(measured)


def verdicts(measured: list[Row]) -> list[Verdict]:
    """Return what was asked, and what came out."""
    ours = [row for row in measured if row.party == "ours"]
    sound = all(
        (row.lower or 0.0) <= row.exact <= row.upper for row in ours if row.exact is not None
    )
    gap = max(1.0 - (row.lower or 0.0) / row.upper for row in ours)
    return [
        Verdict("correlated noise: exact epsilon between our ends", "each", word(sound), sound),
        Verdict(
            "correlated noise: gap of epsilon, worst",
            f"<= {NARROW:g} of epsilon",
            f"{gap:.1e}",
            gap <= NARROW,
        ),
    ]


if __name__ == "__main__":
    from verdicts import summary

    wide = Console(width=140)
    wide.print(summary(show(wide)))
