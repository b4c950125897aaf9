"""The RDP engine: leaves become Renyi curves, curves add up, and one order answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ... import events as ev
from ... import validate
from ...amplification.group import along_chain, group_step, lemma
from ...arrays import FloatArray
from ...composition import Composition
from ...errors import Unsupported
from ...guarantee import Bounds, Neighbours, Step, unique_steps
from ...schedules import shown, sketched
from ..base import Answer
from . import (  # noqa: F401  (they enter their events)
    draws,
    epochs,
    fixed_size,
    groups,
    matrix_bins,
    mixture,
    releases,
    sampled,
    tuning,
)
from .conversion import Divergence, best_delta, best_epsilon
from .curves import Curve, curve
from .moments import RENYI_OUTWARD_FACTOR

_COMPOSITION_SOURCE = "Mironov 2017, Proposition 1, arXiv 1702.07476v3"
_BY_DEFINITION = "by definition"


@dataclass(frozen=True)
class RdpEngine:
    """Upper bounds by Renyi differential privacy; the lower end of every answer is 0.

    The releases may depend on earlier results, as long as their events and counts do not: the
    order of the conversion is chosen with the whole plan in view.
    Source: Mironov 2017, arXiv 1702.07476v3.
    """

    name: str = "rdp"

    def epsilon(self, composition: Composition, delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at `delta` in [0, 1], in nats.

        The upper end is infinite where no order gives a finite one.  For units of several records
        it is the smaller of what their curve gives and what the lemma makes of one record's.
        Raises `Unsupported` for a leaf or relation without a Renyi curve here, `InvalidInput` for
        a delta out of range.
        """
        delta = validate.probability(delta=delta)
        return _smallest(composition, neighbours, lambda total, size: total.epsilon(delta, size))

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at `epsilon` (0 or above, in nats).

        Raises `Unsupported` for a leaf or relation without a Renyi curve here, `InvalidInput`
        for an epsilon out of range.
        """
        epsilon = validate.non_negative(epsilon=epsilon)
        return _smallest(composition, neighbours, lambda total, size: total.delta(epsilon, size))


def _smallest(
    composition: Composition,
    neighbours: Neighbours,
    question: Callable[[_ComposedCurve, int], tuple[float, Step]],
) -> Answer:
    """Return the smaller of the answers by the leaves' own curves and by the lemma."""
    answers: list[Answer] = []
    refused: Unsupported | None = None
    for parts, size in _readings(composition):
        try:
            # With a size: one record's leaves, and the lemma at the end.
            record = parts if size == 1 else of_one_record(parts, size, neighbours)
            total = _ComposedCurve.of(record, neighbours)
        except Unsupported as refusal:
            refused = refused or refusal
            continue
        upper, how = question(total, size)
        group_steps = () if size == 1 else (group_step(size, neighbours), _lemma_step(size))
        answers.append(Answer(Bounds(0.0, upper), (*group_steps, *total.steps(how))))
    if refused is not None and not answers:
        raise refused
    return min(answers, key=lambda answer: answer.bounds.upper)


def _readings(composition: Composition) -> Iterator[tuple[Composition, int]]:
    """Yield the leaves as they are, and where all are groups of one size, also with that size."""
    yield composition, 1
    sizes = {leaf.event.size if isinstance(leaf.event, ev.Group) else 1 for leaf in composition}
    if len(sizes) == 1 and sizes != {1}:
        yield composition, sizes.pop()


def of_one_record(composition: Composition, size: int, neighbours: Neighbours) -> Composition:
    """Return what one record sees of leaves, on every step of a chain of `size` records."""
    events = (
        leaf.event.event if isinstance(leaf.event, ev.Group) else leaf.event for leaf in composition
    )
    return Composition(
        replace(leaf, event=along_chain(event, size, neighbours))
        for leaf, event in zip(composition, events, strict=True)
    )


def lemma_epsilon(record: Composition, size: int, delta: float, neighbours: Neighbours) -> float:
    """Return epsilon at `delta` of `size` records, by the lemma from the leaves of one record."""
    parts = of_one_record(record, size, neighbours)
    return _ComposedCurve.of(parts, neighbours).epsilon(delta, size)[0]


def _lemma_step(size: int) -> Step:
    return Step(
        "group",
        f"One record's epsilon times {size:,}, its delta times 1 + e^eps + ... + "
        f"e^({size - 1:,} eps); any chain of {size:,} changes.",
        "the lemma, derived in amplification/group.py",
    )


