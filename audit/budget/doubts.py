"""What takes a guarantee away, or costs something, beyond the facts of a single round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ...accountant import events as ev
from .ledger import Ledger, Spent

TUNING: Final = "tuning"
EVALUATION: Final = "evaluation"
UNKNOWN: Final = "unknown"
ACCOUNTED: Final = "accounted"
"""Causes of what is counted beyond the rounds: a search, a measurement, a release that no intent
announced; and what the log accounts for by an event."""


NORMALISING: Final = "normalise"
"""The phase that releases what features are normalised by; it knows of no clip."""


@dataclass(frozen=True)
class Doubts:
    """Doubts about single intents, by `seq`, and events beyond the rounds with their cause.

    `reused` are lines whose randomness another line used too; `moved` lines whose clip norm, or
    largest weight, differs from the first of their phase, without anything that accounts for it.
    """

    reused: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    voids: dict[int, tuple[str, ...]] = field(default_factory=dict)
    extras: tuple[tuple[str, ev.Event], ...] = ()

    @classmethod
    def of(cls, ledger: Ledger) -> Doubts:
        """Return the doubts about a log."""
        reused, moved = _reused(ledger), _moved(ledger)
        voids: dict[int, tuple[str, ...]] = {}
        for one in ledger.spent:
            found = []
            if any(number in reused for number, _ in one.releases):
                found.append("its randomness was used for another release too")
            if one.number in moved:
                found.append("its clip or weights are not those of the first round, unaccounted")
            if found:
                voids[one.seq] = tuple(found)
        return cls(tuple(sorted(reused)), tuple(sorted(moved)), voids, tuple(_extras(ledger)))

    def of_intent(self, spent: Spent) -> tuple[str, ...]:
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
    """Return the intents whose clip norm or weights are not the first of their phase, unaccounted.

    A norm that is `released` is accounted where the log holds another phase (but not the one that
    releases moments), a second noisy sum in each round, or an event of its own that can have
    released it.
    """
    phases: dict[str, tuple[float, str, float]] = {}
    changed: list[Spent] = []
    for one in ledger.spent:
        own = one.intent
        clip = own.contribution.bound, own.contribution.norm, own.weights.largest_sum
        if phases.setdefault(own.phase, clip) != clip:
            changed.append(one)
    releasing = [name for name in phases if name != NORMALISING]
    accounted = len(releasing) > 1 or any(cause == ACCOUNTED for cause, _ in _extras(ledger))
    return frozenset(
        one.number
        for one in changed
        if one.intent.contribution.source != "released"
        or not (accounted or one.intent.noise.draws > 1)
    )
