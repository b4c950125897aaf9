"""What takes a guarantee away, or costs something, beyond the facts of a single round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ...accountant import events as ev
from ...accountant.records import Evaluation, Gram, Product
from ..derivation.correlated_rounds import unfit_block, unpaid_rounds
from ..ledger.entries import Ledger, SpentIntent
from ..ledger.phases import NORMALISING, is_released, rounds_by_release

TUNING: Final = "tuning"
EVALUATION: Final = "evaluation"
UNANNOUNCED: Final = "unknown"
ACCOUNTED: Final = "accounted"
"""Causes of what is counted beyond the rounds: a search, a measurement, a release that no intent
announced; and what the log accounts for by an event."""


@dataclass(frozen=True)
class Doubts:
    """Doubts about single intents, by `seq`, and events beyond the rounds with their cause.

    `reused` are lines whose randomness another line used too; `moved` lines whose clip norm, or
    largest weight, differs from the first of rounds like it, without anything that accounts for it;
    `divided` releases whose constant normaliser is not that of the first of them.
    """

    reused: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    divided: tuple[int, ...] = ()
    voids: dict[int, tuple[str, ...]] = field(default_factory=dict)
    extras: tuple[tuple[str, ev.Event], ...] = ()

    @classmethod
    def of(cls, ledger: Ledger) -> Doubts:
        """Return the doubts about a log."""
        reused, moved, divided = _reused(ledger), _moved(ledger), _divided(ledger)
        voids: dict[int, tuple[str, ...]] = {}
        unpaid = unpaid_rounds(ledger.spent, ledger.recoveries)
        for spent in ledger.spent:
            reasons = []
            if any(number in reused for number, _ in spent.releases):
                reasons.append("its randomness was used for another release too")
            if spent.number in moved:
                reasons.append("its clip or weights are not those of the first round, unaccounted")
            if any(number in divided for number, _ in spent.releases):
                reasons.append("its constant normaliser is not that of the first round")
            silos = spent.intent.silos
            if silos is not None and silos[-1] >= ledger.opened.population.silos:
                reasons.append("its schedule names a silo that the run does not have")
            if spent.seq in unpaid:
                reasons.append(unpaid[spent.seq])
            reasons += unfit_block(spent.intent)
            if reasons:
                voids[spent.seq] = tuple(reasons)
        return cls(
            tuple(sorted(reused)),
            tuple(sorted(moved)),
            tuple(sorted(divided)),
            voids,
            tuple(_extras(ledger)),
        )

    def of_intent(self, spent: SpentIntent) -> tuple[str, ...]:
        """Return the doubts about one intent."""
        return self.voids.get(spent.seq, ())


def unpaid(ledger: Ledger, line: int, evaluation: Evaluation) -> bool:
    """Return whether an evaluation shows numbers of private data that nothing pays for.

    Numbers that call themselves released, and are of no release, may be anything.
    """
    if evaluation.data == "released":
        return not is_released(ledger, line, evaluation)
    return evaluation.data == "private" and evaluation.event is None


def _extras(ledger: Ledger) -> Iterator[tuple[str, ev.Event]]:
    tuning = ledger.opened.tuning
    if tuning.event is not None:
        yield ACCOUNTED, tuning.event
    elif tuning.trials > 1 and not tuning.public_only:
        reason = f"the settings were chosen by {tuning.trials:,} runs on private data"
        yield TUNING, ev.NoGuarantee(reason)
    for number, evaluation in ledger.evaluations:
        if evaluation.event is not None and evaluation.data == "private":
            yield ACCOUNTED, evaluation.event
        elif unpaid(ledger, number, evaluation):
            reason = f"line {number} shows metrics of private data without noise"
            yield EVALUATION, ev.NoGuarantee(reason)
    for number in ledger.orphans:
        yield UNANNOUNCED, ev.NoGuarantee(f"line {number} releases what no intent announced")


def _reused(ledger: Ledger) -> frozenset[int]:
    """Return the lines whose ranges of a stream overlap another range, or run backwards."""
    ranges: dict[str, list[tuple[int, int, int]]] = {}
    reused: set[int] = set()
    for _, number, release in ledger.releases:
        for used in release.streams:
            if used.last > used.first:
                ranges.setdefault(used.stream, []).append((used.first, used.last, number))
            elif used.last < used.first:
                reused.add(number)
    for same in ranges.values():
        # A sweep over the ranges by their first byte: one that begins before the last end overlaps
        # it.
        same.sort()
        reached, holder = -1, 0
        for first, last, number in same:
            if first < reached:
                reused |= {number, holder}
            if last > reached:
                reached, holder = last, number
    return frozenset(reused)


def _moved(ledger: Ledger) -> frozenset[int]:
    """Return the intents whose clip norm or weights are not the first of rounds like them.

    What they release tells which rounds are alike, and no name does (`phases.rounds_by_release`).
    A norm that is `released` is accounted where the log holds rounds of another kind whose clip
    stays (but not the one that releases moments), a second noisy sum in each round, or an event of
    its own that can have released it.  One that follows from the `models` is accounted where rounds
    like it released a model before: a function of what was released is free.
    """
    groups = [(same, _changed(same)) for same in rounds_by_release(ledger)]
    fixed = [
        same for same, changed in groups if not changed and same[0].intent.phase != NORMALISING
    ]
    # Something else in the log must be able to have released the norm with noise of its own.
    accounted = bool(fixed) or any(cause == ACCOUNTED for cause, _ in _extras(ledger))

    def is_accounted(spent: SpentIntent, same: list[SpentIntent]) -> bool:
        contribution, first = spent.intent.contribution, same[0].intent.contribution
        if contribution.source == "models":
            moves_clip_alone = _others_stay(spent, same[0])
            return first.source == "public" and moves_clip_alone and _follows_a_model(spent, same)
        draws = spent.intent.noise.draws
        return contribution.source == "released" and (accounted or draws > 1)

    return frozenset(
        spent.number
        for same, changed in groups
        for spent in changed
        if not is_accounted(spent, same)
    )


def _others_stay(spent: SpentIntent, first: SpentIntent) -> bool:
    """Return whether the weights of two rounds are the same: only the clip follows from models."""
    return spent.intent.weights.largest_sum == first.intent.weights.largest_sum


def _follows_a_model(spent: SpentIntent, same: list[SpentIntent]) -> bool:
    """Return whether a round like this one released a model before it."""
    return any(
        number < spent.number and release.model_out is not None
        for other in same
        for number, release in other.releases
    )


def _changed(same: list[SpentIntent]) -> list[SpentIntent]:
    """Return the intents with another clip, other weights or another matrix than the first."""

    def clip(spent: SpentIntent) -> tuple[float, str, float, Gram | Product | None]:
        intent, contribution = spent.intent, spent.intent.contribution
        matrix = contribution.gram or contribution.product
        return contribution.bound, contribution.norm, intent.weights.largest_sum, matrix

    return [spent for spent in same if clip(spent) != clip(same[0])]


def _divided(ledger: Ledger) -> frozenset[int]:
    """Return the releases that divide by another constant than the first of rounds like them.

    A constant that moves from round to round is a batch size that was seen.  Where silos take part
    by a public schedule, there is one constant for each number of them.
    """
    divided: set[int] = set()
    for same in rounds_by_release(ledger):
        constants: dict[int | None, float | None] = {}
        for spent in same:
            size = None if spent.intent.silos is None else len(spent.intent.silos)
            for number, release in spent.releases:
                normaliser = release.normaliser
                if normaliser is None or normaliser.kind != "constant":
                    continue
                if constants.setdefault(size, normaliser.value) != normaliser.value:
                    divided.add(number)
    return frozenset(divided)
