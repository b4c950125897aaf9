"""Rules between the keys of a configuration of private statistics."""

from __future__ import annotations

from typing import Any, Final

from ...accountant.errors import with_article
from ..declarations.dataset_defaults import dataset_defaults
from ..declarations.declaration import Complaint, Given, Rule
from .settings import TABLE

_SURVIVAL_MODEL: Final = "cox"
"""How data sets of survival times are usually trained on."""

_UNIT_OF_KEY: Final = {"rows_per_user": "user", "silo_rows": "silo"}
"""Keys that only one unit has a use for."""


RELATIONS: Final = ("add-remove", "replace-one")
"""A record of zeros still has an intercept and a label, so it is no absent record."""


def single_round(given: Given) -> Complaint | None:
    """Refuse more rounds than one of a single release."""
    return rounds_complaint(str(given["run"]["system"]), given["run"].get("rounds", 1))


def rounds_complaint(system: str, rounds: int, otherwise: str = "") -> Complaint | None:
    """Refuse more rounds than one of a single release; `otherwise` is what else may be done."""
    if rounds == 1:
        return None
    return (
        f"has rounds = {rounds:,} in [run], and {system} makes one release",
        "One release with all of the budget has less noise than several that share it.",
        f"Write rounds = 1, or leave it out{otherwise}.",
    )


def of_classes(given: Given) -> Complaint | None:
    """Refuse labels that are no classes."""
    if dataset_defaults(given["data"]["name"]).model != _SURVIVAL_MODEL:
        return None
    return (
        f'names "{given["data"]["name"]}" in [data], whose labels are times of survival',
        "Sums of rows by label are made for classes; a time is none, and has no public range.",
        "Choose a data set with classes, or uldp-avg for this one.",
    )


def capped_units(table: str) -> Rule:
    """Return the rule that a unit has the cap on its rows that it needs, and no other's."""

    def rule(given: Given) -> Complaint | None:
        unit, keys = given.get("privacy", {}).get("unit", "record"), given.get(table, {})
        for key, needed in _UNIT_OF_KEY.items():
            if key in keys and unit != needed:
                return (
                    f'gives `{key}` in [{table}] for unit = "{unit}" in [privacy]',
                    f"It bounds the rows of {with_article(needed)}, and has no effect on what "
                    f"{with_article(unit)} adds.",
                    f'Leave it out, or write unit = "{needed}" under [privacy].',
                )
        if unit == "silo" and "silo_rows" not in keys:
            return (
                f'lacks `silo_rows` in [{table}] for unit = "silo" in [privacy]',
                "A silo moves the sum by all of its rows, so there must be a public cap on them.",
                "Write silo_rows = 100, for example: a number that is not taken from the data.",
            )
        return None

    return rule


def _no_fit(given: Given) -> Complaint | None:
    keys: Any = given.get(TABLE.name, {})
    if keys.get("fit", "ridge") != "none":
        return None
    for key in ("ridge", "components"):
        if key in keys:
            return (
                f'gives `{key}` beside fit = "none" in [statistics]',
                "Nothing is fitted, so it has no effect.",
                "Leave one of them out.",
            )
    return None


RULES: Final[tuple[Rule, ...]] = (
    single_round,
    of_classes,
    capped_units(TABLE.name),
    _no_fit,
)
"""In the order in which they are asked."""
