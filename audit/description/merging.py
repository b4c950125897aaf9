"""Several sources describe one run: their facts side by side, what follows, what is assumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .agreement import agree, settled, statement
from .delta_facts import complete_delta
from .fact import Contradiction, Fact, Reading
from .keys import KEYS
from .noise_facts import complete_noise
from .run_description import RunDescription
from .sampling_facts import complete_sampling
from .schedule_facts import complete_schedule
from .tables import checked_fact, unknown_name
from .working_facts import WorkingFacts

if TYPE_CHECKING:
    from ...accountant.events import Event


def what_follows(facts: Mapping[str, Fact]) -> WorkingFacts:
    """Return the facts with all that follow from them, and the contradictions among them."""
    working = WorkingFacts(facts)
    complete_noise(working)
    complete_sampling(working)
    complete_schedule(working)
    complete_delta(working)
    return working


OPTIONS: Final = "options"
"""The format of what options of a command say."""

ASSUMED: Final = {
    "noise.family": "gaussian",
    "claim.neighbours": "add-remove",
    "claim.unit": "record",
}
"""What is taken to be so where nothing says otherwise."""

OVERRIDDEN: Final = "is overridden"
"""Words of a doubt about what an option says in the place of a file."""

PURE_FAMILIES: Final = ("laplace", "pure")
WITHOUT_DELTA: Final = "a claim about such noise that names no delta is one of pure privacy"
NOTHING_ELSE: Final = "nothing says otherwise"


def describe(readings: Iterable[Reading]) -> RunDescription:
    """Return the run that all readings describe together.

    Every fact keeps its provenance.  Values that differ are contradictions, which name both
    sources; the stronger provenance stands (stated, read, derived, assumed).  Facts that follow
    from others are derived, and what contradicts them is named as well.  The order of the
    readings does not matter.  What an option says stands before what any file says, and a doubt
    names what it overrode.  Raises `InvalidInput` for what no run can be, such as a batch above
    the number of records.

    >>> from .tables import reading_of_tables
    >>> tables = {"data": {"records": 60000}, "sampling": {"batch": 600}}
    >>> run = describe([reading_of_tables(tables, "run.toml")])
    >>> run.facts["sampling.rate"].value, run.facts["sampling.rate"].text()
    (0.01, 'derived (batch / records = 600 / 60,000)')
    """
    readings = tuple(readings)
    stated: dict[str, list[Fact]] = defaultdict(list)
    for reading in readings:
        for key, fact in reading.facts.items():
            stated[key].append(_checked(key, fact, reading.source))
    facts: dict[str, Fact] = {}
    contradictions: list[Contradiction] = []
    overrides = _overrides(readings)
    doubts = [doubt for reading in readings for doubt in reading.doubts]
    for key in sorted(stated, key=list(KEYS).index):
        given = stated[key]
        if key in overrides:
            given = [_checked(key, overrides[key], OPTIONS)]
            replaced = [each for each in stated[key] if not agree(given[0], each, key)]
            doubts += [
                f"{statement(key, each)} {OVERRIDDEN}: {statement(key, given[0])}."
                for each in replaced
            ]
            given = [each for each in stated[key] if each not in replaced]
        facts[key], of_key = settled(key, given)
        contradictions += of_key
    event, event_contradictions = _event(readings)
    contradictions += event_contradictions
    formats = {reading.source: reading.format for reading in readings}
    given_once = RunDescription(
        facts, tuple(contradictions), tuple(dict.fromkeys(doubts)), formats, event
    )
    return _completed(given_once)


def assuming(description: RunDescription, key: str, value: object) -> RunDescription:
    """Return the description with one more fact, and with what follows from its facts by it."""
    given = {k: fact for k, fact in description.facts.items() if fact.provenance != "derived"}
    given[key] = checked_fact(key, value, "assumed", NOTHING_ELSE)
    return _completed(replace(description, facts=given))


def _completed(description: RunDescription) -> RunDescription:
    """Return a description with what follows from its facts, and what is assumed of all."""
    following = what_follows(description.facts)
    for key, value in ASSUMED.items():
        if description.event is None or key != "noise.family":
            following.facts.setdefault(key, Fact(value, "assumed", NOTHING_ELSE))
    if _is_pure(following.facts):
        following.facts["claim.delta"] = Fact(0.0, "assumed", WITHOUT_DELTA)
    order = {key: following.facts[key] for key in KEYS if key in following.facts}
    contradictions = (*description.contradictions, *following.contradictions)
    return replace(description, facts=order, contradictions=tuple(dict.fromkeys(contradictions)))


def _overrides(readings: tuple[Reading, ...]) -> dict[str, Fact]:
    """Return what options say: what the person who asks says stands before any file."""
    return {
        key: fact
        for reading in readings
        if reading.format == OPTIONS
        for key, fact in reading.facts.items()
    }


def _is_pure(facts: Mapping[str, Fact]) -> bool:
    """Return whether epsilon is claimed of Laplace or other pure noise, and nothing of delta."""
    family = facts.get("noise.family")
    said = "claim.delta" in facts or "claim.delta_rule" in facts
    return family is not None and family.value in PURE_FAMILIES and not said


def _checked(key: str, fact: Fact, source: str) -> Fact:
    """Return a reader's fact with its value in the type of its key, or refuse it."""
    if key not in KEYS:
        raise unknown_name(key, source)
    checked = checked_fact(key, fact.value, fact.provenance, fact.source or source)
    half_unit = fact.half_unit or checked.half_unit
    return Fact(checked.value, fact.provenance, fact.source or source, half_unit)


def _event(readings: tuple[Reading, ...]) -> tuple[Event | None, list[Contradiction]]:
    """Return the event that a source gives; another one is a contradiction."""
    given = [(reading.event, reading.source) for reading in readings if reading.event is not None]
    if not given:
        return None, []
    given.sort(key=lambda item: item[1])
    event, source = given[0]
    return event, [
        Contradiction("event", f"{source} and {other_source} give different events.")
        for other, other_source in given[1:]
        if other != event
    ]
