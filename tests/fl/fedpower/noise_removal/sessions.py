"""Small sessions of noise removal, for its tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from privplan.fl.fedpower.noise_removal import server as server_module
from privplan.fl.fedpower.noise_removal.driver import NoiseRemoval
from privplan.fl.fedpower.noise_removal.messages import Removal, Selection
from privplan.fl.parties.network import SERVER, Message, Network, Post, silo_name

KEY_BITS = 1024


def network_of(
    nodes: int,
    *,
    keep: bool = True,
    meddling: Callable[[Message], Iterable[Message]] | None = None,
) -> tuple[Network, dict[str, Post]]:
    """Return a network of a server and nodes, and everybody's post."""
    names = [SERVER, *(silo_name(node) for node in range(nodes))]
    network = Network(names, keep=keep, meddling=meddling)
    return network, {name: network.post(name) for name in names}


def session_of(nodes: int, *, key_bits: int = KEY_BITS) -> tuple[NoiseRemoval, Network]:
    """Return a session whose network keeps every message."""
    network, posts = network_of(nodes)
    return NoiseRemoval(posts, nodes, key_bits=key_bits, weak=True), network


def drawn(noises: NDArray[np.int64]) -> list[Callable[[], NDArray[np.int64]]]:
    """Return what draws each node's noise, a row of (nodes, values) each."""
    return [partial(np.array, row) for row in noises]


def keep_noise_of(monkeypatch: pytest.MonkeyPatch, node: int) -> None:
    """Let this node's noise stay, in every round."""
    monkeypatch.setattr(server_module, "hidden_index", lambda _: node)


def selections(session: NoiseRemoval, network: Network, number: int) -> dict[str, int]:
    """Return the selection that each node received in a round."""
    public = session._server._private.public
    return {
        one.receiver: public.read([Selection.unpack(one.body).ciphertext])[0]
        for name in network.names
        for one in network.view(name)
        if one.kind == Selection.kind and one.round == number
    }


def removals(session: NoiseRemoval, network: Network, number: int) -> dict[str, list[int]]:
    """Return the ciphertexts of a round that reached the server, by node."""
    public = session._server._private.public
    return {
        one.sender: public.read(Removal.unpack(one.body).ciphertexts)
        for one in network.view(SERVER)
        if one.kind == Removal.kind and one.round == number
    }
