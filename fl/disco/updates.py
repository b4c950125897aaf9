"""What a peer's term is made of: its update, or the gradients of its records, clipped by tensor.

unit silo     x_i - x, the change of the model by training on all records of peer i
unit record   minus the gradient of each record at x; the peer's term is their sum
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ..aggregation.clip_check import norms_of
from ..frame.model import Parameters
from ..frame.setup import Setup
from ..training.local_training import Rows

_MAX_BLOCK_NUMBERS: Final = 2**22
"""Most numbers of gradients that are held at once: 32 MiB."""


@dataclass(frozen=True, eq=False)
class Terms:
    """Rows (n, D) that are clipped one by one, the peer of each, and its norm at first: (n,).

    `norms` stay those of the rows as they were trained, whatever has shortened them since.
    """

    rows: Rows
    peer: IntArray
    norms: FloatArray


def silo_terms(
    setup: Setup, parameters: Parameters, number: int, members: Sequence[int]
) -> Iterator[Terms]:
    """Yield the update of each of some peers, of round `number`."""
    chosen = np.asarray(members, np.int64)
    rows = setup.local.silo_deltas(parameters, number)[chosen]
    yield Terms(rows, chosen, norms_of(rows))


def record_terms(
    setup: Setup, parameters: Parameters, number: int, members: Sequence[int]
) -> Iterator[Terms]:
    """Yield minus the gradient of each record of some peers, in blocks of at most 32 MiB."""
    federation = setup.federation
    models = np.broadcast_to(parameters, (setup.silos, parameters.size))
    chosen = np.flatnonzero(np.isin(federation.silo, np.asarray(members)))
    # Rows of D numbers per block, so that a block stays within the limit.
    block = max(1, _MAX_BLOCK_NUMBERS // parameters.size)
    for first in range(0, len(chosen), block):
        part = chosen[first : first + block]
        rows = -setup.local.record_gradients(models, part, number)
        yield Terms(rows, federation.silo[part], norms_of(rows))


def tensor_sizes(setup: Setup, length: int) -> tuple[int, ...]:
    """Return the lengths of the model's tensors, in order; without a model, that of the vector."""
    model = getattr(setup.local, "model", None)
    if model is None:
        return (length,)
    return tuple(math.prod(shape) for shape in model.parts.values())


def tensor_norms(rows: FloatArray, sizes: Sequence[int]) -> FloatArray:
    """Return the L2 norm of each tensor of rows (n, D), of these sizes: (n, tensors).

    Infinite, or no number, where a tensor holds one or its squares are too large for a float.
    """
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(np.add.reduceat(rows * rows, starts, axis=1)))


def clipped_by_tensor(
    rows: FloatArray, sizes: Sequence[int], radius: float | FloatArray
) -> FloatArray:
    """Return rows (n, D) whose tensors, of these sizes, are each shortened to L2 norm `radius`.

    `radius` is one number, or one for each tensor of each row, (n, tensors).  A tensor that holds
    an infinity or no number becomes zero.  In floats, so that a norm may be off by its last digits:
    the whole row is clipped again, exactly, before it is summed.
    """
    norms = tensor_norms(rows, sizes)
    factors = np.minimum(1.0, radius / np.maximum(norms, radius))
    spread = np.repeat(np.where(np.isfinite(norms), factors, 0.0), sizes, axis=1)
    return np.asarray(np.where(spread > 0.0, rows, 0.0) * spread)
