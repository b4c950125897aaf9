"""Many models of one architecture at once, each on records of its plan.

All models see the same batches of the whole pool in the same order, and a mask says which records
of a batch are a model's own: so records are never copied, and with parameters as a stack, a step of
all models is one product of matrices.  What is not a model's own has weight 0 in its loss; it moves
that model by nothing, not by a rounding error.  One thread does it.

This is plain training in one place, without silos, clip or noise: the quick way to shadows of a
model, and to a baseline.  It is not a replica of a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray
from ...accountant.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from torch import Tensor

    from ...fl.models import Model

Precision = Literal["float32", "float64"]
Network = Callable[["Tensor", "Tensor"], "Tensor"]

SMALL: Final = ("logistic", "softmax", "mlp")
"""Models that can be trained so; the others go through `replicas`."""


@dataclass(frozen=True)
class BatchedRecipe:
    """Plain SGD with momentum, without an end to over-fitting but `epochs`.

    A step is `rate` times the mean gradient of a model's own records in a batch of the pool, and
    is computed in `precision`.
    Range: `rate` above 0, `epochs` and `batch` 1 or above, `momentum` in [0, 1).
    """

    rate: float = 0.1
    epochs: int = 100
    batch: int = 64
    momentum: float = 0.9
    seed: int = 0
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        validate.positive(rate=self.rate)
        validate.count(epochs=self.epochs)
        validate.count(batch=self.batch)
        validate.count_from(0, seed=self.seed)
        validate.choice(get_args(Precision), precision=self.precision)
        if validate.probability(momentum=self.momentum) >= 1.0:
            raise InvalidInput("`momentum` must be below 1.", "At 1 it never ends.")


def train_batched(
    model: Model,
    features: ArrayLike,
    labels: ArrayLike,
    inside: BoolArray,
    recipe: BatchedRecipe | None = None,
) -> FloatArray:
    """Return the parameters of one model for each row of `inside`: (models, D) float64.

    `features` (records, ...) and `labels` (records,) are the pool, `inside` (models, records) which
    of them each model trains on.  All start from `model.initial(seed)`.  Raises `Unsupported` for
    a model that is not one of `SMALL` or has dropout, and `InvalidInput` for shapes that do not fit
    and for a model without records.
    """
    table, truth, masks = np.asarray(features), np.asarray(labels), np.asarray(inside)
    _check(model, table, truth, masks)
    import torch

    from ...fl.training.threads import one_thread

    plan = BatchedRecipe() if recipe is None else recipe
    step = torch.func.vmap(torch.func.grad(_masked_loss(model)), in_dims=(0, None, None, 0))
    exact = {"float32": torch.float32, "float64": torch.float64}[plan.precision]
    x = torch.from_numpy(np.array(table.reshape(len(table), -1), np.float64)).to(exact)
    y, weights = torch.from_numpy(truth.astype(np.int64)), torch.from_numpy(masks).to(exact)
    start = torch.from_numpy(model.initial(plan.seed)).to(exact)
    stack = start.repeat(len(masks), 1)
    speed = torch.zeros_like(stack)
    rng = np.random.default_rng(plan.seed)
    with one_thread(), torch.no_grad():  # its matrices are small: threads wait for one another
        for _ in range(plan.epochs):
            shuffled = torch.from_numpy(rng.permutation(len(table)))
            order = (shuffled[at : at + plan.batch] for at in range(0, len(table), plan.batch))
            # One vectorised step of all models on the same batch: gradients are (models, D).
            for chosen in order:
                slope = step(stack, x[chosen], y[chosen], weights[:, chosen])
                # v <- momentum v + gradient; w <- w - rate v.
                speed.mul_(plan.momentum).add_(slope)
                stack.sub_(speed, alpha=plan.rate)
    return stack.double().numpy()


def _masked_loss(model: Model) -> Callable[..., Tensor]:
    """Return the mean loss of one model's own records in a batch; 0 where it has none there."""
    import torch

    network, binary = _network(model), model.outputs == 1

    def loss(parameters: Tensor, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        logits = network(parameters, x)
        if binary:
            score = logits[:, 0]
            each = torch.nn.functional.softplus(score) - score * y
        else:
            each = torch.nn.functional.cross_entropy(logits, y, reduction="none")
        # The mean over a model's own records in the batch; 0, not NaN, where it has none.
        return (each * mask).sum() / mask.sum().clamp(min=1.0)

    return loss


def _network(model: Model) -> Network:
    """Return the model's logits as a function of one flat vector, for `torch.func`."""
    import torch

    from ...fl.models.layers import Linear, Normalise, Relu

    def network(parameters: Tensor, x: Tensor) -> Tensor:
        ends = np.cumsum([0, *(math.prod(shape) for shape in model.shapes)]).tolist()
        tensors = iter(
            parameters[first:last].view(shape)
            for first, last, shape in zip(ends, ends[1:], model.shapes, strict=False)
        )
        for layer in model.layers:
            if isinstance(layer, Linear):
                x = torch.nn.functional.linear(x, next(tensors), next(tensors))
            elif isinstance(layer, Normalise):
                x = torch.nn.functional.layer_norm(x, [layer.values], next(tensors), next(tensors))
            elif isinstance(layer, Relu):
                x = torch.relu(x)
        return x

    return network


def _check(
    model: Model,
    features: NDArray[np.generic],
    labels: NDArray[np.generic],
    inside: BoolArray,
) -> None:
    if model.name not in SMALL or model.dropout:
        what = f"{model.name} with dropout" if model.dropout else model.name
        raise Unsupported(
            f"Models {what} are not trained in a batch.",
            f"There is a function of one flat vector for {', '.join(SMALL)}, without dropout.",
            "Train replicas of a run instead.",
        )
    model.check_records(features.shape)
    model.check_labels(labels)
    if inside.dtype != bool or inside.ndim != 2 or inside.shape[1] != len(features):
        raise InvalidInput(
            f"`inside` must be booleans of shape (models, {len(features)});"
            f" it is {inside.dtype} of shape {inside.shape}.",
            next_step="Give a row for each model, and a column for each record.",
        )
    if not inside.any(1).all():
        raise InvalidInput(f"Model {int(np.argmin(inside.any(1)))} has no record to train on.")
