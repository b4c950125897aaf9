"""What `calibrate` answers: the noise that meets an epsilon, and what else it proves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...accountant import rounding
from ..inputs import options
from ..inputs.described_run import SoughtNoise, grouped, noisy_sum
from ..terminal.output import Report, table

if TYPE_CHECKING:
    from ...accountant.calibration_aims import Calibration
    from ...accountant.guarantee import Guarantee


@dataclass(frozen=True)
class EpsilonPlan(SoughtNoise):
    """A target, and the run that has to meet it; `units` where their number was given."""

    epsilon: float
    delta: float
    units: int | None = None
    unit: str = "record"

    def solve(self, engine: str | None) -> Calibration:
        """Return the smallest noise that meets the target."""
        from ...accountant.calibrate import calibrate as run

        return run(
            self.event_at,
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
        passes = ev.Repeat(self.schedule.passes, noisy_sum(self.mechanism, noise))
        try:
            return account(
                grouped(passes, self.group), delta=self.delta, neighbours=self.neighbours
            )
        except PrivplanError:
            return None

    def report(self, calibration: Calibration, *, brief: bool) -> Report:
        """Return the report on what was solved; a brief one leaves out the comparison with RDP."""
        from . import assumption_words

        # A second search, only for the comparison in the text: --quiet does without.
        rdp = None if brief or self.engine else self.by_rdp(calibration)
        # Most loaders shuffle, so what the same noise proves for them stands in the warning.
        plain = self.unamplified(calibration.value)
        proven = calibration.guarantee
        return Report(
            result=self.result(calibration, rdp, plain),
            text=self.text(calibration, rdp),
            number=rounding.plain(calibration.value),
            assumptions=(
                *assumption_words.assumptions_of(calibration),
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
        from . import guarantee_words

        return {
            **guarantee_words.calibration_json(calibration, self.delta),
            **guarantee_words.facts(self.schedule, "rounds", "rate", "sampling"),
            "noise_multiplier_by_rdp": rdp,
            "epsilon_without_amplification": None if plain is None else plain.epsilon.upper,
        }

    def text(self, calibration: Calibration, rdp: float | None) -> str:
        """Return the report for a person."""
        from . import guarantee_words

        noise = rounding.up(calibration.value)
        compared = "" if rdp is None else f"(RDP alone needs {rounding.up(rdp)})"
        return table(
            [
                ("noise multiplier", f"{noise:<14}{self.meaning_of(noise)}"),
                *guarantee_words.guarantee_rows(calibration.guarantee, "epsilon"),
                ("by", f"{guarantee_words.engine(calibration.guarantee.engine):<14}{compared}"),
                *self.rows(),
            ]
        )

    def shuffling(self, proven: Guarantee, plain: Guarantee | None) -> tuple[str, ...]:
        """Return the warning about loaders that shuffle, where epochs of Poisson samples are."""
        from .loaders import shuffling_warning

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
