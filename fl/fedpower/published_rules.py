"""Rules between the keys of a configuration of FedPower's published algorithms."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Complaint, Rule
from ..declarations.given_settings import GivenSettings
from ..settings.declared_rules import no_target
from .settings import POWER_RULES, TABLE, FedPowerSettings

PRODUCTS_OF_ROWS: Final = (
    "After a step by itself a node multiplies by a matrix that depends on its rows, and noise for "
    "one product proves nothing."
)
"""Why nodes take no steps by themselves where something is promised."""

DIVISORS_OF_ROWS: Final = (
    "A row that comes, goes, or is replaced by one in another node changes the number that all "
    "rows of a node are divided by."
)
"""Why nodes do not divide by their rows where something is promised."""


def published_steps(given: GivenSettings) -> Complaint | None:
    """Refuse steps of nodes by themselves where something is promised."""
    table = given.of(FedPowerSettings)
    steps = table.synchronise_every
    if steps == 1 or table.as_published:
        return None
    return (
        f"has synchronise_every = {steps} in [fedpower] without as_published = true",
        PRODUCTS_OF_ROWS,
        "Write synchronise_every = 1, or as_published = true with a noise_multiplier.",
    )


def published_bounds(given: GivenSettings) -> Complaint | None:
    """Refuse keys of the published bound where noise is made for another."""
    if given.of(FedPowerSettings).as_published:
        return None
    clips = given.system.name == "fedpower-private"
    for key in ("largest_element",) if clips else ("largest_element", "entry_clip"):
        if given.states(TABLE.name, key):
            return (
                f"gives `{key}` in [fedpower] without as_published = true",
                "Noise is made for a whole unit, whose bound does not depend on it.",
                "Leave it out, or write as_published = true.",
            )
    return None


def steady_divisors(given: GivenSettings) -> Complaint | None:
    """Refuse divisors that a row which comes, goes, or comes back in another node would change.

    Rows of ratings stay in their nodes, whose numbers of rows follow from public facts.
    """
    table, relation = given.of(FedPowerSettings), given.privacy.neighbours
    stay = given.of_ratings and relation == "replace-one"
    if not table.divide_by_rows or table.as_published:
        return None
    if stay or given.privacy.unit != "record":
        return None
    return (
        f'has divide_by_rows = true in [fedpower] and neighbours = "{relation}" in [privacy]',
        DIVISORS_OF_ROWS,
        "Leave divide_by_rows out, or protect a silo or an entry.",
    )


def all_nodes_stay(given: GivenSettings) -> Complaint | None:
    """Refuse missing nodes where each of them is needed."""
    if not given.security.dropouts:
        return None
    if given.system.name == "fedpower-utility":
        return (
            "has `dropouts` in [security], and fedpower-utility needs every node twice",
            "A node that is missing cannot help to take its noise off.",
            "Leave it out, or use fedpower-private.",
        )
    if given.of(FedPowerSettings).synchronise_every > 1:
        return (
            "has `dropouts` in [security] beside synchronise_every in [fedpower]",
            "Shares of several products of a round are not counted where some may be missing.",
            "Leave one of them out.",
        )
    return None


def directions_of_silos(given: GivenSettings) -> Complaint | None:
    """Refuse a public cap on rows below the columns that a node makes orthonormal by itself."""
    table = given.of(FedPowerSettings)
    rows, columns = table.silo_rows, table.columns
    if table.synchronise_every == 1 or rows is None or rows >= columns:
        return None
    if given.system.name == "fedpower-private":
        return None  # noise gives its products all directions
    return (
        f"has silo_rows = {rows:,} in [fedpower], below the {columns:,} columns of an "
        "iterate, and synchronise_every above 1",
        "Between two sums a node makes its own product orthonormal, which has then too few "
        "directions.",
        "Write synchronise_every = 1, more silo_rows, or a lower rank.",
    )


PUBLISHED_RULES: Final[tuple[Rule, ...]] = (
    *POWER_RULES,
    no_target,
    published_steps,
    published_bounds,
    steady_divisors,
    all_nodes_stay,
    directions_of_silos,
)
"""Rules of the three published algorithms, in the order in which they are asked."""
