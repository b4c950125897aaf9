"""The models against torch.nn, the losses against slow formulas, the draws against integers."""

from __future__ import annotations

import doctest
import math
import types

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from numpy.typing import NDArray
from torch import nn

from privplan.accountant.errors import InvalidInput
from privplan.fl.models import MODELS, Model, layers, model_named, registry
from privplan.fl.models import model as model_module
from privplan.fl.models.images import ChannelDropout
from privplan.fl.models.layers import ALIGNED, Dropout, Weights
from privplan.fl.models.losses import BinaryCrossEntropy, CoxPartialLikelihood, CrossEntropy
from privplan.fl.models.training_draws import (
    DROPOUT_LEVELS,
    Draws,
    child_keys,
    random_orders,
    random_words,
    unit_keys,
)

from ..cases import for_each
from .networks import mix, network

SHAPES = {
    "logistic": (13, 2),
    "cox": (39, 1),
    "softmax": (64, 10),
    "linear": (13, 1),
    "mlp": (30, 2),
    "cnn": (784, 10),
    "mlp-64": (392, 10),
    "alexnet": (1024, 10),
}


def made(name: str, dropout: float = 0.0) -> Model:
    return model_named(name, *SHAPES[name], dropout=dropout)


def loaded(name: str, parameters: NDArray[np.float64]) -> nn.Module:
    return network(name, *SHAPES[name], parameters)


def records(name: str, count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.generic]]:
    features, classes = SHAPES[name]
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, features)).astype(np.float32)
    if name == "cox":
        time = rng.integers(1, 6, count)  # many ties
        return x, np.stack([time, rng.integers(0, 2, count)], 1).astype(np.float32)
    if name == "linear":
        return x, rng.uniform(-1.0, 1.0, count).astype(np.float32)
    return x, rng.integers(0, classes, count)


def shares(counts: list[int], width: int) -> torch.Tensor:
    sizes = torch.tensor(counts, dtype=torch.float64)[:, None]
    return (torch.arange(width) < sizes).double() / sizes.clamp_min(1)


@for_each(
    ("name", "count"),
    [
        *(("logistic", 14), ("cox", 40), ("softmax", 650), ("mlp", 5012)),
        *(("mlp-64", 392 * 64 + 64 + 64 * 10 + 10), ("alexnet", 29_674)),
    ],
)
def test_parameter_counts(name: str, count: int) -> None:
    assert made(name).parameters == count


@for_each("name", MODELS)
def test_logits_are_those_of_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(name)
    parameters = model.initial(3) + 0.01
    x, _ = records(name, 9, 1)
    expected = loaded(name, parameters)(torch.tensor(x).double()).detach().numpy()
    np.testing.assert_allclose(model.logits(parameters, x), expected, rtol=1e-10, atol=1e-12)
    monkeypatch.setattr(model_module, "_MAX_SAVED_NUMBERS", 1)  # one record at a time
    np.testing.assert_allclose(model.logits(parameters, x), expected, rtol=1e-10, atol=1e-12)
    assert model.logits(parameters, x[:0]).shape == (0, model.outputs)


def test_records_may_have_any_shape() -> None:
    model = made("cnn")
    x, _ = records("cnn", 3, 2)
    start = model.initial(0)
    flat = model.logits(start, x)
    np.testing.assert_array_equal(model.logits(start, x.reshape(3, 1, 28, 28)), flat)
    np.testing.assert_array_equal(model.logits(start, x.reshape(3, 28, 28)), flat)


