"""Units with records for every model, and a loop over them in plain PyTorch, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from privplan.fl.models import Model, model_named
from privplan.fl.training.units import Recipe, Units

from .networks import mix, network

SHAPES = {
    "logistic": (13, 2),
    "cox": (39, 1),
    "softmax": (64, 10),
    "linear": (13, 1),
    "mlp": (30, 2),
    "cnn": (784, 10),
    "mlp-64": (20, 10),
    "alexnet": (784, 10),
}
RATES = {"logistic": 0.1, "cox": 0.05, "softmax": 0.1, "mlp": 0.05, "cnn": 0.05}
RATES |= {"linear": 0.1, "mlp-64": 0.05, "alexnet": 0.1}
BATCH = 4
SIZES = (1, 3, 0, 4, 5, 14, 2, 8, 13, 1)
"""One record, fewer than a batch, none, a batch, and several batches with and without a rest."""


def made(name: str, dropout: float = 0.0) -> Model:
    return model_named(name, *SHAPES[name], dropout=dropout)


def random_rows(
    name: str, rng: np.random.Generator, total: int, features: int, classes: int
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return random features and labels such as the model `name` takes."""
    labels: NDArray[Any] = rng.integers(0, classes, total)
    if name == "cox":
        labels = np.stack([rng.integers(0, 9, total), labels], 1).astype(np.float32)
    if name == "linear":
        labels = rng.uniform(-1.0, 1.0, total).astype(np.float32)
    return rng.normal(size=(total, features)).astype(np.float32), labels


def units_of(name: str, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> Units:
    """Units with their records scattered over the table, and names that are no indices."""
    features, classes = SHAPES[name]
    rng, total = np.random.default_rng(seed), sum(sizes)
    x = rng.normal(size=(total + 3, features)).astype(np.float32)
    labels: NDArray[Any] = rng.integers(0, classes, total + 3)
    if name == "cox":
        table = [rng.integers(1, 9, total + 3), rng.integers(0, 2, total + 3)]
        labels = np.stack(table, 1).astype(np.float32)
    if name == "linear":
        labels = rng.uniform(-1.0, 1.0, total + 3).astype(np.float32)
    order = rng.permutation(total + 3)[:total]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    names = rng.permutation(1000)[: len(sizes)]
    return Units(x, labels, order, offsets, names, rng.integers(0, 3, len(sizes)))


def torch_loss(name: str, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean loss of a minibatch, in terms that share nothing with the models' losses."""
    if name == "logistic":
        return nn.functional.binary_cross_entropy(torch.sigmoid(logits[:, 0]), labels.double())
    if name == "linear":
        return nn.functional.mse_loss(logits[:, 0], labels.double()) / 2.0
    if name != "cox":
        return nn.functional.cross_entropy(logits, labels)
    total = logits.sum() * 0.0
    for own, (time, event) in zip(logits[:, 0], labels, strict=True):
        if event == 1:
            total = total + torch.log(torch.exp(logits[labels[:, 0] >= time, 0]).sum()) - own
    return total / len(logits)


def below(key: int, name: int) -> int:
    return mix((mix(key) + name * 0x9E3779B97F4A7C15) % 2**64)


def epoch_order(seed: int, number: int, user: int, silo: int, epoch: int, size: int) -> list[int]:
    """The order of a unit's records, computed on integers from its names alone."""
    key = seed
    for name in (number, user, silo, epoch, 0):
        key = below(key, name)
    drawn = [mix((key + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 1 for i in range(size)]
    return sorted(range(size), key=lambda i: drawn[i])


def looped(
    name: str, parameters: NDArray[np.float64], units: Units, recipe: Recipe, number: int
) -> NDArray[np.float64]:
    """One unit after the other, with torch.nn, autograd and torch.optim.SGD."""
    rows = []
    for unit, size in enumerate(units.sizes.tolist()):
        whole = network(name, *SHAPES[name], parameters)
        sgd = torch.optim.SGD(whole.parameters(), lr=recipe.local_rate)
        own = units.order[units.offsets[unit] : units.offsets[unit + 1]]
        for epoch in range(recipe.epochs):
            order = np.arange(size)
            if size > recipe.batch:
                who = int(units.user[unit]), int(units.silo[unit])
                order = np.array(epoch_order(recipe.seed, number, *who, epoch, size))
            for first in range(0, size, recipe.batch):
                chosen = own[order[first : first + recipe.batch]]
                x, y = torch.tensor(units.features[chosen]), torch.tensor(units.labels[chosen])
                sgd.zero_grad()
                torch_loss(name, whole(x.double()), y).backward()
                sgd.step()
        after = nn.utils.parameters_to_vector(whole.parameters()).detach().numpy()
        rows.append(after - parameters)
    return np.stack(rows)
