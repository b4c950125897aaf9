"""One round of a power iteration: the integer product and the noise that it states, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.mechanisms import NoisyProduct
from privplan.accountant.mechanisms.product_rows import basis_steps
from privplan.fl.fedpower.iterate import first_basis, next_iterate
from privplan.fl.fedpower.power import SINGULAR_VALUES

from ...cases import for_each
from ...chance import limits
from ..drawn_noise import PROTOCOLS, noted_shares, wrapped
from .power_runs import UNITS, built, exact_product

TABLES: dict[str, dict[str, Any]] = {
    "usual": {},
    "oversampled": {"oversampling": 1},
    "divided": {"divisor": 40.0},
    "one direction": {"rank": 1},
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Return the list of the noise that is drawn, share by share, as integers."""
    return noted_shares(monkeypatch, NoisyProduct)


@pytest.mark.parametrize("aggregation", PROTOCOLS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("table", TABLES)
def test_every_round_is_the_integer_product_and_the_noise(
    table: str, unit: str, aggregation: str, tiny: Any, run: Any, drawn: list[np.ndarray]
) -> None:
    """Products in Python's integers, whatever the aggregation; iterates are functions of them."""
    system = built(tiny(), unit, security={"aggregation": aggregation}, **TABLES[table])
    mechanism = system.mechanism(system.promise.noise_multiplier)
    models, log = run(system)
    assert len(drawn) == 3 * 3
    shape = system.terms.parts["iterate"]
    for number in range(3):
        basis = basis_steps(models[number].reshape(shape), mechanism.grid_bits.basis_bits)
        noise = sum(share.astype(object) for share in drawn[3 * number : 3 * number + 3])
        exact = exact_product(system, basis)
        whole = wrapped([value + int(n) for value, n in zip(exact, noise, strict=True)])
        found = next_iterate(mechanism.units(whole))
        assert np.array_equal(models[number + 1], found.basis.reshape(-1))
        release = log.releases[number]
        assert release.shares == 3
        assert release.normaliser.value == TABLES[table].get("divisor", 1.0)
    assert all(share.any() for share in drawn)
    assert [intent.round for intent in log.intents] == [1, 2, 3]
    assert all(intent.event == system.promise.event for intent in log.intents)


@for_each("aggregation", PROTOCOLS[1:])
def test_every_protocol_gives_the_same_models(aggregation: str, tiny: Any, run: Any) -> None:
    plain = run(built(tiny()), seed=5)[0]
    other = run(built(tiny(), security={"aggregation": aggregation}), seed=5)[0]
    assert all(map(np.array_equal, plain, other))
    assert not np.array_equal(plain[1], run(built(tiny()), seed=6)[0][1])


def test_the_noise_has_the_deviation_that_is_stated(
    tiny: Any, run: Any, drawn: list[np.ndarray]
) -> None:
    """A chi-squared test of 3,600 numbers at 1 in 10^6; noise of nine tenths has z about -8."""
    system = built(tiny(features=60), rounds=10)
    _, log = run(system)
    mechanism = system.mechanism(system.promise.noise_multiplier)
    values = np.concatenate(drawn) * mechanism.grid / log.intents[0].noise.share_std
    low, high = limits(stats.chi2(values.size))
    assert low < np.square(values).sum() < high


def test_sums_that_wrap_around_are_summed_all_the_same(
    tiny: Any, run: Any, drawn: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the numbers are, a release is made: a refusal would tell that they are large."""
    from privplan.accountant.mechanisms.product_rows import ProductRows

    honest = ProductRows.total
    monkeypatch.setattr(
        ProductRows, "total", lambda self, basis: honest(self, basis) + np.int64(2**62 + 12345)
    )
    system = built(tiny(), rounds=1)
    mechanism = system.mechanism(system.promise.noise_multiplier)
    models, log = run(system)
    basis = basis_steps(models[0].reshape(4, 2), mechanism.grid_bits.basis_bits)
    noise = sum(share.astype(object) for share in drawn)
    beyond = 3 * (2**62 + 12345)
    whole = [
        value + int(n) + beyond
        for value, n in zip(exact_product(system, basis), noise, strict=True)
    ]
    assert max(whole) > 2**63
    found = next_iterate(mechanism.units(wrapped(whole)))
    assert np.array_equal(models[1], found.basis.reshape(-1))
    assert len(log.releases) == 1


def test_exact_products_come_before_the_intent(
    tiny: Any, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails in them has spent nothing, and says nothing."""
    from privplan.accountant.mechanisms.product_rows import ProductRows

    def fails(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(ProductRows, "total", fails)
    system, records = built(tiny()), log()
    with pytest.raises(MemoryError):
        system.round(1, system.initial(), records)
    assert records.records == []


@for_each("unit", UNITS)
def test_a_release_is_made_of_no_rows_too(unit: str, tiny: Any, run: Any) -> None:
    """A neighbour may have an empty node, or nothing at all: that is no reason to refuse."""
    whole = tiny()
    for kept in (whole.silo != 1, np.zeros(whole.records, bool)):
        system = built(whole.only(kept), unit)
        models, log = run(system)
        assert all(np.isfinite(model).all() for model in models)
        assert log.sealed[0]["rows"] == np.bincount(whole.silo[kept], minlength=3).tolist()
        assert all(sealed["recomputed"]["sum_off"] < 1.0 for sealed in log.sealed)


def test_rows_are_counted_and_clipped_as_is_sealed(tiny: Any, run: Any) -> None:
    system = built(tiny(), "silo", most_rows=20)
    federation = system.setup.federation
    _, log = run(system)
    sealed = log.sealed[0]
    rows = np.bincount(federation.silo, minlength=3)
    assert sealed["rows"] == rows.tolist()
    assert sealed["dropped"] == np.maximum(rows - 9, 0).tolist()
    assert sealed["rows_beyond"] == 20
    for silo, clipped in enumerate(sealed["clipped"]):
        mine = federation.features[federation.silo == silo][:9].astype(float)
        assert clipped == int((np.linalg.norm(mine, axis=1) > 2.0).sum())


def test_the_iterate_is_orthonormal_and_its_singular_values_are_kept(tiny: Any) -> None:
    from privplan.accountant.mechanisms import Gate
    from privplan.accountant.odometer import Odometer
    from privplan.accountant.randomness import Streams

    from ..conftest import Log

    system = built(tiny(), oversampling=1)
    gate = Gate(Odometer.for_plan(system.plan()), Log(), Streams.seeded(1))
    made = system.round(1, system.initial(), gate)
    basis, values = made.parameters.reshape(4, 3), made.state[SINGULAR_VALUES]
    assert np.abs(basis.T @ basis - np.eye(3)).max() < 1e-12
    assert (np.diff(values) <= 0.0).all()
    assert (values > 0.0).all()
    assert system.state.shapes == {SINGULAR_VALUES: (3,)}


@for_each(("dimension", "rank"), [(4, 1), (5, 2), (50, 7), (9, 9)])
def test_the_first_iterate_is_orthonormal_and_follows_from_the_seed(
    dimension: int, rank: int
) -> None:
    start = first_basis(dimension, rank, seed=3)
    assert np.abs(start.T @ start - np.eye(rank)).max() < 1e-15
    assert ((start != 0.0).sum(axis=1) == 1).all()
    assert np.array_equal(start, first_basis(dimension, rank, seed=3))
    assert not np.array_equal(first_basis(50, 5, seed=1), first_basis(50, 5, seed=2))


def test_rounds_without_much_noise_find_the_directions(tiny: Any, run: Any) -> None:
    """At noise that is small beside 4,000 rows of norm 2, ten products leave an angle below .1."""
    federation = tiny(records=4000, features=6)
    system = built(federation, rounds=30, privacy={"noise_multiplier": 2.0})
    models, _ = run(system)
    rows = federation.features.astype(float)
    rows *= np.minimum(1.0, 2.0 / np.linalg.norm(rows, axis=1))[:, None]
    weights = np.linalg.eigvalsh(rows.T @ rows)
    found = models[-1].reshape(6, 2)
    kept = np.trace(found.T @ rows.T @ rows @ found) / weights[-2:].sum()
    assert 0.97 < kept <= 1.0 + 1e-12
