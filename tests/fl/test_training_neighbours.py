"""What a neighbour must not do to the training of others: move a bit of it, or tell of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")


from privplan.fl.models import MODELS, model_named
from privplan.fl.training import deltas
from privplan.fl.training.deltas import delta_blocks, gradients, local_deltas, per_example_gradients
from privplan.fl.training.threads import one_thread
from privplan.fl.training.units import Recipe, Units

from .training_units import BATCH, RATES, SIZES, made, random_rows, units_of


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with one_thread():
        yield


@pytest.mark.parametrize(("name", "dropout"), [*((one, 0.0) for one in MODELS), ("mlp", 0.5)])
def test_a_removed_unit_changes_no_other_bit(name: str, dropout: float) -> None:
    """Also where other units move to other places of a block, and to other blocks."""
    sizes = SIZES if name in ("cnn", "alexnet") else (*SIZES, 3, 3, 6, 7, 7, 12, 12, 5, 1, 30)
    model, units = made(name, dropout), units_of(name, sizes)
    recipe, start = Recipe(RATES[name], epochs=2, batch=BATCH), model.initial(4)
    whole = local_deltas(model, start, units, recipe, number=3)
    rng = np.random.default_rng(1)
    removals = [np.array([gone]) for gone in rng.permutation(len(units))[:2]]
    removals += [rng.permutation(len(units))[:many] for many in (3, len(units) - 1)]
    for gone in removals:
        left = np.setdiff1d(np.arange(len(units)), gone)
        found = local_deltas(model, start, units.only(left), recipe, number=3)
        np.testing.assert_array_equal(found, whole[left])
        some = gradients(model, start, units.only(left), number=3)
        np.testing.assert_array_equal(some, gradients(model, start, units, number=3)[left])


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    ("name", "features", "classes"),
    [
        *(("logistic", 84, 2), ("logistic", 1, 2), ("logistic", 31, 2), ("cox", 100, 1)),
        ("linear", 31, 1),
        *(("softmax", 33, 7), ("softmax", 57, 11), ("mlp", 1, 3), ("mlp", 31, 5)),
    ],
)
def test_odd_shapes_change_no_bit_either(
    name: str, features: int, classes: int, precision: Any
) -> None:
    """Where matrices would begin anywhere in memory, they were seen to round by their place."""
    model = model_named(name, features, classes)
    rng = np.random.default_rng(0)
    sizes = rng.poisson(7, 60)
    total = int(sizes.sum())
    x, labels = random_rows(name, rng, total, features, max(classes, 2))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    units = Units(x, labels, np.arange(total), offsets, np.arange(60), np.zeros(60, int))
    recipe, start = Recipe(0.05, 2, 8, precision=precision), model.initial(0)
    whole = local_deltas(model, start, units, recipe)
    slopes = gradients(model, start, units, precision=precision)
    for count in (59, 11):
        left = np.sort(rng.permutation(60)[:count])
        found = local_deltas(model, start, units.only(left), recipe)
        np.testing.assert_array_equal(found, whole[left])
        found = gradients(model, start, units.only(left), precision=precision)
        np.testing.assert_array_equal(found, slopes[left])


def test_many_units_beside_each_other_change_no_bit() -> None:
    """A thousand units of the paper's network against hundreds, dozens and one of them."""
    rng = np.random.default_rng(0)
    model, units = made("mlp"), units_of("mlp", tuple(rng.poisson(5, 1000).tolist()))
    recipe, start = Recipe(0.01, epochs=2, batch=64), model.initial(0)
    whole = local_deltas(model, start, units, recipe)
    for count in (999, 40, 1):
        left = np.sort(rng.permutation(1000)[:count])
        found = local_deltas(model, start, units.only(left), recipe)
        np.testing.assert_array_equal(found, whole[left])


