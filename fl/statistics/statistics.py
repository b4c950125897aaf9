"""Released statistics: the noisy Gram matrix and label sums, and public facts about them.

A row x in raw units stands in them as

    z  =  rho (sqrt(1 - v) clip_R(x) / R, sqrt(v)),        rho = sqrt(T / k)

with the public row norm R and the share v of the intercept (no last column where v is 0).  Released
are G = sum z z^T, one for each class where asked for, and S = sum z y^T, with noise.  Everything in
this room that starts from here is post-processing: it costs nothing more, whatever it does.
"""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.guarantee import Guarantee
from ...accountant.neighbours import as_neighbours
from ...accountant.sensitivity.gram import GramBound
from ..files import atomic, stored_arrays
from .guarantees import guarantee_of, supported

if TYPE_CHECKING:
    from ...accountant.mechanisms.gram_noise import NoisyGram

FORMAT: Final = "privplan-statistics/1"

SEEDED: Final = "The noise was drawn from a seed: whoever knows the seed knows the noise."
"""What a guarantee says with it where noise can be repeated."""

MAX_FILE_BYTES: Final = 2**33
"""Most bytes that are read as statistics."""

Label: TypeAlias = bool | int | float | str


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReleasedStatistics:
    """What was released, and the public facts without which it cannot be read.

    - `gram`: (d, d), or (c, d, d) with one matrix for each class (`bound.by_class`).
    - `labels`: (d, c) sums of z y^T; c is 1 for numbers, 0 without labels.
    - `bound`: what one unit can add, as `sensitivity.gram` has it.
    - `family`, `std`: noise of the whole sum, by its deviation on the diagonal, or Laplace's
      scale; with Laplace noise each of `shares` silos has added all of it.
    - `row_norm` R, `intercept` v in [0, 1), `bits` of the grid.
    - `classes`: the c labels in their order; `label_range`: the numbers that stand as -1 and 1.
    - `event`: what `observer` saw, for one `unit` under `neighbours`; `delta`: where it is read.
    - `seeded`: whether the noise can be repeated, and so protects nobody.

    Raises `InvalidInput` for arrays that do not fit together, or are not finite.
    """

    gram: FloatArray
    labels: FloatArray
    bound: GramBound
    std: float
    row_norm: float
    event: ev.Event
    delta: float
    bits: int
    intercept: float = 0.0
    family: Literal["gaussian", "laplace"] = "gaussian"
    shares: int = 1
    classes: tuple[Label, ...] = ()
    label_range: tuple[float, float] | None = None
    unit: str = "record"
    neighbours: str = "add-remove"
    observer: str = "model"
    seeded: bool = False

    def __post_init__(self) -> None:
        dimension, classes = self.bound.dimension, self.bound.classes
        shape = (classes, dimension, dimension) if self.bound.by_class else (dimension, dimension)
        arrays = {"gram": (self.gram, shape), "labels": (self.labels, (dimension, classes))}
        for name, (array, expected) in arrays.items():
            if array.shape != expected or array.dtype != np.float64 or not np.isfinite(array).all():
                raise InvalidInput(
                    f"`{name}` must be finite floats of shape {expected}.",
                    "The bound says how many numbers were released.",
                    "Give what was released, with the bound that it was released under.",
                )
            frozen = array.view()
            frozen.flags.writeable = False
            object.__setattr__(self, name, frozen)
        as_neighbours(self.neighbours)

    @classmethod
    def of_vector(
        cls,
        values: FloatArray,
        mechanism: NoisyGram,
        *,
        event: ev.Event,
        delta: float,
        neighbours: str,
        intercept: float = 0.0,
        classes: tuple[Label, ...] = (),
        label_range: tuple[float, float] | None = None,
        observer: str = "model",
        seeded: bool = False,
    ) -> ReleasedStatistics:
        """Return the statistics in a released vector (values,), as `NoisyGram.units` lays it out.

        The upper triangle of each matrix row by row, then S (d, c) row by row.  Classes without
        labels of their own are 0 to c - 1.  Raises `InvalidInput` for a vector of another length.
        """
        bound = mechanism.gram
        if values.shape != (bound.values,):
            raise InvalidInput(
                f"A release of this shape has {bound.values:,} numbers.",
                "The upper triangles of the matrices come first, then the label sums.",
                "Give the released vector as it is.",
            )
        start, d = mechanism.label_start, bound.dimension
        matrices = bound.classes if bound.by_class else 1
        upper = np.triu_indices(d)
        gram = np.zeros((matrices, d, d))
        gram[:, *upper] = values[:start].reshape(matrices, -1)
        gram[:, upper[1], upper[0]] = gram[:, *upper]
        names = classes or (tuple(range(bound.classes)) if bound.classes > 1 else ())
        return cls(
            gram=gram if bound.by_class else gram[0],
            labels=np.array(values[start:], np.float64).reshape(d, bound.classes),
            bound=bound,
            std=mechanism.std,
            row_norm=mechanism.row_norm,
            event=event,
            delta=delta,
            bits=mechanism.bits,
            intercept=intercept,
            family=mechanism.family,
            shares=mechanism.shares,
            classes=names,
            label_range=(-1.0, 1.0) if bound.classes == 1 and label_range is None else label_range,
            unit=mechanism.unit,
            neighbours=neighbours,
            observer=observer,
            seeded=seeded,
        )

    @property
    def features(self) -> int:
        """How many columns a row has, without the intercept."""
        return self.bound.dimension - (self.intercept > 0)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is proven of the release: of its event, for its unit, before its observer."""
        proven = guarantee_of(self.event, self.delta, self.neighbours, self.unit, self.observer)
        return replace(proven, warnings=(*proven.warnings, SEEDED)) if self.seeded else proven

    @cached_property
    def total(self) -> FloatArray:
        """The Gram matrix of all rows, (d, d)."""
        return np.asarray(self.gram.sum(axis=0)) if self.bound.by_class else self.gram

    @property
    def matrices(self) -> int:
        """How many Gram matrices, each with noise of its own, `total` is the sum of."""
        return self.bound.classes if self.bound.by_class else 1

    @property
    def noise_deviation(self) -> float:
        """The deviation of the noise on one number of one Gram matrix, above the diagonal.

        Gaussian: std / sqrt(2); Laplace: sqrt(2 n) std for the noise of n silos.
        """
        if self.family == "laplace":
            return self.std * math.sqrt(2.0 * self.shares)
        return self.std / math.sqrt(2.0)

    @property
    def label_deviation(self) -> float:
        """The deviation of the noise on one label sum: std / a, or Laplace's, over a."""
        wide = self.noise_deviation * (1.0 if self.family == "laplace" else math.sqrt(2.0))
        return wide / self.bound.label_weight

    def noise_norm(self, dimension: int | None = None) -> float:
        """Return about the spectral norm of the noise of `total`: 2 sqrt(d) x its deviation.

        For Gaussian noise that is std sqrt(2 d).  `dimension` is that of a projection, if not d.
        """
        d = self.bound.dimension if dimension is None else dimension
        return 2.0 * math.sqrt(d * self.matrices) * self.noise_deviation

    @property
    def constant(self) -> float:
        """The last column of every row, rho sqrt(v); 0 without an intercept."""
        return math.sqrt(float(self.bound.row_square) * self.intercept)

    @property
    def scale(self) -> float:
        """What a feature of a row that is not clipped is multiplied by: rho sqrt(1 - v) / R."""
        return math.sqrt(float(self.bound.row_square) * (1 - self.intercept)) / self.row_norm

    def rows(self, features: Any) -> FloatArray:
        """Return rows (n, p) in raw units as those of the statistics, (n, d).

        Rows that are longer than the row norm are clipped to it, as they were for the release.
        """
        raw = np.asarray(features, np.float64)
        if raw.ndim != 2 or raw.shape[1] != self.features:
            raise InvalidInput(
                f"Rows must be a table of {self.features} columns.",
                "The released matrix has one row and one column for each.",
                "Give the columns that were released, in their order.",
            )
        # Multiples of R, or of the largest entry: their squares are floats whatever the rows are.
        largest = np.maximum(np.abs(raw).max(axis=1, keepdims=True, initial=0.0), self.row_norm)
        rows = raw / largest
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows *= self.scale * self.row_norm / np.maximum(norms, 1.0)
        if not self.intercept:
            return np.asarray(rows)
        return np.hstack([rows, np.full((len(rows), 1), self.constant)])

    def sums(self, matrix: FloatArray | None = None) -> FloatArray:
        """Return the sum of z over all rows, (d,), which stands in the intercept's column.

        Of `matrix` (d, d), if one is given.  Raises `Unsupported` without an intercept.
        """
        if not self.intercept:
            raise Unsupported(
                "Without an intercept the sum of the rows was not released.",
                "It stands in the column of the constant.",
                "Release with an `intercept`, such as 0.2.",
            )
        gram = self.total if matrix is None else matrix
        return np.asarray(gram[:, -1] / self.constant)

    @property
    def count(self) -> float:
        """The number of rows as released, with its noise, which may make it negative."""
        return float(self.sums()[-1] / self.constant)

    def numbers(self, scores: FloatArray) -> FloatArray:
        """Return scores of numbers, in which the label range is [-1, 1], in their raw units."""
        low, high = self.label_range or (-1.0, 1.0)
        return np.asarray((low + high) / 2 + scores * ((high - low) / 2))

    def save(self, path: str | Path) -> None:
        """Write an .npz file, whole or not at all; raises `OSError`."""
        about = {
            "format": FORMAT,
            "bound": {name.name: getattr(self.bound, name.name) for name in fields(GramBound)},
            "event": self.event.to_json(),
            "classes": [_plain(label) for label in self.classes],
            "label_range": None if self.label_range is None else list(self.label_range),
            **{name: getattr(self, name) for name in _PLAIN},
        }
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        content = io.BytesIO()
        np.savez(content, gram=self.gram, labels=self.labels, about=text)
        atomic.write(Path(path), content.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> ReleasedStatistics:
        """Return what `save` has written; raises `InvalidInput` for what contradicts itself.

        A file is not signed: its facts are as good as whoever wrote it.  An event is refused that
        the stated noise does not support.
        """
        file = Path(path)
        try:
            arrays = stored_arrays.read(file, MAX_FILE_BYTES)
            gram, labels, text = arrays["gram"], arrays["labels"], arrays["about"]
            about = parsed_json(text.tobytes())
            if about["format"] != FORMAT:
                raise ValueError
            span = about["label_range"]
            released = cls(
                gram=gram,
                labels=labels,
                bound=GramBound(**about["bound"]),
                event=ev.from_json(about["event"]),
                classes=tuple(about["classes"]),
                label_range=None if span is None else (float(span[0]), float(span[1])),
                **{name: about[name] for name in _PLAIN},
            )
            require_consistent(released)
            return released
        except OSError as error:
            raise InvalidInput(f"{file.name} cannot be read: {error.strerror}.") from None
        # Whatever a stranger's file makes the readers of arrays and JSON raise.
        except Exception:
            raise InvalidInput(
                f"{file.name} holds no released statistics, or it was altered.",
                "They are read only as `save` has written them.",
                "Restore the file, or read the run that it came from.",
            ) from None

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.gram.shape)
        return (
            f"ReleasedStatistics(gram {shape}, labels {self.labels.shape[1]}, "
            f"{self.family} noise {self.std:.4g}, {self.unit}, {self.neighbours})"
        )