@for_each("features", [784, 3072])
def test_alexnet_takes_images_of_other_sizes(features: int) -> None:
    model = model_named("alexnet", features, 10)
    parameters = model.initial(2)
    x = np.random.default_rng(0).normal(size=(5, features))
    expected = network("alexnet", features, 10, parameters)(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(model.logits(parameters, x), expected, rtol=1e-10, atol=1e-12)


def gradient(model: Model, stack: torch.Tensor, x, labels, share, draws=None) -> torch.Tensor:
    """One gradient per unit, each with parameters of its own: (units, D)."""
    parts = [model.spread(row, 1) for row in stack]
    weights: Weights = [torch.cat(same) for same in zip(*parts, strict=True)]
    into = [torch.zeros_like(one) for one in weights]
    model.add_gradient(weights, x, labels, share, draws, into=into, scale=1.0)
    return model.flat(into)


@for_each("name", MODELS)
def test_gradients_are_those_of_autograd(name: str) -> None:
    """Units of several sizes, with padding, each at other parameters."""
    model = made(name)
    counts, width = [1, 5, 3], 5
    stack = torch.tensor(np.stack([model.initial(seed) for seed in range(3)]))
    x, labels = records(name, 3 * width, 4)
    x3 = torch.tensor(x).double().view(3, width, -1)
    labels3 = torch.tensor(labels).view(3, width, *labels.shape[1:])
    share = shares(counts, width)
    found = gradient(model, stack, x3, labels3, share)
    for unit, count in enumerate(counts):
        whole = loaded(name, stack[unit].numpy())
        logits = whole(x3[unit, :count])[None]
        only = torch.full((1, count), 1.0 / count, dtype=torch.float64)
        loss = model.loss.value(logits, labels3[unit, None, :count], only).sum()
        expected = torch.autograd.grad(loss, list(whole.parameters()), allow_unused=True)
        flat = torch.cat([one.flatten() for one in expected])
        torch.testing.assert_close(found[unit], flat, rtol=1e-9, atol=1e-12)


@for_each("name", MODELS)
def test_gradients_are_slopes_of_the_loss(name: str) -> None:
    """Finite differences, which know of no derivative at all."""
    model = made(name)
    x, labels = records(name, 4, 5)
    x1, labels1, share = torch.tensor(x).double()[None], torch.tensor(labels)[None], shares([4], 4)
    start = torch.tensor(model.initial(1))
    direction = torch.tensor(np.random.default_rng(0).normal(size=model.parameters))
    step = 1e-6

    def value(moved: float) -> float:
        weights = model.spread(start + moved * direction, 1)
        return float(model.loss.value(model.forward(weights, x1, None), labels1, share))

    slope = float(gradient(model, start[None], x1, labels1, share)[0] @ direction)
    assert (value(step) - value(-step)) / (2 * step) == pytest.approx(slope, rel=1e-4, abs=1e-7)
    assert abs(slope) > 1e-4


@for_each("name", ["mlp", "cnn", "alexnet"])
def test_gradients_under_dropout_are_slopes_of_the_loss(name: str) -> None:
    model = made(name, 0.5)
    x, labels = records(name, 6, 6)
    x2 = torch.tensor(x).double().view(2, 3, -1)
    labels2, share = torch.tensor(labels).view(2, 3), shares([3, 2], 3)
    draws = Draws(torch.tensor([3, 4]))
    starts = torch.tensor(np.stack([model.initial(1), model.initial(2)]))
    direction = torch.tensor(np.random.default_rng(0).normal(size=model.parameters))

    def value(moved: float) -> NDArray[np.float64]:
        parts = [model.spread(one + moved * direction, 1) for one in starts]
        weights = [torch.cat(same) for same in zip(*parts, strict=True)]
        logits = model.forward(weights, x2, draws)
        return model.loss.value(logits, labels2, share).numpy()

    slope = gradient(model, starts, x2, labels2, share, draws) @ direction
    # So small a step that hardly a ReLU or a maximum is at another side of it.
    change = (value(1e-8) - value(-1e-8)) / 2e-8
    np.testing.assert_allclose(change, slope.numpy(), rtol=1e-4, atol=1e-7)
    plain = gradient(model, starts, x2, labels2, share)
    assert not torch.allclose(plain, gradient(model, starts, x2, labels2, share, draws))


def test_a_step_of_sgd_is_a_gradient_added_to_the_weights() -> None:
    for name in MODELS:
        model = made(name)
        x, labels = records(name, 4, 8)
        share = shares([4], 4)
        weights = [one.contiguous() for one in model.spread(torch.tensor(model.initial(0)), 1)]
        before = model.flat(weights)
        x1, labels1 = torch.tensor(x).double()[None], torch.tensor(labels)[None]
        step = -0.1 * gradient(model, before, x1, labels1, share)
        model.add_gradient(weights, x1, labels1, share, None, into=weights, scale=-0.1)
        torch.testing.assert_close(model.flat(weights) - before, step, rtol=1e-9, atol=1e-13)


def slow_cox(score: list[float], time: list[float], event: list[float]) -> float:
    """The negative log of a product of odds, one factor for each event."""
    total = 0.0
    for i, happened in enumerate(event):
        if happened:
            at_risk = [math.exp(score[j]) for j in range(len(score)) if time[j] >= time[i]]
            total -= math.log(math.exp(score[i]) / sum(at_risk))
    return total / len(score)


@for_each("seed", range(12))
def test_cox_loss_against_the_slow_formula(seed: int) -> None:
    """Ties, units of several sizes, and padding whose labels must not matter."""
    rng = np.random.default_rng(seed)
    counts, width = rng.integers(1, 9, 4).tolist(), 8
    score = rng.normal(size=(4, width, 1))
    labels = np.stack([rng.integers(0, 4, (4, width)), rng.integers(0, 2, (4, width))], 2)
    found = CoxPartialLikelihood().value(
        torch.tensor(score), torch.tensor(labels.astype(np.float32)), shares(counts, width)
    )
    for unit, n in enumerate(counts):
        time, event = labels[unit, :n].T.tolist()
        expected = slow_cox(score[unit, :n, 0].tolist(), time, event)
        assert found[unit].item() == pytest.approx(expected, abs=1e-12)


def test_losses_by_hand_by_torch_and_at_large_logits() -> None:
    """Times 1, 2, 2 (all events) and equal scores: risk sets of 3, 2 and 2."""
    labels = torch.tensor([[[1.0, 1.0], [2.0, 1.0], [2.0, 1.0]]])
    found = CoxPartialLikelihood().value(torch.zeros(1, 3, 1), labels, torch.full((1, 3), 1 / 3))
    assert found.item() == pytest.approx((math.log(3) + 2 * math.log(2)) / 3)
    rng = np.random.default_rng(0)
    logits, share = torch.tensor(rng.normal(size=(1, 6, 4))), shares([6], 6)
    labels = torch.tensor(rng.integers(0, 4, (1, 6)))
    expected = nn.functional.cross_entropy(logits[0], labels[0])
    assert CrossEntropy().value(logits, labels, share).item() == pytest.approx(expected.item())
    one, binary = logits[..., :1], labels % 2
    expected = nn.functional.binary_cross_entropy_with_logits(one[0, :, 0], binary[0].double())
    found = BinaryCrossEntropy().value(one, binary, share).item()
    assert found == pytest.approx(expected.item())
    share, labels = shares([2], 2), torch.tensor([[0, 1]])
    for loss, logits in (
        (BinaryCrossEntropy(), torch.tensor([[[-800.0], [800.0]]]).double()),
        (CrossEntropy(), torch.tensor([[[800.0, -800.0], [-800.0, 800.0]]]).double()),
    ):
        assert loss.value(logits, labels, share).item() == pytest.approx(0.0, abs=1e-300)
        assert torch.isfinite(loss.slope(logits, labels, share)).all()
    survival = torch.tensor([[[1.0, 1.0], [2.0, 1.0]]])
    scores = torch.tensor([[[900.0], [-900.0]]]).double()
    assert CoxPartialLikelihood().value(scores, survival, share).item() == pytest.approx(0.0)


@for_each("labels", [[[4.0, 1.0]], [[1.0, 0.0], [2.0, 0.0], [2.0, 0.0]]])
def test_cox_has_no_slope_without_events_or_company(labels: list[list[float]]) -> None:
    table = torch.tensor([labels])
    share = torch.full((1, len(labels)), 1 / len(labels), dtype=torch.float64)
    scores = torch.tensor(np.random.default_rng(0).normal(size=(1, len(labels), 1)))
    loss = CoxPartialLikelihood()
    assert loss.value(scores, table, share).item() == 0.0
    assert not loss.slope(scores, table, share).any()


def test_first_parameters_are_public_and_bounded() -> None:
    for name in MODELS:
        model = made(name)
        start = model.initial(7)
        assert start.shape == (model.parameters,)
        assert start.dtype == np.float64
        np.testing.assert_array_equal(start, made(name).initial(7))
        assert not np.array_equal(start, model.initial(8))
        for part in loaded(name, start).modules():
            if isinstance(part, (nn.Linear, nn.Conv2d)):
                reach = part.weight[0].numel() ** -0.5
                assert 0.5 * reach < part.weight.abs().max().item() <= reach
                assert part.bias.abs().max().item() <= reach
            if isinstance(part, nn.GroupNorm):
                assert (part.weight == 1).all()
                assert (part.bias == 0).all()


def test_words_are_those_of_splitmix64_and_keys_belong_to_their_names() -> None:
    """The first five outputs for the seed 1234567, as published with the generator."""
    found = [int(word) % 2**64 for word in random_words(torch.tensor([1234567]), 5)[0]]
    assert found == [
        *(6457827717110365317, 3203168211198807973, 9817491932198370423),
        *(4593380528125082431, 16408922859458223821),
    ]
    golden = 0x9E3779B97F4A7C15
    for key in (0, -1, 2**62 + 3, -(2**63)):
        slow = [mix((key + (i + 1) * golden) % 2**64) for i in range(7)]
        assert [int(word) % 2**64 for word in random_words(torch.tensor([key]), 7)[0]] == slow
        one = int(child_keys(torch.tensor([key]), 5)[0]) % 2**64
        assert one == mix((mix(key % 2**64) + 5 * golden) % 2**64)
    user, silo = torch.arange(6).repeat(4), torch.arange(4).repeat_interleave(6)
    keys = [unit_keys(seed, number, user, silo) for seed in (0, 1) for number in (0, 1, 2)]
    assert len(torch.unique(torch.cat(keys))) == 6 * 24
    again = unit_keys(1, 2, user[5:9], silo[5:9])
    assert torch.equal(again, keys[-1][5:9])


def test_orders_are_permutations_that_do_not_depend_on_padding() -> None:
    keys, sizes = child_keys(torch.arange(50), 3), torch.arange(50) % 9
    wide, narrow = random_orders(keys, sizes, 16), random_orders(keys, sizes, 8)
    for unit, size in enumerate(sizes.tolist()):
        assert sorted(wide[unit, :size].tolist()) == list(range(size))
        assert torch.equal(wide[unit, :size], narrow[unit, :size])
    keys = random_words(torch.tensor([9]), 6000)[0]
    firsts = random_orders(keys, torch.full((6000,), 6), 6)[:, 0]
    counts = torch.bincount(firsts, minlength=6)
    assert (counts - 1000).abs().max() < 5 * math.sqrt(1000 * 5 / 6)


@for_each("rate", [0.5, 0.25, 0.9])
def test_dropout_keeps_the_share_it_says(rate: float) -> None:
    exact = round(rate * DROPOUT_LEVELS) / DROPOUT_LEVELS
    draws = Draws(random_words(torch.tensor([1]), 40)[0])
    kept = draws.dropout_mask(1, 10, 101, exact)
    assert kept.shape == (40, 10, 101)
    n = kept.numel()
    assert abs(kept.double().mean().item() - (1 - exact)) < 5 * math.sqrt(exact * (1 - exact) / n)
    other = draws.dropout_mask(2, 10, 101, exact)
    assert (kept != other).any()
    assert torch.equal(draws.dropout_mask(1, 3, 101, exact), kept[:, :3])  # padding changes nothing
    assert torch.equal(Draws(draws.keys[7:9]).dropout_mask(1, 10, 101, exact), kept[7:9])


@for_each("layer", [Dropout(1, 0.75), ChannelDropout(1, 0.75)])
def test_what_dropout_keeps_is_scaled_so_that_the_mean_stays(layer: Dropout) -> None:
    draws = Draws(random_words(torch.tensor([5]), 3)[0])
    x = torch.full((3, 4, 20), 2.0) if type(layer) is Dropout else torch.full((3, 4, 20, 2, 2), 2.0)
    out, saved = layer.forward((), x, draws)
    assert set(out.unique().tolist()) == {0.0, 8.0}
    slope = layer.backward((), saved, torch.ones_like(x), (), 1.0, True)
    assert torch.equal(slope, out / 2.0)
    if x.ndim == 5:
        assert torch.equal(out, out[..., :1, :1].expand_as(out))  # whole channels
    same, nothing = layer.forward((), x, None)
    assert same is x
    assert nothing == ()


@for_each(("name", "close"), [("mpl", "mlp"), ("Logistic", "logistic")])
def test_a_misspelt_name_gets_a_suggestion(name: str, close: str) -> None:
    with pytest.raises(InvalidInput, match=rf"no model .*Did you mean {close}"):
        model_named(name, 30, 2)


@for_each(
    ("arguments", "dropout", "match"),
    [
        *((("logistic", 13, 3), 0.0, "2 classes"), (("cox", 39, 2), 0.0, "one risk score")),
        (("softmax", 39, 1), 0.0, "2 classes or more"),
        *((("mlp", 39, 1), 0.0, "2 classes or more"), (("cnn", 100, 10), 0.0, "28 x 28 or 8 x 8")),
        (("alexnet", 64, 10), 0.0, "images of 32 x 32"),
        (("alexnet", 2048, 10), 0.0, "images of 32 x 32"),
        (("alexnet", 1024, 1), 0.0, "2 classes or more"),
        (("mlp-64", 64, 1), 0.0, "2 classes or more"),
        *((("mlp-64", 64, 10), 0.5, "has no dropout"), (("mlp", 0, 2), 0.0, "features")),
        *((("mlp", 30, 2.5), 0.0, "classes"), (("mlp", 30, 2), 1.0, "below 1")),
        *((("mlp", 30, 2), -0.5, "dropout"), (("logistic", 13, 2), 0.5, "has no dropout")),
        *((("zebra", 13, 2), 0.0, "Choose one of"), ((3, 13, 2), 0.0, "no model")),
    ],
)
def test_what_does_not_fit_is_refused(arguments, dropout: float, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        model_named(*arguments, dropout=dropout)


def test_arrays_that_do_not_fit_are_refused() -> None:
    model = made("logistic")
    with pytest.raises(InvalidInput, match="parameters"):
        model.logits(np.zeros(13), np.zeros((2, 13)))
    with pytest.raises(InvalidInput, match="13 values per record"):
        model.logits(np.zeros(14), np.zeros((2, 12)))
    with pytest.raises(InvalidInput, match="13 values per record"):
        model.logits(np.zeros(14), np.zeros(13))
    with pytest.raises(InvalidInput, match="seed"):
        model.initial(-1)
    for labels in (np.array([0, 2]), np.array([-1, 0]), np.array([0.0, 1.0]), np.zeros((2, 2))):
        with pytest.raises(InvalidInput, match="integers from 0 to 1"):
            model.check_labels(labels)
    with pytest.raises(InvalidInput, match="time, event"):
        made("cox").check_labels(np.array([0, 1]))


@for_each("features", [1, 2, 13, 30, 31, 64])
@for_each("name", ["logistic", "cox", "softmax", "mlp"])
def test_every_matrix_begins_at_a_whole_place(name: str, features: int) -> None:
    """Whatever units lie before it: its rows of zeros change no result."""
    model = model_named(name, features, {"logistic": 2, "cox": 1}.get(name, 3))
    start = torch.tensor(model.initial(0))
    weights = model.spread(start, 2)
    for one in weights:
        if one.ndim == 3:
            assert one[0].numel() % ALIGNED == 0
            assert min(one.shape[1:]) >= 2
            assert model.multiple * one.shape[1] % ALIGNED == 0
            assert model.multiple * one.shape[2] % ALIGNED == 0
    torch.testing.assert_close(model.flat(weights), start.expand(2, -1), rtol=0, atol=0)
    x = torch.tensor(np.random.default_rng(0).normal(size=(2, 4, features)))
    labels = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 1]])
    if name == "cox":
        labels = torch.stack([torch.arange(8).view(2, 4) % 3, labels], 2)
    found = gradient(model, start.expand(2, -1), x, labels, shares([4, 3], 4))
    step = 1e-6
    for place in np.random.default_rng(1).permutation(model.parameters)[:12]:
        nudged = [start.clone(), start.clone()]
        nudged[0][place] += step
        nudged[1][place] -= step
        up, down = (
            model.loss.value(
                model.forward(model.spread(one, 2), x, None), labels, shares([4, 3], 4)
            )
            for one in nudged
        )
        torch.testing.assert_close((up - down) / (2 * step), found[:, place], rtol=1e-4, atol=1e-8)


@for_each("module_with_examples", [registry, layers])
def test_examples_run(module_with_examples: types.ModuleType) -> None:
    found = doctest.testmod(module_with_examples)
    assert found.attempted > 0
    assert found.failed == 0
