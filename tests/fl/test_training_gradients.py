"""Gradients of units and of records against those of autograd, whole and in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from privplan.fl.models import MODELS
from privplan.fl.training import deltas
from privplan.fl.training.deltas import delta_blocks, gradients, local_deltas, per_example_gradients
from privplan.fl.training.threads import one_thread
from privplan.fl.training.units import Recipe, Units

from .networks import network
from .training_units import SHAPES, made, torch_loss, units_of


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with one_thread():
        yield


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_units_are_those_of_autograd(name: str) -> None:
    model, units = made(name), units_of(name)
    start = model.initial(2)
    found = gradients(model, start, units)
    for unit, size in enumerate(units.sizes.tolist()):
        if not size:
            assert not found[unit].any()
            continue
        own = units.order[units.offsets[unit] : units.offsets[unit + 1]]
        whole = network(name, *SHAPES[name], start)
        x, y = torch.tensor(units.features[own]), torch.tensor(units.labels[own])
        torch_loss(name, whole(x.double()), y).backward()
        expected = torch.cat([one.grad.flatten() for one in whole.parameters()])  # type: ignore[union-attr]
        np.testing.assert_allclose(found[unit], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_in_pieces(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """More records than go through a model at once: shares add up over pieces."""
    model, units = made("mlp", dropout), units_of("mlp", (7, 20, 3, 11))
    start = model.initial(2)
    whole = gradients(model, start, units)
    monkeypatch.setattr(deltas, "_MAX_RECORDS_AT_ONCE", 4)
    in_pieces = gradients(model, start, units)
    if dropout:  # other pieces draw otherwise, but small units are as before
        np.testing.assert_array_equal(in_pieces[2], whole[2])
        assert not np.allclose(in_pieces[1], whole[1])
    else:
        np.testing.assert_allclose(in_pieces, whole, rtol=0, atol=1e-13)


def test_cox_gradients_are_never_cut_and_what_is_not_trained_does_not_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, units = made("cox"), units_of("cox", (7, 20, 3, 11))
    whole = gradients(model, model.initial(2), units)
    monkeypatch.setattr(deltas, "_MAX_RECORDS_AT_ONCE", 4)
    np.testing.assert_array_equal(gradients(model, model.initial(2), units), whole)
    # Rounding the start to float32 is no delta.
    model, units = made("cox"), units_of("cox", (1, 1))
    found = local_deltas(model, model.initial(0), units, Recipe(0.1, 2, 4, precision="float32"))
    assert not found.any()


@pytest.mark.parametrize("name", [one for one in MODELS if one != "cox"])
def test_gradients_of_records_are_those_of_autograd(name: str) -> None:
    model, units = made(name), units_of(name, (11,))
    start = model.initial(3)
    found = per_example_gradients(model, start, units.features, units.labels)
    whole = network(name, *SHAPES[name], start)
    for row, (x, y) in zip(found, zip(units.features, units.labels, strict=True), strict=True):
        whole.zero_grad()
        torch_loss(name, whole(torch.tensor(x)[None].double()), torch.tensor([y])).backward()
        expected = torch.cat([one.grad.flatten() for one in whole.parameters()])  # type: ignore[union-attr]
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-12)
    mean = gradients(model, start, units.only([0]))[0]
    own = found[units.order].mean(0)
    np.testing.assert_allclose(mean, own, rtol=0, atol=1e-12)


def test_no_records_give_no_gradients() -> None:
    model = made("logistic")
    empty = np.empty((0, 13), np.float32), np.empty(0, int)
    assert per_example_gradients(model, model.initial(0), *empty).shape == (0, 14)
    none = Units(*empty, np.empty(0, int), [0], [], [])
    assert local_deltas(model, model.initial(0), none, Recipe(0.1, 1, 4)).shape == (0, 14)
    absent = Units(*empty, [], [0, 0, 0], [1, 2], [0, 0])
    assert not gradients(model, model.initial(0), absent).any()
    assert list(delta_blocks(model, model.initial(0), absent, Recipe(0.1, 1, 4))) == []
