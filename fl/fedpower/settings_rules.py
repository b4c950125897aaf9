"""Rules between the keys of a configuration of FedPower."""

from __future__ import annotations

from typing import Any, Final

from ...accountant.errors import with_article
from ..declarations.declaration import Complaint, Given, Rule
from ..declarations.toml_words import RATINGS
from ..statistics.settings_rules import rounds_complaint

_UNIT_OF_KEY: Final = {"silo_rows": "silo", "largest_change": "entry"}
"""Keys that only one unit has a use for, and that it needs."""

_EXAMPLES: Final = {
    "silo_rows": "silo_rows = 100, for example: a number that is not taken from the data",
    "largest_change": "largest_change = 5.0, for example: the width of the public range",
}

_REASONS: Final = {
    "silo_rows": "A silo moves the sum by all of its rows, so there must be a public cap on them.",
    "largest_change": "An entry without a public range may change by anything.",
}


def single_release(given: Given) -> Complaint | None:
    """Refuse more rounds than one of a single release."""
    system, rounds = str(given["run"]["system"]), given["run"].get("rounds", 1)
    return rounds_complaint(system, rounds, "; or use fedpower-power")


def bounded_units(given: Given) -> Complaint | None:
    """Refuse a unit without the public number that bounds it, and that number without the unit."""
    unit, keys = given.get("privacy", {}).get("unit", "record"), _keys(given)
    for key, needed in _UNIT_OF_KEY.items():
        if key in keys and unit != needed:
            return (
                f'gives `{key}` in [fedpower] for unit = "{unit}" in [privacy]',
                f"It bounds {with_article(needed)}, and has no effect on what "
                f"{with_article(unit)} adds.",
                f'Leave it out, or write unit = "{needed}" under [privacy].',
            )
        if unit == needed and key not in keys:
            return (
                f'lacks `{key}` in [fedpower] for unit = "{unit}" in [privacy]',
                _REASONS[key],
                f"Write {_EXAMPLES[key]}.",
            )
    return None


def replaced_entries(given: Given) -> Complaint | None:
    """Refuse entries that come or go, and changes that are smaller than a rating which does."""
    privacy = given.get("privacy", {})
    relation = privacy.get("neighbours", "add-remove")
    if privacy.get("unit") != "entry":
        return None
    if relation == "replace-one":
        return _whole_ratings(given)
    return (
        f'has neighbours = "{relation}" for unit = "entry" in [privacy]',
        "A number of a matrix does not come or go; it has another value.",
        'Write neighbours = "replace-one".',
    )


def _whole_ratings(given: Given) -> Complaint | None:
    """Refuse a change that leaves out ratings which are there or not, where that is private."""
    from ..datasets.ratings import LARGEST_RATING

    data, change = given.get("data", {}), _keys(given).get("largest_change")
    largest = data.get("largest_rating", LARGEST_RATING)
    if data.get("name") != RATINGS or "selection" in data or change is None or change >= largest:
        return None
    return (
        f"has largest_change = {change:g} in [fedpower], and ratings up to {largest:g}",
        "A rating that is not there is 0, and who rated what is private here: an entry may change "
        "by a whole rating.",
        f"Write largest_change = {largest:g}, or a lower largest_rating under [data].",
    )


def rows_of_a_gram(given: Given) -> Complaint | None:
    """Refuse entries as the unit of a chosen Gram release, which has no bound for them."""
    if _keys(given).get("design") != "one-shot":
        return None
    if given.get("privacy", {}).get("unit") == "entry":
        return (
            'has unit = "entry" in [privacy] and design = "one-shot" in [fedpower]',
            "A Gram release holds products of entries, so it bounds none of them by itself.",
            'Write unit = "record", which protects every entry of a row, or design = "power".',
        )
    return single_release(given) if "rounds" in given["run"] else None


def _keys(given: Given) -> Any:
    return given.get("fedpower", {})


POWER_RULES: Final[tuple[Rule, ...]] = (bounded_units, replaced_entries)
"""Rules of a power iteration, in the order in which they are asked."""

ONE_SHOT_RULES: Final[tuple[Rule, ...]] = (single_release, bounded_units)
"""Rules of one Gram release."""

PLANNER_RULES: Final[tuple[Rule, ...]] = (
    rows_of_a_gram,
    bounded_units,
    replaced_entries,
)
"""Rules of a design that is chosen."""
