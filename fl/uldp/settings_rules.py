"""Rules between the keys of a configuration of Uldp-FL's systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.declaration import Complaint, Given

_KEYS_NOT_IN_PAPER: Final[Mapping[str, str]] = {
    "slots": "the server draws",
    "records_per_count": "every record counts",
    "processes": "one process does the work",
}
"""Keys of [security] that do not apply to private weighting as published, and why."""


def group_given(given: Given) -> Complaint | None:
    """Demand the number of records of one user that take part."""
    if "group_records" in given.get("uldp", {}):
        return None
    return (
        "lacks `group_records` in [uldp]",
        "uldp-group lets so many records of one user take part, and protects them together.",
        "Write group_records = 8 under [uldp], for example.",
    )


def rate_or_batch(given: Given) -> Complaint | None:
    """Refuse two answers to how many records join a step."""
    if "record_rate" not in given.get("uldp", {}) or "batch" not in given.get("training", {}):
        return None
    return (
        "gives both `record_rate` in [uldp] and `batch` in [training]",
        "Each says how many records join a local step of uldp-group.",
        "Leave one of them out.",
    )


def no_moments(given: Given) -> Complaint | None:
    """Refuse private moments for a method as published, whose promise would not cover them."""
    if not _runs_as_published(given) or given["data"].get("normalisation") != "private":
        return None
    return (
        f'has normalisation = "private" in [data], and {given["run"]["system"]} as published '
        "cannot pay for it",
        "Moments of private records are a release for users, which its promise does not cover.",
        'Write normalisation = "public", or leave as_published out.',
    )


def published_protocol(given: Given) -> Complaint | None:
    """Refuse `as_published` without the published protocol, and keys that do not apply to it."""
    if not _runs_as_published(given):
        return None
    security = given.get("security", {})
    if security.get("aggregation") != "private-weighting":
        return (
            f"has as_published = true in [uldp], and {given['run']['system']} is sound as it is "
            "published",
            "It is the private weighting protocol of the paper that leaks.",
            'Leave it out, or write aggregation = "private-weighting" under [security].',
        )
    for key, reason in _KEYS_NOT_IN_PAPER.items():
        if key in security:
            return (
                f"gives `{key}` in [security] beside as_published = true in [uldp]",
                f"The protocol is run as the paper's code has it, and there {reason}.",
                "Leave one of them out.",
            )
    return None


def _runs_as_published(given: Given) -> bool:
    return bool(given.get("uldp", {}).get("as_published"))
