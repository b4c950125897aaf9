"""Messages lose their senders layer by layer: every order is as likely, each by itself."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any, cast

import numpy as np
from scipy import stats

from privplan.accountant.randomness import Streams
from privplan.fl.delm.layers import Layer, layers_of, orders


class Tickets:
    """Streams by name, as a ticket lends them."""

    def __init__(self, seed: int) -> None:
        self._streams = Streams.seeded(seed)
        self.names: list[str] = []

    def stream(self, name: str) -> Any:
        self.names.append(name)
        return self._streams.stream(name)


LAYERS = (Layer("a", slice(0, 3)), Layer("b", slice(3, 5)))


def drawn(seed: int, clients: int) -> Any:
    return orders(cast("Any", Tickets(seed)), LAYERS, clients, shuffled=True)


def test_layers_are_the_weights_with_their_biases() -> None:
    parts = {"x-1.weight": (4, 3), "x-1.bias": (4,), "y-2.weight": (2, 4), "y-2.bias": (2,)}
    assert layers_of(parts) == (Layer("x-1", slice(0, 16)), Layer("y-2", slice(16, 26)))


def test_every_order_is_as_likely_and_layers_are_independent() -> None:
    """4,000 draws of two layers of three clients; both tests have a false alarm in 10^6."""
    pairs = Counter(
        (tuple(first.tolist()), tuple(second.tolist()))
        for first, second in (drawn(seed, 3) for seed in range(4000))
    )
    every = list(permutations(range(3)))
    counts = np.array([[pairs[a, b] for b in every] for a in every])
    assert stats.chisquare(counts.ravel()).pvalue > 1e-6
    assert stats.chi2_contingency(counts).pvalue > 1e-6


def test_a_mean_of_a_layer_stays_what_it_is() -> None:
    messages = np.random.default_rng(0).integers(-(2**40), 2**40, (7, 5))
    for layer, order in zip(LAYERS, drawn(3, 7), strict=True):
        assert sorted(order.tolist()) == list(range(7))
        part = messages[:, layer.numbers]
        assert np.array_equal(part[order].sum(axis=0), part.sum(axis=0))
        assert sorted(map(tuple, part[order].tolist())) == sorted(map(tuple, part.tolist()))


def test_each_layer_has_a_stream_of_its_own_and_no_shuffle_draws_nothing() -> None:
    tickets = Tickets(0)
    orders(cast("Any", tickets), LAYERS, 4, shuffled=True)
    assert tickets.names == ["shuffle/a", "shuffle/b"]
    still = Tickets(0)
    assert np.array_equal(orders(cast("Any", still), LAYERS, 4, shuffled=False), [[0, 1, 2, 3]] * 2)
    assert still.names == []
