"""The table `[statistics]`: what is released of rows and labels, and what is fitted to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..declarations.declaration import Table
from ..declarations.toml_key import Key, at_least, below_one, flag, word

MIN_BITS, MAX_BITS = 8, 20
"""Bits of the grid, as `NoisyGram` has them, which loads numpy."""

MAX_FACT: Final = 1e30
"""Largest public fact of a Gram matrix, and one over the smallest: an audit counts on no other."""


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings:
    """What is released of rows and labels, of any system that releases them; all of it public."""

    row_norm: float
    label_weight: float = 1.0
    intercept: float = 0.2
    noise: Literal["gaussian", "laplace"] = "gaussian"
    rows_per_user: int = 1
    silo_rows: int | None = None
    most_rows: int | None = None
    by_class: bool = False
    bits: int = 0
    ridge: float | None = None
    components: int = 0


@dataclass(frozen=True, kw_only=True)
class StatisticsSettings(ReleaseSettings):
    """`[statistics]`: what is released, and how it is fitted."""

    fit: Literal["ridge", "logistic", "none"] = "ridge"


def _grid_bits(**field: object) -> int:
    """Return 0, or an integer from 8 to 20."""
    ((name, value),) = field.items()
    bits = validate.count_from(0, **field)
    if bits and not MIN_BITS <= bits <= MAX_BITS:
        raise InvalidInput(
            f"`{name}` must be 0, or from {MIN_BITS} to {MAX_BITS}; it is {value!r:.60}.",
            "Fewer would round features away; with more, sums in float64 are not exact.",
            "Leave it out: the most bits that fit are chosen from public numbers.",
        )
    return bits


def _fact(**field: object) -> float:
    """Return a number from 1e-30 to 1e30, which an audit of the log can count on."""
    ((name, _),) = field.items()
    value = validate.positive(**field)
    if not 1.0 / MAX_FACT <= value <= MAX_FACT:
        raise InvalidInput(
            f"`{name}` must be from {1.0 / MAX_FACT:g} to {MAX_FACT:g}; it is {value:g}.",
            "Near the ends of the floats sensitivities cannot be computed.",
            "Give a number such as 1.0; features may be in other units.",
        )
    return value


TABLE: Final = Table(
    name="statistics",
    about="what is released of rows and labels, and what is fitted to it",
    settings=StatisticsSettings,
    keys=(
        Key(
            "row_norm",
            _fact,
            "R, the L2 norm that rows are clipped to, in units of the normalised features; public, "
            "so known before anybody looks at the data",
            "required",
            "A norm that was taken from the data would tell about them.",
        ),
        Key(
            "label_weight",
            _fact,
            "a: how much of the noise's budget label sums get; their noise is sigma / a",
            "1.0",
            "Sums of labels are released beside the Gram matrix, as a times themselves.",
        ),
        Key(
            "intercept",
            below_one,
            "the share of a row's squared norm that a constant has; 0: no intercept",
            "0.2",
            "Nothing would be left for the features.",
        ),
        word(
            "noise",
            ("gaussian", "laplace"),
            "gaussian, in shares of the silos; or laplace, of which every silo adds all, for a "
            "pure epsilon",
            "gaussian",
        ),
        Key(
            "rows_per_user",
            validate.count,
            'unit = "user": most rows of one user, in all silos together; they are divided evenly '
            "among the silos, so there are as many rows as silos, or more",
            "1",
            "The more rows a user has in the sum, the farther it moves it.",
        ),
        Key(
            "silo_rows",
            validate.count,
            'unit = "silo": most rows of one silo',
            'required for unit = "silo"',
            "A silo moves the sum by all of its rows.",
        ),
        Key(
            "most_rows",
            validate.count,
            "about how many rows there are at most in all silos; public. The grid is chosen for so "
            "many; with more, numbers may wrap around, which costs accuracy and no privacy",
            'users x rows_per_user, silos x silo_rows; 1,000,000 for unit = "record"',
            "The sum of so many rows must fit into 64 bits.",
        ),
        Key(
            "by_class",
            flag,
            "a Gram matrix for each class, so that classes can be weighted afterwards",
            "false",
        ),
        Key(
            "bits",
            _grid_bits,
            "bits of the grid on which rows stand, 8 to 20; 0: as many as fit",
            "0",
            "A row of norm R is 2^bits steps long.",
        ),
        word(
            "fit",
            ("ridge", "logistic", "none"),
            "what is fitted to the release, and measured on public test data; it costs nothing",
            "ridge",
        ),
        Key(
            "ridge",
            validate.positive,
            "how much is added to the diagonal for a fit, in multiples of the noise's spectral "
            "norm, sigma sqrt(2 d)",
            "chosen from released values",
            "Noise makes some directions look as if they had data; a ridge keeps them small.",
        ),
        Key(
            "components",
            at_least(0),
            "principal components of the released Gram matrix that a fit uses; 0: all",
            "0",
            "It is a number of directions.",
        ),
    ),
)
