"""What a model says of records: phi of the label, from whatever somebody's library trained.

    phi = log p_y - log(1 - p_y)

A model has `predict_proba`, as those of scikit-learn, or is a network of torch, whose outputs are
logits, or is a function of (features, labels) that returns one score a record, the higher the
surer.  Of several queries of one record, itself and what augmentations make of it, the mean counts:
where queries are alike it is all that they say of a common shift.

Source: Carlini et al. 2022, arXiv 2112.03570, sections V and VI (phi, and queries by augmentation).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput, kind_of
from .score_tables import LEAST_LOSS, as_phi

Query: TypeAlias = Callable[[Any], Any]
"""From features to other features of the same records, the same ones whenever it is called."""

SUMS_TO_ONE_WITHIN: Final = 1e-3


@dataclass(frozen=True, eq=False)
class AuditedRecords:
    """Records whose membership is asked about: features as the model takes them, and labels (n,).

    `queries` make other features of the same records.  Raises `InvalidInput` where numbers of
    features and labels differ, or there is none.
    """

    features: Any
    labels: Any
    queries: tuple[Query, ...] = ()

    def __post_init__(self) -> None:
        try:
            rows = self.features.shape[0] if hasattr(self.features, "shape") else None
            rows = len(self.features) if rows is None else int(rows)
            labels = np.asarray(self.labels)
        except (TypeError, IndexError):
            rows, labels = -1, np.empty(0)
        if labels.ndim != 1 or rows != len(labels) or not rows:
            raise InvalidInput(
                "`data` must be features and labels of the same records, at least one.",
                f"There are {max(rows, 0):,} rows of features and labels of shape {labels.shape}.",
                "Give (features, labels), labels of shape (records,).",
            )

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(np.asarray(self.labels))

    def phi(self, model: object, name: str) -> FloatArray:
        """Return phi of each record under a model, the mean over queries: (n,).

        Raises `InvalidInput`, which names the model by `name`, for scores of another shape, that
        are no finite numbers, or that are all equal.
        """
        tables = [self.features, *(query(self.features) for query in self.queries)]
        labels = np.asarray(self.labels)
        each = [_phi(model, features, labels, name) for features in tables]
        mean = np.mean(each, axis=0)
        if not np.isfinite(mean).all():
            raise InvalidInput(
                f"The scores of {name} hold NaN or infinite values.",
                "The model diverged, or its score is undefined; it ranks nobody.",
                "Mend the training: a lower rate, or scaled features.",
            )
        return np.asarray(mean)

    def digest(self) -> str:
        """Return a digest of labels and features, in hex.  It is private.

        Features that are neither numbers, texts nor a sparse matrix stand in it as they are
        printed, but for objects whose print is their place in memory.
        """
        seen = hashlib.sha256(repr(np.asarray(self.labels).tolist()).encode())
        for part in _parts_of(self.features):
            if part.dtype.kind in "biufUS":
                seen.update(f"{part.dtype.str}{part.shape}".encode())
                seen.update(np.ascontiguousarray(part).tobytes())
            else:
                printed = repr(part.tolist())
                seen.update(b"" if " at 0x" in printed else printed.encode())
        return seen.hexdigest()


def _parts_of(features: Any) -> tuple[NDArray[Any], ...]:
    """Return the arrays that hold the features: of a sparse matrix its values and their places."""
    if hasattr(features, "tocsr"):
        rows = features.tocsr()
        return np.asarray(rows.shape), rows.data, rows.indices, rows.indptr
    try:
        return (np.asarray(features),)
    except (TypeError, ValueError, RuntimeError):  # rows of unequal length, a device's memory
        whole = np.empty(1, dtype=object)
        whole[0] = features
        return (whole,)


def refuse_shared_records(records: AuditedRecords, population: AuditedRecords) -> None:
    """Raise `InvalidInput` where a record of the population is one of those that coins are about.

    Features that are no arrays of numbers are not compared.
    """
    rows = [_rows(each.features) for each in (records, population)]
    shared = len(rows[0] & rows[1])
    if shared:
        raise InvalidInput(
            f"`population` holds {shared:,} records of `data`, feature by feature.",
            "It stands for records that no model is trained on.",
            "Take records that are not in `data`.",
        )


def _rows(features: Any) -> set[bytes]:
    try:
        table = np.asarray(features)
    except (TypeError, ValueError, RuntimeError):
        return set()
    if table.dtype.kind not in "biuf" or table.ndim < 2:
        return set()
    return {row.tobytes() for row in np.ascontiguousarray(table, np.float64)}


def refuse_constant(phi: FloatArray, name: str) -> None:
    """Raise `InvalidInput` for a model that says the same of all records."""
    if np.ptp(phi) == 0.0:
        raise InvalidInput(
            f"The scores of {name} are all equal.",
            "They tell nobody from anybody.",
            "Return a model that was trained, and that says how sure it is.",
        )


def _phi(model: object, features: Any, labels: Any, name: str) -> FloatArray:
    predict = getattr(model, "predict_proba", None)
    if callable(predict):
        table = np.asarray(predict(features))
        return _of_probabilities(table, _columns(model, labels, name), len(labels), name)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _of_logits(_outputs(torch, model, features), labels, name)
    if not callable(model):
        raise InvalidInput(
            f"{name} is {kind_of(model)}, which says nothing of records.",
            "It has no `predict_proba`, is no network of torch, and cannot be called.",
            "Give a function of (features, labels) that returns one score a record.",
        )
    scores = np.asarray(model(features, labels))
    if scores.shape != (len(labels),) or scores.dtype.kind not in "fiu":
        raise _shape(name, scores, f"({len(labels)},), a number each")
    return scores.astype(np.float64)


def _columns(model: object, labels: Any, name: str) -> IntArray:
    """Return the column of each record's label, -1 where the model does not know the class."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        if labels.dtype.kind not in "iub" or (len(labels) and labels.min() < 0):
            raise InvalidInput(
                f"The labels of {name} must be integers from 0.",
                "It has no `classes_`, so a label is the number of a column.",
                "Give labels as integers, or a model with `classes_`.",
            )
        return np.asarray(labels).astype(np.int64)
    known = {value: column for column, value in enumerate(np.asarray(classes).tolist())}
    return np.array([known.get(value, -1) for value in labels.tolist()], np.int64)


