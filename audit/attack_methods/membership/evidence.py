"""The input of membership inference: the confidence of models in the records' labels.

    phi = log p_y - log(1 - p_y)

of every record under every model, shadows and targets, and of a population that no model has
trained on.  All scores of this package are functions of these tables and of who is in which
*shadow*; who is in which target is what they are compared with, and no score sees it.

**Scores of users** are sums over a user's records of the per-record statistic.  A user's records,
in every silo, are in a model together or not at all, so they are one trial: n counts users.  Taken
as trials of their own they would be as many copies of one coin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from ....accountant.arrays import BoolArray, Float32Array, FloatArray, IntArray
from ....accountant.errors import InvalidInput, Unsupported
from ....fl.data.federation import Federation, Labels
from ...shadows.design import Design

if TYPE_CHECKING:
    from ....fl.models import Model


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the attacker has, and the ground truth that no score reads (`design.targets`).

    `unit` and `user` are (records,): whose coin decides on a record, and whose it is.  `shadows`
    (S, records) and `targets` (T, records) hold phi of the pool, `shadows_population` (S, z) and
    `targets_population` (T, z) that of records which no model has trained on.

    Raises `InvalidInput` for shapes that do not fit; for values that are not finite, since a model
    that diverged can be told from any other, and not for its members; and for a target that is one
    of the shadows, of which the attacker knows everything.
    """

    design: Design
    unit: IntArray
    user: IntArray
    shadows: FloatArray
    targets: FloatArray
    shadows_population: FloatArray
    targets_population: FloatArray

    def __post_init__(self) -> None:
        records, several = len(self.unit), self.shadows_population.shape[-1:]
        expected = {
            "user": (records,),
            "shadows": (len(self.design.shadows), records),
            "targets": (len(self.design.targets), records),
            "shadows_population": (len(self.design.shadows), *several),
            "targets_population": (len(self.design.targets), *several),
        }
        for name, shape in expected.items():
            table = getattr(self, name)
            if table.shape != shape:
                raise InvalidInput(f"`{name}` must be of shape {shape}; it is {table.shape}.")
            refuse_nan(name, table)
        if records and self.unit.max() >= self.design.units:
            raise InvalidInput("`unit` names a unit that the design does not have.")
        known = {row.tobytes() for row in self.shadows}
        for index, row in enumerate(self.targets):
            if row.tobytes() in known:
                raise InvalidInput(
                    f"Target {index} is the same model as one of the shadows.",
                    "The attacker knows who is in a shadow, and would find just that.",
                    "Train targets with coins of their own, on enough units that none come twice.",
                )

    @property
    def in_shadow(self) -> BoolArray:
        """Which records are in which shadow: (S, records)."""
        return np.asarray(self.design.shadows[:, self.unit])

    @property
    def in_target(self) -> BoolArray:
        """Which records are in which target: (T, records).  Ground truth, not for scores."""
        return np.asarray(self.design.targets[:, self.unit])


def refuse_nan(name: str, values: FloatArray) -> None:
    """Raise `InvalidInput` for scores that are NaN or infinite."""
    broken = int((~np.isfinite(values)).sum())
    if broken:
        raise InvalidInput(
            f"`{name}` has {broken} values that are NaN or infinite.",
            "A model diverged, or a score is undefined; whatever such a score ranks means nothing.",
            "Lower the learning rate, or leave these models out of the design.",
        )


def log_likelihood(phi: FloatArray) -> FloatArray:
    """Return log p_y = -log(1 + exp(-phi)), in the shape of phi."""
    return np.asarray(-np.logaddexp(0.0, -phi))


def confidence(
    model: Model, parameters: ArrayLike, features: ArrayLike, labels: IntArray
) -> FloatArray:
    """Return phi of each record's true label under a model: (records,).

    Source: Carlini et al. 2022, *Membership Inference Attacks From First Principles*, section V,
    arXiv 2112.03570.  Raises `Unsupported` for a model without a likelihood per record (`cox`).
    """
    require_likelihood(model)
    from scipy.special import logsumexp

    logits = model.logits(parameters, features)
    if logits.shape[1] == 1:
        # Binary: the logit itself, with the sign of the label.
        return np.asarray(np.where(np.asarray(labels) == 1, 1.0, -1.0) * logits[:, 0])
    rows = np.arange(len(logits))
    true_logit = logits[rows, labels].copy()
    # log p_y / (1 - p_y) = z_y - log sum over the other classes of exp z: (records,), finite.
    logits[rows, labels] = -np.inf
    return np.asarray(true_logit - logsumexp(logits, axis=1))


