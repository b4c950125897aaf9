"""Several sources describe one run: their facts side by side, what follows, what is assumed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput
from .agreement import WorkingFacts, agree, near, settled, shown, statement
from .keys import KEYS
from .run_description import Contradiction, Fact, Reading, RunDescription
from .sampling_facts import complete_sampling
from .schedule_facts import batches_per_epoch, complete_schedule
from .tables import checked_fact, unknown_name

if TYPE_CHECKING:
    from ...accountant.events import Event

NOISE: Final = "noise.noise_multiplier"
NOISE_TOLERANCE: Final = 1e-3
"""Two ways to the same noise multiplier may differ by so much, relatively."""


def complete_noise(working: WorkingFacts) -> None:
    """Derive the noise multiplier, or name what contradicts the stated one."""
    _from_deviation(working)
    phases = working.phases()
    if not phases:
        return
    noises = {phase.noise_multiplier for phase in phases}
    stated = working.number(NOISE)
    if stated is None:
        if len(noises) == 1:
            working.derive(NOISE, noises.pop(), "all phases have it")
    elif not any(_close(stated, noise, working.half_unit(NOISE)) for noise in noises):
        working.contradict(
            NOISE,
            f"noise_multiplier = {shown(stated)} is that of no phase",
            NOISE,
            "schedule.phases",
        )


FINE_HALF_UNIT: Final = 0.025
"""A deviation whose last digit leaves more open was chosen so."""


def _from_deviation(working: WorkingFacts) -> None:
    std, clip = working.number("noise.std"), working.number("noise.clip")
    if std is None or clip is None:
        return
    family = working.word("noise.family", "gaussian")
    if family == "pure":
        # The deviation of noise whose law is not said tells no bound on its losses.
        return
    # The scale of Laplace noise is its standard deviation over the root of 2.
    ratio = std / clip / (math.sqrt(2.0) if family == "laplace" else 1.0)
    if math.isinf(ratio):
        raise InvalidInput(
            f"std / clip = {std:g} / {clip:g} is no finite noise multiplier.",
            next_step="Correct one of them.",
        )
    sentence = f"std / clip = {shown(std)} / {shown(clip)}"
    if family == "laplace":
        sentence = f"std / (sqrt(2) clip) = {shown(std)} / (1.4142 x {shown(clip)})"
    stated = working.number(NOISE)
    if stated is None:
        # A deviation of one decimal was chosen so, as a noise multiplier of one is.
        half = working.half_unit("noise.std")
        open_by = half * ratio / std if half <= FINE_HALF_UNIT and std > 0.0 else 0.0
        working.derive(NOISE, ratio, sentence, open_by)
    elif not _close(stated, ratio, working.half_unit(NOISE)):
        working.contradict(
            NOISE,
            f"noise_multiplier = {shown(stated)} and {sentence} ({shown(ratio)}) "
            "cannot both be true",
            NOISE,
            "noise.std",
            "noise.clip",
        )
    elif ratio < stated and not near(ratio, stated):
        # Of two numbers that are printed alike, the smaller noise never proves too much.
        working.refine(NOISE, ratio, sentence)


def _close(stated: float, other: float, half_unit: float) -> bool:
    return near(stated, other, max(half_unit, NOISE_TOLERANCE * max(stated, other)))


DELTA: Final = "claim.delta"
RULE: Final = "claim.delta_rule"
DELTA_TOLERANCE: Final = 1e-6


def complete_delta(working: WorkingFacts) -> None:
    """Derive delta from its rule, or name that the stated delta is another."""
    counts = _counts(working)
    if not counts:
        return
    rule, stated = working.word(RULE, ""), working.number(DELTA)
    by_rule = min(1.0 / counts[0], math.nextafter(1.0, 0.0))
    if stated is None:
        working.derive(DELTA, by_rule, f"{rule} = 1 / {counts[0]:,}")
        return
    slack = max(working.half_unit(DELTA), DELTA_TOLERANCE * stated)
    if not any(near(stated, 1.0 / count, slack) for count in counts):
        says = (
            f"delta = {shown(stated)} and delta_rule = {rule} ({shown(by_rule)}) "
            "cannot both be true"
        )
        working.contradict(DELTA, says, DELTA, RULE)


def _counts(working: WorkingFacts) -> tuple[int, ...]:
    """Return what the rule divides by, the usual count first; nothing where it is not known."""
    rule = working.word(RULE, "")
    if rule == "1/records":
        records = working.count("data.records")
        return () if records is None else (records,)
    batches = batches_per_epoch(working) if rule == "1/batches" else None
    if batches is None:
        return ()
    return math.ceil(batches), max(math.floor(batches), 1)


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
        facts,
        tuple(contradictions),
        tuple(dict.fromkeys(doubts)),
        formats,
        event,
        next((reading.upper_only for reading in readings if reading.upper_only), ""),
    )
    return _completed(given_once)


def assuming(description: RunDescription, key: str, value: object) -> RunDescription:
    """Return the description with one more fact, and with what follows from its facts by it."""
    given = {k: fact for k, fact in description.facts.items() if fact.provenance != "derived"}
    given[key] = checked_fact(key, value, "assumed", NOTHING_ELSE)
    return _completed(replace(description, facts=given))


def stating(description: RunDescription, readings: Iterable[Reading]) -> RunDescription:
    """Return the description with what options say in place of its facts, and what follows.

    Contradictions between the facts that are left are found anew.
    """
    given = {
        key: fact
        for key, fact in description.facts.items()
        if fact.provenance not in ("derived", "assumed")
    }
    for reading in readings:
        given |= reading.facts
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
