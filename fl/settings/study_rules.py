"""What a configuration says of scenarios for studies: labels that differ by silo, and bad ones."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Complaint, Given, Rule
from ..declarations.toml_keys import STUDY_KEYS
from .public_test_data import BUNDLED_SOURCES
from .rule_facts import enumerated

_BY_LABEL: Final = ("classes-1", "classes-2")


def _both_shares(given: Given) -> Complaint | None:
    lacking = [key for key in STUDY_KEYS if key not in given["data"]]
    if len(lacking) != 1:
        return None
    there = next(key for key in STUDY_KEYS if key != lacking[0])
    return (
        f"gives `{there}` in [data], and lacks `{lacking[0]}` there",
        "Bad labels are those of a share of the records of a share of the silos.",
        f"Write `{lacking[0]}` beside it, or leave both out.",
    )


def _looked_at(given: Given) -> Complaint | None:
    """Refuse bad labels where nobody would see what they do."""
    data, test = given["data"], given.get("evaluation", {}).get("test")
    if not any(key in data for key in STUDY_KEYS):
        return None
    if test == "public" or (test is None and data["name"] in BUNDLED_SOURCES):
        return None
    given_keys = enumerated([f"`{key}`" for key in STUDY_KEYS], "and")
    return (
        f"gives {given_keys} in [data], and measures nothing",
        "Labels drawn at random are for studies, which are measured on public test data; of any "
        "other run they would only spoil the model.",
        'Leave them out, or write test = "public" with `source` under [evaluation].',
    )


def _labels_said_once(given: Given) -> Complaint | None:
    data = given["data"]
    if data.get("allocation") not in _BY_LABEL or "labels_per_user" not in data:
        return None
    return (
        f'has allocation = "{data["allocation"]}" in [data] beside `labels_per_user`',
        "That rule says which labels a silo has, and a user has records in any silo.",
        "Leave one of them out.",
    )


STUDY_RULES: Final[tuple[Rule, ...]] = (_both_shares, _looked_at, _labels_said_once)
"""In the order in which they are asked."""
