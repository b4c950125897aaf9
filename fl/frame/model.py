"""A model as one vector, and the round that released it.

Whatever a system trains or measures, the frame sees it as one vector (D,) of float64: that is what
the log names by a digest, what the checkpoint holds, and what the next round starts from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from .state import Arrays

Parameters: TypeAlias = FloatArray
"""A model as one vector: (D,) float64."""

KeepModel: TypeAlias = Callable[[FloatArray, Arrays], None]
"""Writes a model and its state to disk, before the log has their release."""


@dataclass(frozen=True)
class Round:
    """The result of one round: the released model, and the number of its release in the log.

    `state` holds the public arrays that the system keeps with the model (`fl.frame.state`).
    """

    parameters: Parameters
    released: int
    state: Arrays = field(default_factory=dict)


def model_digest(parameters: Parameters) -> str:
    """Return the SHA-256 of a model, as the log names it: over its little-endian float64 bytes."""
    return hashlib.sha256(np.ascontiguousarray(parameters, "<f8").tobytes()).hexdigest()


def finite_model(parameters: object, size: int | None, whose: str) -> Parameters:
    """Return a copy of a model: (D,) float64, every number finite; `size` is D, None if unknown.

    `whose` names the model in the error.  Raises `InvalidInput` for anything else.
    """
    if size is None:
        size = max(int(np.size(parameters)), 1) if isinstance(parameters, np.ndarray) else 1
    model = require_model(parameters, size, whose)
    if not np.isfinite(model).all():
        raise InvalidInput(
            f"{whose} is not finite.",
            "From a model that is no number there is no way on.",
            "Lower the learning rates of [training], or give more noise, in a new run.",
        )
    return model.copy()


def require_model(parameters: object, size: int, whose: str) -> Parameters:
    """Return a model (D,) float64; raise `InvalidInput` for anything else."""
    if (
        not isinstance(parameters, np.ndarray)
        or parameters.dtype != np.float64
        or parameters.shape != (size,)
    ):
        raise InvalidInput(
            f"{whose} must be a vector ({size},) of float64.",
            "A model is one such vector, in every round.",
            "Return one for each parameter.",
        )
    return parameters