def test_the_order_of_units_and_of_others_records_does_not_matter() -> None:
    model, units = made("mlp", 0.5), units_of("mlp")
    recipe, start = Recipe(0.05, epochs=2, batch=BATCH), model.initial(0)
    whole = local_deltas(model, start, units, recipe)
    turned = np.random.default_rng(0).permutation(len(units))
    np.testing.assert_array_equal(
        local_deltas(model, start, units.only(turned), recipe), whole[turned]
    )
    features = np.array(units.features)
    features[units.order[units.offsets[5] : units.offsets[6]]] = np.nan  # unit 5 is the attacker
    spoilt = Units(features, units.labels, units.order, units.offsets, units.user, units.silo)
    found = local_deltas(model, start, spoilt, recipe)
    assert not found[5].any()
    kept = np.arange(len(units)) != 5
    np.testing.assert_array_equal(found[kept], whole[kept])


def test_small_blocks_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, dropout in (("mlp", 0.5), ("cox", 0.0)):
        model, units = made(name, dropout), units_of(name)
        recipe, start = Recipe(0.05, epochs=2, batch=BATCH), model.initial(0)
        whole = local_deltas(model, start, units, recipe)
        with monkeypatch.context() as patch:
            patch.setitem(deltas._BLOCK_NUMBERS, "cpu", 1)
            parts = list(delta_blocks(model, start, units, recipe))
        assert [len(rows) for _, rows in parts] == [1] * 9
        for chosen, rows in parts:
            np.testing.assert_array_equal(rows, whole[chosen])


def test_a_missing_record_changes_no_other_gradient() -> None:
    model, units = made("mlp", 0.5), units_of("mlp", (300,))
    start, names = model.initial(0), np.arange(303) * 7
    whole = per_example_gradients(
        model, start, units.features, units.labels, names=names, seed=1, number=2
    )
    for left in (np.arange(1, 303), np.arange(0, 303, 3), np.array([5])):
        found = per_example_gradients(
            model,
            start,
            units.features[left],
            units.labels[left],
            names=names[left],
            seed=1,
            number=2,
        )
        np.testing.assert_array_equal(found, whole[left])
    other = per_example_gradients(
        model, start, units.features, units.labels, names=names, seed=1, number=3
    )
    assert not np.array_equal(other, whole)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_unit_that_diverges_counts_as_zero_and_nothing_else_moves(precision: Any) -> None:
    model, units = made("logistic"), units_of("logistic", (3, 3, 9, 3))
    features = np.array(units.features)
    for unit in (1, 2):
        features[units.order[units.offsets[unit] : units.offsets[unit + 1]]] *= 1e30
    wild = Units(features, units.labels, units.order, units.offsets, units.user, units.silo)
    recipe = Recipe(1e290 if precision == "float64" else 1e20, 2, BATCH, precision=precision)
    start = model.initial(0)
    found = local_deltas(model, start, wild, recipe)
    assert np.isfinite(found).all()
    assert not found[1:3].any()
    same = Recipe(recipe.local_rate, 2, BATCH, precision=precision)
    np.testing.assert_array_equal(found[[0, 3]], local_deltas(model, start, units, same)[[0, 3]])
    assert found[[0, 3]].any(1).all()


def test_a_delta_that_is_infinite_in_one_coordinate_is_zero_in_all() -> None:
    model = made("logistic")
    x = np.ones((2, 13), np.float32)
    x[0, 3] = 3e38
    units = Units(x, np.array([0, 0]), np.arange(2), np.arange(3), [0, 1], [0, 0])
    recipe = Recipe(10.0, 1, 4, precision="float32")
    start = np.zeros(14)
    found = local_deltas(model, start, units, recipe)
    assert not found[0].any()
    assert found[1].all()


def test_nothing_of_the_records_is_told_where_training_diverges(
    capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    model, units = made("mlp"), units_of("mlp")
    local_deltas(model, model.initial(0), units, Recipe(1e200, 3, BATCH))
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
