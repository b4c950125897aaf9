"""What a module of one's own raises at somebody's records ends no run; a signal alone does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import traceback
from concurrent.futures import ThreadPoolExecutor
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
from ..usual_signals import usual_signals
from .own_modules import CLASSES, FEATURES
from .test_own_models import made, units_of
from .test_own_units_apart import breaks_alone


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with one_thread():
        yield


class Raising(nn.Module):
    """Raises what it is given at a record by its value, with the record; or does what it is."""

    def __init__(self, what: Any) -> None:
        super().__init__()
        self.out, self.what = nn.Linear(FEATURES, CLASSES), what

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x > 50.0).any()):
            if isinstance(self.what, type):
                raise self.what(f"a record {x}")
            self.what()
        made: torch.Tensor = self.out(x)
        return made


class Ending(BaseException):
    """An end of one's own."""


ENDS = (asyncio.CancelledError, GeneratorExit, SystemExit, KeyboardInterrupt, Ending, StopIteration)


@for_each("error", ENDS)
def test_whatever_a_module_raises_at_a_record_is_a_failure_at_it_alone(error: type) -> None:
    model, units = made(lambda: Raising(error)), units_of()
    breaks_alone(model, units)
    start, features = model.initial(3), units.features.copy()
    before = model.logits(start, features)
    features[3] = 99.0
    after = model.logits(start, features)
    assert np.isnan(after[3]).all()
    np.testing.assert_allclose(np.delete(after, 3, 0), np.delete(before, 3, 0), rtol=1e-12)
    with ThreadPoolExecutor(1) as elsewhere:  # where no signal ever comes
        np.testing.assert_array_equal(
            elsewhere.submit(model.logits, start, features).result(), after
        )


MARKER = str(10**17 + 1)


def _interrupted() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _within() -> None:
    try:
        raise ValueError(MARKER)
    except ValueError:
        _interrupted()


def _swallowed() -> None:
    with contextlib.suppress(BaseException):
        _interrupted()


def _renamed() -> None:
    try:
        _interrupted()
    except KeyboardInterrupt as error:
        error.add_note(MARKER)
        raise ValueError(MARKER) from error


@usual_signals()
@for_each("what", [_interrupted, _within, _swallowed, _renamed])
def test_an_interruption_by_a_signal_ends_what_is_computed_and_shows_no_record(what: Any) -> None:
    model, units = made(lambda: Raising(what)), units_of()
    start, features = model.initial(3), units.features.copy()
    features[units.order[0]] = 99.0
    moved = Units(features, units.labels, units.order, units.offsets, units.user, units.silo)
    handler = signal.getsignal(signal.SIGINT)
    for compute in (
        lambda: gradients(model, start, moved),
        lambda: model.logits(start, features),
    ):
        with pytest.raises(KeyboardInterrupt) as caught:
            compute()
        said = "".join(traceback.format_exception(caught.value))
        assert MARKER not in said
        assert signal.getsignal(signal.SIGINT) is handler
    assert np.isfinite(model.logits(start, units.features)).all()
