"""Algorithm 2 with its encryption: the masked sum, less all noise but one hidden node's."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")
pytest.importorskip("privplan.fl.fedpower.noise_removal.driver")

from privplan.accountant.errors import ProtocolFault
from privplan.accountant.mechanisms import Gate
from privplan.accountant.mechanisms.product_rows import basis_steps
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.fedpower.iterate import next_iterate
from privplan.fl.fedpower.utility import paillier_removal

from .published_small import (
    SEED,
    Noises,
    built,
    grid_table,
    mechanism_of,
    product_by_hand,
    settings,
)

driver: Any = importlib.import_module("privplan.fl.fedpower.noise_removal.driver")

NODES = 8


def weak(posts: Mapping[str, Any], nodes: int) -> Any:
    """Make the protocol with keys that protect nothing."""
    return driver.NoiseRemoval(posts, nodes, key_bits=1024, weak=True)


def test_a_round_is_the_sum_with_the_noise_of_one_node(tiny: Any, run: Any) -> None:
    system = built("utility", tiny(features=5, silos=NODES), weak, rounds=3)
    models, log = run(system, seed=SEED)
    mechanism = mechanism_of(system)
    noise, shape = Noises(mechanism), system.terms.parts["iterate"]
    for number in range(1, 4):
        basis = basis_steps(models[number - 1].reshape(shape), mechanism.grid_bits.basis_bits)
        exact = sum(product_by_hand(grid_table(system, node), basis) for node in range(NODES))
        candidates = [exact + noise.of(f"silo-{node}") for node in range(NODES)]
        bases = [
            next_iterate(one.reshape(shape) * mechanism.grid).basis.reshape(-1)
            for one in candidates
        ]
        (staying,) = [node for node in range(NODES) if np.array_equal(bases[node], models[number])]
        assert log.sealed[number - 1]["residuals"]["whole"]["silos"] == [staying]
    assert {release.shares for release in log.releases} == {NODES}


def test_the_server_holds_the_sum_and_what_it_takes_off(
    tiny: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What leaves the removal is the noise of all others; nobody is told whose it lacks."""
    seen: list[tuple[Any, Any]] = []
    honest = driver.NoiseRemoval.removed

    def noted(self: Any, number: int, noises: Sequence[Callable[[], Any]], *, largest: int) -> Any:
        removed = honest(self, number, noises, largest=largest)
        seen.append(([noise() for noise in noises], removed))
        return removed

    monkeypatch.setattr(driver.NoiseRemoval, "removed", noted)
    run(built("utility", tiny(features=5, silos=NODES), weak, rounds=2))
    for noises, removed in seen:
        left = np.sum(noises, axis=0) - removed
        assert sum(np.array_equal(left, noise) for noise in noises) == 1


def test_a_message_that_is_lost_in_the_removal_ends_the_run(tiny: Any, log: Any) -> None:
    """The sum has been made, and is not released; nothing more is summed under those keys."""
    system = built("utility", tiny(features=5, silos=NODES), weak, rounds=2)
    kept = log()
    gate = Gate(Odometer.for_plan(system.plan()), kept, Streams.seeded(1))
    model = system.round(1, system.initial(), gate).parameters
    network = system.aggregator.network
    kinds: list[str] = []

    def lost(message: Any) -> tuple[Any, ...]:
        kinds.append(message.kind)
        of_removal = not message.kind.startswith("secagg")
        return () if of_removal and message.sender == "silo-3" else (message,)

    network._meddling = lost
    with pytest.raises(ProtocolFault):
        system.round(2, model, gate)
    assert any(kind.startswith("secagg") for kind in kinds)
    assert len(kept.releases) == 1
    assert len(kept.intents) == 2
    assert kept.records[-1].reason == "missing-party"


def test_the_configured_keys_are_used(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def noted(posts: Any, nodes: int, **keys: Any) -> None:
        given.update(keys, nodes=nodes, posts=set(posts))

    monkeypatch.setattr(driver, "NoiseRemoval", noted)
    given_settings = settings(
        "utility", tiny(), security={"key_bits": 4096, "processes": 2}, rounds=5
    )
    paillier_removal(given_settings)({"server": None, "silo-0": None}, 1)  # type: ignore[dict-item]
    assert given == {
        "key_bits": 4096,
        "processes": 2,
        "rounds": 5,
        "nodes": 1,
        "posts": {"server", "silo-0"},
    }
