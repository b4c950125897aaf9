"""A module of one's own as a function of its parameters: outputs, and the gradients of many units.

    outputs    f(w, x), (records, outputs), by `torch.func.functional_call`
    gradients  grad_w loss(f(w_u, x_u)) for every unit u: grad under vmap, or unit by unit

Only what training moves is w.  Buffers, and parameters that need no gradient, are public constants
of which every call gets fresh copies, so no record leaves anything behind for the next.  A layer
with running statistics (BatchNorm) normalises by those constants, in training as in evaluation.
Units go through vmap only by operations that keep them apart (`.unit_operations`); else each goes
by itself, and has copies of its weights and records, so that nothing it writes reaches another.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from .drawn_dropout import UnitDraws, with_drawn_dropout
from .losses import Loss
from .module_failures import contained, interruptions_noted
from .unit_operations import CrossesUnits, UnitsApart
from .unseeded_randomness import generators_kept
from .written_memory import memory_filled


class _Nowhere(io.TextIOBase):
    """Takes what is printed, and keeps nothing."""

    def write(self, text: str) -> int:
        """Return how much was taken."""
        return len(text)


_NOWHERE: Final = _Nowhere()


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Let nothing be printed or logged: what a module says of its records would tell of them.

    Nor does it find in memory what was computed of others (`.written_memory`).
    """
    level = logging.root.manager.disable
    with (
        memory_filled(),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(_NOWHERE),
        contextlib.redirect_stderr(_NOWHERE)
        if sys.stderr is not None
        else contextlib.nullcontext(),
    ):
        warnings.simplefilter("ignore")
        logging.disable(sys.maxsize)
        try:
            yield
        finally:
            logging.disable(level)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Let a module at somebody's records say nothing, and put all generators back."""
    with interruptions_noted(), generators_kept(), unheard():
        yield


