"""The table `[fedpower]`: how many directions, what bounds a row, and which design finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ...accountant import validate
from ..declarations.declaration import Complaint, Rule, Table
from ..declarations.given_settings import GivenSettings
from ..declarations.toml_key import at_least, below_one, key
from ..settings.declared_rules import no_target
from ..statistics.settings import (
    BEYOND,
    CLIPPED,
    DROPPED,
    MOVED_BY_SILO,
    ROWS,
    bound_complaint,
    most_rows_key,
    public_fact,
    rounds_complaint,
    row_norm_key,
)

__all__ = ["BEYOND", "CLIPPED", "DROPPED", "ROWS"]

MOST_VALUES: Final = 20_000_000
"""How many numbers of a Gram matrix are summed, where nothing is said: those of 6,324 columns."""


@dataclass(frozen=True, kw_only=True)
class FedPowerSettings:
    """`[fedpower]`: what is released, and how it is bounded; all of it is public."""

    rank: int = key(
        "k, how many directions are wanted; at most the columns of the data",
        validate.count,
        why="It is a number of directions.",
    )
    row_norm: float = row_norm_key("the data")
    oversampling: int = key(
        "how many more columns than directions an iterate has",
        at_least(0),
        default=0,
        why="More columns find the directions sooner, and each has noise of its own.",
    )
    divisor: float = key(
        "s, the public number that products are divided by",
        public_fact,
        default=1.0,
        why="It changes units alone: noise is divided by it as well.",
    )
    silo_rows: int | None = key(
        'unit = "silo": most rows of one silo; more are left out',
        validate.count,
        default=None,
        shown='required for unit = "silo"',
        why="A silo moves the sum by all of its rows.",
    )
    largest_change: float | None = key(
        'unit = "entry": by how much one number changes at most, the width of its public range',
        public_fact,
        default=None,
        shown='required for unit = "entry"',
        why="An entry without a range may change by anything.",
    )
    most_rows: int | None = most_rows_key("1,000,000, or silos x silo_rows")
    design: Literal["auto", "one-shot", "power"] = key(
        "one-shot: one noisy Gram matrix; power: some products with it; auto: one-shot, unless "
        "its numbers are too many",
        default="auto",
    )
    most_values: int = key(
        "design = auto: how many numbers of a Gram matrix, d (d + 1) / 2, are summed at most",
        validate.count,
        default=MOST_VALUES,
        shown=f"{MOST_VALUES:,}",
        why="Each of them is drawn noise for, in every silo.",
    )
    signal: float = key(
        "design = power: the share of the variance that the wanted directions are guessed to "
        "have, from public knowledge; it chooses the number of rounds, and nothing else",
        below_one,
        default=0.5,
        why="A share that was taken from the data would tell about them.",
    )
    synchronise_every: int = key(
        "p: nodes multiply by themselves, and every p-th product is summed; above 1 only as "
        "published",
        validate.count,
        default=1,
        why="Between two sums nodes go on from what they have.",
    )
    divide_by_rows: bool = key(
        "every node divides by its own number of rows, at least `divisor`, as published",
        default=False,
    )
    entry_clip: float = key(
        "eta: entries of an iterate are cut off at this size",
        public_fact,
        default=0.2,
        why="The published sensitivity rests on it.",
    )
    largest_element: float = key(
        "rho, as published: the largest element of the matrix of a node",
        public_fact,
        default=20.0,
        why="The published noise is made for a change of so much in one element.",
    )
    as_published: bool = key(
        "noise for the published sensitivity, and the published claim; promises nothing",
        default=False,
    )

    @property
    def columns(self) -> int:
        """r, the columns of an iterate: rank and oversampling."""
        return self.rank + self.oversampling


TABLE: Final = Table(
    name="fedpower",
    about="how many directions are found, from what, and by which design",
    settings=FedPowerSettings,
)


_UNIT_OF_KEY: Final = {"silo_rows": "silo", "largest_change": "entry"}
"""Keys that only one unit has a use for, and that it needs."""

_EXAMPLES: Final = {
    "silo_rows": "silo_rows = 100, for example: a number that is not taken from the data",
    "largest_change": "largest_change = 5.0, for example: the width of the public range",
}

_REASONS: Final = {
    "silo_rows": MOVED_BY_SILO,
    "largest_change": "An entry without a public range may change by anything.",
}


def single_release(given: GivenSettings) -> Complaint | None:
    """Refuse more rounds than one of a single release."""
    return rounds_complaint(given.system.name, given.run.rounds, "; or use fedpower-power")


def bounded_units(given: GivenSettings) -> Complaint | None:
    """Refuse a unit without the public number that bounds it, and that number without the unit."""
    for name, needed in _UNIT_OF_KEY.items():
        idle = bound_complaint(given, name, needed)
        if idle is not None:
            return idle
        if given.privacy.unit == needed and not given.states(TABLE.name, name):
            return (
                f'lacks `{name}` in [fedpower] for unit = "{needed}" in [privacy]',
                _REASONS[name],
                f"Write {_EXAMPLES[name]}.",
            )
    return None


def rows_of_tables(given: GivenSettings) -> Complaint | None:
    """Refuse entries of a table: what one cell holds decides more than one number of the matrix."""
    if not given.of_table or given.privacy.unit != "entry":
        return None
    return (
        f'has unit = "entry" in [privacy], and names "{given.dataset}" in [data]',
        "A cell of a table stands in several columns of the matrix, and one that breaks its line "
        "takes the whole row with it.",
        'Write unit = "record", which protects every cell of a row.',
    )


def replaced_entries(given: GivenSettings) -> Complaint | None:
    """Refuse entries that come or go, and changes that are smaller than a rating which does."""
    relation = given.privacy.neighbours
    if given.privacy.unit != "entry":
        return None
    if relation == "replace-one":
        return _whole_ratings(given)
    return (
        f'has neighbours = "{relation}" for unit = "entry" in [privacy]',
        "A number of a matrix does not come or go; it has another value.",
        'Write neighbours = "replace-one".',
    )


def _whole_ratings(given: GivenSettings) -> Complaint | None:
    """Refuse a change that leaves out ratings which are there or not, where that is private."""
    from ..datasets.ratings import LARGEST_RATING

    change = given.of(FedPowerSettings).largest_change
    largest = given.data.largest_rating or LARGEST_RATING
    private = given.of_ratings and given.data.selection is None
    if not private or change is None or change >= largest:
        return None
    return (
        f"has largest_change = {change:g} in [fedpower], and ratings up to {largest:g}",
        "A rating that is not there is 0, and who rated what is private here: an entry may change "
        "by a whole rating.",
        f"Write largest_change = {largest:g}, or a lower largest_rating under [data].",
    )


def rows_of_a_gram(given: GivenSettings) -> Complaint | None:
    """Refuse entries as the unit of a chosen Gram release, which has no bound for them."""
    if given.of(FedPowerSettings).design != "one-shot":
        return None
    if given.privacy.unit == "entry":
        return (
            'has unit = "entry" in [privacy] and design = "one-shot" in [fedpower]',
            "A Gram release holds products of entries, so it bounds none of them by itself.",
            'Write unit = "record", which protects every entry of a row, or design = "power".',
        )
    return single_release(given) if given.states("run", "rounds") else None


POWER_RULES: Final[tuple[Rule, ...]] = (rows_of_tables, bounded_units, replaced_entries)
"""Rules of a power iteration, in the order in which they are asked."""

ONE_SHOT_RULES: Final[tuple[Rule, ...]] = (single_release, bounded_units)
"""Rules of one Gram release."""

PLANNER_RULES: Final[tuple[Rule, ...]] = (
    rows_of_tables,
    rows_of_a_gram,
    bounded_units,
    replaced_entries,
)
"""Rules of a design that is chosen."""


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
    for name in ("largest_element",) if clips else ("largest_element", "entry_clip"):
        if given.states(TABLE.name, name):
            return (
                f"gives `{name}` in [fedpower] without as_published = true",
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
            "has `dropouts` in [security] with synchronise_every in [fedpower]",
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


def directions_of_tables(given: GivenSettings) -> Complaint | None:
    """Refuse steps that a node of a table may have too few rows for, which nobody may hear of."""
    if not given.of_table or given.of(FedPowerSettings).synchronise_every == 1:
        return None
    if given.system.name == "fedpower-private":
        return None  # noise gives its products all directions
    return (
        f'has synchronise_every above 1 in [fedpower], and names "{given.dataset}" in [data]',
        "Between two sums a node makes its own product orthonormal, for which it needs as many "
        "rows as columns, and how many rows a silo has is private.",
        "Write synchronise_every = 1, or choose fedpower-private.",
    )


PUBLISHED_RULES: Final[tuple[Rule, ...]] = (
    *POWER_RULES,
    no_target,
    published_steps,
    published_bounds,
    steady_divisors,
    all_nodes_stay,
    directions_of_silos,
    directions_of_tables,
)
"""Rules of the three published algorithms, in the order in which they are asked."""
