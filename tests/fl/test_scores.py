"""The quick way for models with one score: the general one's numbers, and nobody else's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from numpy.typing import NDArray

from privplan.fl.models import MODELS, Model, model_named
from privplan.fl.training import deltas
from privplan.fl.training.deltas import delta_blocks, gradients, local_deltas, per_example_gradients
from privplan.fl.training.scores import Records, Scores, is_one_score
from privplan.fl.training.units import Recipe, Units

from ..cases import for_each
from .training_units import random_rows

QUICK = ("logistic", "linear", "cox")


def some(
    name: str, rng: np.random.Generator, sizes: NDArray[np.int64], features: int
) -> tuple[Model, Units]:
    """Return a model and units of these sizes."""
    total = int(sizes.sum())
    x, labels = random_rows(name, rng, total, features, 2)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    names = rng.permutation(1000)[: len(sizes)]
    units = Units(x, labels, rng.permutation(total), offsets, names, names % 3)
    return model_named(name, features, 2 if name == "logistic" else 1), units


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that does something the general way."""

    def carried_out(made: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(deltas, "is_one_score", lambda _: False)
            return made()

    return carried_out


def test_which_models_are_quick_and_tell_nobody_of_scores_beyond_the_range_of_floats(
    recwarn: pytest.WarningsRecorder,
) -> None:
    shapes = {"cox": (5, 1), "linear": (5, 1), "cnn": (784, 10), "alexnet": (784, 10)}
    found = {name for name in MODELS if is_one_score(model_named(name, *shapes.get(name, (5, 2))))}
    assert found == set(QUICK)
    model, units = some("logistic", np.random.default_rng(0), np.array([4, 2]), 3)
    start = np.full(4, 1e308)
    records = Records(model, units.features, units.labels, np.zeros(6, np.int64))
    records.gradients(start[None], np.arange(6))
    local_deltas(model, start, units, Recipe(1e300, 3, 2))
    assert not recwarn.list


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("batch", [3, 4, 64])
def test_the_general_way_gives_the_same(name: str, batch: int, general: Any) -> None:
    """Over the epochs of the paper, in which errors could grow."""
    rng = np.random.default_rng(batch)
    model, units = some(name, rng, rng.poisson(9, 30), 13)
    start, recipe = model.initial(1), Recipe(0.05, 50, batch, seed=3)
    quick = local_deltas(model, start, units, recipe, number=4)
    slow = general(lambda: local_deltas(model, start, units, recipe, number=4))
    assert np.abs(quick).max() > 0.1
    assert not np.array_equal(quick, slow)  # they are two ways
    np.testing.assert_allclose(quick, slow, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        gradients(model, start, units),
        general(lambda: gradients(model, start, units)),
        rtol=0,
        atol=1e-13,
    )


def test_single_precision_and_other_devices_go_the_general_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deltas, "Scores", None)
    rng = np.random.default_rng(0)
    model, units = some("logistic", rng, np.array([3, 9]), 4)
    start = model.initial(0)
    local_deltas(model, start, units, Recipe(0.1, 1, 4, precision="float32"))
    gradients(model, start, units, precision="float32")
    local_deltas(model, start, units, Recipe(0.1, 1, 4), device="cpu:0")
    with pytest.raises(TypeError):
        local_deltas(model, start, units, Recipe(0.1, 1, 4))


@for_each("name", QUICK)
def test_no_shape_lets_another_unit_move_a_bit(name: str) -> None:
    """At random widths, batches and sizes: alone, beside half of the others, beside nearly all."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        features, count = int(rng.integers(1, 40)), int(rng.integers(2, 40))
        sizes = rng.poisson(rng.choice([1, 5, 15]), count)
        model, units = some(name, rng, sizes, features)
        start, recipe = model.initial(0), Recipe(0.05, 3, int(rng.integers(1, 20)))
        whole, slopes = local_deltas(model, start, units, recipe), gradients(model, start, units)
        for kept in (1, count // 2, count - 1):
            left = rng.permutation(count)[:kept]
            found = local_deltas(model, start, units.only(left), recipe)
            np.testing.assert_array_equal(found, whole[left])
            np.testing.assert_array_equal(gradients(model, start, units.only(left)), slopes[left])


@for_each("name", QUICK)
def test_few_epochs_at_once_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    model, units = some(name, rng, rng.poisson(9, 20), 7)
    start, recipe = model.initial(0), Recipe(0.05, 5, 4)
    whole = local_deltas(model, start, units, recipe)
    for room in (1, 2000, 20_000):
        monkeypatch.setitem(deltas._BLOCK_NUMBERS, "cpu", room)
        np.testing.assert_array_equal(local_deltas(model, start, units, recipe), whole)


def test_a_long_unit_is_not_all_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The minibatches of as many epochs as there is room for, and of one at least."""
    rng = np.random.default_rng(2)
    model, units = some("logistic", rng, np.array([40]), 7)
    seen, steps = [], Scores._steps

    def watched(self: Scores, records: NDArray[np.int64], share: Any) -> Any:
        seen.append(len(records))
        return steps(self, records, share)

    monkeypatch.setattr(Scores, "_steps", watched)
    monkeypatch.setitem(deltas._BLOCK_NUMBERS, "cpu", 3 * 40 * 10)
    list(delta_blocks(model, model.initial(0), units, Recipe(0.1, 7, 4)))
    assert seen == [3] * 10 + [3] * 10 + [1] * 10


def test_records_under_models_of_their_own() -> None:
    rng = np.random.default_rng(0)
    model, units = some("logistic", rng, np.array([50]), 6)
    models, owner = rng.normal(size=(3, 7)), rng.integers(0, 3, 50)
    records = Records(model, units.features, units.labels, owner)
    whole = records.gradients(models, np.arange(50))
    for one in range(3):
        slow = per_example_gradients(model, models[one], units.features, units.labels)
        np.testing.assert_allclose(whole[owner == one], slow[owner == one], rtol=1e-12, atol=1e-15)
    for count in (1, 2, 3, 17, 49):
        chosen = rng.permutation(50)[:count]
        np.testing.assert_array_equal(records.gradients(models, chosen), whole[chosen])
    assert records.gradients(models, np.empty(0, np.int64)).shape == (0, 7)
