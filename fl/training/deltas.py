"""Local training of many units at once: deltas after some epochs, or one gradient each.

Every unit starts from the same parameters and sees its own records only, in an order that depends
on (seed, round, user, silo) and nothing else.  Padding depends on its own size, and where its
matrices begin in memory on nothing (`models.layers`).  So removing a unit leaves every other delta
as it was, bit for bit: measured, not proven, for it rests on how a library multiplies small
matrices.  Tests compare on a CPU; on a GPU the last bits may differ.  It does not hold for a `cnn`
or an `alexnet`, nor for every single gradient of an `mlp`: there the last bits of 43 in 7,564 rows
moved, by 6e-16 at most, which the steps of the grid on which updates are summed nearly always round
away.  A module of one's own (`models.own_model`) keeps to it where the numbers of its matrices are
multiples of 4; of one of 33 x 17 the last bits of 215 in 1,782 rows moved, by 3e-17 at most.

A delta that is not finite, because training diverged, becomes zero: that depends on its own unit
alone, so it protects as well as clipping does.  How many diverged is a fact about private data,
and is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from numpy.typing import ArrayLike

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput, Unsupported
from ..models import Model
from .minibatches import Source
from .scores import Scores, is_one_score
from .unit_blocks import Block, blocks
from .units import Precision, Recipe, Units

_BLOCK_NUMBERS: Final = {"cpu": 2**21, "cuda": 2**28}
"""How many numbers a block may take: 16 MB, which a cache may hold, and 2 GB of float64."""

_MAX_RECORDS_AT_ONCE: Final = 1024
"""How many records of a unit go through a model at once, where its loss is a sum over records."""

_UNBOUNDED_RECORDS: Final = 2**40
"""More records than any unit has."""


def local_deltas(
    model: Model,
    parameters: ArrayLike,
    units: Units,
    recipe: Recipe,
    *,
    number: int = 0,
    device: str = "cpu",
) -> FloatArray:
    """Return how far each unit moves the parameters by training: (units, D) float64.

        x_u - x,  after `recipe.epochs` epochs of x_u <- x_u - rate * (mean gradient of a minibatch
                                                                       + mu (x_u - x))

    where mu is `recipe.proximal`.

    `parameters` is (D,).  `number` is the round's, which changes the draws.  `device` is `cpu` or a
    CUDA device of PyTorch's.  A unit without records has delta 0, and so has one that diverged.
    For more units than fit in memory, use `delta_blocks`.

    Raises `InvalidInput` for parameters, features or labels that do not fit the model, and an
    unknown device.
    """
    out = np.zeros((len(units), model.parameters))
    for chosen, rows in delta_blocks(
        model, parameters, units, recipe, number=number, device=device
    ):
        out[chosen] = rows
    return out


def delta_blocks(
    model: Model,
    parameters: ArrayLike,
    units: Units,
    recipe: Recipe,
    *,
    number: int = 0,
    device: str = "cpu",
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Return the deltas of `local_deltas` in parts: indices of units, and a row for each.

    Units without records are left out.
    """
    start = _start(model, parameters, units)
    if _is_quick(model, recipe.precision, device) and not recipe.proximal:
        scores = _scores(model, units, recipe.seed, number)
        parts = scores.blocks(recipe.batch)
        return ((block.units, _finite(scores.deltas(start, block, recipe))) for block in parts)
    source = _source(model, units, recipe.seed, number, device, recipe.precision)
    parts = _blocks(model, units, recipe.batch, source)
    return ((block.units, _finite(_deltas(model, start, block, source, recipe))) for block in parts)


def gradients(
    model: Model,
    parameters: ArrayLike,
    units: Units,
    *,
    seed: int = 0,
    number: int = 0,
    precision: Precision = "float64",
    device: str = "cpu",
) -> FloatArray:
    """Return the gradient of each unit's mean loss over all its records: (units, D) float64.

    `seed` and `number` (the round) decide what drops out, if the model has dropout.  A unit
    without records has gradient 0, and so has one whose gradient is not finite.  Raises as
    `local_deltas`.
    """
    start = _start(model, parameters, units)
    # Where the loss adds up over records, a large unit goes through the model in pieces.
    piece = _MAX_RECORDS_AT_ONCE if model.loss.additive else _UNBOUNDED_RECORDS
    out = np.zeros((len(units), model.parameters))
    if _is_quick(model, precision, device):
        scores = _scores(model, units, seed, number)
        for block in scores.blocks(piece):
            out[block.units] = _finite(scores.gradients(start, block))
        return out
    source = _source(model, units, seed, number, device, precision)
    for block in _blocks(model, units, piece, source):
        out[block.units] = _finite(_gradients(model, start, block, source))
    return out


