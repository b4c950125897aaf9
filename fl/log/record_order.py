"""The order in which records may follow each other: one state machine for writer and verifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...accountant import records
from .hash_chain import is_hash


@dataclass
class RecordOrder:
    """The state of a log: what it holds so far, and which record may come next.

    A run is opened once, first.  A release stands under exactly one earlier intent of its own
    round, which was neither released nor aborted, nor cut off by a recovery: the noise of an
    intent that was cut off is lost with the process that drew it.  What was computed later of a
    release names an earlier one.  After `run.close` there are only audit results, what was computed
    later, and heads.
    """

    opened: records.RunOpen | None = None
    closed: bool = False
    recoveries: int = 0
    intents: dict[int, records.RoundIntent] = field(default_factory=dict)
    releases: dict[int, records.RoundRelease] = field(default_factory=dict)
    released_at: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    cut_off: set[int] = field(default_factory=set)

    def refusal(self, record: records.Record) -> str | None:
        """Return why a record may not come next; None where it may."""
        if (self.opened is None) != isinstance(record, records.RunOpen):
            if self.opened is None:
                return f"`{record.type}` stands before `run.open`"
            return "a second `run.open`"
        if self.closed and not isinstance(
            record, (records.AuditResult, records.PostProcessing, records.Head)
        ):
            return f"`{record.type}` stands after `run.close`"
        rule = _RULES.get(type(record))
        return None if rule is None else rule(self, record)

    def accept(self, record: records.Record, seq: int) -> None:
        """Take in a record that was not refused."""
        if isinstance(record, records.RunOpen):
            self.opened = record
        elif isinstance(record, records.RoundIntent):
            self.intents[seq] = record
        elif isinstance(record, records.RoundRelease):
            self.releases[record.intent] = record
            self.released_at.add(seq)
        elif isinstance(record, records.RoundAbort) and record.intent is not None:
            self.aborted.add(record.intent)
        elif isinstance(record, records.RunRecover):
            # Their noise is lost with the process that drew it, so nothing may be released of them.
            self.recoveries += 1
            self.cut_off.update(self.dangling)
        elif isinstance(record, records.RunClose):
            self.closed = True

    @property
    def dangling(self) -> tuple[int, ...]:
        """The `seq` of each intent without a release, aborted or not: all count as spent."""
        return tuple(seq for seq in self.intents if seq not in self.releases)

    @property
    def next_round(self) -> int:
        """The round after the last one that was tried; 1 before the first."""
        return 1 + max((intent.round for intent in self.intents.values()), default=0)

    def progress(self) -> records.Progress | None:
        """Return the progress of the run; None where it was never opened."""
        if self.opened is None:
            return None
        return records.Progress(
            self.opened, dict(self.intents), dict(self.releases), self.recoveries
        )


def _of_intent(order: RecordOrder, seq: int, round_: int) -> str | None:
    """Return why a release or an abort may not stand under an intent."""
    intent = order.intents.get(seq)
    if intent is None:
        return f"no earlier line is an intent with `seq` {seq}"
    if intent.round != round_:
        return f"its intent is of round {intent.round}, not {round_}"
    if seq in order.releases:
        return f"the intent with `seq` {seq} is already released"
    if seq in order.aborted:
        return f"the intent with `seq` {seq} is aborted"
    return None


def _intent(order: RecordOrder, record: records.RoundIntent) -> str | None:
    if record.silos is None or order.opened is None:
        return None
    there = order.opened.population.silos
    if record.silos[-1] < there:
        return None
    return f"its `silos` name silo {record.silos[-1]}, and the run has {there:,}, counted from 0"


def _release(order: RecordOrder, record: records.RoundRelease) -> str | None:
    if record.intent in order.cut_off and record.intent not in order.aborted:
        return f"the intent with `seq` {record.intent} was cut off before a recovery"
    return _of_intent(order, record.intent, record.round)


def _abort(order: RecordOrder, record: records.RoundAbort) -> str | None:
    return None if record.intent is None else _of_intent(order, record.intent, record.round)


def _recover(order: RecordOrder, record: records.RunRecover) -> str | None:
    if record.dangling != order.dangling:
        return "`dangling` is not the list of intents without a release"
    return None


def _post_processing(order: RecordOrder, record: records.PostProcessing) -> str | None:
    if record.of not in order.released_at:
        return f"`of` is {record.of}, and no earlier line with that `seq` is a release"
    return None if is_hash(record.values) else "`values` is no SHA-256 in hex"


_RULES: Final[Mapping[type[records.Record], Callable[[RecordOrder, Any], str | None]]] = {
    records.RoundIntent: _intent,
    records.RoundRelease: _release,
    records.RoundAbort: _abort,
    records.RunRecover: _recover,
    records.PostProcessing: _post_processing,
}
