"""Rounds of the published algorithms: the plain computation, and the noise, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privplan.accountant.mechanisms.product_rows import basis_steps
from privplan.fl.fedpower.iterate import next_iterate, rotation

from ...cases import for_each
from .published_small import (
    SEED,
    SYSTEMS,
    EachInTurn,
    Noises,
    built,
    grid_table,
    mechanism_of,
    product_by_hand,
    wrapped,
)

TABLES: dict[str, dict[str, Any]] = {
    "for a row": {},
    "as published": {"as_published": True, "largest_element": 3.0, "entry_clip": 0.3},
    "oversampled": {"oversampling": 1},
    "divided by rows": {
        "divide_by_rows": True,
        "divisor": 4.0,
        "as_published": True,
        "largest_element": 3.0,
    },
}
NODES = ("silo-0", "silo-1", "silo-2")


def orthonormal(product: Any) -> Any:
    """Gram-Schmidt, by columns."""
    columns: list[Any] = []
    for column in product.T:
        rest = column - sum((done * (done @ column) for done in columns), np.zeros(len(column)))
        rest -= sum((done * (done @ rest) for done in columns), np.zeros(len(column)))
        columns.append(rest / np.linalg.norm(rest))
    return np.array(columns).T


def released_by_hand(algorithm: str, number: int, exact: Any, noises: list[Any], last: Any) -> Any:
    if algorithm == "original":
        return wrapped(sum(one.astype(object) for one in [*exact, *noises, last]))
    kept = [noises[number % 3]] if algorithm == "utility" else noises
    return wrapped(sum(one.astype(object) for one in [*exact, *kept]))


def next_by_hand(system: Any, released: Any) -> Any:
    mechanism = mechanism_of(system)
    product = released.reshape(system.terms.parts["iterate"]) * mechanism.grid
    basis = next_iterate(product).basis
    if system.algorithm == "private":
        eta = system.terms.settings.entry_clip
        basis = np.minimum(np.maximum(basis, -eta), eta)
    return basis.reshape(-1)


@for_each("table", TABLES)
@for_each("algorithm", SYSTEMS)
def test_a_round_is_the_plain_product_and_its_noise(
    algorithm: str, table: str, tiny: Any, run: Any
) -> None:
    system = built(algorithm, tiny(features=7), **TABLES[table])
    models, log = run(system, seed=SEED)
    mechanism = mechanism_of(system)
    noise = Noises(mechanism)
    assert len(models) == 4
    for number in range(1, 4):
        basis = basis_steps(
            models[number - 1].reshape(system.terms.parts["iterate"]),
            mechanism.grid_bits.basis_bits,
        )
        exact = [product_by_hand(grid_table(system, silo), basis) for silo in range(3)]
        noises = [noise.of(name) for name in NODES]
        last = noise.of("server") if algorithm == "original" else None
        released = released_by_hand(algorithm, number, exact, noises, last)
        assert np.array_equal(models[number], next_by_hand(system, released))
    published = TABLES[table].get("as_published", False)
    assert {intent.event.__class__.__name__ for intent in log.intents} == {
        "NoGuarantee" if published else "Gaussian"
    }
    assert all(intent.noise.draws == 1 for intent in log.intents)


@for_each("algorithm", [one for one in SYSTEMS if one != "private"])
def test_local_steps_are_exact_and_then_aligned(algorithm: str, tiny: Any, run: Any) -> None:
    """Three products in a round; what is turned is turned towards the node whose turn it is."""
    system = built(
        algorithm,
        tiny(features=7),
        as_published=True,
        synchronise_every=3,
        largest_element=3.0,
        rounds=2,
    )
    models, _ = run(system, seed=SEED)
    mechanism = mechanism_of(system)
    noise, shape = Noises(mechanism), system.terms.parts["iterate"]
    bits = mechanism.grid_bits.basis_bits
    for number in (1, 2):
        products = []
        for silo in range(3):
            rows = grid_table(system, silo)
            z = models[number - 1].reshape(shape)
            for _ in range(3):
                total = product_by_hand(rows, basis_steps(z, bits))
                z = orthonormal(total.astype(float).reshape(shape))
            products.append(total.astype(float).reshape(shape))
        towards = products[number - 1]
        exact = [np.rint(one @ rotation(one, towards)).reshape(-1) for one in products]
        noises = [noise.of(name) for name in NODES]
        kept = [noises[number % 3]] if algorithm == "utility" else [*noises, noise.of("server")]
        released = sum(exact) + sum(kept)
        # Floats that are turned differ by some steps, of which noise has thousands.
        wanted = next_by_hand(system, released)
        assert np.allclose(models[number], wanted, rtol=0, atol=1e-6)


@for_each("algorithm", [one for one in SYSTEMS if one == "private"])
def test_local_steps_have_each_node_s_share_of_the_noise(
    algorithm: str, tiny: Any, run: Any
) -> None:
    """Noise comes before the orthonormalisation, and entries are clipped after it."""
    eta = 0.45
    system = built(
        algorithm,
        tiny(features=7),
        as_published=True,
        synchronise_every=3,
        largest_element=3.0,
        entry_clip=eta,
        rounds=2,
    )
    models, log = run(system, seed=SEED)
    mechanism = mechanism_of(system)
    noise, shape = Noises(mechanism), system.terms.parts["iterate"]
    bits = mechanism.grid_bits.basis_bits
    for number in (1, 2):
        bases = [models[number - 1].reshape(shape)] * 3
        rows = [grid_table(system, silo) for silo in range(3)]
        for _ in range(2):
            noisy = [
                product_by_hand(rows[silo], basis_steps(bases[silo], bits)) + noise.of(NODES[silo])
                for silo in range(3)
            ]
            tables = [orthonormal(one.astype(float).reshape(shape)) for one in noisy]
            bases = [np.clip(one, -eta, eta) for one in tables]
        exact = [product_by_hand(rows[silo], basis_steps(bases[silo], bits)) for silo in range(3)]
        released = sum(exact) + sum(noise.of(name) for name in NODES)
        assert np.allclose(models[number], next_by_hand(system, released), rtol=0, atol=1e-6)
    assert [intent.noise.draws for intent in log.intents] == [3, 3]
    assert [release.draws for release in log.releases] == [3, 3]


def test_the_server_s_noise_is_a_stream_of_its_own_and_in_no_residual(tiny: Any, run: Any) -> None:
    """The residual of the whole sum has the nodes' shares alone, of which the log speaks."""
    system = built("original", tiny(features=40, records=60), rounds=4, rank=30)
    _, log = run(system, seed=SEED)
    for intent, release, sealed in zip(log.intents, log.releases, log.sealed, strict=True):
        assert len(release.streams) == len({one.stream for one in release.streams}) == 4
        assert release.shares == 3
        whole = sealed["residuals"]["whole"]
        assert whole["silos"] == [0, 1, 2]
        # 1,200 values: a variance is within 25% with probability above 1 - 1e-8; with the
        # server's noise it would be a third more.
        ratio = whole["squares"] / whole["squares_n"] / (3.0 * intent.noise.share_std**2)
        assert 0.8 < ratio < 1.2


@pytest.mark.skipif("utility" not in SYSTEMS, reason="masked sums need the extra `fl`")
def test_of_the_masked_sum_one_node_s_noise_is_left(tiny: Any, run: Any) -> None:
    system = built("utility", tiny(features=40, records=60), rounds=3, rank=30)
    _, log = run(system, seed=SEED)
    for number, (intent, sealed) in enumerate(zip(log.intents, log.sealed, strict=True), 1):
        whole = sealed["residuals"]["whole"]
        assert whole["silos"] == [number % 3]
        ratio = whole["squares"] / whole["squares_n"] / intent.noise.share_std**2
        assert 0.8 < ratio < 1.2


@pytest.mark.skipif("utility" not in SYSTEMS, reason="masked sums need the extra `fl`")
def test_too_little_noise_is_seen_in_the_residual(tiny: Any, run: Any) -> None:
    """A removal that takes every noise off leaves a residual of nothing."""

    class All(EachInTurn):
        def staying(self, number: int) -> int:
            return -number

    _, log = run(built("utility", tiny(features=8), All, rounds=1), seed=SEED)
    assert log.sealed[0]["residuals"]["whole"]["squares"] == 0.0
