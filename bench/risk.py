"""Noise for an attack risk, next to riskcal: the same noise, how long it takes, and what it saves.

Run by itself, `python bench/risk.py`, or with the others.  riskcal is no dependency: where it is
not installed its columns stay empty.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

import timing
from loss_inversion import SampledLosses, exact_noise
from rich.console import Console
from rich.table import Table
from verdicts import Verdict, grid, progress, seconds

import privplan as pp
from privplan import events as ev
from privplan.accountant.calibration_targets import risk_target

PEER = "riskcal"

TOLERANCE = 1e-6
"""Distance to the target at which the peer's bisection stops."""

GRID_STEP = 1e-4
"""The peer's own discretisation."""

LEAST_NOISE, MOST_NOISE = 0.3, 10.0
"""Where the peer searches: its own [0.1, 50] takes longer."""

MAX_DIFFERENCE = 1e-4
"""Relative distance of the two noises that was asked."""

LEAST_RATIO = 20.0
"""How many times faster ours was asked to be."""

USUAL_DELTA = 1e-5
"""The delta of the epsilon that implies the same risk."""

NOTE = f"""\
ours: the full call with both ends, after a warm-up. {PEER}: its bisection for DP-SGD between
{LEAST_NOISE:g} and {MOST_NOISE:g}, tolerance {TOLERANCE:g}, grid {GRID_STEP:g}; once if it takes
over {timing.SINGLE_RUN_SECONDS:g} s. exact: by characteristic functions, without a grid of losses;
the exact noise is where that risk is the target, and less noise misses it. through epsilon: the
noise of the epsilon at delta {USUAL_DELTA:g} that implies the same risk of any mechanism."""


@dataclass(frozen=True)
class RiskCase:
    kind: str
    values: dict[str, float]
    rate: float
    rounds: int

    @property
    def name(self) -> str:
        target = ", ".join(f"{name} {value:g}" for name, value in self.values.items())
        return f"{target}; rate {self.rate:g}, {self.rounds:,}"

    def event(self, noise: float) -> ev.Event:
        return ev.Repeat(self.rounds, ev.Poisson(self.rate, ev.Gaussian(noise)))

    def ours(self) -> pp.Calibration:
        return pp.calibrate(self.event, **self.values)

    def through_epsilon(self) -> float:
        epsilon = risk_target(self.kind, self.values).through_epsilon(USUAL_DELTA)
        return pp.calibrate(self.event, epsilon=epsilon, delta=USUAL_DELTA).value

    def peer(self) -> Callable[[], float]:
        module = importlib.import_module(f"{PEER}.calibration.dpsgd")
        common = {
            "sample_rate": self.rate,
            "num_steps": self.rounds,
            "grid_step": GRID_STEP,
            "noise_min": LEAST_NOISE,
            "noise_max": MOST_NOISE,
        }
        if self.kind == "advantage":
            return lambda: module.find_noise_multiplier_for_advantage(
                advantage=self.values["advantage"], advantage_tol=TOLERANCE, **common
            )
        return lambda: module.find_noise_multiplier_for_err_rates(
            alpha=self.values["fpr"], beta=1.0 - self.values["tpr"], beta_tol=TOLERANCE, **common
        )

    def exact(self, noise: float) -> float:
        """Return the risk at a noise, by an independent computation."""
        losses = SampledLosses(noise, self.rate, self.rounds)
        return losses.advantage() if self.kind == "advantage" else losses.tpr(self.values["fpr"])


CASES = (
    RiskCase("advantage", {"advantage": 0.1}, 0.01, 1_000),
    RiskCase("advantage", {"advantage": 0.2}, 0.01, 10_000),
    RiskCase("advantage", {"advantage": 0.05}, 0.004267, 2_344),
    RiskCase("tpr", {"tpr": 0.07, "fpr": 0.01}, 0.01, 1_000),
    RiskCase("tpr", {"tpr": 0.25, "fpr": 0.1}, 0.01, 1_000),
)


@dataclass(frozen=True)
class Row:
    """What both find, and the exact risks at both noises."""

    case: RiskCase
    ours: timing.Timing[pp.Calibration]
    peer: timing.Timing[float] | None
    risk: float
    peer_risk: float | None
    exact_noise: float
    usual: float

    @property
    def target(self) -> float:
        return self.ours.result.target

    @property
    def difference(self) -> float:
        """How far our noise is above the exact one, relative."""
        return self.ours.result.value / self.exact_noise - 1.0

    @property
    def apart(self) -> float | None:
        """How far our noise is above the peer's, relative."""
        return None if self.peer is None else self.ours.result.value / self.peer.result - 1.0