@dataclass(frozen=True)
class _ComposedCurve:
    """Curves that take part, each with its count."""

    parts: tuple[tuple[Curve, float], ...]
    shown: tuple[Step, ...]
    releases: int
    sketch: tuple[tuple[Curve, float], ...] = ()

    @classmethod
    def of(cls, composition: Composition, neighbours: Neighbours) -> _ComposedCurve:
        curves = [(curve(leaf.event, neighbours), leaf.count) for leaf in composition]
        # Very many leaves are summed up in the derivation; in the curve all of them count.
        listed, summaries = shown(composition)
        shown_leaves = {id(leaf) for leaf in listed}
        steps = [
            part.steps
            for leaf, (part, _) in zip(composition, curves, strict=True)
            if id(leaf) in shown_leaves
        ]
        return cls(
            parts=tuple(
                (part, _as_float(count))
                for part, count in curves
                # With limit and slack 0 a release costs nothing at any order.
                if part.limit > 0.0 or part.slack > 0.0
            ),
            shown=(*(step for each in steps for step in each), *summaries),
            releases=composition.releases,
            sketch=_sketch(composition, neighbours),
        )

    @property
    def scout(self) -> Divergence | None:
        """The divergence of few parts that stand for very many: it says where to look."""
        if not self.sketch:
            return None
        return replace(self, parts=self.sketch, sketch=()).divergence

    @property
    def listed(self) -> tuple[float, ...]:
        """The orders at which a part has a corner."""
        return tuple(sorted({order for part, _ in self.parts for order in part.listed}))

    def divergence(self, orders: FloatArray) -> FloatArray:
        """Return the sum of the curves at these orders, rounded outward."""
        # Sum over releases of count R(a): at one order, divergences of a sequence add up.
        total = np.zeros_like(orders)
        for part, count in self.parts:
            if part.limit > 0.0:
                total += count * part.at(orders)
        return total * RENYI_OUTWARD_FACTOR

    @property
    def pure(self) -> float:
        """The epsilon that holds with delta = slack: every loss at its largest."""
        total = math.fsum(count * part.limit for part, count in self.parts if part.limit > 0.0)
        return total if self._single else total * (1.0 + 1e-15)

    @property
    def slack(self) -> float:
        """The probability that any of the exceptional events happens: 1 - prod (1-slack)^n."""
        added = math.fsum(count * part.slack for part, count in self.parts if part.slack > 0.0)
        # One release: nothing is summed, so nothing is rounded.
        if self._single:
            return min(1.0, added)
        if any(part.slack >= 1.0 for part, _ in self.parts):
            return 1.0
        # log of prod (1-slack)^n; the sum of the slacks is an upper bound, too.
        logs = math.fsum(
            count * math.log1p(-part.slack) for part, count in self.parts if part.slack > 0.0
        )
        return min(1.0, added, -math.expm1(logs) * (1.0 + 4e-16))

    @property
    def _single(self) -> bool:
        return sum(count for _, count in self.parts) <= 1.0

    def epsilon(self, delta: float, size: int = 1) -> tuple[float, Step]:
        """Return epsilon at `delta`, and the step to it; of `size` records by the lemma."""
        if delta >= 1.0:
            return 0.0, self._step("Delta 1 promises nothing: epsilon 0.", _BY_DEFINITION)
        pure, log_slack = self._largest_loss(size)
        if log_slack > _log(delta):
            if size > 1:
                how = "The deltas that the events set aside grow beyond the one asked for."
                return math.inf, self._step(how, _BY_DEFINITION)
            how = f"Delta {delta:.6g} is below the {self.slack:.6g} that the events set aside."
            return math.inf, self._step(how, _BY_DEFINITION)
        slack = self.slack
        # Outside the exceptional events (delta - slack)/(1 - slack) is left; rounded down.
        left = (delta - slack) / (1.0 - slack) * (1.0 - 4e-16)
        if left > 0.0 and pure > 0.0 and (size == 1 or slack == 0.0):
            best = best_epsilon(
                self.divergence, left, size=size, scout=self.scout, listed=self.listed
            )
            if best.value < pure:
                how = f"Order {best.order:.6g} gives epsilon {best.value:.6g} at delta {delta:.6g}."
                return best.value, self._step(how, best.source)
        how = f"Infinite order gives epsilon {pure:.6g} at delta {delta:.6g}."
        return pure, self._step(how, _BY_DEFINITION)

    def delta(self, epsilon: float, size: int = 1) -> tuple[float, Step]:
        """Return delta at `epsilon`, and the step to it; of `size` records by the lemma."""
        pure, log_slack = self._largest_loss(size)
        if epsilon >= pure:
            total = self.slack if size == 1 else _exp_up(log_slack)
            how = f"Infinite order gives delta {total:.6g} at epsilon {epsilon:.6g}."
            return total, self._step(how, _BY_DEFINITION)
        if size > 1 and self.slack > 0.0:
            return 1.0, self._step("Nothing is known below the largest loss.", _BY_DEFINITION)
        slack = self.slack
        best = best_delta(self.divergence, epsilon, size=size, scout=self.scout, listed=self.listed)
        total = best.value
        if slack > 0.0:
            total = math.nextafter(slack + (1.0 - slack) * best.value, 2.0)
        total = min(1.0, total)
        how = f"Order {best.order:.6g} gives delta {total:.6g} at epsilon {epsilon:.6g}."
        return total, self._step(how, best.source)

    def _largest_loss(self, size: int) -> tuple[float, float]:
        """Return the largest loss of `size` records, and the log delta that goes with it."""
        if size == 1 or math.isinf(self.pure):
            return self.pure, _log(self.slack)
        return lemma(self.pure, _log(self.slack), size)

    def _step(self, how: str, source: str) -> Step:
        set_aside = (f"delta {self.slack:.6g} is set aside for the events' own deltas",)
        return Step("conversion", how, source, set_aside if self.slack > 0.0 else ())

    def steps(self, conversion: Step) -> tuple[Step, ...]:
        """Return the whole derivation."""
        composition = Step(
            "composition",
            f"The curves of {self.releases} releases add up at each order.",
            _COMPOSITION_SOURCE,
            ("the plan is fixed before the first release",),
        )
        return unique_steps((*self.shown, composition, conversion))


def _sketch(composition: Composition, neighbours: Neighbours) -> tuple[tuple[Curve, float], ...]:
    """Return curves of few leaves that stand for very many; nothing where they are few."""
    sample = sketched(composition)
    if 2 * len(sample) > len(composition):
        return ()
    return tuple((curve(leaf.event, neighbours), _as_float(leaf.count)) for leaf in sample)


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0.0 else -math.inf


def _exp_up(log_probability: float) -> float:
    """Return the probability, rounded up, at most 1."""
    if log_probability == -math.inf:
        return 0.0
    return min(1.0, math.nextafter(math.exp(min(log_probability, 0.0)) * (1.0 + 1e-12), 2.0))


def _as_float(count: int) -> float:
    try:
        return float(count)
    except OverflowError:
        return math.inf
