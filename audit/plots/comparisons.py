"""Several runs side by side: claims as intervals, and utility against epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...accountant.claims.table import Claim
from ...accountant.errors import InvalidInput, counted, kind_of
from ..check.check_result import CheckResult
from ..measurement import ExampleResult
from ..report.run_facts import RunFacts
from .chart import Axis, Chart, Intervals, Mark, Numbers, Points, conditions, shown

LOG_EPSILON_RATIO: Final = 30.0
"""An axis whose ends are so many times apart is logarithmic."""

MAX_DRAWN_CLAIMS: Final = 60
"""Most rows of one plot."""


@dataclass(frozen=True)
class _Row:
    """One claim: what is said, what is proven between two ends, and what was measured."""

    name: str
    claimed: float | None
    lower: float | None
    upper: float | None
    measured: float | None
    unit: str | None
    neighbours: str | None
    observer: str | None
    delta: float | None

    @classmethod
    def of_check(cls, name: str, result: CheckResult) -> _Row:
        def fact(key: str) -> str | None:
            return str(result.facts[key].value) if key in result.facts else None

        return cls(
            f"{result.verdict}: {name}",
            None if result.claimed is None else result.claimed.value,
            None if result.proven is None else result.proven.lower,
            None if result.proven is None else result.proven.upper,
            None,
            fact("claim.unit") or "record",
            fact("claim.neighbours"),
            None,
            result.delta,
        )

    @classmethod
    def of_claim(cls, claim: Claim) -> _Row:
        return cls(
            f"{claim.verdict}: {claim.system}, {claim.setting}",
            claim.claimed,
            claim.lower,
            claim.proven,
            None,
            claim.unit,
            claim.neighbours,
            claim.observer,
            claim.delta,
        )

    @classmethod
    def of_example(cls, result: ExampleResult) -> _Row:
        return cls(
            f"{result.system} on {result.data}, {counted(result.rounds, 'round')}",
            result.claimed,
            None,
            result.proven,
            result.measured,
            result.unit,
            result.neighbours,
            result.observer,
            result.delta,
        )


def claims_chart(results: Mapping[str, CheckResult] | Iterable[Claim | ExampleResult]) -> Chart:
    """Return one row for each claim: the interval of what is proven, and the claimed number.

    Claims of another quantity than epsilon are left out, and counted in a note.  Raises
    `InvalidInput` where nothing is left.
    """
    rows: list[_Row] = []
    others = 0
    named = results.items() if isinstance(results, Mapping) else ((None, each) for each in results)
    for name, each in named:
        if isinstance(each, CheckResult):
            of_epsilon = each.currency == "epsilon"
            row = _Row.of_check(shown(str(name)), each)
        elif isinstance(each, Claim):
            of_epsilon = each.quantity == "epsilon"
            row = _Row.of_claim(each)
        elif isinstance(each, ExampleResult):
            of_epsilon, row = True, _Row.of_example(each)
        else:
            raise InvalidInput(
                f"A claim is the result of a check, or a row of claims; it is {kind_of(each)}.",
                next_step="Give {name: pp.check(...)}, by the names of the runs.",
            )
        if of_epsilon:
            rows.append(row)
        others += not of_epsilon
    if not rows:
        raise InvalidInput(
            "There is nothing to plot: no claim of an epsilon.",
            "The plot has one axis, of epsilon.",
            "Give results about an epsilon.",
        )
    return _rows_chart(rows[:MAX_DRAWN_CLAIMS], others, len(rows) - len(rows[:MAX_DRAWN_CLAIMS]))


def _rows_chart(rows: Sequence[_Row], others: int, cut: int) -> Chart:
    limits, log = _extent(rows)
    marks: list[Mark] = []
    ends = [
        (float(at), row.lower or 0.0, row.upper)
        for at, row in enumerate(rows)
        if row.upper is not None
    ]
    if ends:
        y, lower, upper = zip(*ends, strict=True)
        marks.append(Intervals("proven, upper end (the guarantee)", y, lower, upper))
    for label, values, role in (
        ("claimed", [row.claimed for row in rows], "claimed"),
        ("measured, a bound from below", [row.measured for row in rows], "measured"),
    ):
        points = [
            (value, float(at))
            for at, value in enumerate(values)
            if value is not None and limits[0] <= value <= limits[1]
        ]
        if points:
            x, at = zip(*points, strict=True)
            marks.append(Points(label, x, at, role))  # type: ignore[arg-type]
    notes = []
    nothing = [row.name for row in rows if row.upper is None]
    if nothing:
        notes.append(f"Nothing is proven of {counted(len(nothing), 'row')}: no bar.")
    if log and any(row.upper is not None and row.upper < limits[0] for row in rows):
        notes.append("An upper end left of the axis, such as 0, stands at its left edge.")
    far = [row for row in rows if (row.claimed or 0.0) > limits[1]]
    if far:
        notes.append(f"{counted(len(far), 'claimed number')} lie beyond the axis.")
    if others:
        notes.append(f"{counted(others, 'claim')} of another quantity than epsilon left out.")
    if cut:
        notes.append(f"{counted(cut, 'more row')} left out.")
    return Chart(
        "Claimed and proven",
        conditions(
            unit=_common(row.unit for row in rows),
            neighbours=_common(row.neighbours for row in rows),
            delta=_common(None if row.delta is None else f"{row.delta:g}" for row in rows),
            observer=_common(row.observer for row in rows),
        ),
        Axis("epsilon (nats)", "log" if log else "linear", limits),
        Axis("claim", rows=tuple(shown(row.name) for row in rows)),
        tuple(marks),
        tuple(notes),
    )


MAX_EPSILON: Final = 1e6
"""No axis goes further: beyond it a number says that nothing is hidden."""


def _extent(rows: Sequence[_Row]) -> tuple[tuple[float, float], bool]:
    """Return the ends of the axis of epsilon, and whether it is logarithmic."""
    values = [
        value
        for row in rows
        for value in (row.claimed, row.lower, row.upper, row.measured)
        if value is not None and 0.0 < value < math.inf
    ]
    low, high = min(values, default=0.1), min(max(values, default=1.0), MAX_EPSILON)
    if high > LOG_EPSILON_RATIO * low:
        return (max(low, high / 1e8) / 1.5, high * 1.5), True
    return (0.0, high * 1.1), False


def _common(values: Iterable[str | None]) -> str | None:
    """Return what rows have in common, or how they differ; None where none says it."""
    known = [value for value in dict.fromkeys(values) if value is not None]
    if not known:
        return None
    return " or ".join(known) if len(known) <= MAX_NAMED else f"{len(known)} kinds"


MAX_NAMED: Final = 3
"""Most values of one fact that a subtitle names."""


def utility_chart(runs: Mapping[str, RunFacts], metric: str | None = None) -> Chart:
    """Return a metric of each run's model against the epsilon that its log supports.

    Without `metric` it is accuracy, or the one that all runs have.  Raises `InvalidInput` where
    runs have none in common, and where no run has a finite epsilon.
    """
    measured = {name: _metrics(facts) for name, facts in runs.items()}
    key = _metric(measured, metric)
    finite = {
        name: facts for name, facts in runs.items() if math.isfinite(facts.budget.total.upper)
    }
    if not finite:
        raise InvalidInput(
            "There is nothing to plot: no run has a finite epsilon.",
            "Utility is drawn against what is proven.",
            "privplan audit budget DIR says why.",
        )
    facts_of = {
        name: (facts.opened.claim.unit, facts.opened.claim.neighbours, facts.opened.claim.delta)
        for name, facts in finite.items()
    }
    alike = len(set(facts_of.values())) == 1
    at = [finite[name].budget.total.epsilon for name in finite]
    values: Numbers = tuple(measured[name][key] for name in finite)
    lower, upper = tuple(each.lower for each in at), tuple(each.upper for each in at)
    marks: list[Mark] = [Intervals("proven, upper end (the guarantee)", values, lower, upper)]
    for name, bounds, value in zip(finite, at, values, strict=True):
        unit, relation, delta = facts_of[name]
        suffix = "" if alike else f" ({unit}, {relation}, delta {delta:g})"
        marks.append(Points(shown(name) + suffix, (bounds.upper,), (value,), "series"))
    notes = [] if alike else ["Epsilons of different units, relations or deltas do not compare."]
    left_out = [shown(name) for name in runs if name not in finite]
    if left_out:
        notes.append(f"Without a finite epsilon, and not drawn: {', '.join(left_out)}.")
    claims = [facts.opened.claim for facts in finite.values()]
    return Chart(
        f"{key.capitalize()} against epsilon",
        conditions(
            unit=_common(claim.unit for claim in claims),
            neighbours=_common(claim.neighbours for claim in claims),
            delta=_common(f"{claim.delta:g}" for claim in claims),
            observer=_common(claim.observer for claim in claims),
        ),
        Axis("epsilon (nats)", limits=(0.0, max(upper) * 1.1 or 1.0)),
        Axis(f"{key} on test data", limits=_room(values)),
        tuple(marks),
        tuple(notes),
    )


def _metrics(facts: RunFacts) -> dict[str, float]:
    """Return the finite metrics of a run's model; of votes, the accuracy that they show."""
    values: dict[str, float] = {}
    if facts.evaluation is not None and facts.evaluation.data != "released":
        for name, text in facts.evaluation.metrics.items():
            try:
                value = float(text)
            except ValueError:  # a log is a stranger's
                continue
            if math.isfinite(value):
                values[shown(name)] = value
    if facts.held_out is not None and math.isfinite(facts.held_out.accuracy):
        values["accuracy"] = facts.held_out.accuracy
    return values


def _metric(measured: Mapping[str, Mapping[str, float]], asked: str | None) -> str:
    if not measured:
        raise InvalidInput("There is nothing to plot: no run is given.")
    shared = [
        name for name in next(iter(measured.values())) if all(name in m for m in measured.values())
    ]
    listed = ", ".join(shared) or "none"
    if asked is not None:
        if asked not in shared:
            raise InvalidInput(
                f"Not every run has the metric {shown(asked)!r}; in common they have: {listed}.",
                "Runs are compared by one number.",
                "Leave it out, or name one of those.",
            )
        return asked
    if "accuracy" in shared:
        return "accuracy"
    if len(shared) != 1:
        raise InvalidInput(
            f"The runs have no single metric in common: {listed}.",
            "Runs are compared by one number.",
            "Name one of those: metric='...', or --metric NAME."
            if shared
            else "Give runs whose configuration has [evaluation].",
        )
    return shared[0]


def _room(values: Numbers) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.12 * (high - low) or 0.1 * abs(high) or 0.1
    return low - room, high + room
