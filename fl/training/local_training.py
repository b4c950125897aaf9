"""Training inside the silos, as the systems ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import Float32Array, FloatArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms.clip import Sparse
from ..data.federation import Federation, Indices, Pairs

if TYPE_CHECKING:
    from ..models import Model
    from ..settings.schema import Settings
    from .scores import Records
    from .units import Units

Rows: TypeAlias = FloatArray
"""One vector in each row: (rows, D)."""

_ROOM: Final = 2**24
"""How many numbers of gradients are made at once: 128 MB."""


@dataclass(frozen=True, eq=False)
class UpdateBlock:
    """Some rows (n, D), each of one user in one silo: `user` and `silo` are (n,)."""

    user: Indices
    silo: Indices
    rows: Rows | Sparse


class LocalTraining(Protocol):
    """Training inside the silos, each by itself.

    Every row of an answer is made of the records of that row alone: no other user's data enters
    it, nor does the order of rows, nor another silo.  To the last bit that is measured, not proven
    (`training.local`).  Randomness (the order of batches, dropout) is public and belongs to the
    round, the silo and the user.
    """

    def use(self, federation: Federation) -> None:
        """Train from now on on the same records with other features."""

    def initial(self) -> FloatArray:
        """Return the first model: (D,)."""

    def user_deltas(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield how training on each user's records in a silo moves the model, in parts.

        A row is the trained model minus `parameters`; `users` are, for each silo, those who take
        part, and whoever has no records there is left out.
        """

    def user_gradients(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield the mean gradient of each user's records in a silo, in parts, as `user_deltas`."""

    def silo_deltas(self, parameters: FloatArray, number: int) -> Rows:
        """Return how training on all records of each silo moves the model: (silos, D).

        A silo without any has zeros.
        """

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:
        """Return the gradient of each of these records by itself: (records, D).

        `models` is (silos, D): a record meets the model of its silo.  `step` counts the steps of
        the whole run.  Raises `Unsupported` where a record's loss depends on others.
        """


@runtime_checkable
class ProximalTraining(Protocol):
    """Training that can be pulled back to where it started, which is public.

    `proximal` is mu in (mu / 2) |x - start|^2, which is added to every objective whose training
    makes a delta.  A stand-in that makes no steps has nothing to be pulled.
    """

    proximal: float


class NoTraining:
    """What a system is given that declares that it does not train: nothing is loaded for it.

    Raises `Unsupported` where it trains nevertheless.
    """

    def use(self, federation: Federation) -> None:
        """Have no features."""

    def initial(self) -> FloatArray:
        """Have no model: a system that does not train says what its first vector is."""
        raise _untrained("initial")

    def user_deltas(
        self,
        parameters: FloatArray,  # noqa: ARG002
        users: Sequence[Indices],  # noqa: ARG002
        number: int,  # noqa: ARG002
    ) -> Iterator[UpdateBlock]:
        """Train nobody."""
        raise _untrained("user_deltas")

    def user_gradients(
        self,
        parameters: FloatArray,  # noqa: ARG002
        users: Sequence[Indices],  # noqa: ARG002
        number: int,  # noqa: ARG002
    ) -> Iterator[UpdateBlock]:
        """Have no gradient."""
        raise _untrained("user_gradients")

    def silo_deltas(self, parameters: FloatArray, number: int) -> Rows:  # noqa: ARG002
        """Train no silo."""
        raise _untrained("silo_deltas")

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:  # noqa: ARG002
        """Have no gradient."""
        raise _untrained("record_gradients")


def _untrained(name: str) -> Unsupported:
    return Unsupported(
        f"`{name}` of local training was called by a system that declares that it does not train.",
        "Nothing was loaded to train with.",
        "Write trains=True into its declaration, or leave `local` alone; a system that does not "
        "train gives its own `initial`.",
    )


class TorchLocalTraining:
    """Local training of a model by `fl.training`: SGD, all users of all silos at once."""

    def __init__(self, settings: Settings, federation: Federation, model: Model) -> None:
        from .deltas import device_named
        from .units import Recipe

        device_named(settings.run.device)  # refused now, not in the first round
        training = settings.training
        self.federation, self.model = federation, model
        self.device, self.seed = settings.run.device, training.seed
        self.recipe = Recipe(
            training.local_rate, training.local_epochs, training.batch, training.seed
        )

    @property
    def proximal(self) -> float:
        """How strongly training is pulled back to where it started."""
        return self.recipe.proximal

    @proximal.setter
    def proximal(self, value: float) -> None:
        self.recipe = replace(self.recipe, proximal=value)

    def use(self, federation: Federation) -> None:
        """Train from now on on the same records with other features."""
        self.federation = federation
        # Whatever was computed from the records before is computed anew from the new ones.
        for name, member in vars(type(self)).items():
            if isinstance(member, cached_property):
                self.__dict__.pop(name, None)

    def initial(self) -> FloatArray:
        """Return the first model: (D,); public, by the training seed."""
        return self.model.initial(self.seed)

    def user_deltas(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield how training moves the model, by user and silo."""
        from .deltas import delta_blocks

        units = self._of_users(users)
        parts = delta_blocks(
            self.model, parameters, units, self.recipe, number=number, device=self.device
        )
        for chosen, rows in parts:
            yield UpdateBlock(units.user[chosen], units.silo[chosen], rows)

    def user_gradients(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield the mean gradient of each user's records, by user and silo."""
        from .deltas import gradients

        units = self._of_users(users)
        step = max(1, _ROOM // self.model.parameters)
        for first in range(0, len(units), step):
            some = units.only(np.arange(first, min(first + step, len(units))))
            # At most `_ROOM` numbers of gradients at a time, 128 MB.
            rows = gradients(
                self.model, parameters, some, seed=self.seed, number=number, device=self.device
            )
            yield UpdateBlock(some.user, some.silo, rows)

    def silo_deltas(self, parameters: FloatArray, number: int) -> Rows:
        """Return how training on all records of each silo moves the model: (silos, D)."""
        from .deltas import local_deltas

        return local_deltas(
            self.model,
            parameters,
            self._silos,
            self.recipe,
            number=number,
            device=self.device,
        )

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:
        """Return the gradient of each record at its silo's model: (records, D)."""
        if self._records is not None:
            return self._records.gradients(models, chosen)
        if not len(chosen):
            return self._record_gradients(models[0], chosen, step)
        silos = self.federation.silo[chosen]
        rows = np.empty((len(chosen), self.model.parameters))
        for silo in np.unique(silos):
            positions = np.flatnonzero(silos == silo)
            rows[positions] = self._record_gradients(models[silo], chosen[positions], step)
        return rows

    def _record_gradients(self, parameters: FloatArray, chosen: Indices, step: int) -> Rows:
        from .deltas import per_example_gradients

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

    def _of_users(self, users: Sequence[Indices]) -> Units:
        """Return the units of those of these users who have records in the silo."""
        taking_part = np.zeros((self.federation.silos, self.federation.users), bool)
        for silo, members in enumerate(users):
            taking_part[silo, members] = True
        return self._units.only(taking_part[self._pairs.silo, self._pairs.user])

    @cached_property
    def _pairs(self) -> Pairs:
        return self.federation.pairs()

    @cached_property
    def _units(self) -> Units:
        from .units import Units

        return Units.of_pairs(self.federation.features, self.federation.labels, self._pairs)

    @cached_property
    def _silos(self) -> Units:
        from .units import Units

        federation = self.federation
        return Units.of_silos(federation.features, federation.labels, federation.by_silo())

    @cached_property
    def _records(self) -> Records | None:
        """The records, where there is a quick way to their gradients."""
        from .scores import Records, is_one_score

        model, federation = self.model, self.federation
        if self.device != "cpu" or not (is_one_score(model) and model.loss.additive):
            return None
        model.check_records(federation.features.shape)
        model.check_labels(federation.labels)
        return Records(model, federation.features, federation.labels, federation.silo)

    @cached_property
    def _names(self) -> Indices:
        """A name for each record, of its user, its silo, and its place among the user's there.

        A silo trains under the names of its own records, so they tell of no record elsewhere.
        """
        pairs = self._pairs
        places = np.arange(len(pairs.order)) - np.repeat(pairs.offsets[:-1], pairs.sizes)
        # 64 bits: the pair of user and silo above, the place among its records below.
        pair = np.repeat(pairs.user * self.federation.silos + pairs.silo, pairs.sizes)
        names = np.empty_like(pairs.order)
        names[pairs.order] = (pair << 32) + places
        return names


def _one_by_one(
    model: Model, parameters: FloatArray, features: Float32Array, labels: NDArray[np.generic]
) -> Rows:
    """Return the gradient of each record, as `per_example_gradients` without its preparations.

    A step of DP-SGD has a handful of records, and preparing units of all sizes takes most of it.
    """
    import torch

    records = len(labels)
    with torch.inference_mode():
        weights = model.spread(torch.from_numpy(parameters), records)
        into = [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in weights]
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
