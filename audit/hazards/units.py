"""Who is protected: units, neighbours, delta."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ...accountant import events as ev
from ...accountant.delta_checks import DELTA_LIMIT, allows_publishing
from ...accountant.errors import with_article
from ...fl.observers.names import MODEL
from ..derivation.run_setting import NoProof, RunSetting
from ..derivation.sampling import SAMPLING_EVENTS, is_hidden, parts_of
from ..derivation.sums import sensitivity_of
from ..evidence.evidence import Evidence, RoundKind
from ..evidence.round_kinds import lines_of
from ..findings import Match, Severity, rule


def holds(event: ev.Event | None, *types: type[ev.Event]) -> bool:
    """Return whether an event is of one of these types, or holds one."""
    return any(isinstance(part, types) for part in parts_of(event))


def uncovered(setting: RunSetting, kind: RoundKind) -> str:
    """Return why what is clipped together does not cover the promised unit; empty if it does."""
    try:
        setting.scope(kind.facts.contribution.unit)
    except NoProof as error:
        return str(error)
    return ""


@rule(
    "unit-mismatch",
    why="Noise hides what is clipped together; a unit that holds several of them moves the sum by "
    "several clips.",
    next_step="Clip everything of one unit together, promise it for what is clipped, or ask for "
    "units of a known size: privplan audit budget DIR --group K.",
    explains=True,
)
def unit_mismatch(evidence: Evidence) -> Match | None:
    """Fire where the promise is for a unit that the clip does not bound."""
    bad = [kind for kind in evidence.kinds if uncovered(evidence.setting, kind)]
    if not bad:
        return None
    clipped = sorted({kind.facts.contribution.unit for kind in bad})
    epsilon = None
    if len(clipped) == 1 and len(bad) == len(evidence.kinds):
        # What the log does support: the same promise for one unit of what was clipped.
        alone = evidence.for_units(replace(evidence.setting, unit=clipped[0], group=1))
        epsilon = alone.left()
    what = (
        f"The promise is for one {evidence.setting.unit}, but each {' and each '.join(clipped)} is "
        "clipped by itself"
    )
    if epsilon is not None:
        what += f"; for one {clipped[0]} the log supports {epsilon.upper:.6g}"
    return Match(f"{what}.", lines_of(bad), epsilon)


@rule(
    "sampled-unit",
    why="Only a unit that is left out as a whole, in one draw, hides in a sample.",
    next_step="Sample the units that are promised something, in one draw that all silos share.",
    explains=True,
)
def sampled_unit(evidence: Evidence) -> Match | None:
    """Fire where amplification is stated for units that are not drawn as a whole."""
    bad = [
        kind
        for kind in evidence.kinds
        if kind.facts.sampling.method != "none"
        and not is_hidden(kind.facts, evidence.setting, MODEL)
        and holds(kind.stated[MODEL], *SAMPLING_EVENTS)
    ]
    if not bad:
        return None
    drawn, clipped = bad[0].facts.sampling, bad[0].facts.contribution.unit
    what = f"A sample of {drawn.of}s is counted as if it hid {with_article(clipped)}."
    if drawn.of == clipped:
        what = f"Each silo draws {drawn.of}s by itself, which is counted as one common draw."
    return Match(what, lines_of(bad), evidence.left())


@rule(
    "neighbour-mismatch",
    why="Exchanging a unit moves a sum twice as far as removing it, so the same noise proves less.",
    next_step="Account under the relation that is promised: privplan explain neighbours.",
    explains=True,
)
def neighbour_mismatch(evidence: Evidence) -> Match | None:
    """Fire where a replace-one promise rests on the sensitivity of adding or removing."""
    if evidence.setting.neighbours != "replace-one":
        return _private_size(evidence)
    bad = [kind for kind in evidence.kinds if half_of_facts(evidence, kind)]
    if not bad:
        return None
    what = (
        "The promise is for replacing a unit; the stated sensitivity "
        f"{bad[0].facts.sensitivity:g} is that of adding or removing one."
    )
    return Match(what, lines_of(bad), evidence.left())


def _private_size(evidence: Evidence) -> Match | None:
    """Return what shows the number of records where it is said to be hidden."""
    if evidence.ledger.opened.population.records is not None:
        return None
    bad = [
        kind
        for kind in evidence.kinds
        if kind.facts.sampling.of == "record" == evidence.setting.unit
        and kind.facts.sampling.population is not None
        and evidence.setting.neighbours == "add-remove"
    ]
    if not bad:
        return None
    what = (
        f"Adding or removing a record is promised to be hidden, and the log shows that there are "
        f"{bad[0].facts.sampling.population:,}, a number that it calls private."
    )
    return Match(what, lines_of(bad), evidence.left(), "warning")


WITHOUT_COMMON_NOISE: Final = ("randomized-response", "exponential", "none")
"""Families of noise that no sensitivity is held against: what protects stands in the event."""


def half_of_facts(evidence: Evidence, kind: RoundKind) -> bool:
    """Return whether a stated sensitivity is half, or less, of what the facts give.

    That of words is 1 under every relation: what they show stands in their event.
    """
    if uncovered(evidence.setting, kind) or kind.facts.unusable:
        return False
    if kind.facts.noise.family in WITHOUT_COMMON_NOISE:
        return False
    return kind.facts.sensitivity <= 0.5 * float(sensitivity_of(kind.facts, evidence.setting)) * (
        1 + 1e-9
    )


@rule(
    "delta-too-large",
    why="A mechanism that publishes one unit at random has delta 1/n, so a delta of that size "
    "allows it.",
    next_step="Choose a delta well below 1/n: privplan explain delta.",
)
def delta_too_large(evidence: Evidence) -> Match | None:
    """Fire where delta is 1/n or more, for n protected units, or one half or more for any.

    That the run accepted it changes nothing for who reads its number.  Where no number is promised
    it is a warning.
    """
    delta, severity = evidence.delta, _if_promised(evidence)
    accepted = "; the run was begun with accept_delta" if _accepts(evidence) else ""
    if delta >= DELTA_LIMIT:
        return Match(f"Delta is {delta:g}, one half or more{accepted}.", severity=severity)
    unit, count = evidence.setting.unit, _count(evidence)
    if not count or not allows_publishing(delta, count):
        return None
    return Match(
        f"Delta is {delta:g}, at least one in the {count:,} {unit}s{accepted}.", severity=severity
    )


@rule(
    "delta-not-compared",
    severity="note",
    why="A delta of 1/n or more is met by publishing one of n units at random, and n is not "
    "stated.",
    next_step="Ask the owner of the run for a public bound on that number.",
)
def delta_not_compared(evidence: Evidence) -> Match | None:
    """Fire where the number of protected units is not public, nor any bound on it."""
    if _if_promised(evidence) == "warning" or _count(evidence) or evidence.delta >= DELTA_LIMIT:
        return None
    unit = evidence.setting.unit
    what = "entries" if unit == "entry" else f"{unit}s"
    return Match(f"Whether delta {evidence.delta:g} is below 1 / {what} is not stated.")


def _count(evidence: Evidence) -> int | None:
    """Return how many units are protected at most; None where the log does not state it."""
    opened = evidence.ledger.opened
    stated = [most for table in opened.configuration.values() if (most := _most_records(table))]
    most = max(stated, default=None)
    return opened.population.units(evidence.setting.unit, most_records=most)


def _most_records(table: object) -> int | None:
    """Return the public bound on the records of a user, where a system's table states one."""
    most = table.get("group_records") if isinstance(table, Mapping) else None
    return most if type(most) is int and most > 0 else None


def _accepts(evidence: Evidence) -> bool:
    return _configured(evidence, "privacy", "accept_delta") is True


def _configured(evidence: Evidence, table: str, key: str) -> object:
    """Return what the log's configuration says of a key, in whatever form a stranger wrote it."""
    content = evidence.ledger.opened.configuration.get(table)
    return content.get(key) if isinstance(content, Mapping) else None


def _if_promised(evidence: Evidence) -> Severity:
    return "warning" if evidence.ledger.opened.claim.epsilon is None else "error"
