"""Memory that nobody has written: a module of one's own finds nothing of another unit in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from privplan.fl.training.deltas import gradients
from privplan.fl.training.threads import one_thread
from privplan.fl.training.units import Units

from ..cases import for_each
from .own_modules import CLASSES, FEATURES
from .test_own_models import made, units_of


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with one_thread():
        yield


class Unwritten(nn.Module):
    """Has one layer for values above 0 and one below, and writes nothing where a value is 0."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.above, self.below = nn.Linear(FEATURES, 8), nn.Linear(FEATURES, 8)
        self.out, self.way = nn.Linear(8, CLASSES), way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, above, below = x[:, :1], self.above(x), self.below(x)
        if self.way == "masks":
            hidden = torch.empty(len(x), 8, dtype=x.dtype)
            for mask, values in ((first[:, 0] > 0, above), (first[:, 0] < 0, below)):
                hidden[mask] = values[mask]
        else:
            hidden = torch.where(first > 0, above, torch.where(first < 0, below, self.bare(above)))
        made: torch.Tensor = self.out(torch.tanh(hidden))
        return made

    def bare(self, like: torch.Tensor) -> torch.Tensor:
        bare: torch.Tensor = {
            "empty": lambda: torch.empty(like.shape, dtype=like.dtype),
            "empty_like": lambda: torch.empty_like(like),
            "new_empty": lambda: like.new_empty(like.shape),
            "strided": lambda: torch.empty_strided(like.shape, (8, 1), dtype=like.dtype),
            "resized": lambda: torch.zeros(0, dtype=like.dtype).resize_(like.shape),
            "tensor": lambda: torch.Tensor(*like.shape).double(),
        }[self.way]()
        return bare


@for_each("way", ["empty", "empty_like", "new_empty", "strided", "resized", "tensor", "masks"])
def test_memory_that_nobody_has_written_holds_nothing_of_another_unit(way: str) -> None:
    model, units = made(lambda: Unwritten(way)), units_of((4,) * 6)
    assert model.body.vectorised == ("empty" in way or way == "tensor")
    start, features = model.initial(3), units.features.copy()
    mine = units.order[units.offsets[2] : units.offsets[3]]
    features[mine[0], 0] = 0.0  # nobody writes what is made of this record

    def moved(scale: float) -> Units:
        """The same, with larger records of all other units."""
        scaled = np.where(np.isin(np.arange(len(features)), mine)[:, None], 1.0, scale) * features
        return Units(scaled, units.labels, units.order, units.offsets, units.user, units.silo)

    assert not gradients(model, start, moved(1.0))[2].any()
    assert not gradients(model, start, moved(1e3))[2].any()
    assert gradients(model, start, moved(1.0))[[0, 1, 3, 4, 5]].any(axis=1).all()
    logits = model.logits(start, features)
    assert np.isnan(logits).any(axis=1).nonzero()[0].tolist() == [mine[0]]


def test_a_setting_of_the_program_is_as_it_was_when_a_module_has_computed() -> None:
    model, units = made(lambda: Unwritten("empty")), units_of((4,) * 6)
    for on in (True, False):
        torch.use_deterministic_algorithms(on)
        gradients(model, model.initial(3), units)
        assert torch.are_deterministic_algorithms_enabled() == on
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
