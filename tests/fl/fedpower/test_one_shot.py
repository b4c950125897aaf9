"""One Gram release of FedPower: numpy's product and the noise, sparse or dense, and directions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import NoisyGram
from privplan.accountant.mechanisms.gram_row_grid import grid_rows
from privplan.fl.fedpower import rows as data_rows
from privplan.fl.fedpower.directions import design_of, directions
from privplan.fl.fedpower.settings import FedPowerSettings

from ...cases import for_each
from ..drawn_noise import PROTOCOLS, noted_shares
from .power_runs import built, kept_rows

SYSTEM = {"system": "fedpower-one-shot", "rounds": 1}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Return the list of the noise that is drawn, share by share, as integers."""
    return noted_shares(monkeypatch, NoisyGram)


def exact_triangle(system: Any) -> np.ndarray:
    """Return the upper triangle of q^T q of the rows that count, in Python's integers."""
    mechanism = system.mechanism(system.promise.noise_multiplier)
    federation = system.setup.federation
    total = np.zeros((mechanism.gram.dimension,) * 2, dtype=object)
    for silo in range(federation.silos):
        rows, _ = grid_rows(mechanism, kept_rows(federation, silo, system.terms.kept(silo)))
        whole = rows.astype(np.int64).astype(object)
        if len(whole):
            total += whole.T @ whole
    return total[np.triu_indices(len(total))]


@pytest.mark.parametrize("aggregation", PROTOCOLS)
@pytest.mark.parametrize("unit", ["record", "silo"])
def test_the_release_is_the_integer_product_and_the_noise(
    unit: str, aggregation: str, tiny: Any, run: Any, drawn: list[np.ndarray]
) -> None:
    system = built(tiny(), unit, security={"aggregation": aggregation}, **SYSTEM)
    mechanism = system.mechanism(system.promise.noise_multiplier)
    models, log = run(system)
    noise = sum(share.astype(object) for share in drawn)
    whole = (exact_triangle(system) + noise).astype(np.int64)
    assert np.array_equal(models[1], mechanism.units(whole))
    assert len(drawn) == 3
    assert all(share.any() for share in drawn)
    assert log.sealed[0]["recomputed"]["sum_off"] < 1.0
    assert system.parts == {"gram": (10,)}
    assert models[0].tolist() == [0.0] * 10
    assert log.intents[0].contribution.gram.classes == 0


@for_each("unit", ["record", "silo"])
def test_sparse_rows_release_what_dense_rows_do(
    unit: str, tiny: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = tiny()
    thin = np.where(np.abs(federation.features) < 0.7, 0.0, federation.features)
    federation = replace(federation, features=thin.astype(np.float32))
    dense = run(built(federation, unit, **SYSTEM))
    honest = data_rows.node_rows
    monkeypatch.setattr(data_rows, "node_rows", lambda *given: csr_array(honest(*given)))
    sparse = run(built(federation, unit, **SYSTEM))
    assert np.array_equal(dense[0][1], sparse[0][1])
    assert dense[1].sealed[0]["clipped"] == sparse[1].sealed[0]["clipped"]
    assert sparse[1].sealed[0]["recomputed"]["sum_off"] < 1.0


def test_power_takes_sparse_rows_as_well(
    tiny: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = run(built(tiny(), "silo"))
    honest = data_rows.node_rows
    monkeypatch.setattr(data_rows, "node_rows", lambda *given: csr_array(honest(*given)))
    sparse = run(built(tiny(), "silo"))
    assert all(map(np.array_equal, dense[0], sparse[0]))
    assert all(sealed["recomputed"]["sum_off"] < 1.0 for sealed in sparse[1].sealed)


def test_no_rows_are_no_reason_to_refuse(tiny: Any, run: Any) -> None:
    whole = tiny()
    for kept in (whole.silo != 1, np.zeros(whole.records, bool)):
        models, log = run(built(whole.only(kept), **SYSTEM))
        assert models[1].all()
        assert log.sealed[0]["rows"] == np.bincount(whole.silo[kept], minlength=3).tolist()


def test_a_client_sees_what_a_silo_sees(tiny: Any) -> None:
    views = built(tiny(), **SYSTEM).views(3.0)
    assert views["client"] == views["silo"] == ev.Gaussian(3.0 * (2 / 3) ** 0.5)
    assert "user" not in " ".join(views)


@for_each("dimension", [3, 8, 40])
def test_directions_of_a_gram_matrix_are_its_eigenvectors(dimension: int) -> None:
    random = np.random.default_rng(dimension)
    square = random.normal(size=(dimension, dimension))
    matrix = square @ square.T
    table = FedPowerSettings(rank=3, row_norm=1.0)
    triangle = matrix[np.triu_indices(dimension)]
    assert design_of(table, triangle.size, dimension) == "one-shot"
    found = directions(table, "one-shot", triangle, dimension)
    values, vectors = np.linalg.eigh(matrix)
    assert found.shape == (dimension, 3)
    assert np.abs(np.abs(np.sum(found * vectors[:, :-4:-1], axis=0)) - 1.0).max() < 1e-10
    assert np.allclose(np.diag(found.T @ matrix @ found), values[:-4:-1])
    assert (found[np.abs(found).argmax(axis=0), np.arange(3)] > 0.0).all()


def test_directions_of_an_iterate_are_its_first_columns() -> None:
    table = FedPowerSettings(rank=2, row_norm=1.0, oversampling=2)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 4)))[0]
    found = directions(table, "power", basis.reshape(-1), 9)
    assert design_of(table, basis.size, 9) == "power"
    assert np.allclose(found @ found.T, basis[:, :2] @ basis[:, :2].T)
    for bad in (basis.reshape(-1)[1:], np.full(36, np.nan)):
        with pytest.raises(InvalidInput, match="must be 36 finite numbers"):
            directions(table, "power", bad, 9)
    with pytest.raises(InvalidInput, match=r"45 or\n? ?36|45 or 36"):
        design_of(table, 44, 9)


def test_little_noise_finds_the_directions_of_the_data(tiny: Any, run: Any) -> None:
    """4,000 rows and noise multiplier 2: the share of the variance that is kept is above .97."""
    federation = tiny(records=4000, features=6)
    system = built(federation, privacy={"noise_multiplier": 2.0}, **SYSTEM)
    models, _ = run(system)
    rows = federation.features.astype(float)
    rows *= np.minimum(1.0, 2.0 / np.linalg.norm(rows, axis=1))[:, None]
    found = directions(system.table, "one-shot", models[1], 6)
    weights = np.linalg.eigvalsh(rows.T @ rows)
    assert 0.97 < np.trace(found.T @ rows.T @ rows @ found) / weights[-2:].sum() <= 1.0 + 1e-12
