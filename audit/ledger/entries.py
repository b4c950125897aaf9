"""A log sorted into what was spent: every intent, with what came of it.

**Missing commitments** are of sealed items that a log's opening announces and its releases lack.  A
release states a commitment to each item that its run wrote into the sealed sidecar.  Where one was
taken out of the log, the item can no longer be checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.records import (
    Evaluation,
    PostProcessing,
    Record,
    RoundAbort,
    RoundIntent,
    RoundRelease,
    RunClose,
    RunOpen,
    RunRecover,
)


@dataclass(frozen=True)
class Entry:
    """One line of a log: its `number` in the file (from 1), its `seq`, and its record."""

    number: int
    seq: int
    record: Record


@dataclass(frozen=True)
class SpentIntent:
    """One intent, which is spent whatever came of it.

    `releases` are the lines that released it: one, if all is well, none where it dangles.
    """

    number: int
    seq: int
    intent: RoundIntent
    releases: tuple[tuple[int, RoundRelease], ...] = ()
    aborted: bool = False


@dataclass(frozen=True)
class Recovery:
    """A resumption: the intents without a release or an abort before it, and after what round."""

    number: int
    record: RunRecover
    open_intents: tuple[int, ...]
    last_released: int
    spent: int


@dataclass(frozen=True)
class Ledger:
    """What a log says, sorted; nothing in it is trusted yet.

    `spent` are the intents in their order, `orphans` releases and aborts without an intent,
    `misplaced` the lines of rounds before the opening or after the close, and of second openings,
    `aborts` the lines of aborts, with and without an intent, `derived` what was computed later of
    a release, which costs nothing.
    """

    opened: RunOpen
    spent: tuple[SpentIntent, ...]
    evaluations: tuple[tuple[int, Evaluation], ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    closed: RunClose | None = None
    closed_at: int = 0
    orphans: tuple[int, ...] = ()
    misplaced: tuple[int, ...] = ()
    records: int = 0
    aborts: tuple[int, ...] = ()
    derived: tuple[tuple[int, PostProcessing], ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Ledger:
        """Return the ledger of a log; raise `InvalidInput` where it opens no run."""
        sorter = _Sorter()
        for entry in entries:
            sorter.take(entry)
        return sorter.ledger()

    @property
    def releases(self) -> Iterator[tuple[SpentIntent, int, RoundRelease]]:
        """Every release with its intent and its line, in the order of the intents."""
        return ((spent, number, each) for spent in self.spent for number, each in spent.releases)

    @property
    def dangling(self) -> tuple[int, ...]:
        """The sequence numbers of intents that were never released."""
        return tuple(spent.seq for spent in self.spent if not spent.releases)

    @property
    def released(self) -> int:
        """How many intents were released."""
        return sum(bool(spent.releases) for spent in self.spent)

    @property
    def rounds(self) -> int:
        """How many rounds were begun; see `rounds_of`."""
        return rounds_of(self.spent)


def rounds_of(spent: Iterable[SpentIntent]) -> int:
    """Return how many rounds some intents are of.

    A round may have several, a noisy count with a noisy sum: one of each phase.  Two of one phase
    under one number are two rounds, of which one should not be there.
    """
    phases: dict[int, Counter[str]] = {}
    for intended in spent:
        phases.setdefault(intended.intent.round, Counter())[intended.intent.phase] += 1
    return sum(max(counted.values()) for counted in phases.values())


@dataclass
class _Sorter:
    """Takes one line after the other, and remembers what belongs together."""

    opened: RunOpen | None = None
    closed: RunClose | None = None
    closed_at: int = 0
    records: int = 0
    last_released: int = 0
    intents: dict[int, tuple[int, RoundIntent]] = field(default_factory=dict)
    releases: dict[int, list[tuple[int, RoundRelease]]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    evaluations: list[tuple[int, Evaluation]] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    orphans: list[int] = field(default_factory=list)
    misplaced: list[int] = field(default_factory=list)
    aborts: list[int] = field(default_factory=list)
    derived: list[tuple[int, PostProcessing]] = field(default_factory=list)

    def take(self, entry: Entry) -> None:
        """Take in the next line."""
        self.records += 1
        record, number = entry.record, entry.number
        if isinstance(record, RunOpen):
            self._open(record, number)
            return
        lasting = isinstance(record, (RoundIntent, RoundRelease, Evaluation, RunRecover))
        if lasting and (self.opened is None or self.closed is not None):
            self.misplaced.append(number)
        if isinstance(record, RoundIntent):
            self.intents[entry.seq] = number, record
        elif isinstance(record, RoundRelease):
            self._release(record, number)
        elif isinstance(record, RoundAbort):
            self.aborts.append(number)
            if record.intent is not None:
                self.aborted.add(record.intent)
        elif isinstance(record, Evaluation):
            self.evaluations.append((number, record))
        elif isinstance(record, PostProcessing):
            self.derived.append((number, record))
        elif isinstance(record, RunRecover):
            self._recover(record, number)
        elif isinstance(record, RunClose):
            if self.closed is not None:
                self.misplaced.append(number)
            self.closed, self.closed_at = record, number

    def _open(self, record: RunOpen, number: int) -> None:
        if self.opened is None:
            self.opened = record
        else:
            self.misplaced.append(number)

    def _release(self, record: RoundRelease, number: int) -> None:
        known = self.intents.get(record.intent)
        # A release under the intent of another round is an orphan, and counts for that intent too.
        if known is None or known[1].round != record.round:
            self.orphans.append(number)
        if known is not None:
            self.releases.setdefault(record.intent, []).append((number, record))
        # Counted for orphans as well: a recovery must not go back behind any release.
        self.last_released = max(self.last_released, record.round)

    def _recover(self, record: RunRecover, number: int) -> None:
        open_intents = tuple(
            seq for seq in self.intents if seq not in self.releases and seq not in self.aborted
        )
        self.recoveries.append(
            Recovery(number, record, open_intents, self.last_released, len(self.intents))
        )

    def ledger(self) -> Ledger:
        """Return what was taken in."""
        if self.opened is None:
            raise InvalidInput(
                "The log opens no run.",
                "Its first line must be a `run.open`, which says what is promised and to whom.",
                "Give the folder of a run.",
            )
        spent = tuple(
            SpentIntent(number, seq, intent, tuple(self.releases.get(seq, ())), seq in self.aborted)
            for seq, (number, intent) in self.intents.items()
        )
        return Ledger(
            self.opened,
            spent,
            tuple(self.evaluations),
            tuple(self.recoveries),
            self.closed,
            self.closed_at,
            tuple(self.orphans),
            tuple(self.misplaced),
            self.records,
            tuple(self.aborts),
            tuple(self.derived),
        )


SEALED_ITEMS_NOT_STATED: Final = "which items each round seals"
"""The fact that logs of earlier versions do not state, in words."""


@dataclass(frozen=True)
class MissingCommitments:
    """Line `line` of the log lacks commitments to the items `names`."""

    line: int
    names: tuple[str, ...]


def not_stated(ledger: Ledger) -> tuple[str, ...]:
    """Return the facts about sealed items that this log does not state; () for none."""
    return () if ledger.opened.sealed is not None else (SEALED_ITEMS_NOT_STATED,)


def missing_commitments(ledger: Ledger) -> tuple[MissingCommitments, ...]:
    """Return the lines that lack a commitment, in order; the opening may lack that to its data.

    The opening states, for each phase, the items that every release seals.  Logs of earlier
    versions do not state them: there all releases of a phase must seal the same items, so an item
    that every release lacks is not noticed.
    """
    return tuple(_missing_commitments(ledger))


def _missing_commitments(ledger: Ledger) -> Iterator[MissingCommitments]:
    announced = ledger.opened.sealed
    if announced is not None and ledger.opened.dataset is None:
        yield MissingCommitments(1, ("dataset",))
    if announced is None:  # a log of an earlier version
        announced = _items_by_phase(ledger)
    for spent in ledger.spent:
        needed = announced.get(spent.intent.phase, ())
        for line, release in spent.releases:
            lacking = tuple(name for name in needed if name not in release.sealed)
            if lacking:
                yield MissingCommitments(line, lacking)


def _items_by_phase(ledger: Ledger) -> dict[str, tuple[str, ...]]:
    """Return for each phase the items that at least one of its releases seals."""
    sealed_names: dict[str, set[str]] = {}
    for spent in ledger.spent:
        for _, release in spent.releases:
            sealed_names.setdefault(spent.intent.phase, set()).update(release.sealed)
    return {phase: tuple(sorted(names)) for phase, names in sealed_names.items()}


def require_commitments(ledger: Ledger) -> None:
    """Raise `InvalidInput` for the first line that lacks a commitment."""
    lacking = missing_commitments(ledger)
    if lacking:
        raise InvalidInput(
            f"Line {lacking[0].line:,} lacks commitments to: {', '.join(lacking[0].names)}.",
            "What a run sealed was taken out of its log, so it cannot be tested.",
            "Give the folder of a run as privplan left it.",
        )
