"""The layers of a model, and messages that lose their senders, layer by layer.

A layer is a weight with its bias.  Under `shuffle = "layers"` the messages of each layer are put
into a random order of their own before the server sees them, so that a mean of a layer stays what
it is, bit for bit, and no two layers of a client can be matched.

What it hides is who sent a layer.  It lowers no epsilon here: what a client adds hides a record,
and not the client, so its message is no local randomizer of a client, which is what theorems on
shuffling are about; and m layers of one client are m messages about one record, not a sample of
one of them.

Source: Cao et al. 2023, DELM, *Split and Shuffle*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...accountant.arrays import IntArray
from ...accountant.mechanisms import Ticket
from ...accountant.randomness import permutation


@dataclass(frozen=True)
class Layer:
    """One layer: its name, and which numbers of the model's vector are its own."""

    name: str
    numbers: slice


def layers_of(parts: Mapping[str, tuple[int, ...]]) -> tuple[Layer, ...]:
    """Return the layers of a model by the shapes of its parts: `linear-1.weight`, ...

    >>> [layer.name for layer in layers_of({"a.weight": (2, 3), "a.bias": (2,), "b.weight": (4,)})]
    ['a', 'b']
    """
    ends: dict[str, tuple[int, int]] = {}
    at = 0
    for part, shape in parts.items():
        name = part.rpartition(".")[0] or part
        first, _ = ends.get(name, (at, at))
        at += math.prod(shape)
        ends[name] = first, at
    return tuple(Layer(name, slice(*span)) for name, span in ends.items())


def orders(ticket: Ticket, layers: Sequence[Layer], clients: int, *, shuffled: bool) -> IntArray:
    """Return in which order the server sees the clients' messages of each layer, (m, n).

    Row l holds the clients by their places; without `shuffled` they stand as they are numbered.
    """
    if not shuffled:
        return np.tile(np.arange(clients), (len(layers), 1))
    return np.array(
        [permutation(ticket.stream(f"shuffle/{layer.name}"), clients) for layer in layers]
    )
