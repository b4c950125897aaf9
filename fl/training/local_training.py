"""Local training as a system calls it: deltas and gradients by user, silo, record, or peer's model.

`LocalTraining` is the interface, `TorchLocalTraining` trains a model, and `NoTraining` stands in
for a system that does not train.  D is the number of the model's parameters throughout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import Float32Array, FloatArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms.clip import Sparse
from ..data.federation import Federation, Indices
from ..data.groups import Pairs
from ..data.row_contents import row_contents

if TYPE_CHECKING:
    from ..models import Model
    from ..settings.schema import Settings
    from .scores import Records
    from .units import Units

Rows: TypeAlias = FloatArray
"""One vector in each row: (rows, D)."""

_MAX_NUMBERS: Final = 2**24
"""About how many float64 numbers of updates, or of records, are held at once: 128 MiB."""


@dataclass(frozen=True, eq=False)
class UpdateBlock:
    """Updates `rows` (n, D); row i belongs to `user[i]` in `silo[i]`, both (n,)."""

    user: Indices
    silo: Indices
    rows: Rows | Sparse


class LocalTraining(Protocol):
    """Local training in the silos.

    Each row that is returned depends on the records of its own unit (a user in a silo, a silo, or
    one record) alone: neither on other units nor on the order of the rows.  So one user moves one
    row per silo, which clipping bounds.  To the last bit this is measured, not proven, and not for
    every model: see `training.deltas`.  The randomness (order of minibatches, dropout) is public,
    and a function of training seed, round, silo and user.
    """

    def use(self, federation: Federation) -> None:
        """Replace the features from now on; records, users and silos stay the same."""

    def initial(self) -> FloatArray:
        """Return the parameters of the initial model: (D,)."""

    def user_deltas(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield the model delta of each user in each silo, in blocks of rows.

        A row is the model trained on that user's records in that silo, minus `parameters` (D,).
        `users[s]` are the users who take part in silo s; one without records there has no row.
        `number` is the round.
        """

    def user_gradients(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield the mean gradient over each user's records in each silo, as `user_deltas`."""

    def silo_deltas(self, parameters: FloatArray, number: int) -> Rows:
        """Return the model delta of training on all records of each silo: (silos, D).

        The row of a silo without records is zero.
        """

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:
        """Return per-record gradients for the records at the indices `chosen`: (len(chosen), D).

        `models` is (silos, D): each gradient is taken at the model of the record's silo.  `step`
        counts the steps of the whole run.  Raises `Unsupported` where the loss of one record
        depends on others, as in Cox regression.
        """


@runtime_checkable
class ProximalTraining(Protocol):
    """Local training with a proximal term, as in FedProx.

    `proximal` is mu in (mu / 2) |x - start|^2, which is added to the objective of every model
    delta; `start` is the public model that training starts from.  `NoTraining` takes no steps, so
    it has none.
    """

    proximal: float


@runtime_checkable
class SiloGradients(Protocol):
    """Local training that sums gradients by silo."""

    def silo_gradients(self, parameters: FloatArray, number: int) -> Rows:
        """Return the gradient of each silo's loss, summed over its records: (silos, D)."""


class NoTraining:
    """The `LocalTraining` of a system that declares that it does not train.

    Every method but `use` raises `Unsupported`.
    """

    def use(self, federation: Federation) -> None:
        """Do nothing: there are no features."""

    def initial(self) -> FloatArray:
        """Raise `Unsupported`: a system that does not train defines its own initial vector."""
        raise _untrained("initial")

    def user_deltas(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Raise `Unsupported`."""
        raise _untrained("user_deltas")

    def user_gradients(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Raise `Unsupported`."""
        raise _untrained("user_gradients")

    def silo_deltas(self, parameters: FloatArray, number: int) -> Rows:
        """Raise `Unsupported`."""
        raise _untrained("silo_deltas")

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:
        """Raise `Unsupported`."""
        raise _untrained("record_gradients")


def _untrained(name: str) -> Unsupported:
    return Unsupported(
        f"`{name}` of local training was called by a system that declares that it does not train.",
        "Nothing was loaded to train with.",
        "Write trains=True into its declaration, or leave `local` alone; a system that does not "
        "train gives its own `initial`.",
    )


class TorchLocalTraining:
    """Local training of a model by SGD, with all users of all silos in one batch of units.

    Raises `InvalidInput` for a device that is not there.
    """

    def __init__(self, settings: Settings, federation: Federation, model: Model) -> None:
        from .deltas import device_named
        from .units import Recipe

        device_named(settings.run.device)  # fails now rather than in the first round
        training = settings.training
        self.federation, self.model = federation, model
        self.device, self.seed = settings.run.device, training.seed
        self.recipe = Recipe(
            training.local_rate, training.local_epochs, training.batch, training.seed
        )

    @property
    def proximal(self) -> float:
        """The proximal coefficient mu; 0 is plain SGD."""
        return self.recipe.proximal

    @proximal.setter
    def proximal(self, value: float) -> None:
        self.recipe = replace(self.recipe, proximal=value)

    def use(self, federation: Federation) -> None:
        """Replace the features from now on; records, users and silos stay the same."""
        self.federation = federation
        # Cached units hold the old features: drop every cached property of this class.
        for name, member in vars(type(self)).items():
            if isinstance(member, cached_property):
                self.__dict__.pop(name, None)

    def initial(self) -> FloatArray:
        """Return the initial model (D,), drawn from the public training seed."""
        return self.model.initial(self.seed)

    def user_deltas(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield the model deltas of users, in blocks; see `LocalTraining.user_deltas`."""
        from .deltas import delta_blocks

        for units in self._unit_blocks(users):
            blocks = delta_blocks(
                self.model, parameters, units, self.recipe, number=number, device=self.device
            )
            for chosen, rows in blocks:
                yield UpdateBlock(self._listed(units.user[chosen]), units.silo[chosen], rows)

    def user_gradients(
        self, parameters: FloatArray, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        """Yield the mean gradients of users, in blocks of at most 128 MiB."""
        from .deltas import gradients

        for units in self._unit_blocks(users):
            rows = gradients(
                self.model, parameters, units, seed=self.seed, number=number, device=self.device
            )
            yield UpdateBlock(self._listed(units.user), units.silo, rows)

    def silo_deltas(self, parameters: FloatArray, number: int) -> Rows:
        """Return the model delta of each silo: (silos, D)."""
        from .deltas import local_deltas

        return local_deltas(
            self.model,
            parameters,
            self._silo_units,
            self.recipe,
            number=number,
            device=self.device,
        )

    def silo_gradients(self, parameters: FloatArray, number: int) -> Rows:
        """Return the gradient of each silo's loss, summed over its records: (silos, D).

        A silo without records, or whose gradient is not finite, has zeros.
        """
        from .deltas import gradients

        units = self._silo_units
        rows = gradients(
            self.model, parameters, units, seed=self.seed, number=number, device=self.device
        )
        rows *= units.sizes[:, None]
        return rows

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:
        """Return the gradient of each record at its silo's model: (len(chosen), D).

        Raises `Unsupported` where the loss of one record depends on others.
        """
        if self._linear_records is not None:
            return self._linear_records.gradients(models, chosen)
        if not len(chosen):  # (0, D), or the same refusal as for any other number of records
            return self._gradients_at(models[0], chosen, step)
        silos = self.federation.silo[chosen]
        rows = np.empty((len(chosen), self.model.parameters))
        for silo in np.unique(silos):
            positions = np.flatnonzero(silos == silo)
            rows[positions] = self._gradients_at(models[silo], chosen[positions], step)
        return rows

    def _gradients_at(self, parameters: FloatArray, chosen: Indices, step: int) -> Rows:
        """Return the gradients (len(chosen), D) of records at one model (D,)."""
        from .deltas import per_example_gradients

        features, labels = self.federation.features[chosen], self.federation.labels[chosen]
        # Without dropout a gradient needs no random draws, so no names of records either.
        deterministic = self.model.loss.additive and not self.model.dropout
        if deterministic and self.device == "cpu" and len(chosen):
            return _deterministic_gradients(self.model, parameters, features, labels)
        return per_example_gradients(
            self.model,
            parameters,
            features,
            labels,
            names=self._record_names[chosen],
            seed=self.seed,
            number=step,
            device=self.device,
        )

    def _units_of(self, users: Sequence[Indices]) -> Units:
        """Return a unit for each silo s and user of `users[s]` who has records in it."""
        taking_part = np.zeros((self.federation.silos, self.federation.users), bool)
        for silo, members in enumerate(users):
            taking_part[silo, members] = True
        return self._user_units.only(taking_part[self._pairs.silo, self._pairs.user])

    def _unit_blocks(self, users: Sequence[Indices]) -> Iterator[Units]:
        """Yield these units in parts, whose records and updates have about `_MAX_NUMBERS` each."""
        units = self._units_of(users)
        values = math.prod(self.federation.features.shape[1:])
        numbers = np.cumsum(np.maximum(self.model.parameters, units.sizes * values))
        block = numbers // _MAX_NUMBERS
        starts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(units)]
        for first, last in pairwise(starts if len(units) else ()):
            yield units if last - first == len(units) else units.only(np.arange(first, last))

    def _listed(self, names: Indices) -> Indices:
        """Return the places of users, by their names, in the list of users."""
        if self.federation.user_names is None:
            return names
        return np.searchsorted(self.federation.user_names, names)

    @cached_property
    def _pairs(self) -> Pairs:
        """The records grouped by user and silo."""
        return self.federation.pairs()

    @cached_property
    def _user_units(self) -> Units:
        """One unit for each user in each silo, which is called by the name of the user."""
        from .units import Units

        named = replace(self._pairs, user=self.federation.names[self._pairs.user])
        return Units.of_pairs(self.federation.features, self.federation.labels, named)

    @cached_property
    def _silo_units(self) -> Units:
        """One unit for each silo."""
        from .units import Units

        federation = self.federation
        return Units.of_silos(federation.features, federation.labels, federation.by_silo())

    @cached_property
    def _linear_records(self) -> Records | None:
        """The records for closed-form gradients of a model with one linear score; else None."""
        from .scores import Records, is_one_score

        model, federation = self.model, self.federation
        if self.device != "cpu" or not (is_one_score(model) and model.loss.additive):
            return None
        model.check_records(federation.features.shape)
        model.check_labels(federation.labels)
        return Records(model, federation.features, federation.labels, federation.silo)

    @cached_property
    def _record_names(self) -> Indices:
        """A 64-bit name (records,) that keys the public draws of each record.

        It is made of what the record holds and of its silo, so the draws of a record depend on no
        other record; records that hold the same have the same draws.
        """
        federation = self.federation
        contents = row_contents(federation.features, federation.labels)
        return (contents ^ (federation.silo.astype(np.uint64) + np.uint64(1))).view(np.int64)


def _deterministic_gradients(
    model: Model, parameters: FloatArray, features: Float32Array, labels: NDArray[np.generic]
) -> Rows:
    """Return the gradient of each record (records, D), for a model without dropout on the CPU.

    As `per_example_gradients`, but quicker for the few records of a DP-SGD step, where building
    units takes most of the time.  The loss must be a sum over records.
    """
    import torch

    records = len(labels)
    with torch.no_grad():
        # Every record is a unit of its own: (records, 1, ...) inputs, one copy of the weights each.
        weights = model.spread(torch.from_numpy(parameters), records)
        gradient = [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in weights]
        model.add_gradient(
            weights,
            torch.from_numpy(features.astype(np.float64))[:, None],
            torch.from_numpy(labels)[:, None],
            torch.ones(records, 1, dtype=torch.float64),
            None,
            into=gradient,
            scale=1.0,
        )
        return np.asarray(model.flat(gradient).numpy())
