"""The public terms of a release of statistics, and the noise that follows from them.

What each observer sees of one release, and with how much of the noise, is in `views`.  The noise is
as wide as the observer whom it is sized for needs.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.calibrate import calibrate
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import NoisyGram, grid_bits
from ...accountant.mechanisms.gram_grid import MIN_BITS
from ...accountant.neighbours import as_neighbours
from ...accountant.sensitivity.gram import MAX_CLASSES, GramBound
from ...accountant.sensitivity.release import (
    require_public,
    sensitivity_multiplier,
    up,
)
from ..aggregation.unweighted_views import unweighted_views
from ..observers.names import MODEL, PEER, SERVER, SILO
from .statistics import Label, ReleasedStatistics

Aggregation: TypeAlias = Literal["plain", "masked", "shares", "local"]

AGGREGATIONS: Final = ("plain", "masked", "shares", "local")

MOST_ROWS: Final = 2**24
"""The public cap on all rows where none is given; it chooses the grid, and drops nothing."""

LEAST_NORM, MOST_NORM = 1e-100, 1e100
"""Between these a row norm, and the squares of what is divided by it, are floats."""

LEAST_SHARE: Final = 1e-6
"""The least share of an intercept, and of the features with it, that the grid has steps for."""

DELTA: Final = 1e-5
"""The delta of Gaussian noise where none is given."""


@dataclass(frozen=True, kw_only=True)
class PublicTerms:
    """What is public of a release before there are data; see `PrivateStatistics`.

    `labels` are the names of the classes, `classes` of the bound.  Everything is checked when it is
    made.
    """

    row_norm: float
    epsilon: float
    delta: float
    neighbours: str
    noise: Literal["gaussian", "laplace"]
    labels: tuple[Label, ...]
    label_range: tuple[float, float] | None
    rows_per_user: int | None
    silo_rows: int | None
    intercept: float
    label_weight: float
    most_rows: int
    by_class: bool
    silos: int
    observer: str
    bound_source: str

    def __post_init__(self) -> None:
        require_public(self.bound_source, what="A row norm, a cap or a label range")
        for name in ("row_norm", "epsilon", "label_weight"):
            object.__setattr__(self, name, validate.positive(**{name: getattr(self, name)}))
        if not LEAST_NORM <= self.row_norm <= MOST_NORM:
            raise InvalidInput(
                f"`row_norm` must be from {LEAST_NORM:g} to {MOST_NORM:g}.",
                "Squares of numbers beyond these are none that a fit could be computed with.",
                "Give rows, and their norm, in other units.",
            )
        relation = as_neighbours(self.neighbours)
        if relation == "zero-out":
            raise InvalidInput(
                "Statistics are not released under zero-out.",
                "A row of zeros still has an intercept and a label.",
                "Give neighbours = 'add-remove' or 'replace-one'.",
            )
        validate.choice(("gaussian", "laplace"), noise=self.noise)
        validate.count(most_rows=self.most_rows)
        validate.count(silos=self.silos)
        validate.choice((MODEL, SERVER, SILO, PEER), observer=self.observer)
        share = validate.non_negative(intercept=self.intercept)
        if share and not LEAST_SHARE <= share <= 1 - LEAST_SHARE:
            raise InvalidInput(
                f"`intercept` must be 0, or from {LEAST_SHARE:g} to 1 - {LEAST_SHARE:g}.",
                "It is the share of a row's squared norm that a constant has.",
                "Give a share such as 0.2, or 0 for none.",
            )
        if self.noise == "gaussian" or self.delta:
            validate.open_probability(delta=self.delta)
        self._check_labels()
        self._check_units()

    @property
    def classes(self) -> int:
        """How many label sums there are: c, 1 for numbers, 0 without labels."""
        return len(self.labels) if self.labels else int(self.label_range is not None)

    @property
    def unit(self) -> Literal["record", "user", "silo"]:
        """Whose data is protected."""
        if self.rows_per_user is not None:
            return "user"
        return "record" if self.silo_rows is None else "silo"

    def bound(self, dimension: int) -> GramBound:
        """Return what bounds one unit, of rows with so many features."""
        rows = self.rows_per_user or self.silo_rows or 1
        return GramBound(
            dimension=dimension + (self.intercept > 0),
            classes=self.classes,
            label_weight=self.label_weight,
            rows=rows,
            # A user's rows are clipped to 1 / sqrt(k) each, a silo's to 1.
            trace=float(rows) if self.unit == "silo" else 1.0,
            by_class=self.by_class,
            bound_source=self.bound_source,
        )

    def kept_rows(self, silo: int) -> int | None:
        """Return how many rows of one unit a silo keeps at most; None for all."""
        if self.unit == "user":
            assert self.rows_per_user is not None
            each, more = divmod(self.rows_per_user, self.silos)
            return each + (silo < more)
        return self.silo_rows

    def _check_labels(self) -> None:
        if self.labels and self.label_range is not None:
            raise InvalidInput(
                "Labels are classes or numbers, not both.",
                next_step="Give `classes` or a `label_range`.",
            )
        if self.by_class and len(self.labels) < 2:
            raise InvalidInput(
                "A Gram matrix for each class needs two classes or more.",
                next_step="Give `classes`, or leave `by_class` out.",
            )

    def _check_units(self) -> None:
        if self.rows_per_user is not None and self.silo_rows is not None:
            raise InvalidInput(
                "A release protects one unit: users, or silos.",
                next_step="Give `rows_per_user` or `silo_rows`, or none of them for records.",
            )
        if self.silo_rows is not None:
            validate.count(silo_rows=self.silo_rows)
        if (
            self.rows_per_user is not None
            and validate.count(rows_per_user=self.rows_per_user) < self.silos
        ):
            raise InvalidInput(
                f"`rows_per_user` must be at least the number of silos, {self.silos}.",
                "It is divided among the silos, and no silo knows of a user's rows elsewhere.",
                "Give a higher `rows_per_user`, or fewer silos.",
            )


@dataclass(frozen=True)
class SizedRelease:
    """A mechanism whose noise meets the terms, and what each observer sees of it."""

    mechanism: NoisyGram
    views: dict[str, ev.Event]
    observer: str


def sized(terms: PublicTerms, features: int, aggregation: str) -> SizedRelease:
    """Return the mechanism for rows with so many features, its noise as small as is proven.

    `local` is plain with an observer `server`.  Raises `InvalidInput` where the observer sees
    nothing to be sized for, or sums do not fit on a grid; `TargetUnreachable` as `calibrate`.
    """
    validate.choice(AGGREGATIONS, aggregation=aggregation)
    observer = SERVER if aggregation == "local" else terms.observer
    at_one = _views(terms, aggregation, 1.0).get(observer)
    if not isinstance(at_one, ev.Gaussian | ev.Laplace):
        raise InvalidInput(
            f"Under aggregation {aggregation!r}, with {terms.silos} silos, {observer!r} is nobody "
            "whom noise can be sized for.",
            "Either it is not there, or it sees what no other silo's noise covers.",
            f"Give another `observer`, such as {MODEL!r}.",
        )
    # Multipliers of all observers are proportional.
    wanted = up(Fraction(_multiplier(terms)) / Fraction(at_one.noise_multiplier))
    mechanism = _on_grid(terms, terms.bound(features), wanted)
    whole = mechanism.event(terms.neighbours)
    assert isinstance(whole, ev.Gaussian | ev.Laplace)
    views = _views(terms, aggregation, whole.noise_multiplier)
    return SizedRelease(mechanism, views, observer)


def blank(terms: PublicTerms, features: int) -> ReleasedStatistics:
    """Return zeros of the shape of a release, to check the settings of a fit before it is paid."""
    bound = terms.bound(features)
    matrices = (bound.classes,) if bound.by_class else ()
    return ReleasedStatistics(
        gram=np.zeros((*matrices, bound.dimension, bound.dimension)),
        labels=np.zeros((bound.dimension, bound.classes)),
        bound=bound,
        std=1.0,
        row_norm=terms.row_norm,
        event=ev.NoGuarantee("nothing was released"),
        delta=terms.delta,
        bits=MIN_BITS,
        intercept=terms.intercept,
        classes=terms.labels,
        label_range=terms.label_range,
    )


def _views(terms: PublicTerms, aggregation: str, multiplier: float) -> dict[str, ev.Event]:
    """Return the event of a release for each observer who is promised something."""
    views = unweighted_views(
        multiplier,
        family=terms.noise,
        unit=terms.unit,
        silos=terms.silos,
        aggregation="plain" if aggregation == "local" else aggregation,
    )
    return {who: event for who, event in views.items() if not isinstance(event, ev.NoGuarantee)}


def _multiplier(terms: PublicTerms) -> float:
    """Return the least noise multiplier of one release that meets (epsilon, delta)."""
    if not terms.delta:
        moved = sensitivity_multiplier(as_neighbours(terms.neighbours))
        return up(moved / Fraction(terms.epsilon))
    make = ev.Gaussian if terms.noise == "gaussian" else ev.Laplace
    return calibrate(
        make, epsilon=terms.epsilon, delta=terms.delta, neighbours=terms.neighbours
    ).value


def _on_grid(terms: PublicTerms, bound: GramBound, multiplier: float) -> NoisyGram:
    """Return the mechanism on the finest grid on which the sums and their noise fit."""
    moved = bound.l1(terms.neighbours) if terms.noise == "laplace" else bound.l2(terms.neighbours)
    times = sensitivity_multiplier(as_neighbours(terms.neighbours))
    # Sums among peers have room for a power of two of them; the grid's own share is below 1 %.
    bits = grid_bits(
        bound,
        most_rows=terms.most_rows,
        std=multiplier * moved / times * 1.01,
        shares=2 ** (terms.silos - 1).bit_length(),
    )
    return NoisyGram.with_multiplier(
        multiplier,
        gram=bound,
        bits=bits,
        relation=terms.neighbours,
        family=terms.noise,
        shares=terms.silos,
        unit=terms.unit,
        row_norm=terms.row_norm,
    )


def labels_of(classes: int | Sequence[Label] | None) -> tuple[Label, ...]:
    """Return the names of classes: 0 to c - 1 for a number c, or those that are listed.

    Raises `InvalidInput` for fewer than 2 or more than 1,024 classes, and for names given twice.
    """
    if classes is None:
        return ()
    given: object = classes.tolist() if hasattr(classes, "tolist") else classes
    if isinstance(given, int) and not isinstance(given, bool):
        given = range(min(given, MAX_CLASSES + 1))  # one too many is refused like any more
    names = tuple(given) if isinstance(given, (list, tuple, range)) else ()
    if not all(map(_is_label, names)) or not 2 <= len(names) <= MAX_CLASSES:
        raise _not_classes()
    # An array of labels has either; whether both occur in the data would decide what is refused.
    texts = sum(isinstance(name, str) for name in names)
    if texts not in (0, len(names)) or len(set(names)) < len(names):
        raise _not_classes()
    return names


def _is_label(name: object) -> bool:
    if isinstance(name, float):
        return math.isfinite(name)
    if isinstance(name, int):
        return abs(name) < 2**63
    return isinstance(name, str)


def _not_classes() -> InvalidInput:
    return InvalidInput(
        f"`classes` must be 2 to {MAX_CLASSES:,} different texts or finite numbers, or how many "
        "there are.",
        "They are public: which labels occur in the data is never looked at.",
        "Give all classes that there can be.",
    )


def range_of(label_range: Sequence[float] | None) -> tuple[float, float] | None:
    """Return a label range (low, high), low < high, both finite; raises `InvalidInput`."""
    if label_range is None:
        return None
    try:
        if not all(isinstance(end, numbers.Real) for end in label_range):
            raise TypeError
        low, high = (float(end) for end in label_range)
    except (TypeError, ValueError, OverflowError):
        low, high = math.nan, math.nan
    if not (low < high and math.isfinite(high - low)):
        raise InvalidInput(
            "`label_range` must be two finite numbers (low, high), low < high, with a finite span.",
            "Numbers are scaled from it to [-1, 1]; it is public, and never taken from the data.",
            "Give the least and the largest number that a label can be.",
        )
    return low, high


def delta_of(delta: float | None, noise: str) -> float:
    """Return the delta of a release: 1e-5 for Gaussian noise, 0 for Laplace, if none is given."""
    if delta is None:
        return 0.0 if noise == "laplace" else DELTA
    return validate.probability(delta=delta)
