"""The facts of a run as JSON has them: value, provenance and source of every key."""

from __future__ import annotations

from dataclasses import asdict

from .printed_number import PrintedNumber
from .run_description import ExtraRelease, Phase, RunDescription


def facts_json(description: RunDescription) -> dict[str, dict[str, object]]:
    """Return `{key: {"value", "provenance", "source"}}` of all facts, ready to be written."""
    return {
        key: {
            "value": plain_value(fact.value),
            "provenance": fact.provenance,
            "source": fact.source,
        }
        for key, fact in description.facts.items()
    }


def plain_value(value: object) -> object:
    """Return the value of a fact as JSON has it."""
    if isinstance(value, PrintedNumber):
        return value.value
    if isinstance(value, Phase):
        return [value.noise_multiplier, value.rate, value.steps]
    if isinstance(value, ExtraRelease):
        return asdict(value)
    if isinstance(value, tuple):
        return [plain_value(row) for row in value]
    return value
