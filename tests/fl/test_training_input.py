"""What is trained: units and recipes in and out of range, unit_blocks, and what is refused."""

from __future__ import annotations

import doctest
import itertools
import sys
import types
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from privplan.accountant.errors import InvalidInput, MissingExtra, Unsupported
from privplan.fl.models import model_named
from privplan.fl.training import unit_blocks
from privplan.fl.training import units as units_module
from privplan.fl.training.deltas import delta_blocks, gradients, local_deltas, per_example_gradients
from privplan.fl.training.threads import one_thread
from privplan.fl.training.units import Recipe, Units

from ..cases import for_each

SIZES = (1, 3, 0, 4, 5, 14, 2, 8, 13, 1)


def units_of(features: int, survival: bool = False) -> Units:
    """Units of these sizes, their records scattered over the table."""
    rng, total = np.random.default_rng(0), sum(SIZES)
    x = rng.normal(size=(total + 3, features)).astype(np.float32)
    labels = rng.integers(0, 2, (total + 3, 2) if survival else total + 3)
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    names = rng.permutation(1000)[: len(SIZES)]
    order = rng.permutation(total + 3)[:total]
    return Units(x, labels, order, offsets, names, rng.integers(0, 3, len(SIZES)))


def test_some_units_keep_their_records_and_names() -> None:
    units = units_of(13)
    for chosen in (np.array([4, 0, 4]), np.array([], int), units.sizes > 3, np.array([2])):
        some = units.only(chosen)
        wanted = np.arange(len(units))[chosen].tolist()
        assert len(some) == len(wanted)
        for new, old in enumerate(wanted):
            assert some.user[new] == units.user[old]
            assert some.silo[new] == units.silo[old]
            np.testing.assert_array_equal(
                some.order[some.offsets[new] : some.offsets[new + 1]],
                units.order[units.offsets[old] : units.offsets[old + 1]],
            )


def test_every_unit_with_records_is_in_one_block_and_fits() -> None:
    rng = np.random.default_rng(0)
    for batch, multiple in itertools.product((1, 4, 7, 64), (1, 4)):
        sizes = rng.integers(0, 200, 500)
        parts = list(unit_blocks.blocks(sizes, batch, multiple, 1000, lambda width: 10 * width))
        assert sorted(np.concatenate([one.units for one in parts]).tolist()) == sorted(
            np.flatnonzero(sizes).tolist()
        )
        for one in parts:
            own, passes = sizes[one.units], -(-sizes[one.units] // batch)
            assert len(one.units) == 1 or len(one.units) * one.width * 10 <= 1000
            assert (np.diff(passes) <= 0).all()
            assert one.several == (passes > 1).all() == (passes > 1).any()
            assert one.batch == batch
            assert one.width % multiple == 0
            assert one.width < batch + multiple
            assert one.width >= batch if one.several else (own <= one.width).all()
            assert (one.width < own * 1.25 + multiple).all() or one.several


def test_the_width_of_a_unit_depends_on_that_unit_alone() -> None:
    ladder = unit_blocks.widths(np.arange(1, 3000))
    assert (ladder >= np.arange(1, 3000)).all()
    assert (np.diff(ladder) >= 0).all()
    assert len(np.unique(ladder)) <= 4 * 12 + 4


def test_threads_are_restored() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), one_thread():
            1 / 0  # noqa: B018
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)  # other tests are not to find it changed


@for_each(
    ("changes", "match"),
    [
        *(({"local_rate": 0.0}, "local_rate"), ({"local_rate": float("nan")}, "local_rate")),
        *(({"epochs": 0}, "epochs"), ({"batch": 0}, "batch")),
        *(({"seed": -1}, "seed"), ({"precision": "float16"}, "precision")),
    ],
)
def test_a_recipe_out_of_range_is_refused(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        Recipe(**{"local_rate": 0.1, "epochs": 1, "batch": 1, **changes})


@for_each(
    ("changes", "match"),
    [
        *(({"features": np.zeros(3)}, "features"), ({"labels": [0, 1]}, "labels")),
        *(({"labels": np.zeros((3, 2, 2))}, "labels"), ({"order": [0, 1, 3]}, "order")),
        *(({"order": [0, 1, -1]}, "order"), ({"order": [0.0, 1.0, 2.0]}, "order")),
        *(({"offsets": [0, 2]}, "offsets"), ({"offsets": [1, 3]}, "offsets")),
        ({"offsets": []}, "offsets"),
        ({"offsets": [0, 3, 1, 3], "user": [0] * 3, "silo": [0] * 3}, "decrease"),
        *(({"user": [0, 1]}, "user"), ({"silo": [[0]]}, "silo")),
    ],
)
def test_units_that_do_not_fit_together_are_refused(changes: dict[str, Any], match: str) -> None:
    whole: dict[str, Any] = {
        "features": np.zeros((3, 2)),
        "labels": [0, 1, 0],
        "order": [2, 0, 1],
        "offsets": [0, 3],
        "user": [0],
        "silo": [0],
    }
    Units(**whole)
    with pytest.raises(InvalidInput, match=match):
        Units(**{**whole, **changes})


def test_what_does_not_fit_the_model_is_refused() -> None:
    model, units = model_named("logistic", 13, 2), units_of(13)
    recipe = Recipe(0.1, 1, 4)
    with pytest.raises(InvalidInput, match="parameters"):
        local_deltas(model, np.zeros(3), units, recipe)
    with pytest.raises(InvalidInput, match="parameters"):
        delta_blocks(model, np.zeros(3), units, recipe)  # at once, not with the first part
    wide = model_named("mlp", 30, 2)
    with pytest.raises(InvalidInput, match="values per record"):
        local_deltas(wide, wide.initial(0), units, recipe)
    cox = model_named("cox", 13, 1)
    with pytest.raises(InvalidInput, match="time, event"):
        gradients(cox, cox.initial(0), units)
    for device in ("gpu", "meta", "cuda:99"):
        with pytest.raises(InvalidInput, match="device"):
            local_deltas(model, model.initial(0), units, recipe, device=device)
    cox, units = model_named("cox", 39, 1), units_of(39, survival=True)
    with pytest.raises(Unsupported, match="no gradient per record"):
        per_example_gradients(cox, cox.initial(0), units.features, units.labels)
    model, units = model_named("mlp", 30, 2, dropout=0.5), units_of(30)
    with pytest.raises(InvalidInput, match="names"):
        per_example_gradients(model, model.initial(0), units.features, units.labels)


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    for name in [one for one in sys.modules if one.startswith("privplan.fl.models")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    with pytest.raises(MissingExtra, match="PyTorch"):
        importlib.import_module("privplan.fl.models")


@for_each("module", [units_module, unit_blocks])
def test_examples_run(module: types.ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