def require_consistent(released: ReleasedStatistics) -> None:
    """Raise `InvalidInput` where the facts with the arrays are out of range, or disagree."""
    classes, span = released.classes, released.label_range
    named = released.bound.classes if released.bound.classes > 1 else 0
    validate.positive(std=released.std)
    validate.positive(row_norm=released.row_norm)
    validate.count(bits=released.bits)
    validate.count(shares=released.shares)
    validate.choice(("gaussian", "laplace"), family=released.family)
    validate.choice(("record", "user", "silo"), unit=released.unit)
    validate.choice(("model", "server", "silo", "peer"), observer=released.observer)
    holds = (
        validate.non_negative(intercept=released.intercept) < 1.0
        and 0.0 <= validate.probability(delta=released.delta) < 1.0
        and isinstance(released.seeded, bool)
        and len(set(classes)) == len(classes) == named
        and all(isinstance(label, (bool, int, float, str)) for label in classes)
        and (span is None or (span[0] < span[1] and math.isfinite(span[1] - span[0])))
        and bool((released.gram == np.swapaxes(released.gram, -1, -2)).all())
        and supported(released.event, released.std, released.bound, released.neighbours)
    )
    if not holds:
        raise InvalidInput("Released statistics contradict themselves.")


_PLAIN: Final = (
    "std",
    "row_norm",
    "delta",
    "bits",
    "intercept",
    "family",
    "shares",
    "unit",
    "neighbours",
    "observer",
    "seeded",
)
"""Fields that JSON has as they are."""


def _plain(label: Label) -> Label:
    """Return a label as a value of Python, which JSON can hold."""
    return label.item() if isinstance(label, np.generic) else label