def require_same_features(model: Model, federation: Federation) -> None:
    """Raise `Unsupported` for a model of other features than the records have.

    A system may train on what it first released a projection for (`Declaration.reshapes`).
    """
    features = math.prod(federation.features.shape[1:])
    if model.features != features:
        raise Unsupported(
            f"The model has {model.features:,} features, and the records have {features:,}.",
            "It is trained on components that the run itself releases first, and each replica "
            "would have others.",
            "Attack the same run without its PCA, or take another tier.",
        )


def require_likelihood(model: Model) -> None:
    """Raise `Unsupported` for a model under which a record by itself has no likelihood."""
    if model.numbers:
        raise Unsupported(
            f"The model {model.name} cannot be attacked by membership inference.",
            "It predicts a number, and scores of membership are made of the likelihood of a class.",
            "Audit it by canaries: the tiers claim and robust.",
        )
    if not model.loss.additive:
        raise Unsupported(
            f"The model {model.name} cannot be attacked by membership inference.",
            "Its loss compares the records of a batch, so one record has no loss of its own.",
            "Audit it by canaries: the tiers claim and robust.",
        )


def population_of(federation: Federation) -> tuple[Float32Array, Labels]:
    """Return features and labels of records that no model has trained on: of tests, or held out."""
    held = federation.held_out
    if federation.test_records or held is None:
        return federation.test_features, federation.test_labels
    return held.features, held.labels


def unseen_test_records(federation: Federation) -> BoolArray:
    """Return which test records are no copies of a training record: (test records,)."""
    return unseen_records(federation, federation.test_features, federation.test_labels)


def unseen_records(federation: Federation, features: Float32Array, labels: Labels) -> BoolArray:
    """Return which of some records are no copies of a training record: (records,)."""
    known = set(_keys(federation.features, federation.labels))
    return np.array([key not in known for key in _keys(features, labels)], bool)


def shared_records(federation: Federation) -> int:
    """Return how many training records another user has as well, value by value.

    Such a record is in a model although its user is out.
    """
    owners: dict[bytes, set[int]] = {}
    keys = _keys(federation.features, federation.labels)
    for key, user in zip(keys, federation.user.tolist(), strict=True):
        owners.setdefault(key, set()).add(user)
    return sum(len(owners[key]) > 1 for key in keys)


def _keys(features: NDArray[np.float32], labels: NDArray[np.generic]) -> list[bytes]:
    # The width is written out, as -1 has no meaning where there are no records at all.
    flat = np.ascontiguousarray(features).reshape(len(features), math.prod(features.shape[1:]))
    return [
        row.tobytes() + label.tobytes()
        for row, label in zip(flat, np.ascontiguousarray(labels), strict=True)
    ]


def per_unit(statistic: FloatArray, unit: IntArray, units: int) -> FloatArray:
    """Return the sum over each unit's records: (models, records) to (models, units).

    Raises `InvalidInput` for a unit without records, which no score says anything about, and for
    a statistic that is NaN.

    >>> per_unit(np.array([[1.0, 2.0, 4.0]]), np.array([0, 1, 0]), 2).tolist()
    [[5.0, 2.0]]
    """
    refuse_nan("scores", statistic)
    if statistic.ndim != 2 or statistic.shape[1] != len(unit):
        raise InvalidInput(f"`statistic` must be of shape (models, {len(unit)}).")
    counts = np.bincount(unit, minlength=units)
    if len(counts) > units or not counts.all():
        raise InvalidInput(
            "A user without records has no score.",
            "Nothing of theirs can be in a model.",
            "Leave users without records out of the design.",
        )
    return np.array([np.bincount(unit, row, units) for row in statistic]).reshape(-1, units)


def matched(sizes: IntArray, records: int, rng: Generator) -> tuple[IntArray, IntArray]:
    """Return users, and so many records cut into pseudo-users of the same sizes.

    `sizes` (users,) are the users' numbers of records.  Users are taken in random order, as many
    as `records` allow, and none after the first that does not fit, so that large ones are not left
    out.  The answer is which users were taken, (k,), and the pseudo-user of each record, (records,)
    from 0 to k - 1, or -1 for a record that is left over; records are dealt at random.

    >>> taken, pseudo = matched(np.array([2, 2, 2]), 5, np.random.default_rng(0))
    >>> len(taken), np.bincount(pseudo + 1).tolist()
    (2, [1, 2, 2])
    """
    order = rng.permutation(len(sizes))
    # Users in random order until the records run out.
    ends = np.cumsum(sizes[order])
    taken = order[ends <= records]
    pseudo = np.full(records, -1)
    dealt = np.repeat(np.arange(len(taken)), sizes[taken])
    pseudo[rng.permutation(records)[: len(dealt)]] = dealt
    return taken.astype(np.int64), pseudo.astype(np.int64)
