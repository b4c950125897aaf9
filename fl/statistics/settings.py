"""The table `[statistics]`: what is released of rows and labels, and what is fitted to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from ...accountant import validate
from ...accountant.errors import InvalidInput, with_article
from ..declarations.dataset_defaults import dataset_defaults
from ..declarations.declaration import Complaint, Rule, Table
from ..declarations.given_settings import GivenSettings
from ..declarations.toml_key import at_least, below_one, key

MIN_BITS, MAX_BITS = 8, 20
"""Bits of the grid, as `NoisyGram` has them, which loads numpy."""

MAX_FACT: Final = 1e30
"""Largest public fact of a Gram matrix, and one over the smallest: an audit counts on no other."""


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


def public_fact(**field: object) -> float:
    """Return a number from 1e-30 to 1e30, which an audit of the log can count on."""
    ((name, _),) = field.items()
    value = validate.positive(**field)
    if not 1.0 / MAX_FACT <= value <= MAX_FACT:
        raise InvalidInput(
            f"`{name}` must be from {1.0 / MAX_FACT:g} to {MAX_FACT:g}; it is {value:g}.",
            "Near the ends of the floats sensitivities cannot be computed.",
            "Give a number such as 1.0; data may be in other units.",
        )
    return value


def row_norm_key(units: str) -> Any:
    """Return the key of the norm that rows are clipped to, in these units."""
    return key(
        f"R, the L2 norm that rows are clipped to, in units of {units}; public, so known before "
        "anybody looks at the data",
        public_fact,
        why="A norm that was taken from the data would tell about them.",
    )


def most_rows_key(shown: str) -> Any:
    """Return the key of the most rows in all silos; `shown` is what is said of its default."""
    return key(
        "about how many rows there are at most in all silos; public. The grid is chosen for so "
        "many; with more, numbers may wrap around, which costs accuracy and no privacy",
        validate.count,
        default=None,
        shown=shown,
        why="The sum of so many rows must fit into 64 bits.",
    )


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings:
    """What is released of rows and labels, of any system that releases them; all of it public."""

    row_norm: float = row_norm_key("the normalised features")
    label_weight: float = key(
        "a: how much of the noise's budget label sums get; their noise is sigma / a",
        public_fact,
        default=1.0,
        why="Sums of labels are released with the Gram matrix, as a times themselves.",
    )
    intercept: float = key(
        "the share of a row's squared norm that a constant has; 0: no intercept",
        below_one,
        default=0.2,
        why="Nothing would be left for the features.",
    )
    noise: Literal["gaussian", "laplace"] = key(
        "gaussian, in shares of the silos; or laplace, of which every silo adds all, for a pure "
        "epsilon",
        default="gaussian",
    )
    rows_per_user: int = key(
        'unit = "user": most rows of one user, in all silos together; they are divided evenly '
        "among the silos, so there are as many rows as silos, or more",
        validate.count,
        default=1,
        why="The more rows a user has in the sum, the farther it moves it.",
    )
    silo_rows: int | None = key(
        'unit = "silo": most rows of one silo',
        validate.count,
        default=None,
        shown='required for unit = "silo"',
        why="A silo moves the sum by all of its rows.",
    )
    most_rows: int | None = most_rows_key(
        'users x rows_per_user, silos x silo_rows; 1,000,000 for unit = "record"'
    )
    by_class: bool = key(
        "a Gram matrix for each class, so that classes can be weighted afterwards", default=False
    )
    bits: int = key(
        "bits of the grid on which rows stand, 8 to 20; 0: as many as fit",
        _grid_bits,
        default=0,
        why="A row of norm R is 2^bits steps long.",
    )
    ridge: float | None = key(
        "how much is added to the diagonal for a fit, in multiples of the noise's spectral norm, "
        "sigma sqrt(2 d)",
        validate.positive,
        default=None,
        shown="chosen from released values",
        why="Noise makes some directions look as if they had data; a ridge keeps them small.",
    )
    components: int = key(
        "principal components of the released Gram matrix that a fit uses; 0: all",
        at_least(0),
        default=0,
        why="It is a number of directions.",
    )


@dataclass(frozen=True, kw_only=True)
class StatisticsSettings(ReleaseSettings):
    """`[statistics]`: what is released, and how it is fitted."""

    fit: Literal["ridge", "logistic", "none"] = key(
        "what is fitted to the release, and measured on public test data; it costs nothing",
        default="ridge",
    )


TABLE: Final = Table(
    name="statistics",
    about="what is released of rows and labels, and what is fitted to it",
    settings=StatisticsSettings,
)


_SURVIVAL_MODEL: Final = "cox"
"""How data sets of survival times are usually trained on."""

_UNIT_OF_KEY: Final = {"rows_per_user": "user", "silo_rows": "silo"}
"""Keys that only one unit has a use for."""


MOVED_BY_SILO: Final = (
    "A silo moves the sum by all of its rows, so there must be a public cap on them."
)

RELATIONS: Final = ("add-remove", "replace-one")
"""A record of zeros still has an intercept and a label, so it is no absent record."""


def single_round(given: GivenSettings) -> Complaint | None:
    """Refuse more rounds than one of a single release."""
    return rounds_complaint(given.system.name, given.run.rounds)


def rounds_complaint(system: str, rounds: int, otherwise: str = "") -> Complaint | None:
    """Refuse more rounds than one of a single release; `otherwise` is what else may be done."""
    if rounds == 1:
        return None
    return (
        f"has rounds = {rounds:,} in [run], and {system} makes one release",
        "One release with all of the budget has less noise than several that share it.",
        f"Write rounds = 1, or leave it out{otherwise}.",
    )


_CLASSES_OF_TABLES: Final = ("binary", "classes")


def of_classes(given: GivenSettings) -> Complaint | None:
    """Refuse labels that are no classes, and a table without any."""
    if given.of_table:
        return _classes_of_table(given)
    if dataset_defaults(given.dataset).model != _SURVIVAL_MODEL:
        return None
    return (
        f'names "{given.dataset}" in [data], whose labels are times of survival',
        "Sums of rows by label are made for classes; a time is none, and has no public range.",
        "Choose a data set with classes, or uldp-avg for this one.",
    )


def _classes_of_table(given: GivenSettings) -> Complaint | None:
    if not given.states("data", "label"):
        return (
            f'names "{given.dataset}" in [data], and lacks `label` there',
            f"{given.system.name} sums rows by their classes.",
            'Write label = "outcome" under [data], and its kind under [label] of the schema; of a '
            "matrix without a label fedpower finds the directions.",
        )
    if given.label_kind in _CLASSES_OF_TABLES:
        return None
    return (
        f'has kind = "{given.label_kind}" in [label] of its schema, and {given.system.name} sums '
        "rows by classes",
        "Sums of rows by label are made for classes.",
        'Write kind = "binary" or "classes" there, or choose another system.',
    )


def capped_units(given: GivenSettings) -> Complaint | None:
    """Refuse a unit without the cap on its rows that it needs, and a cap of another unit."""
    for name, needed in _UNIT_OF_KEY.items():
        idle = bound_complaint(given, name, needed, "the rows of ")
        if idle is not None:
            return idle
    if given.privacy.unit == "silo" and given.of(ReleaseSettings).silo_rows is None:
        return (
            f'lacks `silo_rows` in [{given.table_name}] for unit = "silo" in [privacy]',
            MOVED_BY_SILO,
            "Write silo_rows = 100, for example: a number that is not taken from the data.",
        )
    return None


def bound_complaint(
    given: GivenSettings, name: str, needed: str, of_what: str = ""
) -> Complaint | None:
    """Refuse a key that bounds one unit, where another is protected."""
    unit = str(given.privacy.unit)
    if unit == needed or not given.states(given.table_name, name):
        return None
    return (
        f'gives `{name}` in [{given.table_name}] for unit = "{unit}" in [privacy]',
        f"It bounds {of_what}{with_article(needed)}, and has no effect on what "
        f"{with_article(unit)} adds.",
        f'Leave it out, or write unit = "{needed}" under [privacy].',
    )


def _no_fit(given: GivenSettings) -> Complaint | None:
    if given.of(StatisticsSettings).fit != "none":
        return None
    for name in ("ridge", "components"):
        if given.states(TABLE.name, name):
            return (
                f'gives `{name}` with fit = "none" in [statistics]',
                "Nothing is fitted, so it has no effect.",
                "Leave one of them out.",
            )
    return None


RULES: Final[tuple[Rule, ...]] = (single_round, of_classes, capped_units, _no_fit)
"""In the order in which they are asked."""


ROWS: Final = "rows"
CLIPPED: Final = "clipped"
DROPPED: Final = "dropped"
BEYOND: Final = "rows_beyond"
"""By silo, the rows that are there, those longer than the row norm, and those beyond the cap of
their unit; and how many more rows than `most_rows` all silos have."""
