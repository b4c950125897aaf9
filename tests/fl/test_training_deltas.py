"""Batched training against a loop over units in plain PyTorch, and what it draws by names alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from numpy.typing import NDArray

from privplan.fl.data.federation import Federation
from privplan.fl.models import MODELS, model_named
from privplan.fl.training.deltas import gradients, local_deltas
from privplan.fl.training.threads import one_thread
from privplan.fl.training.units import Recipe, Units

from .training_units import BATCH, RATES, looped, made, units_of


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with one_thread():
        yield


@pytest.mark.parametrize("name", MODELS)
def test_deltas_are_those_of_the_loop(name: str) -> None:
    model, units = made(name), units_of(name)
    recipe = Recipe(RATES[name], epochs=3, batch=BATCH, seed=5)
    start = model.initial(1)
    found = local_deltas(model, start, units, recipe, number=2)
    expected = looped(name, start, units, recipe, 2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
    moved = np.abs(expected).max(1)
    assert (moved[units.sizes > 3] > 1e-3).all()
    assert not found[units.sizes == 0].any()


def test_the_network_of_the_paper_over_thirty_epochs() -> None:
    model, units = made("mlp"), units_of("mlp", (44, 5, 64, 1, 70), 3)
    recipe = Recipe(0.01, epochs=30, batch=64)
    start = model.initial(0)
    found = local_deltas(model, start, units, recipe, number=1)
    np.testing.assert_allclose(found, looped("mlp", start, units, recipe, 1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["logistic", "cox", "mlp"])
def test_single_precision_is_close(name: str) -> None:
    """Up to ReLUs that fall on the other side: most rows to 1e-6, all to a few percent."""
    model, units = made(name), units_of(name, (1, 3, 5, 9) * 10)
    start = model.initial(1)
    exact = local_deltas(model, start, units, Recipe(0.05, 3, BATCH))
    single = local_deltas(model, start, units, Recipe(0.05, 3, BATCH, precision="float32"))
    off = np.abs(single - exact).max(1)
    assert np.median(off) < 1e-6
    assert off.max() < 0.05
    assert off.max() > 0.0


def test_the_same_again_and_otherwise_elsewhere() -> None:
    model, units = made("softmax"), units_of("softmax")
    start, recipe = model.initial(0), Recipe(0.1, 2, BATCH, seed=1)
    first = local_deltas(model, start, units, recipe, number=1)
    np.testing.assert_array_equal(local_deltas(model, start, units, recipe, number=1), first)
    several = units.sizes > BATCH
    one_batch = ~several & (units.sizes > 0)
    for other in (
        local_deltas(model, start, units, recipe, number=2),
        local_deltas(model, start, units, Recipe(0.1, 2, BATCH, seed=2), number=1),
    ):
        assert (np.abs(other - first)[several].max(1) > 1e-9).all()  # another order
        np.testing.assert_array_equal(other[one_batch], first[one_batch])  # there is no order


def test_units_and_epochs_draw_differently() -> None:
    model = made("mlp", 0.5)
    x = np.tile(np.random.default_rng(0).normal(size=(1, 30)), (3, 1)).astype(np.float32)
    units = Units(x, np.ones(3, int), np.arange(3), np.arange(4), [1, 2, 1], [0, 0, 1])
    rows = local_deltas(model, model.initial(0), units, Recipe(0.1, 1, 8))
    assert len(np.unique(rows.round(12), axis=0)) == 3
    # Two epochs of one minibatch are not two equal steps.
    model, units = made("mlp", 0.5), units_of("mlp", (4,))
    start, rate = model.initial(0), 1e-6
    once = local_deltas(model, start, units, Recipe(rate, 1, 8))
    twice = local_deltas(model, start, units, Recipe(rate, 2, 8))
    assert np.abs(twice - 2 * once).max() > 0.1 * np.abs(once).max()


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_dropout_changes_training_and_averages_out(name: str) -> None:
    """Over many draws, the first layer's mean gradient is of the size of that without dropout."""
    model, plain = made(name, 0.5), made(name)
    units = units_of(name, (3, 1, 2))
    start = model.initial(0)
    with_it = gradients(model, start, units, number=1)
    assert not np.allclose(with_it, gradients(plain, start, units))
    assert not np.array_equal(with_it, gradients(model, start, units, number=2))
    np.testing.assert_array_equal(with_it, gradients(model, start, units, number=1))
    recipe = Recipe(0.05, 2, 2)
    one, two = (local_deltas(model, start, units, recipe, number=n)[1] for n in (1, 2))
    assert not np.array_equal(one, two)


