"""The logs of the parties of one network, held against one another.

Every round that the server released must have been begun at each silo whose noise is in it, with
the same facts, from the same model, and must have ended with the same model.  A silo may have begun
more rounds than the server knows of, never fewer: what was begun anywhere is spent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ..accountant.errors import InvalidInput, counted
from ..accountant.records import Party, Record, RoundIntent, RoundRelease, RunOpen
from ..fl.log import read

AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True)
class PartyLog:
    """The log of one party: its rounds that were begun, and those that were released, by number."""

    folder: Path
    opened: RunOpen
    party: Party
    intents: Mapping[int, RoundIntent]
    releases: Mapping[int, RoundRelease]

    @classmethod
    def of(cls, folder: Path) -> PartyLog:
        """Return the log in a folder; `InvalidInput` for one that is of no party of a network."""
        records = [line.record for line in read(folder)]
        opened = next((each for each in records if isinstance(each, RunOpen)), None)
        party = None if opened is None else opened.party
        if opened is None or party is None:
            raise InvalidInput(
                f"The log in {folder} is of no party of a network.",
                "Only parties of one run have logs that can be held against one another.",
                "Name the run folder of the server, and after --against those of silos.",
            )
        return cls(
            folder, opened, party, _by_round(records, RoundIntent), _by_round(records, RoundRelease)
        )


@dataclass(frozen=True)
class Reconciliation:
    """What the logs of several parties say together.

    `problems` contradict each other; `notes` are what is missing or beyond.  `spent` counts the
    rounds that were begun anywhere, and `fullest` is the folder whose log has most of them.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    spent: int
    released: int
    fullest: Path
    silos: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts."""
        return not self.problems


def reconcile(server: Path, silos: Sequence[Path]) -> Reconciliation:
    """Return what the log of a server and those of silos say together.

    Raises `InvalidInput` for logs of no parties, and where one is missing or damaged.
    """
    hub, others = PartyLog.of(server), [PartyLog.of(folder) for folder in silos]
    every = [hub, *others]
    problems = [*_of_one_run(hub, others)]
    for log in others:
        problems += _against(hub, log)
    problems += _shared_streams(others)
    begun = set[int]().union(*(log.intents for log in every))
    notes = [
        f"{log.party.name} began {counted(len(beyond), 'round')} that the server does not know of, "
        "and they are spent."
        for log in others
        if (beyond := set(log.intents) - set(hub.intents))
    ]
    missing = hub.opened.population.silos - len(others)
    if missing > 0:
        notes.append(f"The logs of {counted(missing, 'silo')} were not given.")
    fullest = max(every, key=lambda log: len(log.intents))
    return Reconciliation(
        tuple(problems),
        tuple(notes),
        len(begun),
        len(hub.releases),
        fullest.folder,
        tuple(log.party.name for log in others),
    )


def _of_one_run(hub: PartyLog, silos: Sequence[PartyLog]) -> Iterator[str]:
    if hub.party.silo is not None:
        yield f"The first log is of {hub.party.name}, and not of the server."
    names = [log.party.name for log in silos]
    if len(set(names)) < len(names) or any(log.party.silo is None for log in silos):
        yield f"The logs after it are of {', '.join(names)}: each must be of another silo."
    for log in silos:
        if (log.party.plan, log.party.run) != (hub.party.plan, hub.party.run):
            yield f"{log.party.name} ran another plan, or another run of it."
        other = [
            name
            for name in ("system", "claim", "plan", "population", "aggregation", "configuration")
            if getattr(log.opened, name) != getattr(hub.opened, name)
        ]
        if other:
            yield f"{log.party.name} opened its run with another {other[0]} than the server."


def _against(hub: PartyLog, silo: PartyLog) -> Iterator[str]:
    """Yield what one silo's log contradicts in the server's."""
    name = silo.party.name
    for number, release in hub.releases.items():
        intent, begun = hub.intents[number], silo.intents.get(number)
        if begun is None:
            if release.shares == intent.noise.shares:
                yield f"The server released round {number}, which {name} never began."
            continue
        if replace(begun, model_in=None) != replace(intent, model_in=None):
            yield f"{name} began round {number} under other facts than the server."
        ended = silo.releases.get(number)
        if ended is None:
            continue  # it was away when the result came; the round is spent
        if begun.model_in != intent.model_in:
            yield f"{name} began round {number} from another model than the server."
        if (ended.model_out, ended.aggregate) != (release.model_out, release.aggregate):
            yield f"{name} released another model in round {number} than the server."
    for number in sorted(set(silo.releases) - set(hub.releases)):
        yield f"{name} released round {number}, and the server did not."


def _shared_streams(silos: Sequence[PartyLog]) -> Iterator[str]:
    """Yield which silos state one random stream: their noise would be the same."""
    whose: dict[str, str] = {}
    for log in silos:
        for release in log.releases.values():
            for used in release.streams:
                other = whose.setdefault(used.stream, log.party.name)
                if other != log.party.name:
                    yield f"{other} and {log.party.name} drew their noise from one stream."
                    return


def _by_round(records: Sequence[Record], kind: type[AnyRecord]) -> dict[int, AnyRecord]:
    return {
        each.round: each  # type: ignore[attr-defined]
        for each in records
        if isinstance(each, kind)
    }