def _of_probabilities(table: Any, columns: IntArray, count: int, name: str) -> FloatArray:
    if table.ndim != 2 or len(table) != count or table.dtype.kind not in "fiu":
        raise _shape(name, table, f"({count}, classes), numbers")
    if columns.max(initial=0) >= table.shape[1]:
        raise _shape(name, table, f"({count}, classes) with a column for each label")
    table = table.astype(np.float64)
    finite = np.isfinite(table).all()
    if finite and ((table < 0.0).any() or (np.abs(table.sum(1) - 1.0) > SUMS_TO_ONE_WITHIN).any()):
        raise InvalidInput(
            f"The scores of {name} are no probabilities: they must be 0 or above and sum to 1.",
            "`predict_proba` says how likely each class is.",
            "Give a function of (features, labels) for scores of another kind.",
        )
    rows = np.arange(count)
    # A class that the training data did not have has probability 0.
    true = np.where(columns >= 0, table[rows, columns], 0.0)
    others = table.copy()
    others[rows[columns >= 0], columns[columns >= 0]] = 0.0
    # Summed over the other classes: 1 - p would lose the digits of a model that is sure.
    # A probability of 0, as forests give it, is less than any that the model gives; how much less
    # nobody knows, and a far lower floor would drown whatever else scores tell.
    least = table[table > 0.0].min(initial=1.0) if finite else 1.0
    floor = max(0.5 * least, LEAST_LOSS)
    return np.asarray(np.log(np.maximum(true, floor)) - np.log(np.maximum(others.sum(1), floor)))


def _outputs(torch: Any, network: Any, features: Any) -> Any:
    """Return what a network says of features, in double precision, without dropout."""
    first = next(network.parameters(), None)
    given = features if torch.is_tensor(features) else torch.as_tensor(np.asarray(features))
    if first is not None:
        given = given.to(first.device)
        if given.is_floating_point():
            given = given.to(first.dtype)
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad():
            return network(given).double().cpu().numpy()
    finally:
        network.train(was_training)


def _of_logits(outputs: Any, labels: Any, name: str) -> FloatArray:
    count = len(labels)
    if labels.dtype.kind not in "iub":
        raise InvalidInput(
            f"The labels of {name} must be integers from 0.",
            "A label is the number of an output of the network.",
            "Give labels as integers.",
        )
    if outputs.shape in ((count,), (count, 1)):
        # Two classes by one output: the logit, with the sign of the label.
        return np.asarray(np.where(labels == 1, 1.0, -1.0) * outputs.reshape(count))
    if outputs.ndim != 2 or len(outputs) != count:
        raise _shape(name, outputs, f"({count}, classes)")
    if not np.isfinite(outputs).all():
        return np.full(count, np.nan)
    return np.asarray(as_phi(outputs[None], "logits", labels.astype(np.int64))[0])


def _shape(name: str, scores: Any, expected: str) -> InvalidInput:
    return InvalidInput(
        f"The scores of {name} must be of shape {expected}; they are {scores.dtype} of shape "
        f"{scores.shape}.",
        "Each record has a score of its own.",
        "Score the records in their order, all of them.",
    )
