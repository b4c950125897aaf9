"""Noise for an attack risk, beside riskcal: the same noise, how long it takes, and what it saves.

Run by itself, `python bench/risk.py`, or with the others.  riskcal is no dependency: where it is
not installed its columns stay empty.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

import timing
from dp_accounting.pld import privacy_loss_distribution
from rich.console import Console
from rich.table import Table
from verdicts import Verdict, grid, progress, seconds, yes

import privplan as pp
from privplan import events as ev
from privplan.accountant.targets import risk_target

PEER = "riskcal"

TOLERANCE = 1e-6
"""Distance to the target at which the peer's bisection stops."""

GRID_STEP = 1e-4
"""The peer's own discretisation, and that of the re-check."""

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
over {timing.SINGLE_RUN_SECONDS:g} s. re-checked: the risk by the deltas of dp_accounting's PLD
at {GRID_STEP:g}, less the excess of its grid, at our noise and at the peer's; `tight` is the
noise at which that risk is the target. through epsilon: the noise of the epsilon at delta
{USUAL_DELTA:g} that implies the same risk of any mechanism, by privplan."""


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

    def rechecked(self, noise: float, around: float) -> float:
        """Return the risk at a noise by dp_accounting's deltas near an epsilon.

        A grid of width w adds an excess of order w^2, of which two widths tell the size.
        """
        fine, coarse = (self._risk(noise, around, width) for width in (GRID_STEP, 2 * GRID_STEP))
        return fine - max(coarse - fine, 0.0) / 3.0

    def _risk(self, noise: float, around: float, width: float) -> float:
        loss = privacy_loss_distribution.from_gaussian_mechanism(
            noise, sampling_prob=self.rate, value_discretization_interval=width
        ).self_compose(self.rounds)
        if self.kind == "advantage":
            return float(loss.get_delta_for_epsilon(0.0))
        fpr = self.values["fpr"]
        near = [around + 0.01 * step for step in range(-10, 11)]
        return min(
            fpr * math.exp(each) + float(loss.get_delta_for_epsilon(each))
            for each in near
            if each >= 0.0
        )


CASES = (
    RiskCase("advantage", {"advantage": 0.1}, 0.01, 1_000),
    RiskCase("advantage", {"advantage": 0.2}, 0.01, 10_000),
    RiskCase("advantage", {"advantage": 0.05}, 0.004267, 2_344),
    RiskCase("tpr", {"tpr": 0.07, "fpr": 0.01}, 0.01, 1_000),
    RiskCase("tpr", {"tpr": 0.25, "fpr": 0.1}, 0.01, 1_000),
)


@dataclass(frozen=True)
class Row:
    case: RiskCase
    ours: timing.Timing[pp.Calibration]
    peer: timing.Timing[float] | None
    risk: float
    peer_risk: float | None
    tight: float
    usual: float

    @property
    def target(self) -> float:
        return self.ours.result.target

    @property
    def difference(self) -> float:
        """How far our noise is above the tight one by the re-check, relative."""
        return self.ours.result.value / self.tight - 1.0


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
        noise, around = ours.result.value, ours.result.guarantee.epsilon.upper
        risk = case.rechecked(noise, around)
        step = 1e-3 * noise
        slope = (case.rechecked(noise + step, around) - risk) / step
        yield Row(
            case,
            ours,
            peer,
            risk,
            None if peer is None else case.rechecked(peer.result, around),
            noise + (ours.result.target - risk) / slope,
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
        f"Attack risk: noise beside {peer}",
        "<target; rate, steps",
        "ours",
        peer,
        "ratio",
        "our noise",
        "peer's noise",
        "apart",
        "over tight",
        f"<within {MAX_DIFFERENCE:g}",
        "re-checked",
        "peer's",
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
            "-" if other is None else f"{noise / other.result - 1.0:+.1e}",
            f"{row.difference:+.1e}",
            yes(abs(row.difference) <= MAX_DIFFERENCE),
            f"{row.risk:.7f}",
            "-" if row.peer_risk is None else f"{row.peer_risk:.7f}",
            f"{row.usual:.4f}",
            f"{1.0 - noise / row.usual:.0%}",
        )
    return table


def verdicts(measured: list[Row]) -> list[Verdict]:
    """Return what was asked, and what came out."""
    worst = max(abs(row.difference) for row in measured)
    above = max(row.ours.result.risk.upper / row.target for row in measured)
    saved = min(1.0 - row.ours.result.value / row.usual for row in measured)
    asked = [
        Verdict(
            "attack risk: noise, from the tight one",
            f"at most {MAX_DIFFERENCE:g}",
            f"{worst:.1e}",
            worst <= MAX_DIFFERENCE,
        ),
        Verdict("attack risk: certified over target", "at most 1", f"{above:.8f}", above <= 1.0),
        Verdict(
            "attack risk: noise saved over the way through epsilon",
            "above 0",
            f"{saved:.0%} or more",
            saved > 0.0,
        ),
    ]
    ratios = [row.peer.seconds / row.ours.seconds for row in measured if row.peer is not None]
    if ratios:
        asked.append(
            Verdict(
                f"attack risk: speed beside {PEER}",
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
