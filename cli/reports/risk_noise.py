"""The noise that keeps the best attack below a risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...accountant import rounding
from ..inputs.described_run import SoughtNoise, grouped, noisy_sum
from ..terminal.output import Report, table, wrapped
from . import assumption_words, guarantee_words
from .loaders import shuffling_warning

if TYPE_CHECKING:
    from ...accountant.calibration_aims import Calibration
    from ...accountant.calibration_targets import RiskTarget
    from ...accountant.guarantee import Bounds

USUAL_DELTA: Final = 1e-5
"""The delta of the epsilon that noise is usually calibrated to."""

QUANTITIES: Final = {
    "advantage": "the advantage",
    "tpr": "the TPR",
    "bayes_risk": "how much less often than a guess by the prior the best attack errs",
}
"""What a warning calls the risk that is aimed at."""

CERTIFICATES: Final = {
    "advantage": "The advantage of every attack is at most delta at epsilon 0.",
    "tpr": "Of all pairs (epsilon, delta) that hold of the event this is the one that bounds the "
    "TPR most closely: it is at most e^epsilon FPR + delta, and at most 1 - e^-epsilon "
    "(1 - delta - FPR). Both orders of the two data sets by themselves may prove a little more.",
    "bayes_risk": "The Bayes risk is at least the smaller prior times 1 - delta, where epsilon is "
    "|log((1 - prior) / prior)|.",
}
"""How the (epsilon, delta) that certifies a risk does so."""


@dataclass(frozen=True)
class RiskPlan(SoughtNoise):
    """An attack risk that must be met, and the run that has to meet it."""

    target: RiskTarget

    def solve(self) -> Calibration:
        """Return the smallest noise that meets the target."""
        from ...accountant.calibrate import calibrate as run

        target: dict[str, float | None] = {self.target.measure: self.target.value, **self._at()}
        return run(
            self.event_at,
            advantage=target.get("advantage"),
            tpr=target.get("tpr"),
            fpr=target.get("fpr"),
            bayes_risk=target.get("bayes_risk"),
            prior=target.get("prior"),
            neighbours=self.neighbours,
            engine=self.engine,
        )

    def _at(self) -> dict[str, float]:
        """Return the number that the risk is stated at: an FPR, or a prior."""
        named = ("fpr", "prior")
        return {name: getattr(self.target, name) for name in named if hasattr(self.target, name)}

    def through_epsilon(self) -> float | None:
        """Return the noise of the usual way, an epsilon that implies the same risk."""
        from ...accountant.calibrate import calibrate as run
        from ...accountant.errors import PrivplanError

        epsilon = self.target.through_epsilon(USUAL_DELTA)
        if epsilon is None:
            return None
        try:
            return run(
                self.event_at, epsilon=epsilon, delta=USUAL_DELTA, neighbours=self.neighbours
            ).value
        except PrivplanError:
            return None

    def report(self) -> Report:
        """Return the report."""
        calibration = self.solve()
        usual = self.through_epsilon()
        return Report(
            result=self._result(calibration, usual),
            text=self._text(calibration, usual),
            number=rounding.plain(calibration.value),
            assumptions=assumption_words.assumptions_of(calibration),
            warnings=(*self._shuffling(calibration), *self._caveats(calibration)),
        )

    def _result(self, calibration: Calibration, usual: float | None) -> dict[str, object]:
        proven = calibration.guarantee
        return {
            "noise_multiplier": calibration.value,
            self.target.measure: guarantee_words.ends(calibration.risk),
            **self._at(),
            "target": {"measure": self.target.measure, "value": self.target.value},
            "gap": calibration.gap,
            "event": calibration.event.to_json(),
            "certificate": {
                "epsilon": proven.epsilon.upper,
                "delta": proven.delta.upper,
                "says": CERTIFICATES[self.target.measure],
            },
            **guarantee_words.facts(proven, *guarantee_words.PROVEN_FOR),
            **guarantee_words.facts(self.schedule, "rounds", "rate", "sampling"),
            "noise_multiplier_through_epsilon": usual,
        }

    def _text(self, calibration: Calibration, usual: float | None) -> str:
        proven, noise = calibration.guarantee, rounding.up(calibration.value)
        compared = ""
        if usual is not None:
            compared = f"(an epsilon at delta {USUAL_DELTA:g} needs noise {rounding.up(usual)})"
        changed = assumption_words.change(proven.neighbours, proven.unit)
        return table(
            [
                ("noise multiplier", f"{noise:<14}{self.meaning_of(noise)}"),
                ("proves", f"{self._stated(calibration.risk, guaranteed=True)}, {changed}"),
                ("attained", f"{self._stated(calibration.risk, guaranteed=False)}, by some attack"),
                *wrapped("in words", self._words(calibration)),
                ("by", f"{guarantee_words.engine(proven.engine):<14}{compared}".rstrip()),
                *self.rows(),
            ]
        )

    def _stated(self, risk: Bounds, *, guaranteed: bool) -> str:
        """Return the end that is guaranteed, or the one that is attained, in words."""
        given = rounding.as_given
        if self.target.measure == "bayes_risk":
            end = self._within(risk.lower) if guaranteed else rounding.up(risk.upper)
            return f"an error of {end} at prior {given(self._at()['prior'])}"
        end = self._within(risk.upper) if guaranteed else rounding.down(risk.lower)
        if self.target.measure == "tpr":
            return f"TPR {end} at FPR {given(self._at()['fpr'])}"
        return f"advantage {end}"

    def _within(self, end: float) -> str:
        """Return a guaranteed end with so many digits that its rounding does not miss the target.

        One that misses it without rounding, of another run, is shown with the usual digits.
        """
        errs = self.target.measure == "bayes_risk"
        shown = rounding.down if errs else rounding.up
        usual = shown(end)
        if (end < self.target.value) if errs else (end > self.target.value):
            return usual
        for digits in range(rounding.DIGITS, 18):
            text = shown(end, digits)
            number = float(text.replace(",", ""))
            if number >= self.target.value if errs else number <= self.target.value:
                return text
        return usual

    def _words(self, calibration: Calibration) -> str:
        from ...accountant.risk.sentence import attack_sentence

        risk, relation = calibration.risk, calibration.guarantee.neighbours
        if self.target.measure == "tpr":
            return attack_sentence(self._at()["fpr"], risk.upper, relation)
        if self.target.measure == "advantage":
            most = rounding.up(100.0 * risk.upper, 2)
            if relation == "replace-one":
                return (
                    "Of a unit whose value is A or B: the share of cases of B in which an attacker "
                    f"says B exceeds that of cases of A by at most {most} in 100."
                )
            return (
                "Whatever share of innocents an attacker accuses, the share of members found is "
                f"larger by at most {most} in 100."
            )
        prior = rounding.as_given(self._at()["prior"])
        errs = f"errs in at least {rounding.down(100.0 * risk.lower, 2)} of 100 cases"
        if relation == "replace-one":
            return (
                f"Whoever says which of two values a unit has, one of them with probability "
                f"{prior}, {errs}."
            )
        return (
            f"Whoever says of a person, a member with probability {prior}, whether it is one, "
            f"{errs}."
        )

    def _caveats(self, calibration: Calibration) -> tuple[str, ...]:
        """Return the warnings about the event, in terms of the risk that is aimed at."""
        from ...accountant.engines.pld.ask.caveats import risk_caveats
        from ...accountant.guarantee import Bounds

        risk, quantity = calibration.risk, QUANTITIES[self.target.measure]
        if self.target.measure == "bayes_risk":
            # The words speak of an upper end that holds: of what an attack gains over a guess.
            prior = self._at()["prior"]
            blind = min(prior, 1.0 - prior)
            risk = Bounds(max(blind - risk.upper, 0.0), max(blind - risk.lower, 0.0))
        relation = calibration.guarantee.neighbours
        return risk_caveats(calibration.event, relation, risk, quantity)

    def _shuffling(self, calibration: Calibration) -> tuple[str, ...]:
        """Return the warning about loaders that shuffle, where epochs of Poisson samples are."""
        from ...accountant import events as ev
        from ...accountant.errors import PrivplanError
        from ...accountant.risk import risk
        from ...accountant.risk.sentence import USUAL_FPR

        if not self.schedule.shuffles or self.schedule.passes is None:
            return ()
        release = noisy_sum(self.mechanism, calibration.value)
        plain = grouped(ev.Repeat(self.schedule.passes, release), self.group)
        try:
            at = {"fpr": USUAL_FPR, "prior": 0.5, **self._at()}
            left = risk(plain, neighbours=self.neighbours, fpr=at["fpr"], prior=at["prior"])
        except PrivplanError:
            return (shuffling_warning(None, self.neighbours, self.group),)
        risk_left: Bounds = getattr(left, self.target.measure)
        reached = self._stated(risk_left, guaranteed=True)
        if self._is_worse(risk_left, calibration.risk):
            reached = f"only {reached}"
        return (shuffling_warning(reached, self.neighbours, self.group),)

    def _is_worse(self, risk: Bounds, other: Bounds) -> bool:
        """Return whether less is guaranteed of a risk than of another one."""
        if self.target.measure == "bayes_risk":
            return risk.lower < other.lower
        return risk.upper > other.upper
