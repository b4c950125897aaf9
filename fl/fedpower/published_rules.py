"""Rules between the keys of a configuration of FedPower's published algorithms."""

from __future__ import annotations

from typing import Any, Final

from ..declarations.declaration import Complaint, Given, Rule
from ..declarations.toml_words import RATINGS
from ..settings.declared_rules import no_target
from .settings import TABLE
from .settings_rules import POWER_RULES


def published_steps(given: Given) -> Complaint | None:
    """Refuse steps of nodes by themselves where something is promised."""
    steps = _keys(given).get("synchronise_every", 1)
    if steps == 1 or _as_published(given):
        return None
    return (
        f"has synchronise_every = {steps} in [fedpower] without as_published = true",
        "After a step by itself a node multiplies by a matrix that depends on its rows, and noise "
        "for one product proves nothing.",
        "Write synchronise_every = 1, or as_published = true with a noise_multiplier.",
    )


def published_bounds(given: Given) -> Complaint | None:
    """Refuse keys of the published bound where noise is made for another."""
    if _as_published(given):
        return None
    clips = given["run"].get("system") == "fedpower-private"
    for key in ("largest_element",) if clips else ("largest_element", "entry_clip"):
        if key in _keys(given):
            return (
                f"gives `{key}` in [fedpower] without as_published = true",
                "Noise is made for a whole unit, whose bound does not depend on it.",
                "Leave it out, or write as_published = true.",
            )
    return None


def steady_divisors(given: Given) -> Complaint | None:
    """Refuse divisors that a row which comes, goes, or comes back in another node would change.

    Rows of ratings stay in their nodes, whose numbers of rows follow from public facts.
    """
    privacy = given.get("privacy", {})
    relation = privacy.get("neighbours", "add-remove")
    stay = given.get("data", {}).get("name") == RATINGS and relation == "replace-one"
    if not _keys(given).get("divide_by_rows") or _as_published(given):
        return None
    if stay or privacy.get("unit", "record") != "record":
        return None
    return (
        f'has divide_by_rows = true in [fedpower] and neighbours = "{relation}" in [privacy]',
        "A row that comes, goes, or is replaced by one in another node changes the number that all "
        "rows of a node are divided by.",
        "Leave divide_by_rows out, or protect a silo or an entry.",
    )


def all_nodes_stay(given: Given) -> Complaint | None:
    """Refuse missing nodes where each of them is needed."""
    security, system = given.get("security", {}), given["run"].get("system")
    if not security.get("dropouts"):
        return None
    if system == "fedpower-utility":
        return (
            "has `dropouts` in [security], and fedpower-utility needs every node twice",
            "A node that is missing cannot help to take its noise off.",
            "Leave it out, or use fedpower-private.",
        )
    if _keys(given).get("synchronise_every", 1) > 1:
        return (
            "has `dropouts` in [security] beside synchronise_every in [fedpower]",
            "Shares of several products of a round are not counted where some may be missing.",
            "Leave one of them out.",
        )
    return None


def directions_of_silos(given: Given) -> Complaint | None:
    """Refuse a public cap on rows below the columns that a node makes orthonormal by itself."""
    keys = _keys(given)
    columns = keys.get("rank", 0) + keys.get("oversampling", 0)
    if keys.get("synchronise_every", 1) == 1 or keys.get("silo_rows", columns) >= columns:
        return None
    if given["run"].get("system") == "fedpower-private":
        return None  # noise gives its products all directions
    return (
        f"has silo_rows = {keys['silo_rows']:,} in [fedpower], below the {columns:,} columns of an "
        "iterate, and synchronise_every above 1",
        "Between two sums a node makes its own product orthonormal, which has then too few "
        "directions.",
        "Write synchronise_every = 1, more silo_rows, or a lower rank.",
    )


def _keys(given: Given) -> Any:
    return given.get("fedpower", {})


def _as_published(given: Given) -> bool:
    return bool(_keys(given).get("as_published"))


PUBLISHED_RULES: Final[tuple[Rule, ...]] = (
    *POWER_RULES,
    no_target(TABLE.name),
    published_steps,
    published_bounds,
    steady_divisors,
    all_nodes_stay,
    directions_of_silos,
)
"""Rules of the three published algorithms, in the order in which they are asked."""
