"""Whether a sidecar belongs to a log: each item to its release, and each release to its items.

Nothing here depends on what an item says of data: only on which release it says that it is of, and
on the commitments that open it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from ...accountant.errors import InvalidInput
from ...accountant.records import release_binding
from ...fl.declarations.sealed_items import NOISE
from ...fl.log import Sidecar
from ..evidence.evidence import Evidence
from ..ledger.entries import Ledger, missing_commitments
from .rule import Hazard, RuleFinding, rounds, rule


@rule(
    "stripped-commitments",
    "error",
    why="What a run seals is decided by its configuration, never by its data. Without a commitment "
    "nobody can test what the release was made of.",
    next_step="Take the log from a copy that nobody has touched.",
)
def stripped_commitments(evidence: Evidence) -> RuleFinding | None:
    """Fire where a release lacks a commitment to an item that its phase seals."""
    lacking = missing_commitments(evidence.ledger)
    if not lacking:
        return None
    names = ", ".join(dict.fromkeys(name for line in lacking for name in line.names))
    return RuleFinding(f"Commitments are missing: {names}.", tuple(line.line for line in lacking))


def misfits(ledger: Ledger, sealed: Sidecar, folder: str | Path) -> tuple[Hazard, ...]:
    """Return how the sidecar and the log of a folder do not belong together.

    Raises `BadLine` for a bad log.
    """
    known = {item.commitment: item.value for item in sealed.items}
    unopened = tuple(line.number for line in sealed.unopened(folder))
    hazards = (
        _foreign(foreign_items(ledger, known)),
        _uncommitted(uncommitted(ledger, sealed)),
        _unopened(unopened, ledger) if unopened else None,
    )
    return tuple(hazard for hazard in hazards if hazard is not None)


def require_fitting(ledger: Ledger, folder: str | Path) -> Sidecar:
    """Return the sidecar of a folder.

    Raises `InvalidInput` where there is none, or where it does not belong to the log; what a
    machine that failed took with it is no such error.  Raises `BadLine` for a bad log.
    """
    sealed = Sidecar.read(folder)
    for hazard in misfits(ledger, sealed, folder):
        if hazard.severity == "error":
            raise InvalidInput(
                f"The sidecar of {folder} and its log do not belong together. {hazard.what}",
                hazard.why,
                hazard.next_step,
            )
    return sealed


def foreign_items(ledger: Ledger, known: Mapping[str, object]) -> tuple[int, ...]:
    """Return the lines of releases with an item that is another one's, by its own word.

    Where the first line says what is sealed, items of the noise say of which release they are;
    those of earlier versions do not, unless a later one took up the run.
    """
    lines = []
    announced = ledger.opened.sealed is not None
    taken_up = min((recovery.number for recovery in ledger.recoveries), default=math.inf)
    for spent in ledger.spent:
        for number, release in spent.releases:
            identity = ledger.opened.run_id, spent.seq, release.aggregate
            values = {name: known.get(commitment) for name, commitment in release.sealed.items()}
            moved = any(release_binding.is_foreign(value, *identity) for value in values.values())
            strange = any(
                isinstance(values.get(name), Mapping)
                and release_binding.is_bound(values[name]) != announced
                for name in NOISE
            )
            if moved or (strange and (announced or number < taken_up)):
                lines.append(number)
    return tuple(lines)


def uncommitted(ledger: Ledger, sealed: Sidecar) -> tuple[int, ...]:
    """Return the intents (`seq`) of releases that items speak of, and no line commits to.

    An item is sealed just before its release is written.  So a run that was cut off in between
    leaves items of an intent without a release, which is spent all the same.  All others were
    released, and the log no longer says so.
    """
    committed = {
        commitment
        for spent in ledger.spent
        for _, release in spent.releases
        for commitment in release.sealed.values()
    }
    excused = set(ledger.dangling)
    intents = {
        intent
        for item in sealed.items
        if item.commitment not in committed
        and (intent := release_binding.intent_of(item.value, ledger.opened.run_id)) is not None
    }
    return tuple(sorted(intents - excused))


def _foreign(lines: tuple[int, ...]) -> Hazard | None:
    if not lines:
        return None
    return Hazard(
        "moved-items",
        "error",
        f"Sealed items of {rounds(len(lines))} are not those of their releases, or of this log.",
        "What is tested must be of the noise that stands on this release, and of no other.",
        "Ask the owner of the run for the sidecar as it was written.",
        None,
        lines,
    )


def _uncommitted(intents: tuple[int, ...]) -> Hazard | None:
    if not intents:
        return None
    return Hazard(
        "uncommitted-items",
        "error",
        f"The sidecar holds items of {rounds(len(intents))} of this run to which no line of the "
        "log commits.",
        "What was sealed of a release stands in its line. Lines, or commitments, were cut out of "
        "the log; what was cut out is spent all the same, and is not in the numbers here.",
        "Take the log from a copy that nobody has touched.",
    )


def _unopened(lines: tuple[int, ...], ledger: Ledger) -> Hazard:
    """Return the hazard of commitments that nothing opens.

    It is an error where the log says what is sealed, but for what a machine that failed takes with
    it: the last releases before a recovery, or before the end of a run that was not closed.
    """
    lost = ledger.opened.sealed is None or set(lines) <= _last_kept(ledger, lines)
    return Hazard(
        "unopened-commitments",
        "warning" if lost else "error",
        f"The sidecar does not open {len(lines):,} commitments of the log.",
        "What was committed to and is not shown cannot be checked.",
        "Ask the owner of the run for the whole sidecar.",
        None,
        lines,
    )


def _last_kept(ledger: Ledger, unopened: tuple[int, ...]) -> set[int]:
    """Return which unopened releases stand last before a recovery, or before an open end."""
    releases = sorted(number for spent in ledger.spent for number, _ in spent.releases)
    ends = [recovery.number for recovery in ledger.recoveries]
    if ledger.closed is None:
        ends.append(releases[-1] + 1 if releases else 0)
    last = set()
    for end in ends:
        for number in reversed([line for line in releases if line < end]):
            if number not in unopened:
                break
            last.add(number)
    return last