class ModuleBody:
    """A copy of a module, in float64; `vectorised` says that units go through it together.

    `indexed` says that it looks values up, and so may fail on a GPU for everybody.
    """

    def __init__(self, module: nn.Module) -> None:
        self.evaluating = copy.deepcopy(module).double().eval()
        self.draws = UnitDraws()
        self.training, self.dropout = with_drawn_dropout(
            copy.deepcopy(self.evaluating).train(), self.draws
        )
        # In training it would normalise by the batch, and remember it.
        for layer in self.training.modules():
            if isinstance(layer, _NormBase) and layer.track_running_stats:
                layer.eval()
        # A parameter that stands in several places is listed once, and stays tied to all of them.
        named = dict(self.evaluating.named_parameters())
        self.trained = {name: each for name, each in named.items() if each.requires_grad}
        self.vectorised = True
        self.indexed = True
        self._kept: dict[str, Tensor] = {
            name: each for name, each in named.items() if not each.requires_grad
        }
        self._kept.update(self.evaluating.named_buffers())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter that training moves, by name, in their order."""
        return {name: tuple(each.shape) for name, each in self.trained.items()}

    def constants(self, like: Tensor) -> dict[str, Tensor]:
        """Return fresh copies of what no training moves, on the device of `like`, in its type."""
        return {
            name: each.detach()
            .to(like.device, like.dtype if each.is_floating_point() else each.dtype)
            .clone()
            for name, each in self._kept.items()
        }

    def outputs(
        self, weights: Sequence[Tensor], x: Tensor, *, training: bool = False, key: Any = None
    ) -> Tensor:
        """Return what the module makes of records x (records, ...) at one unit's weights."""
        self.draws.begin(key)
        values = dict(zip(self.trained, weights, strict=True)) | self.constants(x)
        module = self.training if training else self.evaluating
        logits: Tensor = torch.func.functional_call(module, values, (x,))
        return logits

    def fresh(self) -> ModuleBody:
        """Return a body whose modules hold what they held at first, whatever they keep."""
        # Parameters and buffers are given with every call, and masks by the key.
        shared = (*self.evaluating.parameters(), *self.evaluating.buffers())
        shared += (*self.training.parameters(), *self.training.buffers())
        memo: dict[int, Any] = {id(each): each for each in (*shared, self.draws)}
        another = copy.copy(self)
        another.evaluating = copy.deepcopy(self.evaluating, memo)
        another.training = copy.deepcopy(self.training, memo)
        return another

    def gradients(
        self,
        loss: Loss,
        weights: Sequence[Tensor],
        x: Tensor,
        labels: Tensor,
        share: Tensor,
        keys: Tensor | None,
    ) -> list[Tensor]:
        """Return the gradient of each unit's loss: (units, ...) for each parameter.

        Shapes are those of `Model.add_gradient`, `keys` (units,) of the draws.  A unit at which the
        module fails has NaN, which its own records alone decide.
        """
        with untraced():
            if not self.vectorised or (self.indexed and x.device.type != "cpu"):
                return self.looped(loss, weights, x, labels, share, keys)
            with contained():  # whatever somebody's records make of the module
                return self.stacked(loss, weights, x, labels, share, keys)
            # Each by itself, in the same way: so nobody's trouble moves another's last bits.
            rows = [
                self._alone(
                    loss,
                    [weight[unit : unit + 1].clone() for weight in weights],
                    x[unit : unit + 1].clone(),
                    labels[unit : unit + 1].clone(),
                    share[unit : unit + 1].clone(),
                    None if keys is None else keys[unit : unit + 1],
                )
                for unit in range(len(x))
            ]
        return [torch.cat(parts) for parts in zip(*rows, strict=True)]

    def _alone(self, loss: Loss, weights: Sequence[Tensor], *records: Any) -> list[Tensor]:
        with contained():  # whatever this unit's records make of the module
            return self.stacked(loss, weights, *records)
        return self.looped(loss, weights, *records)

    def stacked(
        self,
        loss: Loss,
        weights: Sequence[Tensor],
        x: Tensor,
        labels: Tensor,
        share: Tensor,
        keys: Tensor | None,
    ) -> list[Tensor]:
        """Return the gradients of all units at once, by vmap.

        Raises `CrossesUnits` where that might mix units.
        """

        # What module and loss keep of a call against all rules is gone with these copies.
        body, loss = self.fresh(), copy.deepcopy(loss)

        def of_unit(
            weight: tuple[Tensor, ...], x: Tensor, labels: Tensor, share: Tensor, *key: Tensor
        ) -> Tensor:
            out = body.outputs(weight, x, training=True, key=key[0] if key else None)
            return loss.value(out[None], labels[None], share[None])[0]

        # One function of one unit, over the first axis of all: weights, records, shares and key.
        each = () if keys is None else (keys,)
        per_unit = torch.func.vmap(torch.func.grad(of_unit))
        with UnitsApart([*weights, x, labels, share, *each]):
            slopes: Sequence[Tensor] = per_unit(tuple(weights), x, labels, share, *each)
        return list(slopes)

    def keeps_apart(
        self,
        loss: Loss,
        weights: Sequence[Tensor],
        records: Sequence[Tensor],
        key: Tensor | None,
    ) -> bool:
        """Return whether all operations of one unit's gradient are of those that vmap may do.

        Notes whether the module itself takes an index.
        """
        leaves = [weight.detach().clone().requires_grad_() for weight in weights]
        try:
            with UnitsApart([*leaves, *records]) as seen:
                self.outputs(leaves, records[0], training=True, key=key)
                self.indexed = seen.indexed
                self._of_leaves(loss, leaves, records, key)
        except CrossesUnits:
            return False
        return True

    def looped(
        self,
        loss: Loss,
        weights: Sequence[Tensor],
        x: Tensor,
        labels: Tensor,
        share: Tensor,
        keys: Tensor | None,
    ) -> list[Tensor]:
        """Return the same unit by unit, without padding, for what vmap cannot do.

        On the processor: an index that is out of range would end every later computation on a GPU,
        and so tell of a record.
        """
        slopes = [
            torch.empty_like(weight, memory_format=torch.contiguous_format) for weight in weights
        ]
        weights, x = [each.cpu() for each in weights], x.cpu()
        labels, share = labels.cpu(), share.cpu()
        keys = None if keys is None else keys.cpu()
        with torch.random.fork_rng(devices=[]):
            for unit in range(len(x)):
                # Fresh tensors for each unit: where they begin depends on no other.
                present = share[unit] > 0
                key = None if keys is None else keys[unit]
                # A generator that is used against all rules tells nothing of other units.
                torch.manual_seed(0 if key is None else int(key))
                rows = [torch.full_like(weight[unit], math.nan) for weight in weights]
                with contained():  # whatever this unit's records make of the module
                    rows = self.fresh().slopes(
                        copy.deepcopy(loss),
                        [weight[unit] for weight in weights],
                        [x[unit][present], labels[unit][present], share[unit][present]],
                        key,
                    )
                for into, row in zip(slopes, rows, strict=True):
                    into[unit] = row
        return slopes

    def slopes(
        self,
        loss: Loss,
        weights: Sequence[Tensor],
        records: Sequence[Tensor],
        key: Tensor | None,
    ) -> list[Tensor]:
        """Return the gradient of one unit's loss at records, labels and share without padding."""
        # Copies, so that what is written reaches no other unit.
        leaves = [weight.detach().clone().requires_grad_() for weight in weights]
        return self._of_leaves(loss, leaves, [each.clone() for each in records], key)

    def _of_leaves(
        self,
        loss: Loss,
        leaves: list[Tensor],
        records: Sequence[Tensor],
        key: Tensor | None,
    ) -> list[Tensor]:
        x, labels, share = records
        with torch.enable_grad():
            out = self.outputs(leaves, x, training=True, key=key)
            value = loss.value(out[None], labels[None], share[None])[0]
            if not value.requires_grad:  # it depends on no parameter
                return [torch.zeros_like(leaf) for leaf in leaves]
            slopes = torch.autograd.grad(value, leaves, allow_unused=True)
        return [
            torch.zeros_like(leaf) if slope is None else slope
            for leaf, slope in zip(leaves, slopes, strict=True)
        ]
