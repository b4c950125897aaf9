"""What takes a guarantee away, or costs something, beyond the facts of a single round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ...accountant import events as ev
from ..ledger.entries import Ledger, SpentIntent
from ..ledger.phases import NORMALISING, alike

TUNING: Final = "tuning"
EVALUATION: Final = "evaluation"
UNKNOWN: Final = "unknown"
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
        for one in ledger.spent:
            found = []
            if any(number in reused for number, _ in one.releases):
                found.append("its randomness was used for another release too")
            if one.number in moved:
                found.append("its clip or weights are not those of the first round, unaccounted")
            if any(number in divided for number, _ in one.releases):
                found.append("its constant normaliser is not that of the first round")
            if found:
                voids[one.seq] = tuple(found)
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


def _extras(ledger: Ledger) -> Iterator[tuple[str, ev.Event]]:
    tuning = ledger.opened.tuning
    if tuning.event is not None:
        yield ACCOUNTED, tuning.event
    elif tuning.trials > 1 and not tuning.public_only:
        reason = f"the settings were chosen by {tuning.trials:,} runs on private data"
        yield TUNING, ev.NoGuarantee(reason)
    for number, one in ledger.evaluations:
        if one.data != "private":
            continue
        if one.event is None:
            reason = f"line {number} shows metrics of private data without noise"
            yield EVALUATION, ev.NoGuarantee(reason)
        else:
            yield ACCOUNTED, one.event
    for number in ledger.orphans:
        yield UNKNOWN, ev.NoGuarantee(f"line {number} releases what no intent announced")


def _reused(ledger: Ledger) -> frozenset[int]:
    """Return the lines whose ranges of a stream overlap another range, or run backwards."""
    ranges: dict[str, list[tuple[int, int, int]]] = {}
    found: set[int] = set()
    for one in ledger.spent:
        for number, release in one.releases:
            for own in release.streams:
                if own.last > own.first:
                    ranges.setdefault(own.stream, []).append((own.first, own.last, number))
                elif own.last < own.first:
                    found.add(number)
    for same in ranges.values():
        same.sort()
        reached, holder = -1, 0
        for first, last, number in same:
            if first < reached:
                found |= {number, holder}
            if last > reached:
                reached, holder = last, number
    return frozenset(found)


def _moved(ledger: Ledger) -> frozenset[int]:
    """Return the intents whose clip norm or weights are not the first of rounds like them.

    What they release tells which rounds are alike, and no name does (`phases.alike`).  A norm that
    is `released` is accounted where the log holds rounds of another kind whose clip stays (but not
    the one that releases moments), a second noisy sum in each round, or an event of its own that
    can have released it.
    """
    groups = [(same, _changed(same)) for same in alike(ledger)]
    fixed = [
        same for same, changed in groups if not changed and same[0].intent.phase != NORMALISING
    ]
    accounted = bool(fixed) or any(cause == ACCOUNTED for cause, _ in _extras(ledger))
    return frozenset(
        one.number
        for _, changed in groups
        for one in changed
        if one.intent.contribution.source != "released"
        or not (accounted or one.intent.noise.draws > 1)
    )


def _changed(same: list[SpentIntent]) -> list[SpentIntent]:
    """Return the intents with another clip or other weights than the first."""

    def clip(one: SpentIntent) -> tuple[float, str, float]:
        own = one.intent
        return own.contribution.bound, own.contribution.norm, own.weights.largest_sum

    return [one for one in same if clip(one) != clip(same[0])]


def _divided(ledger: Ledger) -> frozenset[int]:
    """Return the releases that divide by another constant than the first of rounds like them.

    A constant that moves from round to round is a batch size that was seen.
    """
    found: set[int] = set()
    for same in alike(ledger):
        constants = [
            (number, release.normaliser.value)
            for one in same
            for number, release in one.releases
            if release.normaliser is not None and release.normaliser.kind == "constant"
        ]
        found.update(number for number, value in constants if value != constants[0][1])
    return frozenset(found)
