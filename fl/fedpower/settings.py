"""The table `[fedpower]`: how many directions, what bounds a row, and which design finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..declarations.declaration import Table
from ..declarations.toml_key import Key, at_least, below_one, flag, word

MAX_FACT: Final = 1e30
"""Largest public fact of a product, and one over the smallest: an audit counts on no other."""

MOST_VALUES: Final = 20_000_000
"""How many numbers of a Gram matrix are summed, where nothing is said: those of 6,324 columns."""


@dataclass(frozen=True, kw_only=True)
class FedPowerSettings:
    """`[fedpower]`: what is released, and how it is bounded; all of it is public."""

    rank: int
    row_norm: float
    oversampling: int = 0
    divisor: float = 1.0
    silo_rows: int | None = None
    largest_change: float | None = None
    most_rows: int | None = None
    design: Literal["auto", "one-shot", "power"] = "auto"
    most_values: int = MOST_VALUES
    signal: float = 0.5
    synchronise_every: int = 1
    divide_by_rows: bool = False
    entry_clip: float = 0.2
    largest_element: float = 20.0
    as_published: bool = False

    @property
    def columns(self) -> int:
        """r, the columns of an iterate: rank and oversampling."""
        return self.rank + self.oversampling


def _fact(**field: object) -> float:
    """Return a number from 1e-30 to 1e30, which an audit of the log can count on."""
    ((name, _),) = field.items()
    value = validate.positive(**field)
    if not 1.0 / MAX_FACT <= value <= MAX_FACT:
        raise InvalidInput(
            f"`{name}` must be from {1.0 / MAX_FACT:g} to {MAX_FACT:g}; it is {value:g}.",
            "Near the ends of the floats sensitivities cannot be computed.",
            "Give a number such as 1.0; rows may be in other units.",
        )
    return value


TABLE: Final = Table(
    name="fedpower",
    about="how many directions are found, from what, and by which design",
    settings=FedPowerSettings,
    keys=(
        Key(
            "rank",
            validate.count,
            "k, how many directions are wanted; at most the columns of the data",
            "required",
            "It is a number of directions.",
        ),
        Key(
            "row_norm",
            _fact,
            "R, the L2 norm that rows are clipped to, in units of the data; public, so known "
            "before anybody looks at the data",
            "required",
            "A norm that was taken from the data would tell about them.",
        ),
        Key(
            "oversampling",
            at_least(0),
            "how many more columns than directions an iterate has",
            "0",
            "More columns find the directions sooner, and each has noise of its own.",
        ),
        Key(
            "divisor",
            _fact,
            "s, the public number that products are divided by",
            "1.0",
            "It changes units alone: noise is divided by it as well.",
        ),
        Key(
            "silo_rows",
            validate.count,
            'unit = "silo": most rows of one silo; more are left out',
            'required for unit = "silo"',
            "A silo moves the sum by all of its rows.",
        ),
        Key(
            "largest_change",
            _fact,
            'unit = "entry": by how much one number changes at most, the width of its public range',
            'required for unit = "entry"',
            "An entry without a range may change by anything.",
        ),
        Key(
            "most_rows",
            validate.count,
            "about how many rows there are at most in all silos; public. The grid is chosen for so "
            "many; with more, numbers may wrap around, which costs accuracy and no privacy",
            "1,000,000, or silos x silo_rows",
            "The sum of so many rows must fit into 64 bits.",
        ),
        word(
            "design",
            ("auto", "one-shot", "power"),
            "one-shot: one noisy Gram matrix; power: some products with it; auto: one-shot, unless "
            "its numbers are too many",
            "auto",
        ),
        Key(
            "most_values",
            validate.count,
            "design = auto: how many numbers of a Gram matrix, d (d + 1) / 2, are summed at most",
            f"{MOST_VALUES:,}",
            "Each of them is drawn noise for, in every silo.",
        ),
        Key(
            "signal",
            below_one,
            "design = power: the share of the variance that the wanted directions are guessed to "
            "have, from public knowledge; it chooses the number of rounds, and nothing else",
            "0.5",
            "A share that was taken from the data would tell about them.",
        ),
        Key(
            "synchronise_every",
            validate.count,
            "p: nodes multiply by themselves, and every p-th product is summed; above 1 only as "
            "published",
            "1",
            "Between two sums nodes go on from what they have.",
        ),
        Key(
            "divide_by_rows",
            flag,
            "every node divides by its own number of rows, at least `divisor`, as published",
            "false",
        ),
        Key(
            "entry_clip",
            _fact,
            "eta: entries of an iterate are cut off at this size",
            "0.2",
            "The published sensitivity rests on it.",
        ),
        Key(
            "largest_element",
            _fact,
            "rho, as published: the largest element of the matrix of a node",
            "20.0",
            "The published noise is made for a change of so much in one element.",
        ),
        Key(
            "as_published",
            flag,
            "noise for the published sensitivity, and the published claim; promises nothing",
            "false",
        ),
    ),
)
