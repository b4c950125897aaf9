"""What `privplan calibrate --release gram` answers: noise, sensitivities, and what it proves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from ...accountant import rounding
from ..inputs import options
from ..terminal.output import Report, table
from . import assumption_words, guarantee_words

if TYPE_CHECKING:
    from ...accountant.calibration_aims import Calibration
    from ...accountant.neighbours import Neighbours
    from ...accountant.sensitivity.gram import GramBound
    from ...accountant.sensitivity.release import Sensitivity


@dataclass(frozen=True)
class GramTarget:
    """A target, and the release that has to meet it; `units` where their number was given."""

    epsilon: float
    delta: float
    bound: GramBound
    unit: str
    mechanism: str
    neighbours: str
    engine: str | None
    units: int | None = None

    def report(self) -> Report:
        """Return the report; raises as `calibrate` and `sensitivity` do."""
        # The sensitivity comes first: it refuses relations before any search.
        moved = self.sensitivity(self.neighbours)
        calibration = self.solve()
        proven = calibration.guarantee
        sigma = self.deviation(calibration.value, moved)
        conditions = (f"{text[0].upper()}{text[1:]}." for text in moved.conditions)
        return Report(
            result=self.result(calibration, sigma),
            text=self.text(calibration, sigma, moved),
            number=rounding.plain(calibration.value),
            assumptions=(
                *assumption_words.assumptions_of(calibration),
                *conditions,
                *options.delta_not_compared(self.delta, self.units),
            ),
            warnings=(*options.accepted(self.delta, self.units, self.unit), *proven.warnings),
        )

    def solve(self) -> Calibration:
        """Return the smallest noise multiplier that meets the target, for this unit.

        A lower end of epsilon is that of the event; it stands where some data attain the event.
        """
        from ...accountant import events as ev
        from ...accountant.calibrate import calibrate

        solved = calibrate(
            ev.Laplace if self.mechanism == "laplace" else ev.Gaussian,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            engine=self.engine,
        )
        proven = replace(solved.guarantee, unit=self.unit)
        if self._attained:
            return replace(solved, guarantee=proven)
        proven = replace(proven, epsilon=replace(proven.epsilon, lower=0.0))
        return replace(solved, guarantee=proven, gap=solved.target)

    @property
    def _attained(self) -> bool:
        """Whether some unit moves the release as far as the sensitivity, all in one direction."""
        if self.mechanism == "laplace":  # the L1 norm is spread over all numbers
            return False
        several = self.bound.by_class and self.bound.rows > 1
        return self.neighbours == "add-remove" or (self.bound.dimension > 1 and not several)

    def sensitivity(self, neighbours: str) -> Sensitivity:
        """Return both sensitivities, relative to the square of the row norm."""
        from ...accountant.sensitivity.gram import sensitivity

        return sensitivity(self.bound, neighbours, unit=self.unit)

    def deviation(self, noise: float, moved: Sensitivity) -> float:
        """Return sigma (Laplace: the scale) of the whole sum, rounded up."""
        from ...accountant.sensitivity.release import sensitivity_multiplier, up

        norm = moved.l1 if self.mechanism == "laplace" else moved.l2
        return up(Fraction(noise) * Fraction(norm) / sensitivity_multiplier(moved.neighbours))

    def result(self, calibration: Calibration, sigma: float) -> dict[str, object]:
        """Return the JSON result: that of any noise, and the release."""
        bound = self.bound
        return {
            **guarantee_words.calibration_json(calibration, self.delta),
            "rounds": 1,
            "rate": 1.0,
            "sampling": "full",
            "noise_multiplier_by_rdp": None,
            "epsilon_without_amplification": None,
            "release": "gram",
            "sigma": sigma,
            "sensitivity": {name: self.norms(name) for name in ("add-remove", "replace-one")},
            **guarantee_words.facts(
                bound, "dimension", "classes", "label_weight", "by_class", "rows"
            ),
            "row_square": float(bound.row_square),
            "values": bound.values,
        }

    def norms(self, neighbours: Neighbours) -> dict[str, float]:
        """Return the JSON of both sensitivities under one relation."""
        moved = self.sensitivity(neighbours)
        return {"l2": moved.l2, "l1": moved.l1}

    def text(self, calibration: Calibration, sigma: float, moved: Sensitivity) -> str:
        """Return the report for a person."""
        from ...accountant.sensitivity.release import up

        laplace, bound = self.mechanism == "laplace", self.bound
        name, norm = ("scale", "L1") if laplace else ("sigma", "L2")
        where = "on the upper triangle" if laplace else "on the diagonal, sigma / sqrt(2) above it"
        times = "2 x " if moved.neighbours == "replace-one" else ""
        noise = f"{rounding.up(calibration.value):<14}{times}{name} / {norm} sensitivity"
        rows = [("noise multiplier", noise), (name, f"{rounding.up(sigma):<14}x R^2 {where}")]
        if bound.classes:
            labels = up(Fraction(sigma) / Fraction(bound.label_weight))
            rows.append(("on label sums", f"{rounding.up(labels):<14}x R: {name} / label weight"))
        norms = f"L2 {rounding.up(moved.l2)} (isometric), L1 {rounding.up(moved.l1)} (triangle)"
        rows += [
            ("sensitivity", norms),
            *guarantee_words.guarantee_rows(calibration.guarantee, "epsilon"),
            ("by", guarantee_words.engine(calibration.guarantee.engine)),
            ("over", f"one release of {bound.values:,} numbers, of all data"),
        ]
        if self.unit != "record":
            square = f"{float(bound.row_square):.4g}"
            count = f"{bound.rows:,} " + ("row" if bound.rows == 1 else "rows")
            limit = f"at most {count}, each of square norm {square} x R^2 or less"
            rows.append((f"per {self.unit}", limit))
        return table(rows)
