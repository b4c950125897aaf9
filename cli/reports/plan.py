"""What `privplan plan` answers: one plan in full, or designs beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...accountant import rounding
from ..inputs import options
from ..inputs.plan_design import Design, Variation
from ..terminal.output import Report
from ..terminal.text import table

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
        return max(self.plan.guarantees.values(), key=lambda one: one.epsilon.upper)

    def json(self) -> dict[str, object]:
        """Return the row of `alternatives`."""
        from . import describe

        found, design = self.plan, self.variation.design
        return {
            "epochs": self.variation.epochs,
            "rate": self.variation.rate,
            "group": design.group,
            "phases": None
            if found is None
            else [
                {"name": one.name, "noise_multiplier": one.noise_multiplier, "rounds": one.rounds}
                for one in found.phases
            ],
            "epsilon": None if found is None else describe.ends(self.worst.epsilon),
            "observer": None if found is None else self.worst.observer,
            "cost": None if found is None else found.cost,
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
        for one in varied:
            try:
                rows.append(Row(one, one.design.planned()))
            except (TargetTrivial, TargetUnreachable, Unsupported) as refusal:
                first = first or refusal
                rows.append(Row(one, None, refusal.what))
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
        from . import describe

        found = self.chosen
        record = (
            found.unit if len({row.variation.design.group for row in self.rows}) == 1 else "unit"
        )
        target = (
            f"epsilon {rounding.as_given(found.epsilon)} at delta "
            f"{rounding.as_given(found.delta)}, {describe.change(found.neighbours, record)}"
        )
        head = [("target", target)]
        if len(found.phases) > 1:
            head.append(("split", found.split))
        if len(self.rows) > 1:
            return table(head) + "\n\n" + self._table()
        head += [
            (
                f"before {one.observer}",
                f"epsilon {rounding.up(one.epsilon.upper)}"
                + (f", at least {rounding.down(one.epsilon.lower)}" if one.epsilon.lower else "")
                + f", by {describe.engine(one.engine)}",
            )
            for one in found.guarantees.values()
        ]
        head.append(("cost", f"{rounding.up(found.cost)} ({found.cost_name})"))
        return table(head) + "\n\n" + self._phases()

    def _phases(self) -> str:
        from . import describe

        rows = [("phase", "noise", "rounds", "each round", "seen by")]
        rows += [
            (
                one.name,
                "fixed" if one.noise_multiplier is None else rounding.up(one.noise_multiplier),
                f"{one.rounds:,}",
                describe.phrase(one.event),
                ", ".join(one.observers),
            )
            for one in self.chosen.phases
        ]
        return columns(rows)

    def _table(self) -> str:
        names = list(self.chosen.noise)
        heads = ["noise"] if len(names) == 1 else [f"noise: {name}" for name in names]
        varied = [row.variation for row in self.rows]
        shown = {
            "group": [str(one.design.group) for one in varied],
            "rate": ["" if one.rate is None else f"{one.rate:.3g}" for one in varied],
            "epochs": ["" if one.epochs is None else f"{one.epochs:g}" for one in varied],
        }
        labels = {name: values for name, values in shown.items() if len(set(values)) > 1}
        rows = [(*labels, "rounds", *heads, "epsilon", f"cost ({self.chosen.cost_name})")]
        for place, row in enumerate(self.rows):
            label = [values[place] for values in labels.values()]
            if row.plan is None:
                rows.append((*label, "-", row.refusal))
                continue
            total = sum(one.rounds for one in row.plan.phases)
            noise = [rounding.up(one) for one in row.plan.noise.values()]
            ends = (rounding.up(row.worst.epsilon.upper), rounding.up(row.plan.cost))
            rows.append((*label, f"{total:,}", *noise, *ends))
        return columns(rows)

    def _numbers(self, row: Row) -> str:
        if row.plan is None:
            return "-"
        return " ".join(rounding.bare(one) for one in row.plan.noise.values())

    def assumptions(self) -> tuple[str, ...]:
        """Return what must be true of the run."""
        from . import describe

        found = self.chosen
        sentences = [
            sentence
            for one in found.guarantees.values()
            for sentence in describe.assumptions(
                found.seen_by(one.observer), one.neighbours, one.unit, one.observer
            )
        ]
        sentences.append(
            "Phases, rounds and noise are fixed before the first release; a run that chooses them "
            "by its results needs an odometer."
        )
        if len(found.guarantees) > 1:
            sentences.append(
                "What an observer does not see influences nothing that the observer sees."
            )
        sentences += options.uncompared(found.delta, self.design.records)
        return tuple(dict.fromkeys(sentences))

    def warnings(self) -> tuple[str, ...]:
        """Return what a person should know."""
        found = list(options.accepted(self.chosen.delta, self.design.records))
        found += [text for one in self.chosen.guarantees.values() for text in one.warnings]
        if any(phase.shuffles for phase in self.design.phases):
            found.append(
                "a loader that shuffles is not Poisson sampling. These numbers do not hold for "
                'one; describe it by sampling = "shuffled". See: privplan explain sampling'
            )
        return tuple(dict.fromkeys(found))


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells in columns; a row may have fewer cells, its last one as long as it is.

    >>> print(columns([("a", "noise", "cost"), ("10", "1.5", "2"), ("x", "no noise meets this")]))
    a    noise   cost
    10   1.5     2
    x    no noise meets this
    """
    most = max(len(row) for row in rows)
    widths = [
        max((len(row[place]) for row in rows if place < len(row) and (len(row) == most)), default=0)
        for place in range(most)
    ]
    return "\n".join(
        "   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    )
