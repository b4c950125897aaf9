"""Training inside one silo, as the systems ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .federation import Federation, Indices, Pairs
from .system import Parameters

if TYPE_CHECKING:
    from .models import Model
    from .settings import Settings
    from .training import Units

Rows: TypeAlias = NDArray[np.float64]
"""One vector in each row: (rows, D)."""

Parts: TypeAlias = Iterator[tuple[Indices, Rows]]
"""Rows in parts that fit in memory: for each part the places of its rows, and the rows."""

_ROOM: Final = 2**24
"""How many numbers of gradients are made at once: 128 MB."""


class Local(Protocol):
    """Training inside one silo.

    Every row of an answer is made of the records of that row alone: no other user's data moves
    it by a single bit, nor does the order of rows.  Randomness (the order of batches) is public
    and belongs to the round, the silo and the user.
    """

    def initial(self) -> Parameters:
        """Return the first model: (D,)."""

    def user_deltas(self, parameters: Parameters, silo: int, users: Indices, number: int) -> Parts:
        """Yield how training on each user's records here moves the model, in parts.

        A row is the trained model minus `parameters`; places are those in `users`, which ascend,
        and whoever has no records here is left out.
        """

    def user_gradients(
        self, parameters: Parameters, silo: int, users: Indices, number: int
    ) -> Parts:
        """Yield the mean gradient of each user's records here, in parts, as `user_deltas`."""

    def silo_delta(self, parameters: Parameters, silo: int, number: int) -> Parameters:
        """Return how training on all records here moves the model: (D,); zeros without any."""

    def record_gradients(self, parameters: Parameters, chosen: Indices, step: int) -> Rows:
        """Return the gradient of each of these records by itself: (records, D).

        `step` counts the steps of the whole run.  Raises `Unsupported` where a record's loss
        depends on others.
        """


class TorchLocal:
    """Local training of a model by `fl.training`: plain SGD, all users of a silo at once."""

    def __init__(self, settings: Settings, federation: Federation, model: Model) -> None:
        from .training import Recipe

        own = settings.training
        self.federation, self.model = federation, model
        self.device, self.seed = settings.run.device, own.seed
        self.recipe = Recipe(own.local_rate, own.local_epochs, own.batch, own.seed)

    def initial(self) -> Parameters:
        """Return the first model: (D,); public, by the training seed."""
        return self.model.initial(self.seed)

    def user_deltas(self, parameters: Parameters, silo: int, users: Indices, number: int) -> Parts:
        """Yield how training moves the model, by user."""
        from .training import delta_blocks

        places, units = self._of_users(silo, users)
        parts = delta_blocks(
            self.model, parameters, units, self.recipe, number=number, device=self.device
        )
        for chosen, rows in parts:
            yield places[chosen], rows

    def user_gradients(
        self, parameters: Parameters, silo: int, users: Indices, number: int
    ) -> Parts:
        """Yield the mean gradient of each user's records."""
        from .training import gradients

        places, units = self._of_users(silo, users)
        step = max(1, _ROOM // self.model.parameters)
        for first in range(0, len(places), step):
            chosen = np.arange(first, min(first + step, len(places)))
            yield (
                places[chosen],
                gradients(
                    self.model,
                    parameters,
                    units.only(chosen),
                    seed=self.seed,
                    number=number,
                    device=self.device,
                ),
            )

    def silo_delta(self, parameters: Parameters, silo: int, number: int) -> Parameters:
        """Return how training on all records of a silo moves the model: (D,)."""
        from .training import local_deltas

        deltas = local_deltas(
            self.model,
            parameters,
            self._silos.only([silo]),
            self.recipe,
            number=number,
            device=self.device,
        )
        return np.asarray(deltas[0])

    def record_gradients(self, parameters: Parameters, chosen: Indices, step: int) -> Rows:
        """Return the gradient of each record: (records, D)."""
        from .training import per_example_gradients

        features, labels = self.federation.features[chosen], self.federation.labels[chosen]
        plain = self.model.loss.additive and not self.model.dropout and self.device == "cpu"
        if plain and len(chosen):
            return _one_by_one(self.model, parameters, features, labels)
        return per_example_gradients(
            self.model,
            parameters,
            features,
            labels,
            names=self._names[chosen],
            seed=self.seed,
            number=step,
            device=self.device,
        )

    def _of_users(self, silo: int, users: Indices) -> tuple[Indices, Units]:
        """Return which of these users have records in a silo (their places), and their units."""
        own = self._pairs.of_silo(silo)
        _, places, pairs = np.intersect1d(
            users, self._pairs.user[own], assume_unique=True, return_indices=True
        )
        return places, self._units.only(own.start + pairs)

    @cached_property
    def _pairs(self) -> Pairs:
        return self.federation.pairs()

    @cached_property
    def _units(self) -> Units:
        from .training import Units

        return Units.of_pairs(self.federation.features, self.federation.labels, self._pairs)

    @cached_property
    def _silos(self) -> Units:
        from .training import Units

        federation = self.federation
        return Units.of_silos(federation.features, federation.labels, federation.by_silo())

    @cached_property
    def _names(self) -> Indices:
        """A name for each record that no other user's records change: its user, and its place."""
        users = self.federation.by_user()
        places = np.arange(len(users.order)) - np.repeat(users.offsets[:-1], users.sizes)
        names = np.empty_like(users.order)
        names[users.order] = places
        return (self.federation.user << 32) + names


def _one_by_one(
    model: Model, parameters: Parameters, features: NDArray[np.float32], labels: NDArray[np.generic]
) -> Rows:
    """Return the gradient of each record, as `per_example_gradients` without its preparations.

    A step of DP-SGD has a handful of records, and preparing units of all sizes takes most of it.
    """
    import torch

    records = len(labels)
    with torch.inference_mode():
        weights = model.spread(torch.from_numpy(parameters), records)
        into = [torch.zeros(one.shape, dtype=one.dtype) for one in weights]
        model.add_gradient(
            weights,
            torch.from_numpy(features.astype(np.float64))[:, None],
            torch.from_numpy(labels)[:, None],
            torch.ones(records, 1, dtype=torch.float64),
            None,
            into=into,
            scale=1.0,
        )
        return np.asarray(model.flat(into).numpy())
