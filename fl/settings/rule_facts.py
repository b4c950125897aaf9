"""What several rules of a configuration ask of it: its system, its promise, its aggregation."""

from __future__ import annotations

from collections.abc import Sequence

from ..declarations.declaration import Declaration, Given
from ..declarations.registry import declaration_of

MOMENTS_NOISE_KEY = ("privacy", "normalisation_noise")
"""The key that has a rule of its own: who has no use for it cannot normalise privately at all."""


def system_of(given: Given) -> Declaration:
    """Return the declaration of the system that a configuration names."""
    return declaration_of(str(given["run"]["system"]))


def aggregation_of(given: Given) -> str:
    """Return the aggregation of a configuration, or what its system means by leaving it out."""
    usual = system_of(given).usual_aggregation
    return str(given.get("security", {}).get("aggregation", usual))


def observers_in(given: Given) -> tuple[str, ...]:
    """Return the observers that a configuration names, in whatever key."""
    privacy = given.get("privacy", {})
    return tuple(filter(None, (privacy.get("observer"), *privacy.get("observers", ()))))


def enumerated(names: Sequence[str], last: str) -> str:
    """Return names in a sentence, `last` before the last of them.

    >>> enumerated(["masked", "plain", "shares"], "or")
    'masked, plain or shares'
    >>> enumerated(["masked"], "or")
    'masked'
    """
    head = ", ".join(names[:-1])
    return f"{head} {last} {names[-1]}" if head else "".join(names)
