"""Whether a sidecar belongs to a log: each item to its release, and each release to its items.

Nothing here depends on what an item says of data: only on which release it says that it is of, and
on the commitments that open it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from ...accountant.errors import InvalidInput, counted
from ...accountant.records import release_binding
from ...fl.declarations.sealed_items import NOISE
from ...fl.log import Sidecar
from ..findings import UNTOUCHED_COPY, Match, apply_rules, rule
from ..ledger.entries import Ledger


def require_fitting(ledger: Ledger, folder: str | Path) -> Sidecar:
    """Return the sidecar of a folder.

    Raises `InvalidInput` where there is none, or where it does not belong to the log; what a
    machine that failed took with it is no such error.  Raises `BadLine` for a bad log.
    """
    sealed = Sidecar.read(folder)
    facts = {"ledger": ledger, "sidecar": sealed, "folder": Path(folder)}
    for finding in apply_rules(facts, about="sidecar").findings:
        if finding.severity == "error":
            raise InvalidInput(
                f"The sidecar of {folder} and its log do not belong together. {finding.says}",
                finding.why,
                finding.next_step,
            )
    return sealed


@rule(
    "moved-items",
    why="What is tested must be of the noise that stands on this release, and of no other.",
    next_step="Ask the owner of the run for the sidecar as it was written.",
)
def moved_items(ledger: Ledger, sidecar: Sidecar) -> Match | None:
    """Fire where a release has an item that is another one's, by its own word.

    Where the first line says what is sealed, items of the noise say of which release they are;
    those of earlier versions do not, unless a later one took up the run.
    """
    lines, known = [], values_of(sidecar)
    announced = ledger.opened.sealed is not None
    taken_up = min((recovery.number for recovery in ledger.recoveries), default=math.inf)
    for spent, number, release in ledger.releases:
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
    if not lines:
        return None
    rounds = counted(len(lines), "round")
    what = f"Sealed items of {rounds} are not those of their releases, or of this log."
    return Match(what, tuple(lines))


@rule(
    "uncommitted-items",
    why="What was sealed of a release stands in its line. Lines, or commitments, were cut out of "
    "the log; what was cut out is spent all the same, and is not in the numbers here.",
    next_step=UNTOUCHED_COPY,
)
def uncommitted_items(ledger: Ledger, sidecar: Sidecar) -> Match | None:
    """Fire where the sidecar holds items of a release of this run to which no line commits.

    An item is sealed just before its release is written.  So a run that was cut off in between
    leaves items of an intent without a release, which is spent all the same.  All others were
    released, and the log no longer says so.
    """
    committed = {
        commitment for _, _, release in ledger.releases for commitment in release.sealed.values()
    }
    intents = {
        release_binding.intent_of(item.value, ledger.opened.run_id)
        for item in sidecar.items
        if item.commitment not in committed
    } - {None, *ledger.dangling}
    if not intents:
        return None
    rounds = counted(len(intents), "round")
    return Match(
        f"The sidecar holds items of {rounds} of this run to which no line of the log commits."
    )


@rule(
    "unopened-commitments",
    why="What was committed to and is not shown cannot be checked.",
    next_step="Ask the owner of the run for the whole sidecar.",
)
def unopened_commitments(ledger: Ledger, sidecar: Sidecar, folder: Path) -> Match | None:
    """Fire where the sidecar does not open a commitment.

    It is an error where the log says what is sealed, but for what a machine that failed takes with
    it: the last releases before a recovery, or before the end of a run that was not closed.
    """
    lines = tuple(line.number for line in sidecar.unopened(folder))
    if not lines:
        return None
    lost = ledger.opened.sealed is None or set(lines) <= _last_kept(ledger, lines)
    what = f"The sidecar does not open {len(lines):,} commitments of the log."
    return Match(what, lines, severity="warning" if lost else None)


def values_of(sidecar: Sidecar) -> dict[str, object]:
    """Return the values that a sidecar opens, by their commitments."""
    return {item.commitment: item.value for item in sidecar.items}


def _last_kept(ledger: Ledger, unopened: tuple[int, ...]) -> set[int]:
    """Return which unopened releases stand last before a recovery, or before an open end."""
    releases = sorted(number for _, number, _ in ledger.releases)
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
