"""What `privplan plan` answers: one plan in full, or a table of designs, with rounds and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...accountant import rounding
from ..inputs import options
from ..inputs.plan_design import Design, Variation
from ..terminal.output import Report, table

if TYPE_CHECKING:
    from ...accountant.guarantee import Guarantee
    from ...accountant.plan import Plan


@dataclass(frozen=True)
class Row:
    """One design, and its plan, or why there is none."""

    variation: Variation
    plan: Plan | None
    refusal: str = ""

    @property
    def worst(self) -> Guarantee:
        """The guarantee of the observer who learns most."""
        assert self.plan is not None
        return max(self.plan.guarantees.values(), key=lambda guarantee: guarantee.epsilon.upper)

    def json(self) -> dict[str, object]:
        """Return the row of `alternatives`."""
        from . import guarantee_words

        plan, design = self.plan, self.variation.design
        return {
            "epochs": self.variation.epochs,
            "rate": self.variation.rate,
            "group": design.group,
            "phases": None
            if plan is None
            else [
                {
                    "name": phase.name,
                    "noise_multiplier": phase.noise_multiplier,
                    "rounds": phase.rounds,
                    "draws": phase.rounds * designed.draws,
                }
                for phase, designed in zip(plan.phases, design.phases, strict=True)
            ],
            "epsilon": None if plan is None else guarantee_words.ends(self.worst.epsilon),
            "observer": None if plan is None else self.worst.observer,
            "cost": None if plan is None else plan.cost,
            "refused": self.refusal or None,
        }


@dataclass(frozen=True)
class Comparison:
    """Every design with its plan; at least one has one, and the first of these is `chosen`."""

    rows: tuple[Row, ...]
    chosen: Plan
    design: Design

    @classmethod
    def of(cls, varied: Sequence[Variation]) -> Comparison:
        """Return the plans; raise the first refusal if no design can be planned."""
        from ...accountant.errors import TargetTrivial, TargetUnreachable, Unsupported

        rows: list[Row] = []
        first: Exception | None = None
        for variation in varied:
            try:
                rows.append(Row(variation, variation.design.planned()))
            # A design that cannot meet the target is a row that says why, not the end of the table.
            except (TargetTrivial, TargetUnreachable, Unsupported) as refusal:
                first = first or refusal
                rows.append(Row(variation, None, refusal.what))
        for row in rows:
            if row.plan is not None:
                return cls(tuple(rows), row.plan, row.variation.design)
        assert first is not None
        raise first

    def report(self) -> Report:
        """Return the report, in its three forms."""
        return Report(
            result={
                **self.chosen.to_json(),
                "alternatives": [row.json() for row in self.rows],
            },
            text=self.text(),
            number="\n".join(self._numbers(row) for row in self.rows),
            assumptions=self.assumptions(),
            warnings=self.warnings(),
        )

    def text(self) -> str:
        """Return the report for a person: one plan in full, or a table of several."""
        from . import assumption_words, guarantee_words

        plan = self.chosen
        record = (
            plan.unit if len({row.variation.design.group for row in self.rows}) == 1 else "unit"
        )
        target = (
            f"epsilon {rounding.as_given(plan.epsilon)} at delta "
            f"{rounding.as_given(plan.delta)}, {assumption_words.change(plan.neighbours, record)}"
        )
        head = [("target", target)]
        if len(plan.phases) > 1:
            head.append(("split", plan.split))
        if len(self.rows) > 1:
            return table(head) + "\n\n" + self._table()
        head += [
            (
                f"before {guarantee.observer}",
                f"epsilon {rounding.up(guarantee.epsilon.upper)}"
                + (
                    f", at least {rounding.down(guarantee.epsilon.lower)}"
                    if guarantee.epsilon.lower
                    else ""
                )
                + f", by {guarantee_words.engine(guarantee.engine)}",
            )
            for guarantee in plan.guarantees.values()
        ]
        head.append(("cost", f"{rounding.up(plan.cost)} ({plan.cost_name})"))
        return table(head) + "\n\n" + self._phases()

    def _phases(self) -> str:
        from . import event_words

        rows = [("phase", "noise", "rounds", "each round", "seen by")]
        rows += [
            (
                phase.name,
                "fixed" if phase.noise_multiplier is None else rounding.up(phase.noise_multiplier),
                f"{phase.rounds:,}",
                event_words.phrase(phase.event),
                ", ".join(phase.observers),
            )
            for phase in self.chosen.phases
        ]
        return columns(rows)

    def _table(self) -> str:
        names = list(self.chosen.noise)
        heads = ["noise"] if len(names) == 1 else [f"noise: {name}" for name in names]
        varied = [row.variation for row in self.rows]
        shown = {
            "group": [str(variation.design.group) for variation in varied],
            "rate": [
                "" if variation.rate is None else f"{variation.rate:.3g}" for variation in varied
            ],
            "epochs": [
                "" if variation.epochs is None else f"{variation.epochs:g}" for variation in varied
            ],
        }
        # What is the same in every row is no column.
        labels = {name: values for name, values in shown.items() if len(set(values)) > 1}
        rows = [(*labels, "rounds", *heads, "epsilon", f"cost ({self.chosen.cost_name})")]
        for index, row in enumerate(self.rows):
            label = [values[index] for values in labels.values()]
            if row.plan is None:
                rows.append((*label, "-", row.refusal))
                continue
            # Noise is drawn once in a round, or once for each batch of a pass.
            designed = row.variation.design.phases
            total = sum(
                phase.rounds * design.draws
                for phase, design in zip(row.plan.phases, designed, strict=True)
            )
            noise = [rounding.up(noise_multiplier) for noise_multiplier in row.plan.noise.values()]
            # The observer who learns most decides what a design proves.
            ends = (rounding.up(row.worst.epsilon.upper), rounding.up(row.plan.cost))
            rows.append((*label, f"{total:,}", *noise, *ends))
        return columns(rows)

    def _numbers(self, row: Row) -> str:
        if row.plan is None:
            return "-"
        return " ".join(rounding.plain(noise) for noise in row.plan.noise.values())

    def assumptions(self) -> tuple[str, ...]:
        """Return what must be true of the run."""
        from . import assumption_words

        plan = self.chosen
        sentences = [
            sentence
            for guarantee in plan.guarantees.values()
            for sentence in assumption_words.assumptions(
                plan.seen_by(guarantee.observer),
                guarantee.neighbours,
                guarantee.unit,
                guarantee.observer,
            )
        ]
        sentences.append(
            "Phases, rounds and noise are fixed before the first release; a run that chooses them "
            "by its results needs an odometer."
        )
        if len(plan.guarantees) > 1:
            sentences.append(
                "What an observer does not see influences nothing that the observer sees."
            )
        sentences += options.delta_not_compared(plan.delta, self.design.records)
        return tuple(dict.fromkeys(sentences))

    def warnings(self) -> tuple[str, ...]:
        """Return what a person should know."""
        sentences = list(options.accepted(self.chosen.delta, self.design.records))
        sentences += [
            text for guarantee in self.chosen.guarantees.values() for text in guarantee.warnings
        ]
        if any(phase.shuffles for phase in self.design.phases):
            sentences.append(
                "a loader that shuffles is not Poisson sampling. These numbers do not hold for "
                'one; describe it by sampling = "shuffled". See: privplan explain sampling'
            )
        return tuple(dict.fromkeys(sentences))


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells in columns; a row may have fewer cells, its last one as long as it is.

    >>> print(columns([("a", "noise", "cost"), ("10", "1.5", "2"), ("x", "no noise meets this")]))
    a    noise   cost
    10   1.5     2
    x    no noise meets this
    """
    most = max(len(row) for row in rows)
    widths = [
        max(
            (len(row[column]) for row in rows if column < len(row) and (len(row) == most)),
            default=0,
        )
        for column in range(most)
    ]
    return "\n".join(
        "   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    )
