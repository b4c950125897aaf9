"""What a module of one's own does at one unit's records reaches no other unit, and nobody hears."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from privplan.fl.models.losses import OwnLoss
from privplan.fl.models.own_model import OwnModel
from privplan.fl.training.deltas import gradients, local_deltas
from privplan.fl.training.metrics import measured
from privplan.fl.training.single_answers import right_answers
from privplan.fl.training.threads import one_thread
from privplan.fl.training.units import Recipe, Units

from ..cases import for_each
from .own_modules import CLASSES, FEATURES, Branching, SmallConvolutions, normed
from .test_own_models import made, units_of


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with one_thread():
        yield


def test_a_unit_whose_records_break_the_module_has_delta_zero_and_others_have_theirs() -> None:
    for kind, together in (
        (Picky, False),
        (Embedded, False),
        (Allocating, False),
        (Gathered, True),
    ):
        model, units = made(kind), units_of()
        assert model.body.vectorised == together
        breaks_alone(model, units)


class Picky(nn.Module):
    """Refuses a record by its value."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x > 50.0).any()):
            raise ValueError("a record of which this message must not tell")
        made: torch.Tensor = self.out(x)
        return made


class Allocating(Picky):
    """Says of a record by its value that there is no memory, and would end the run."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x > 50.0).any()):
            raise RuntimeError("cannot allocate memory")
        made: torch.Tensor = self.out(x)
        return made


class Embedded(nn.Module):
    """Has a row for each word, and none for a word that is out of range."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(9, 4), nn.Linear(4, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.out(self.words(x[:, 0].abs().long()))
        return made


class Gathered(Embedded):
    """Gathers a number for each word, which keeps units apart and refuses a word too many."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.words.weight.gather(0, x[:, :4].abs().long())
        made: torch.Tensor = self.out(chosen)
        return made


class Filling(nn.Module):
    """Fills a column of its weights that a record names; the last is -1."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.out = nn.Parameter(torch.ones(5)), nn.Linear(5, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = x[:, 0].long().clamp(-1, 0)
        tables = [self.rows.index_fill(0, each, 7.0) for each in first.split(1)]
        made: torch.Tensor = self.out(torch.stack(tables))
        return made


class Clamping(nn.Module):
    """Writes into its weights, once they are large."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.out = nn.Parameter(torch.full((FEATURES,), 0.3)), nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.scale.data.mul_(torch.where(x.abs().max() > 50.0, 0.5, 1.0))
        made: torch.Tensor = self.out(x * self.scale)
        return made


def test_an_index_or_a_write_of_one_units_records_reaches_no_other_unit() -> None:
    for kind, value in ((Embedded, 12.0), (Embedded, 99.0), (Filling, -1.0), (Clamping, 99.0)):
        model, units = made(kind), units_of()
        features = units.features.copy()
        features[units.order[units.offsets[1]], 0] = value
        moved = Units(features, units.labels, units.order, units.offsets, units.user, units.silo)
        start, others = model.initial(3), [3, 4, 5, 6]
        np.testing.assert_array_equal(
            gradients(model, start, moved)[others], gradients(model, start, moved.only(others))
        )
        np.testing.assert_array_equal(
            gradients(model, start, moved)[others], gradients(model, start, units)[others]
        )


def test_vmap_computes_only_what_keeps_units_apart() -> None:
    for kind in (Embedded, Filling, Clamping, Branching):
        assert not made(kind).body.vectorised

    class Large(nn.Module):
        """Looks up words only for more records at once than the door tries."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(9, FEATURES), nn.Linear(FEATURES, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            more = 0.0 * x[:, :1] if len(x) < 18 else self.words(x[:, 0].abs().long())
            made: torch.Tensor = self.out(x + more)
            return made

    model, units = made(Large), units_of((20, 20, 3))
    assert model.body.vectorised
    features = units.features.copy()
    features[units.order[units.offsets[0]], 0] = 12.0
    moved = Units(features, units.labels, units.order, units.offsets, units.user, units.silo)
    rows = gradients(model, model.initial(3), moved)
    assert not rows[0].any()
    np.testing.assert_array_equal(rows[1:], gradients(model, model.initial(3), units)[1:])


def test_a_record_at_which_the_module_fails_is_a_wrong_answer_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, units = made(Embedded), units_of()
    start, features = model.initial(3), units.features.copy()
    before = right_answers(model, start, features, units.labels)
    features[3] = 99.0
    after = right_answers(model, start, features, units.labels)
    labels = np.arange(CLASSES)
    assert not right_answers(model, start, features[[3] * CLASSES], labels).any()
    others = np.arange(len(features)) != 3
    assert (after[others] == before[others]).all()
    logits = model.logits(start, features)
    assert np.isnan(logits[3]).all()
    assert np.isfinite(logits[others]).all()
    assert measured(logits[[3] * CLASSES], labels)["accuracy"] == 0.0
    assert capsys.readouterr() == ("", "")


