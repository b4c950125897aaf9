"""From a data set to a federation: allocate its records to users and silos."""

from __future__ import annotations

from typing import cast

from numpy.random import Generator

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..data.allocation import allocate, allocate_within
from ..data.federation import Federation, Indices
from .dataset import Dataset

DEFAULT_SILOS = 5
"""Silos of data that have none of their own, as in Kato et al. 2024."""


def federate(
    dataset: Dataset,
    users: int,
    silos: int | None,
    allocation: str,
    rng: Generator,
    *,
    labels_per_user: int | None = None,
) -> Federation:
    """Return the federation of a data set, whose training records are allocated to users.

    `allocation`: `uniform` or `zipf`, see `fl.data.allocation`.  `silos`: None for those of the
    data, or 5 where they have none.  Users of survival data get 2 records or more, because Cox's
    loss compares records.  `rng` is public set-up.

    Raises `InvalidInput` for a number of silos other than that of the data, and what `allocate`
    and `Federation` raise.
    """
    parties = validate.count(users=users)
    if dataset.silo is None:
        places = DEFAULT_SILOS if silos is None else validate.count(silos=silos)
        holders = allocate(
            allocation,
            records=dataset.records,
            users=parties,
            silos=places,
            rng=rng,
            labels=None if dataset.task == "survival" else cast(Indices, dataset.labels),
            labels_per_user=labels_per_user,
        )
    else:
        places = int(dataset.silos or 0)
        if silos is not None and silos != places:
            raise InvalidInput(
                f"`silos` is {silos!r}, but the data set {dataset.name} has {places}.",
                "Its silos are the centres that the records come from.",
                f"Leave `silos` out, or give {places}.",
            )
        if labels_per_user is not None:
            raise InvalidInput(
                f"`labels_per_user` does not apply to {dataset.name}, whose silos are fixed.",
                next_step="Leave it out.",
            )
        holders = allocate_within(
            allocation,
            dataset.silo,
            silos=places,
            users=parties,
            rng=rng,
            least=2 if dataset.task == "survival" else 1,
        )
    return Federation(
        name=dataset.name,
        task=dataset.task,
        classes=dataset.classes,
        users=parties,
        silos=places,
        features=dataset.features,
        labels=dataset.labels,
        user=holders.user,
        silo=holders.silo,
        test_features=dataset.test_features,
        test_labels=dataset.test_labels,
        test_silo=dataset.test_silo,
    )
