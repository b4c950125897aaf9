"""Modules of one's own: the door, and gradients by vmap, by the loop and in plain PyTorch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.fl.models.own_model import OwnModel
from privplan.fl.models.own_model_building import architecture_digest, own_model
from privplan.fl.training import deltas
from privplan.fl.training.deltas import gradients, local_deltas, per_example_gradients
from privplan.fl.training.threads import one_thread
from privplan.fl.training.units import Recipe, Units

from ..cases import for_each
from .own_modules import (
    CLASSES,
    FEATURES,
    REFUSED,
    Branching,
    SmallConvolutions,
    Tied,
    batch_normed,
    normed,
)

SIZES = (1, 3, 0, 4, 5, 14, 2, 8, 13, 1)
TRAINED: dict[str, Callable[..., nn.Module]] = {
    "convolutions": SmallConvolutions,
    "layer norm": normed,
    "tied": Tied,
    "batch norm": batch_normed,
}


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with one_thread():
        yield


def made(what: object, unit: str = "user", **more: Any) -> OwnModel:
    options: dict[str, Any] = {"shape": (FEATURES,), "classes": CLASSES, "seed": 3, **more}
    loss = options.pop("loss", None)
    return own_model("net.py:make", lambda: what, loss, unit=unit, **options)


def units_of(sizes: tuple[int, ...] = SIZES, classes: int = CLASSES) -> Units:
    rng, total = np.random.default_rng(0), sum(sizes)
    x = rng.normal(size=(total, FEATURES)).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, classes, total)
    order, names = rng.permutation(total), np.arange(len(sizes)) * 7 + 5
    return Units(x, labels, order, offsets, names, names % 3)


@for_each("name", [*TRAINED])
def test_gradients_by_vmap_are_those_of_the_loop_and_of_plain_pytorch(name: str) -> None:
    model, units = made(TRAINED[name]), units_of()
    assert model.body.vectorised
    start = model.initial(3) + 0.01 * np.random.default_rng(1).normal(size=model.parameters)
    quick = gradients(model, start, units, number=4)
    model.body.vectorised = False
    slow = gradients(model, start, units, number=4)
    np.testing.assert_allclose(quick, slow, rtol=1e-6, atol=1e-9)
    if model.dropout:
        return  # plain PyTorch draws otherwise
    module = model.body.training
    torch.nn.utils.vector_to_parameters(torch.from_numpy(start), module.parameters())
    for unit in (1, 5):
        mine = units.order[units.offsets[unit] : units.offsets[unit + 1]]
        out = module(torch.from_numpy(units.features[mine].astype(np.float64)))
        loss = torch.nn.functional.cross_entropy(out, torch.from_numpy(units.labels[mine]))
        plain = torch.autograd.grad(loss, list(module.parameters()))
        row = torch.cat([part.flatten() for part in plain]).numpy()
        np.testing.assert_allclose(quick[unit], row, rtol=1e-6, atol=1e-9)


@for_each("name", [*TRAINED])
def test_training_by_vmap_is_that_of_the_loop(name: str) -> None:
    model, units = made(TRAINED[name]), units_of()
    recipe = Recipe(0.2, epochs=2, batch=4, seed=3)
    quick = local_deltas(model, model.initial(3), units, recipe, number=2)
    model.body.vectorised = False
    slow = local_deltas(model, model.initial(3), units, recipe, number=2)
    assert np.abs(quick).max() > 1e-3
    np.testing.assert_allclose(quick, slow, rtol=1e-6, atol=1e-9)


@for_each("name", [*TRAINED])
def test_a_unit_trains_to_the_last_bit_as_it_does_without_the_others(name: str) -> None:
    model, units = made(TRAINED[name]), units_of()
    recipe, some = Recipe(0.2, epochs=2, batch=4, seed=3), [1, 3, 4, 8, 9]
    everybody = local_deltas(model, model.initial(3), units, recipe, number=2)
    alone = local_deltas(model, model.initial(3), units.only(some), recipe, number=2)
    assert (everybody[some] == alone).all()


def test_blocks_of_any_size_make_the_same_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    model, units = made(normed), units_of()
    recipe = Recipe(0.2, epochs=1, batch=4, seed=3)
    at_once = local_deltas(model, model.initial(3), units, recipe)
    monkeypatch.setitem(deltas._BLOCK_NUMBERS, "cpu", 1)
    assert (local_deltas(model, model.initial(3), units, recipe) == at_once).all()


def test_what_looks_at_values_goes_through_the_loop_and_trains() -> None:
    model, units = made(Branching), units_of()
    assert not model.body.vectorised
    moved = local_deltas(model, model.initial(3), units, Recipe(0.2, epochs=1, batch=4))
    assert np.isfinite(moved).all()
    assert np.abs(moved[1]).max() > 0.0


@for_each("name", [*REFUSED])
def test_the_door_refuses_a_module_that(name: str) -> None:
    what, said = REFUSED[name]
    with pytest.raises(InvalidInput, match=said):
        made(what)


def test_batch_norm_is_refused_where_a_record_is_protected_and_its_replacement_named() -> None:
    with pytest.raises(InvalidInput) as refusal:
        made(batch_normed, unit="record")
    assert "BatchNorm1d" in refusal.value.what
    assert "GroupNorm" in refusal.value.next_step
    assert "LayerNorm" in refusal.value.next_step


def test_batch_norm_normalises_by_public_constants_in_training_and_evaluation() -> None:
    model, units = made(batch_normed), units_of()
    fixed = batch_normed()
    torch.nn.utils.vector_to_parameters(
        torch.from_numpy(model.initial(3)).float(), fixed.parameters()
    )
    # Its running mean is 0 and its running variance 1, whatever passed through it.
    local_deltas(model, model.initial(3), units, Recipe(0.2, epochs=2, batch=4))
    expected = fixed.eval().double()(torch.from_numpy(units.features.astype(np.float64)))
    np.testing.assert_allclose(
        model.logits(model.initial(3), units.features), expected.detach().numpy(), atol=1e-7
    )


def test_a_parameter_that_is_shared_stands_once_in_the_vector() -> None:
    model = made(Tied)
    assert model.parameters == FEATURES**2 + FEATURES * CLASSES + CLASSES
    assert [*model.parts] == ["first.weight", "out.weight", "out.bias"]


def test_a_parameter_that_needs_no_gradient_is_a_public_constant() -> None:
    def half(features: int, classes: int) -> nn.Module:
        module = normed(features, classes)
        module[0].requires_grad_(False)
        return module

    model, whole = made(half), made(normed)
    assert whole.parameters - model.parameters == FEATURES * 24 + 24
    assert "0.weight" not in model.parts
    x = units_of().features
    np.testing.assert_allclose(
        model.logits(model.initial(3), x), whole.logits(whole.initial(3), x), rtol=1e-12
    )


def test_initial_weights_follow_from_the_seed_and_leave_the_generators_as_they_were() -> None:
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]
    model, again, other = made(normed), made(normed), made(normed, seed=4)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert (np.random.get_state()[1] == states[2]).all()
    assert (model.initial(3) == again.initial(3)).all()
    assert (model.initial(4) == other.initial(4)).all()
    assert (model.initial(3) != model.initial(4)).any()
    torch.manual_seed(3)
    plain = torch.nn.utils.parameters_to_vector(normed(FEATURES, CLASSES).parameters())
    np.testing.assert_array_equal(model.initial(3), plain.detach().double().numpy())


def test_weights_that_no_seed_decides_are_refused() -> None:
    calls = iter(range(9))

    def unsteady(features: int, classes: int) -> nn.Module:
        module = normed(features, classes)
        with torch.no_grad():
            module[0].bias += next(calls)
        return module

    with pytest.raises(InvalidInput, match="other weights whenever it is made"):
        made(unsteady)


def test_dropout_follows_from_seed_round_user_and_silo_and_from_nothing_else() -> None:
    model, units = made(SmallConvolutions), units_of()
    start = model.initial(3)
    torch.manual_seed(1)
    one = gradients(model, start, units, seed=2, number=1)
    torch.manual_seed(2)
    assert (gradients(model, start, units, seed=2, number=1) == one).all()
    assert (gradients(model, start, units, seed=2, number=2) != one).any()
    assert (gradients(model, start, units, seed=3, number=1) != one).any()
    named = Units(
        units.features, units.labels, units.order, units.offsets, units.user + 1, units.silo
    )
    assert (gradients(model, start, named, seed=2, number=1) != one).any()


def test_half_of_the_values_drop_out_where_half_are_to() -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.drop = nn.Parameter(torch.ones(1)), nn.Dropout(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.drop(torch.ones_like(x)) * self.scale)[:, :CLASSES]

    model = made(Kept)
    seen: list[torch.Tensor] = []
    for key in range(40):
        with torch.no_grad():
            x = torch.ones(20, FEATURES, dtype=torch.float64)
            seen.append(
                model.body.outputs(
                    list(model.body.trained.values()), x, training=True, key=torch.tensor(key)
                )
            )
    values = torch.cat(seen)
    assert set(values.unique().tolist()) == {0.0, 2.0}
    # 8,000 draws: five standard deviations are .028.
    assert abs(float((values > 0.0).double().mean()) - 0.5) < 0.028


def test_per_record_gradients_are_those_of_units_of_one_record() -> None:
    model, units = made(normed, unit="record"), units_of()
    rows = per_example_gradients(model, model.initial(3), units.features, units.labels)
    whole = gradients(
        model,
        model.initial(3),
        Units(
            units.features,
            units.labels,
            np.arange(len(units.labels)),
            np.array([0, len(units.labels)]),
            np.zeros(1, int),
            np.zeros(1, int),
        ),
    )
    np.testing.assert_allclose(rows.mean(0), whole[0], rtol=1e-9, atol=1e-12)


def test_one_output_has_the_binary_cross_entropy_and_two_the_cross_entropy() -> None:
    one = made(lambda: nn.Linear(FEATURES, 1), classes=2)
    two = made(lambda: nn.Linear(FEATURES, 2), classes=2)
    units = units_of(classes=2)
    start = np.zeros(two.parameters)
    both = gradients(two, start, units).reshape(len(units), -1)
    single = gradients(one, np.zeros(one.parameters), units)
    # With logits (0, s) the slope at class 1 is that of the log-odds.
    np.testing.assert_allclose(both[:, FEATURES : 2 * FEATURES], single[:, :FEATURES], atol=1e-12)


def test_survival_has_the_loss_of_cox_unless_a_record_is_protected() -> None:
    def score() -> nn.Module:
        return nn.Linear(FEATURES, 1, bias=False)

    rng, total = np.random.default_rng(2), sum(SIZES)
    x = rng.normal(size=(total, FEATURES)).astype(np.float32)
    labels = np.stack([rng.integers(1, 9, total), rng.integers(0, 2, total)], 1)
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    names = np.arange(len(SIZES))
    units = Units(x, labels.astype(np.float32), np.arange(total), offsets, names, names)
    model = made(score, classes=1)
    from privplan.fl.models import model_named

    known = model_named("cox", FEATURES, 1)
    start = rng.normal(size=FEATURES) * 0.1
    expected = gradients(known, np.append(start, 0.0), units)[:, :FEATURES]
    np.testing.assert_allclose(gradients(model, start, units), expected, rtol=1e-6, atol=1e-9)
    with pytest.raises(Unsupported, match="no gradient per record"):
        made(score, classes=1, unit="record")


def test_a_loss_of_ones_own_trains_as_the_same_loss_by_name() -> None:
    def own(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")

    units = units_of()
    named, by_hand = made(normed), made(normed, loss=lambda: own)
    module = made(normed, loss=lambda: nn.CrossEntropyLoss(reduction="none"))
    due = gradients(named, named.initial(3), units)
    for model in (by_hand, module):
        np.testing.assert_allclose(
            gradients(model, model.initial(3), units), due, rtol=1e-9, atol=1e-12
        )


def _weighted(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    each = torch.nn.functional.cross_entropy(outputs, labels, reduction="none")
    return each / each.sum()


def _drawn(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    each = torch.nn.functional.cross_entropy(outputs, labels, reduction="none")
    return each * torch.rand_like(each)


class Averaging:
    """Divides by a running mean of itself, where gradients are taken."""

    mean = 1.0

    def __call__(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        each = nn.functional.cross_entropy(outputs, labels, reduction="none")
        if torch.is_grad_enabled():
            self.mean = 0.9 * self.mean + 0.1 * float(each.detach().mean())
        return each / self.mean


def _jittered(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if torch.is_grad_enabled():
        outputs = outputs + torch.as_tensor(np.random.normal(size=tuple(outputs.shape)))
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


def _in_place(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs, labels.clamp_(0, 2), reduction="none")


@for_each(
    "loss, said",
    [
        (nn.CrossEntropyLoss(), "returns"),
        (_weighted, "mixes the records of a batch"),
        (_drawn, "draws random numbers"),
        (nn.BCEWithLogitsLoss(), "fails on random outputs"),
        (3.0, "is a number|is 3|float"),
        (Averaging(), "loss that depends on what was computed before"),
        (_jittered, r"draws random numbers \(numpy"),
        (_in_place, "loss that changes labels"),
    ],
)
def test_the_door_refuses_a_loss_that_is_no_term_of_each_record(loss: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        made(normed, loss=lambda: loss)


def test_a_loss_that_does_not_fit_the_classes_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is no loss"):
        made(normed, loss="cox")


def test_what_makes_a_model_is_given_public_arguments_alone() -> None:
    def needy(records: int) -> nn.Module:
        raise AssertionError(records)

    with pytest.raises(InvalidInput, match="needs `records`"):
        made(needy)
    shapes: list[object] = []

    def asking(shape: tuple[int, ...], classes: int, dropout: float) -> nn.Module:
        shapes.append((shape, classes, dropout))
        return nn.Sequential(nn.Dropout(dropout), nn.Linear(shape[0], classes))

    assert made(asking, dropout=0.25).dropout == 0.25
    assert set(shapes) == {((FEATURES,), CLASSES, 0.25)}
    with pytest.raises(InvalidInput, match="`dropout` is given"):
        made(normed, dropout=0.25)


def test_a_digest_of_an_architecture_tells_modules_apart_and_not_their_weights() -> None:
    def digest(module: nn.Module) -> str:
        return architecture_digest(module)

    same = digest(normed(FEATURES, CLASSES))
    assert digest(normed(FEATURES, CLASSES)) == same  # other weights
    frozen, buffered = normed(FEATURES, CLASSES), batch_normed()
    frozen[0].requires_grad_(False)
    first = digest(buffered)
    buffered[1].running_mean += 1.0  # type: ignore[operator]
    others = {
        "width": digest(normed(FEATURES, CLASSES, width=23)),
        "constants": digest(frozen),
        "their values": digest(buffered),
        "buffers": first,
        "code": digest(Branching()),
        "settings": digest(nn.CrossEntropyLoss(label_smoothing=0.1)),  # its text does not say it
        "usual": digest(nn.CrossEntropyLoss()),
    }
    assert len({same, *others.values()}) == len(others) + 1
