"""Which numbers of a description are exact, and which are open by their printed digits."""

from __future__ import annotations

from typing import Final, cast

from ..description.run_description import Fact, RunDescription

SAID: Final = ("stated", "read")
"""Provenance of facts that do not follow from others."""

OPEN_KEYS: Final = (
    *("sampling.rate", "sampling.clients_rate", "schedule.phases"),
    *("schedule.epochs", "claim.delta", "noise.noise_multiplier"),
)
"""Numbers that are open by their printed digits."""

CHOSEN_NOISE_UNIT: Final = 0.05
"""A noise multiplier that is printed to this unit or a coarser one was chosen so."""

POPULATION_FACTS: Final = ("data.records", "data.users", "data.silos")

PRINTING_FORMATS: Final = ("training log", "CSV history", "JSONL history", "TF Privacy log line")
"""Formats in which a program printed a rate that it had computed."""

LOG_FORMATS: Final = ("training log", "CSV history", "JSONL history")
"""Formats in which a program printed a noise multiplier that it had computed."""


def open_digits(description: RunDescription) -> dict[str, float]:
    """Return how far printed digits leave the numbers of a description open."""
    digits: dict[str, float] = {}
    for key in OPEN_KEYS:
        fact = description.facts.get(key)
        if fact is None or not fact.half_unit:
            continue
        if key == "noise.noise_multiplier" and fact.half_unit > 0.5 * CHOSEN_NOISE_UNIT:
            continue
        if key.endswith("rate") and _was_chosen(description, fact):
            continue
        digits[key] = fact.half_unit
    return digits


def _was_chosen(description: RunDescription, fact: Fact) -> bool:
    """Return whether a rate was chosen as it is printed: by a person, and not by a program."""
    of_program = fact.provenance == "read" and any(
        name in fact.source and format in PRINTING_FORMATS
        for name, format in description.formats.items()
    )
    chosen = isinstance(fact.value, float) and bool(fact.half_unit)
    return chosen and not of_program and was_chosen(cast("float", fact.value), fact.half_unit)


def rests_on_a_chosen_rate(description: RunDescription) -> bool:
    """Return whether a rate is taken to be exact though its digits would leave it open.

    A batch of a number of records says what it is a share of.
    """
    if description.known("sampling.batch") and any(map(description.known, POPULATION_FACTS)):
        batch = description.facts["sampling.batch"]
        if batch.provenance in SAID:
            return False
    rates = (description.facts.get(key) for key in OPEN_KEYS if key.endswith("rate"))
    return any(fact is not None and _was_chosen(description, fact) for fact in rates)


def noise_was_logged(description: RunDescription) -> bool:
    """Return whether the noise multiplier is one that a log printed."""
    stated = (description.facts.get(key) for key in ("noise.noise_multiplier", "schedule.phases"))
    sources = [fact.source for fact in stated if fact is not None and fact.provenance == "read"]
    return any(
        name in source and format in LOG_FORMATS
        for name, format in description.formats.items()
        for source in sources
    )


def was_chosen(rate: float, half_unit: float) -> bool:
    """Return whether a rate of these digits was chosen so: one digit, or one over whole batches.

    >>> was_chosen(0.01, 0.005), was_chosen(0.0043, 0.00005), was_chosen(0.25, 0.005)
    (True, False, True)
    """
    batches = 1.0 / rate
    return rate < 20.0 * half_unit or abs(batches - round(batches)) <= 1e-9 * batches
