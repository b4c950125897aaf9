"""The networks of the models as PyTorch writes them, for tests that compare with autograd."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

ALEXNET = {784: (1, 28, 2), 1024: (1, 32, 3), 3072: (3, 32, 3)}
"""By features: channels and side of an image, and what is left of a side after three pools."""


def network(
    name: str, features: int, classes: int, parameters: NDArray[np.float64]
) -> nn.Sequential:
    """Return the network of a model, with these parameters."""
    parts: list[nn.Module] = []
    if name == "mlp":
        for block in range(5):
            parts += [nn.Linear(features if not block else 30, 30), nn.ReLU(), nn.GroupNorm(1, 30)]
        parts += [nn.Linear(30, classes)]
    elif name == "cnn":
        parts += [nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU()]
        parts += [nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()]
        parts += [nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, classes)]
    elif name == "mlp-64":
        parts += [nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, classes)]
    elif name == "alexnet":  # ReLU before pooling, as in the paper
        channels, side, rest = ALEXNET[features]
        parts += [nn.Unflatten(1, (channels, side, side))]
        sizes = ((channels, 8, 5), (8, 16, 5), (16, 24, 3), (24, 24, 3), (24, 16, 3))
        for depth, width, kernel in sizes:
            parts += [nn.Conv2d(depth, width, kernel, padding=kernel // 2), nn.ReLU()]
            parts += [nn.MaxPool2d(3, 2)] if width != 24 else []
        parts += [nn.Flatten(), nn.Linear(16 * rest**2, 64), nn.ReLU(), nn.Linear(64, 64)]
        parts += [nn.ReLU(), nn.Linear(64, classes)]
    else:
        parts += [nn.Linear(features, classes if name == "softmax" else 1)]
    whole = nn.Sequential(*parts).double()
    nn.utils.vector_to_parameters(torch.tensor(parameters), whole.parameters())
    return whole


def mix(word: int) -> int:
    """SplitMix64's mixing function, on integers."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)