def test_units_of_a_federation() -> None:
    rng = np.random.default_rng(0)
    federation = Federation(
        name="tiny",
        task="binary",
        classes=2,
        users=6,
        silos=3,
        features=rng.normal(size=(60, 13)),
        labels=rng.integers(0, 2, 60),
        user=rng.permutation(np.arange(60) % 6),
        silo=rng.integers(0, 3, 60),
        test_features=rng.normal(size=(2, 13)),
        test_labels=[0, 1],
    )
    model, recipe = made("logistic"), Recipe(0.1, 2, 2)
    start = model.initial(0)

    def rows(one: Federation) -> dict[tuple[int, int], NDArray[np.float64]]:
        units = Units.of_pairs(one.features, one.labels, one.pairs())
        deltas = local_deltas(model, start, units, recipe)
        names = zip(units.user.tolist(), units.silo.tolist(), strict=True)
        return dict(zip(names, deltas, strict=True))

    whole, without = rows(federation), rows(federation.without(2))
    assert {pair for pair in whole if pair[0] != 2} == set(without)
    for pair, delta in without.items():
        np.testing.assert_array_equal(delta, whole[pair])
    silos = Units.of_silos(federation.features, federation.labels, federation.by_silo())
    assert silos.sizes.tolist() == federation.counts.sum(0).tolist()
    assert local_deltas(model, start, silos, recipe).any(1).all()


@pytest.mark.parametrize("name", ["alexnet", "mlp-64"])
def test_clients_learn_together_what_a_loop_over_them_would(name: str) -> None:
    """One mean of clients' deltas lowers the loss, and is that of clients one by one."""
    model, units = made(name), units_of(name, (6,) * 8)
    start, recipe = model.initial(0), Recipe(RATES[name], epochs=2, batch=BATCH)
    mean = local_deltas(model, start, units, recipe, number=1).mean(axis=0)
    alone = [local_deltas(model, start, units.only([i]), recipe, number=1)[0] for i in range(8)]
    np.testing.assert_allclose(mean, np.mean(alone, axis=0), rtol=0, atol=1e-12)
    labels = torch.tensor(units.labels)[None]
    share = torch.full(labels.shape, 1.0 / labels.shape[1], dtype=torch.float64)

    def loss(parameters: NDArray[np.float64]) -> float:
        logits = torch.tensor(model.logits(parameters, units.features))[None]
        return float(model.loss.value(logits, labels, share))

    assert loss(start + mean) < loss(start)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize(("name", "dropout"), [*((one, 0.0) for one in MODELS), ("mlp", 0.5)])
def test_a_gpu_agrees(name: str, dropout: float) -> None:
    model, units = made(name, dropout), units_of(name)
    recipe, start = Recipe(RATES[name], epochs=3, batch=BATCH), model.initial(1)
    found = local_deltas(model, start, units, recipe, device="cuda")
    np.testing.assert_allclose(found, local_deltas(model, start, units, recipe), rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        gradients(model, start, units, device="cuda"),
        gradients(model, start, units),
        rtol=0,
        atol=1e-11,
    )


@pytest.mark.slow
def test_alexnet_learns_enlarged_digits() -> None:
    """In twelve epochs from a fixed start: .95 where it was measured, and .1 by guessing."""
    pytest.importorskip("sklearn")
    from privplan.fl.datasets import load

    data, model = load("digits-32"), model_named("alexnet", 1024, 10)
    everybody = np.arange(data.records)
    units = Units(data.features, data.labels, everybody, [0, data.records], [0], [0])
    parameters = model.initial(0)
    found = []
    for number in range(12):
        step = local_deltas(model, parameters, units, Recipe(0.05, 1, 8), number=number)
        parameters = parameters + step[0]
        logits = model.logits(parameters, data.test_features)
        found.append(float(np.mean(logits.argmax(axis=1) == data.test_labels)))
    assert max(found) > 0.85
