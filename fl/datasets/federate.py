"""Turns a data set into a federation: allocates its training records to users and silos."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.random import Generator

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..data.allocation import Allocation, allocate, allocate_within
from ..data.federation import Federation, Indices
from .dataset import Dataset

DEFAULT_SILOS = 5
"""Number of silos for data without silos of their own, as in Kato et al. 2024."""


def federate(
    dataset: Dataset,
    users: int,
    silos: int | None,
    allocation: str,
    rng: Generator,
    *,
    labels_per_user: int | None = None,
) -> Federation:
    """Return the federation of a data set, with its training records allocated to users and silos.

    - `allocation`: `uniform` or `zipf`, see `fl.data.allocation`.
    - `silos`: their number; None for the data set's own silos, or 5 where it has none.
    - `labels_per_user`: each user holds records of exactly so many labels; None for any.
    - `rng`: its draws are public, as the allocation is part of the experiment.

    Where the data set has silos and its task is `survival`, every user has at least 2 records,
    because Cox's loss compares records.

    Raises `InvalidInput` for a number of silos other than the data set's own, for
    `labels_per_user` where the data set has silos, for a silo that no record was dealt to, and as
    `allocate` and `Federation` do.
    """
    user_count = validate.count(users=users)
    if dataset.silo is None:
        silo_count = DEFAULT_SILOS if silos is None else validate.count(silos=silos)
        allocated = allocate(
            allocation,
            records=dataset.records,
            users=user_count,
            silos=silo_count,
            rng=rng,
            labels=None if dataset.task == "survival" else cast(Indices, dataset.labels),
            labels_per_user=labels_per_user,
        )
        _require_full_silos(allocated, allocation, user_count, silo_count)
    else:
        silo_count = int(dataset.silos or 0)
        if silos is not None and silos != silo_count:
            raise InvalidInput(
                f"`silos` is {silos!r}, but the data set {dataset.name} has {silo_count}.",
                "Its silos are the centres that the records come from.",
                f"Leave `silos` out, or give {silo_count}.",
            )
        if labels_per_user is not None:
            raise InvalidInput(
                f"`labels_per_user` does not apply to {dataset.name}, whose silos are fixed.",
                next_step="Leave it out.",
            )
        allocated = allocate_within(
            allocation,
            dataset.silo,
            silos=silo_count,
            users=user_count,
            rng=rng,
            least=2 if dataset.task == "survival" else 1,
        )
    return Federation(
        name=dataset.name,
        task=dataset.task,
        classes=dataset.classes,
        users=user_count,
        silos=silo_count,
        features=dataset.features,
        labels=dataset.labels,
        user=allocated.user,
        silo=allocated.silo,
        test_features=dataset.test_features,
        test_labels=dataset.test_labels,
        test_silo=dataset.test_silo,
    )


def _require_full_silos(allocated: Allocation, rule: str, users: int, silos: int) -> None:
    """Raise `InvalidInput` where the rule dealt no record to some silo, in words of `[data]`."""
    empty = np.flatnonzero(np.bincount(allocated.silo, minlength=silos) == 0)
    if empty.size:
        raise InvalidInput(
            f'allocation = "{rule}" deals the records of {users:,} users to {silos:,} silos, and '
            f"{len(empty):,} of these get none.",
            "Such a silo would take part in every round with nothing but noise.",
            "Write more `users` or fewer `silos` under [data]"
            + ("." if rule == "uniform" else ', or allocation = "uniform".'),
        )
