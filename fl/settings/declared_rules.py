"""What a system's declaration allows of a run: aggregation, unit, relation, private moments.

Each rule returns what is wrong, why, and what to do, or None.  A configuration is held against
them, and so is a setup that somebody made without one (`fl.frame.requirements`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...accountant.errors import enumerated
from ..declarations.declaration import AS_PUBLISHED, Complaint, Declaration
from ..declarations.given_settings import GivenSettings
from ..declarations.registry import declared, with_use_for

MOMENTS_NOISE_KEY: Final = ("privacy", "normalisation_noise")
"""The key that has a rule of its own: who has no use for it cannot normalise privately at all."""

UNPAID_MOMENTS: Final = (
    "Moments of private records are a release for users, which its promise does not cover."
)
"""Why private moments are refused that nothing pays for."""

NONE_FOR_ANOTHER: Final = (
    "What the server sees decides what it learns, so none is taken for another."
)
"""Why an aggregation is refused by which nothing can be summed."""

_PROTECTED_BY_UNIT: Final[Mapping[str, str]] = {
    "user": "all records of a user together",
    "record": "one record",
    "silo": "all records of a silo together",
    "entry": "one entry",
}
"""From the unit of a guarantee to the data that it protects, for messages."""


def unit_complaint(system: Declaration, unit: str | None) -> Complaint | None:
    """Refuse a unit of privacy for which the system, where it promises something, has none."""
    if not system.promises or unit in system.units:
        return None
    protected = [_PROTECTED_BY_UNIT.get(word, word) for word in system.units]
    return (
        f'needs `unit` in [privacy] to be {enumerated(system.units, "or")}; it is "{unit}"',
        f"{system.name} promises privacy for {enumerated(protected, 'or')}.",
        f'Write unit = "{system.units[0]}", or leave it out.',
    )


def relation_complaint(system: Declaration, relation: str) -> Complaint | None:
    """Refuse neighbours that the system is not accounted under."""
    if not system.promises or relation in system.relations:
        return None
    return (
        f"needs `neighbours` in [privacy] to be {enumerated(system.relations, 'or')}; it is "
        f'"{relation}"',
        f"{system.name} is accounted under {enumerated(system.relations, 'or')} alone.",
        f'Write neighbours = "{system.relations[0]}", or leave it out.',
    )


def aggregation_complaint(system: Declaration, aggregation: str) -> Complaint | None:
    """Refuse an aggregation by which the system cannot sum."""
    if aggregation in system.aggregations:
        return None
    others = able_to_sum_by(aggregation)
    words = enumerated([f'"{word}"' for word in system.aggregations], "or")
    return (
        f'has aggregation = "{aggregation}" in [security], and {system.name} cannot sum by it',
        NONE_FOR_ANOTHER,
        f"Write aggregation = {words}{f'; or choose another system: {others}' if others else ''}.",
    )


def able_to_sum_by(aggregation: str) -> str:
    """Return the names of the systems that can sum by an aggregation, in a sentence."""
    systems = declared().values()
    return enumerated([each.name for each in systems if aggregation in each.aggregations], "or")


def moments_complaint(system: Declaration) -> Complaint | None:
    """Refuse features that are normalised by private moments, where nothing pays for these."""
    if system.has_use_for(*MOMENTS_NOISE_KEY):
        return None
    others = " or ".join(with_use_for(*MOMENTS_NOISE_KEY))
    return (
        f'has normalisation = "private" in [data], and {system.name} cannot pay for it',
        UNPAID_MOMENTS,
        f'Write normalisation = "public", or choose {others}.',
    )


def sampling_complaint(system: Declaration) -> Complaint | None:
    """Refuse sampled users where all take part in every round."""
    if system.has_use_for("privacy", "sampling_rate"):
        return None
    others = " or ".join(with_use_for("privacy", "sampling_rate"))
    return (
        f"has a sampling rate below 1, and {system.name} does not sample users",
        "Every silo takes part with all of its users in each round.",
        f"Leave `sampling_rate` out, or use {others}.",
    )


def no_target(given: GivenSettings) -> Complaint | None:
    """Refuse a target epsilon for a method as published, since it proves none."""
    published = getattr(given.table, AS_PUBLISHED, False)
    if not published or not given.states("privacy", "epsilon"):
        return None
    return (
        f"gives `epsilon` in [privacy] with as_published = true in [{given.table_name}]",
        "What is published keeps no target, so no noise can be found for one.",
        "Give noise_multiplier alone, or leave as_published out.",
    )


def unpaid_votes(system: str) -> Complaint:
    """Return that a method as published cannot pay for votes of who is held out."""
    return (
        f'has test = "held-out" in [evaluation], and {system} as published cannot pay for votes',
        "The paper's number is for its rounds alone.",
        'Write test = "none", or leave as_published out.',
    )
