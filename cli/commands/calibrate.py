"""`privplan calibrate`: how much noise does a target need?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ...accountant import rounding
from ..inputs import attack_risk, gram, options
from ..inputs.described_run import noisy_sum
from ..inputs.request import LossOptions, OutputOptions, takes
from ..inputs.schedule import Schedule, ScheduleOptions, given_by, protected, required
from ..terminal.output import Report, show
from ..terminal.text import table

if TYPE_CHECKING:
    from ...accountant.calibration import Calibration
    from ...accountant.events import Event
    from ...accountant.guarantee import Guarantee

Units = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="With --rate and --rounds: how many units are protected; a delta of 1 / N or more "
        "is refused, or needs --accept-delta.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class CalibrateRequest(
    OutputOptions, gram.GramOptions, LossOptions, ScheduleOptions, attack_risk.TargetOptions
):
    """A target, and the run or the release that has to meet it."""

    mechanism: options.Mechanism = "gaussian"
    units: Units = None
    accept_delta: options.AcceptDelta = False

    def require_delta_below(self, delta: float, units: int | None, unit: str) -> None:
        """Raise `InvalidInput` for a delta of 1 / units or more that nobody accepted."""
        from ...accountant.delta_checks import require_delta_below_units

        accept = options.ACCEPT_DELTA_FLAG
        require_delta_below_units(delta, units, unit, accepted=self.accept_delta, accept=accept)


@takes(CalibrateRequest)
def calibrate(context: typer.Context, asked: CalibrateRequest) -> None:
    """Find the smallest noise that provably meets a target.

    Needs a target, and a schedule.  The target is --epsilon and --delta, or what the best attack
    may reach: --advantage, or --tpr at --fpr, or --bayes at --prior (privplan explain risk).  The
    schedule is either --records, --batch and --epochs, or --rate and
    --rounds.  Steps are records x epochs / batch, rounded up; the rate is batch / records, and
    --sampling says how a batch is drawn.  A delta of 1 / records or more is refused without
    --accept-delta; with --rate and --rounds it is compared with 1 / units, where --units says how
    many there are.

    With --release gram: the noise of a Gram matrix with label sums, released once of all data, and
    its sensitivities, for rows that are clipped to a public norm R.  It needs --dimension, and
    takes no schedule.
    """
    from ...accountant import validate
    from ...accountant.delta_checks import delta_below_half, delta_from_zero

    risk = attack_risk.asked_target(context, asked)
    epsilon = slack = 0.0
    if risk is not None:
        _refuse_beside_risk(release=asked.release, units=asked.units)
    else:
        epsilon = required(validate.positive, epsilon=asked.epsilon)
        slack = required(delta_below_half if asked.release else delta_from_zero, delta=asked.delta)
    options.word(options.MECHANISMS, mechanism=asked.mechanism)
    options.word(options.NEIGHBOURS, neighbours=asked.neighbours)
    if asked.engine is not None:
        options.word(options.ENGINES, engine=asked.engine)
    size = options.checked(validate.count, group=asked.group)
    units = asked.units
    terms = asked.mechanism, asked.neighbours
    if gram.is_asked(context, asked.release):
        from ..reports.gram import GramTarget

        if units is not None:
            units = options.checked(validate.count, units=units)
        asked.require_delta_below(slack, units, asked.unit)
        bound = gram.bound(asked)
        release = GramTarget(epsilon, slack, bound, asked.unit, *terms, asked.engine, units)
        show(release.report(), as_json=asked.as_json, quiet=asked.quiet)
        return
    kind = given_by(context)
    schedule = asked.schedule(kind)
    if risk is not None:
        from ..reports.risk_noise import RiskPlan

        within = RiskPlan(risk, schedule, *terms, size, asked.engine)
        show(within.report(), as_json=asked.as_json, quiet=asked.quiet)
        return
    units, whom = protected(context, kind, asked.records, units)
    asked.require_delta_below(slack, units, whom)
    plan = Plan(epsilon, slack, schedule, *terms, size, asked.engine, units, whom)
    brief = asked.quiet and not asked.as_json
    show(plan.report(brief=brief), as_json=asked.as_json, quiet=asked.quiet)


def _refuse_beside_risk(**beside: object) -> None:
    from ...accountant.errors import InvalidInput

    for name, value in beside.items():
        if value is not None:
            raise InvalidInput(
                f"`{name}` goes with --epsilon and --delta, not with an attack risk.",
                "An attack risk has no delta that could be too large for so many units."
                if name == "units"
                else "The noise of a Gram matrix is calibrated to epsilon at a delta.",
                f"Leave out --{name}, or give --epsilon and --delta.",
            )


@dataclass(frozen=True)
class Plan:
    """A target, and the run that has to meet it; `units` where their number was given."""

    epsilon: float
    delta: float
    schedule: Schedule
    mechanism: str
    neighbours: str
    group: int
    engine: str | None
    units: int | None = None
    unit: str = "record"

    def release(self, noise: float) -> Event:
        """Return the event of one noisy sum."""
        return noisy_sum(self.mechanism, noise)

    def seen_by_unit(self, event: Event) -> Event:
        """Return `event` as it concerns one unit."""
        from ...accountant import events as ev

        return event if self.group == 1 else ev.Group(self.group, event)

    def solve(self, engine: str | None) -> Calibration:
        """Return the smallest noise that meets the target."""
        from ...accountant.calibrate import calibrate as run

        return run(
            lambda noise: self.seen_by_unit(self.schedule.around(self.release(noise))),
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            engine=engine,
        )

    def by_rdp(self, calibration: Calibration) -> float | None:
        """Return the noise that RDP alone needs, where RDP can say and did not say it already."""
        from ...accountant.errors import PrivplanError

        if calibration.guarantee.engine == "rdp":
            return None
        # RDP may have no curve for the event, or no noise that meets the target.
        try:
            return self.solve("rdp").value
        except PrivplanError:
            return None

    def unamplified(self, noise: float) -> Guarantee | None:
        """Return what `noise` proves with one use of each record per pass and no amplification.

        Given the order of the records, which does not depend on their values, a record enters
        one noisy sum per pass; so the passes compose, whatever the order.  The record's place
        must survive the change: it is zeroed or replaced, not added or removed.
        """
        from ...accountant import events as ev
        from ...accountant.account import account
        from ...accountant.errors import PrivplanError

        # At rate 1 nothing is amplified; rounds alone do not say how often data are used.
        if self.schedule.passes is None or self.schedule.rate == 1.0:
            return None
        event = self.seen_by_unit(ev.Repeat(self.schedule.passes, self.release(noise)))
        try:
            return account(event, delta=self.delta, neighbours=self.neighbours)
        except PrivplanError:
            return None

    def report(self, *, brief: bool) -> Report:
        """Return the report; a brief one leaves out the comparison with RDP."""
        from ..reports import describe

        calibration = self.solve(self.engine)
        # A second search, only for the comparison in the text: --quiet does without.
        rdp = None if brief or self.engine else self.by_rdp(calibration)
        # Most loaders shuffle, so what the same noise proves for them stands in the warning.
        plain = self.unamplified(calibration.value)
        proven = calibration.guarantee
        return Report(
            result=self.result(calibration, rdp, plain),
            text=self.text(calibration, rdp),
            number=rounding.bare(calibration.value),
            assumptions=(
                *describe.assumptions(
                    calibration.event, proven.neighbours, proven.unit, proven.observer
                ),
                *(options.delta_not_compared(self.delta, self.units) if self.delta else ()),
            ),
            warnings=(
                *options.accepted(self.delta, self.units, self.unit),
                *self.shuffling(proven, plain),
                *proven.warnings,
            ),
        )

    def result(
        self, calibration: Calibration, rdp: float | None, plain: Guarantee | None
    ) -> dict[str, object]:
        """Return the JSON result."""
        from ..reports import describe

        proven = calibration.guarantee
        return {
            "noise_multiplier": calibration.value,
            "epsilon": describe.ends(proven.epsilon),
            "delta": self.delta,
            "gap": calibration.gap,
            "event": calibration.event.to_json(),
            "neighbours": proven.neighbours,
            "engine": proven.engine,
            "unit": proven.unit,
            "observer": proven.observer,
            "rounds": self.schedule.rounds,
            "rate": self.schedule.rate,
            "sampling": self.schedule.sampling,
            "noise_multiplier_by_rdp": rdp,
            "epsilon_without_amplification": None if plain is None else plain.epsilon.upper,
        }

    def text(self, calibration: Calibration, rdp: float | None) -> str:
        """Return the report for a person."""
        from ..reports import describe

        noise = rounding.up(calibration.value)
        if self.mechanism == "laplace":
            meaning = f"scale = {noise} x L1 bound of one contribution"
        else:
            meaning = f"standard deviation = {noise} x clip norm"
        compared = "" if rdp is None else f"(RDP alone needs {rounding.up(rdp)})"
        rows = [
            ("noise multiplier", f"{noise:<14}{meaning}"),
            *describe.guarantee_rows(calibration.guarantee, "epsilon"),
            ("by", f"{describe.engine(calibration.guarantee.engine):<14}{compared}"),
            ("over", self.schedule.text()),
        ]
        if self.group > 1:
            rows.append(("per unit of", f"{self.group:,} records"))
        return table(rows)

    def shuffling(self, proven: Guarantee, plain: Guarantee | None) -> tuple[str, ...]:
        """Return the warning about loaders that shuffle, where epochs of Poisson samples are."""
        from ..reports.loaders import shuffling_warning

        if not self.schedule.shuffles:
            return ()
        if plain is None:
            return (shuffling_warning(None, self.neighbours, self.group),)
        only = "only " if plain.epsilon.upper > proven.epsilon.upper else ""
        reached = (
            f"{only}epsilon {rounding.up(plain.epsilon.upper, 3)} at delta "
            f"{rounding.as_given(self.delta)}"
        )
        return (shuffling_warning(reached, self.neighbours, self.group),)