def breaks_alone(model: OwnModel, units: Units) -> None:
    recipe = Recipe(0.2, epochs=1, batch=4)
    before = local_deltas(model, model.initial(3), units, recipe)
    features = units.features.copy()
    features[units.order[units.offsets[5]]] = 99.0
    broken = Units(features, units.labels, units.order, units.offsets, units.user, units.silo)
    after = local_deltas(model, model.initial(3), broken, recipe)
    assert not after[5].any()
    others = np.arange(len(units)) != 5
    assert (after[others] == before[others]).all()


def test_what_a_module_prints_of_records_is_not_heard(capsys: pytest.CaptureFixture[str]) -> None:
    handler, logger = logging.StreamHandler(sys.stdout), logging.getLogger("own")
    logger.addHandler(handler)

    class Talking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(FEATURES, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("a value", float(x.detach().sum()))
            logger.critical("a value %s", float(x.detach().sum()))
            made: torch.Tensor = self.out(x)
            return made

    model, units = made(Talking), units_of()
    local_deltas(model, model.initial(3), units, Recipe(0.2, epochs=1, batch=4))
    model.logits(model.initial(3), units.features)
    right_answers(model, model.initial(3), units.features, units.labels)
    logger.removeHandler(handler)
    assert capsys.readouterr() == ("", "")


def test_what_a_loss_or_a_module_counts_is_gone_with_every_call() -> None:
    class Counting:
        calls = 0

        def __call__(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            each = nn.functional.cross_entropy(outputs, labels, reduction="none")
            return each * (1.0 + self.calls // 1000)

    model, units = made(Branching, loss=Counting), units_of((1,) * 40)
    assert isinstance(model.loss, OwnLoss)
    model.loss._function.calls = 980  # type: ignore[attr-defined]
    rows = gradients(model, model.initial(3), units)
    alone = gradients(model, model.initial(3), units.only([39]))
    np.testing.assert_array_equal(rows[39], alone[0])


def test_only_what_takes_an_index_is_noted_to_take_one() -> None:
    assert made(Gathered).body.indexed
    assert not made(normed).body.indexed
    assert not made(SmallConvolutions).body.indexed


class Largest(torch.autograd.Function):
    """Divides by the largest of what is large; its rule of vmap by that of all units."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x / x.detach().abs().amax().clamp(min=40.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor], output: Any) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> Any:
        return slope / ctx.saved_tensors[0].detach().abs().amax().clamp(min=40.0)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], x: torch.Tensor) -> Any:  # noqa: ARG004
        return Largest.forward(x), in_dims[0]


@torch.library.custom_op("units_apart::largest", mutates_args=())
def largest(x: torch.Tensor) -> torch.Tensor:
    return Largest.forward(x)


largest.register_vmap(Largest.vmap)
largest.register_autograd(Largest.backward, setup_context=Largest.setup_context)


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Divides what is multiplied, of all units, by the largest."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return Largest.forward(made) if func is torch.ops.aten.mul.Tensor else made


def watched(x: torch.Tensor) -> torch.Tensor:
    with Watching():  # type: ignore[no-untyped-call]
        return x * 1.0


class Ruled(nn.Module):
    """Sends records through a rule of another author, of so many records or more."""

    def __init__(self, rule: str, records: int) -> None:
        super().__init__()
        self.out, self.rule, self.records = nn.Linear(FEATURES, CLASSES), rule, records

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.out(x if len(x) < self.records else RULES[self.rule](x))
        return made


RULES: dict[str, Any] = {
    "a function": Largest.apply,
    "an operation": largest,
    "a mode": watched,
}


@for_each("name", [*RULES])
@for_each("records", [1, 18])
def test_no_rule_of_another_author_is_handed_several_units(name: str, records: int) -> None:
    # No divisor acts on what the door sees; from 18 records on, it does not even see the rule.
    model, units = made(lambda: Ruled(name, records)), units_of((20, 20, 3))
    assert model.body.vectorised == (records == 18)
    features = units.features.copy()
    features[units.order[: units.offsets[1]]] *= 1e4
    moved = Units(features, units.labels, units.order, units.offsets, units.user, units.silo)
    start = model.initial(3)
    rows, others = gradients(model, start, units), gradients(model, start, moved)[1:]
    assert rows.any(axis=1).all()
    np.testing.assert_array_equal(others, rows[1:])
    np.testing.assert_array_equal(others, gradients(model, start, units.only([1, 2])))


def test_after_a_pass_that_failed_others_may_use_rules_of_their_own() -> None:
    model, units = made(lambda: Ruled("a function", 18)), units_of((20, 20, 3))
    gradients(model, model.initial(3), units)
    assert torch.func.vmap(Largest.apply)(torch.ones(2, 3)).shape == (2, 3)
    assert watched(torch.full((2,), 80.0)).tolist() == [1.0, 1.0]