def installed() -> bool:
    """Return whether the peer can be imported."""
    return importlib.util.find_spec(PEER) is not None


def rows(quick: bool) -> Iterator[Row]:
    """Yield a row for each case."""
    for case in CASES[:3] if quick else CASES:
        progress(f"calibrating {case.name}")
        peer = None
        if installed():
            ours, peer = timing.race(
                case.ours, case.peer(), ours_runs=3 if quick else 5, peer_runs=1
            )
        else:
            case.ours()
            ours = timing.timed(case.ours, 3)
        noise = ours.result.value
        yield Row(
            case,
            ours,
            peer,
            case.exact(noise),
            None if peer is None else case.exact(peer.result),
            exact_noise(case.exact, ours.result.target, noise),
            case.through_epsilon(),
        )


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    if not installed():
        console.print(f"{PEER} is not installed: pip install {PEER}; its columns stay empty.")
    measured = list(rows(quick))
    name = f"{PEER} {version(PEER)}" if installed() else PEER
    console.print(_table(measured, name), NOTE, "", sep="\n")
    return verdicts(measured)


def _table(measured: list[Row], peer: str) -> Table:
    table = grid(
        f"Attack risk: noise next to {peer}",
        "<target; rate, steps",
        "ours",
        peer,
        "ratio",
        "our noise",
        "peer's",
        "exact",
        "apart",
        "ours over exact",
        "peer's",
        "exact risk at ours",
        "at peer's",
        "through epsilon",
        "saved",
    )
    for row in measured:
        noise, other = row.ours.result.value, row.peer
        table.add_row(
            row.case.name,
            seconds(row.ours.seconds),
            "-" if other is None else seconds(other.seconds),
            "-" if other is None else f"{other.seconds / row.ours.seconds:.0f}x",
            f"{noise:.6f}",
            "-" if other is None else f"{other.result:.6f}",
            f"{row.exact_noise:.6f}",
            "-" if row.apart is None else f"{row.apart:+.1e}",
            f"{row.difference:+.1e}",
            "-" if other is None else f"{other.result / row.exact_noise - 1.0:+.1e}",
            f"{row.risk:.8f}",
            "-" if row.peer_risk is None else f"{row.peer_risk:.8f}",
            f"{row.usual:.4f}",
            f"{1.0 - noise / row.usual:.0%}",
        )
    return table


def verdicts(measured: list[Row]) -> list[Verdict]:
    """Return what was asked, and what came out."""
    worst = max(abs(row.difference) for row in measured)
    above = max(row.ours.result.risk.upper / row.target for row in measured)
    saved = min(1.0 - row.ours.result.value / row.usual for row in measured)
    exactly = max(row.risk / row.target for row in measured)
    asked = [
        Verdict(
            "attack risk: noise, from the exact one",
            f"at most {MAX_DIFFERENCE:g}",
            f"{worst:.1e}",
            worst <= MAX_DIFFERENCE,
        ),
        Verdict(
            "attack risk: exact over target, at our noise",
            "at most 1",
            f"{exactly:.8f}",
            exactly <= 1.0,
        ),
        Verdict("attack risk: certified over target", "at most 1", f"{above:.8f}", above <= 1.0),
        Verdict(
            "attack risk: noise saved over the way through epsilon",
            "above 0",
            f"{saved:.0%} or more",
            saved > 0.0,
        ),
    ]
    apart = [abs(row.apart) for row in measured if row.apart is not None]
    if apart:
        near = sum(each <= MAX_DIFFERENCE for each in apart)
        asked.append(
            Verdict(
                f"attack risk: noise, from {PEER}'s",
                f"at most {MAX_DIFFERENCE:g} in each",
                f"in {near} of {len(apart)}, at most {max(apart):.1e}",
                max(apart) <= MAX_DIFFERENCE,
            )
        )
    ratios = [row.peer.seconds / row.ours.seconds for row in measured if row.peer is not None]
    if ratios:
        asked.append(
            Verdict(
                f"attack risk: speed next to {PEER}",
                f"{LEAST_RATIO:g}x or more",
                f"{min(ratios):.0f}x to {max(ratios):.0f}x",
                min(ratios) >= LEAST_RATIO,
            )
        )
    return asked


def main() -> None:
    """Run this table alone."""
    from verdicts import summary

    console = Console(width=230)
    console.print(summary(show(console, quick=False)))


if __name__ == "__main__":
    main()