def per_example_gradients(
    model: Model,
    parameters: ArrayLike,
    features: ArrayLike,
    labels: ArrayLike,
    *,
    names: ArrayLike | None = None,
    seed: int = 0,
    number: int = 0,
    device: str = "cpu",
) -> FloatArray:
    """Return the gradient of each record's own loss: (records, D) float64, for DP-SGD.

    With dropout, `names` (records,) are public integers that stay with a record whichever others
    are drawn: with seed and step `number` they decide what drops out.  Positions would not do,
    for a record's absence would change the masks, and so the gradients, of all behind it.

    Raises `Unsupported` for a loss that couples the records of a batch (`cox`): a record then has
    no gradient of its own, and clipping what is called so bounds nobody's influence.  Raises
    `InvalidInput` for shapes that do not fit, and for dropout without `names`.
    """
    if not model.loss.additive:
        raise Unsupported(
            f"The loss of the model {model.name} has no gradient per record.",
            "It compares the records of a batch, so each record moves the others' gradients.",
            "Clip per user instead, such as by uldp-avg or uldp-sgd.",
        )
    if model.dropout > 0.0 and names is None:
        raise InvalidInput(
            "With dropout, `names` of the records are needed.",
            "What drops out of a record must not depend on which others are drawn.",
            "Give each record's public index, or a model without dropout.",
        )
    records = np.arange(len(np.asarray(labels)))
    record_names = records if names is None else np.asarray(names)
    units = Units(
        np.asarray(features),
        np.asarray(labels),
        records,
        np.arange(len(records) + 1),
        record_names,
        np.zeros_like(records),
    )
    return gradients(model, parameters, units, seed=seed, number=number, device=device)


@torch.no_grad()
def _deltas(
    model: Model, start: FloatArray, block: Block, source: Source, recipe: Recipe
) -> FloatArray:
    """Return how far a block's units move the parameters: (units, D) float64."""
    initial = torch.from_numpy(start).to(source.device, source.dtype)
    shared = model.spread(initial, len(block.units))
    # Never a view of what others share: training writes into it.
    weights = [tensor.clone(memory_format=torch.contiguous_format) for tensor in shared]
    for minibatch in source.epochs(block, recipe.epochs):
        # Units with the most minibatches come first: the others have finished this epoch.
        active = [tensor[: minibatch.units] for tensor in weights]
        # mu (x_u - x) is taken before the step, at the same x_u as the gradient.
        pulls = _proximal_steps(active, shared, recipe)
        # x_u <- x_u - rate sum_i share_i grad loss_i(x_u), in place.
        model.add_gradient(
            active,
            minibatch.x,
            minibatch.labels,
            minibatch.share,
            minibatch.draws,
            into=active,
            scale=-recipe.local_rate,
        )
        for weight, pull in zip(active, pulls, strict=False):
            weight -= pull
    # The difference is taken in float64, also after training in float32.
    moved: FloatArray = (model.flat(weights).double() - initial.double()).cpu().numpy()
    return moved


def _proximal_steps(
    weights: list[torch.Tensor], start: list[torch.Tensor], recipe: Recipe
) -> list[torch.Tensor]:
    """Return rate * mu * (x_u - x) for each unit's weights; an empty list where mu is 0."""
    if not recipe.proximal:
        return []
    length = recipe.local_rate * recipe.proximal
    pairs = zip(weights, start, strict=True)
    return [length * (weight - initial[: len(weight)]) for weight, initial in pairs]


@torch.no_grad()
def _gradients(model: Model, start: FloatArray, block: Block, source: Source) -> FloatArray:
    """Return the mean gradient of a block's units: (units, D) float64."""
    initial = torch.from_numpy(start).to(source.device, source.dtype)
    weights = model.spread(initial, len(block.units))
    into = [torch.zeros_like(tensor, memory_format=torch.contiguous_format) for tensor in weights]
    # The weights stay; pieces of one unit add up, as its shares are of all of its records.
    for piece in source.whole(block):
        active = [tensor[: piece.units] for tensor in weights]
        target = [tensor[: piece.units] for tensor in into]
        model.add_gradient(
            active, piece.x, piece.labels, piece.share, piece.draws, into=target, scale=1.0
        )
    rows: FloatArray = model.flat(into).double().cpu().numpy()
    return rows


def _finite(rows: FloatArray) -> FloatArray:
    """Return rows, with zeros in place of each that is not finite."""
    # By row, so that a unit that diverged is no part of another's; 0 is inside every clip.
    rows[~np.isfinite(rows).all(1)] = 0.0
    return rows


def _is_quick(model: Model, precision: Precision, device: str) -> bool:
    """Return whether `scores` does the same with less to do for each step."""
    return precision == "float64" and device == "cpu" and is_one_score(model)


def _start(model: Model, parameters: ArrayLike, units: Units) -> FloatArray:
    model.check_records(units.features.shape)
    model.check_labels(units.labels)
    return model.vector(parameters)


def _scores(model: Model, units: Units, seed: int, number: int) -> Scores:
    return Scores(model, units, seed=seed, number=number, room=_BLOCK_NUMBERS["cpu"])


def _source(
    model: Model, units: Units, seed: int, number: int, device: str, precision: Precision
) -> Source:
    dtype = {"float64": torch.float64, "float32": torch.float32}[precision]
    return Source(model, units, seed=seed, number=number, device=device_named(device), dtype=dtype)


def device_named(name: str) -> torch.device:
    """Return a device of PyTorch's; raise `InvalidInput` for one that is not here."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError):
        device = torch.device("meta")
    if device.type not in _BLOCK_NUMBERS:
        raise InvalidInput(
            f"There is no device {name!r:.60} here.",
            next_step="Give cpu, or cuda where PyTorch finds a GPU.",
        )
    return device


def _blocks(model: Model, units: Units, batch: int, source: Source) -> Iterator[Block]:
    def cost(width: int) -> int:
        """Return how many numbers a unit takes: parameters, a copy, and what layers keep."""
        pairs = 0 if model.loss.additive else 2 * width
        return 2 * model.parameters + width * (2 * model.kept + pairs)

    return blocks(units.sizes, batch, model.multiple, _BLOCK_NUMBERS[source.device.type], cost)
