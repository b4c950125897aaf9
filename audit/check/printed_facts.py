"""Which numbers of a description are exact, and which are open by their printed digits."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from ..description.printed_number import half_unit_of
from ..description.run_description import RunDescription

SAID: Final = ("stated", "read")
"""Provenance of facts that do not follow from others."""

RATE_KEYS: Final = ("sampling.rate", "sampling.clients_rate", "schedule.phases")
"""Keys of rates."""

OPEN_KEYS: Final = (
    *RATE_KEYS,
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
        if key.endswith("rate") and _was_chosen(description, key):
            continue
        digits[key] = fact.half_unit
    return digits


def was_printed(description: RunDescription, key: str) -> bool:
    """Return whether a program printed the number of a key, which no person chose so."""
    fact = description.facts.get(key)
    return (
        fact is not None
        and fact.provenance == "read"
        and any(
            name in fact.source and format in PRINTING_FORMATS
            for name, format in description.formats.items()
        )
    )


def _was_chosen(description: RunDescription, key: str) -> bool:
    """Return whether a rate was chosen as it is printed: by a person, and not by a program."""
    fact = description.facts.get(key)
    if fact is None or not fact.half_unit or was_printed(description, key):
        return False
    if isinstance(fact.value, tuple):
        rates = {phase.rate for phase in fact.value}
        return any(was_chosen(each, half_unit_at(each, fact.half_unit)) for each in rates - {1.0})
    return isinstance(fact.value, float) and was_chosen(fact.value, fact.half_unit)


def half_unit_at(rate: float, coarsest: float) -> float:
    """Return half of the last digit of one of several numbers, of which one has the coarsest.

    >>> half_unit_at(0.067, 0.005), half_unit_at(0.04, 0.005)
    (0.0005, 0.005)
    """
    return min(coarsest, half_unit_of(Decimal(repr(rate))))


def rests_on_a_chosen_rate(description: RunDescription) -> bool:
    """Return whether a rate is taken to be exact though its digits would leave it open.

    A batch of a number of records says what it is a share of.
    """
    if description.known("sampling.batch") and any(map(description.known, POPULATION_FACTS)):
        batch = description.facts["sampling.batch"]
        if batch.provenance in SAID:
            return False
    said = (key for key in RATE_KEYS if was_said(description, key))
    return any(_was_chosen(description, key) for key in said)


def was_said(description: RunDescription, key: str) -> bool:
    """Return whether somebody said the number of a key: it does not follow from others."""
    fact = description.facts.get(key)
    return fact is not None and fact.provenance in SAID


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
