"""A round of DELM's schemes is the plain computation plus the noise that was drawn, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from privplan.accountant.mechanisms import Laplace, NoisyGram

from ...cases import for_each
from .schemes import (
    Rounds,
    built,
    exact_gram,
    federation,
    made,
    noise_of_grams,
    noise_of_laplace,
    plain_gradient,
)

PROVEN = {"sensitivity": "proven"}


def sums_of(system: Any, drawn: list[Any]) -> list[Any]:
    """Return the sum of all clients' messages in each round, from exact sums and drawn noise."""
    mechanism = system.mechanism(system.promise.noise_multiplier)
    clients = system.setup.silos
    exact = sum(exact_gram(system, mechanism, client) for client in range(clients))
    rounds = [drawn[at : at + clients] for at in range(0, len(drawn), clients)]
    return [exact + np.sum(noise, axis=0) for noise in rounds]


@for_each("shuffle", ["layers", "none"])
@for_each("sensitivity", ["printed", "proven"])
@for_each(("model", "classes"), [("softmax", 3), ("logistic", 2)])
def test_a_round_is_a_step_on_the_noisy_objective(
    model: str, classes: int, sensitivity: str, shuffle: str
) -> None:
    data = federation(classes=classes)
    keys = {"sensitivity": sensitivity, "shuffle": shuffle, "training_epsilon": 0.3}
    system = built(data, model=model, delm=keys)
    with noise_of_grams() as drawn:
        left = made(system)
    mechanism = system.mechanism(system.promise.noise_multiplier)
    assert isinstance(mechanism, NoisyGram)
    sums = sums_of(system, drawn)
    assert len(sums) == 3
    # New noise in every round, and of every client.
    assert len({noise.tobytes() for noise in drawn}) == 15
    for number, total in enumerate(sums):
        before = left.models[number]
        gradient = system.objective(mechanism).gradient(total, before) / 5.0  # type: ignore[attr-defined]
        assert np.array_equal(left.models[number + 1], before - 0.05 * gradient)
        again = plain_gradient(system, mechanism, total, before) / 5.0
        assert gradient == pytest.approx(again, rel=1e-9, abs=1e-9 * np.abs(again).max())


def test_coefficients_that_are_released_once_serve_all_steps() -> None:
    system = built(federation(), delm={**PROVEN, "objective": "once"}, run={"rounds": 7})
    with noise_of_grams() as drawn:
        left = made(system)
    assert len(drawn) == 5  # one message of every client
    mechanism = system.mechanism(system.promise.noise_multiplier)
    (total,) = sums_of(system, drawn)
    model = left.models[0]
    for _ in range(7):
        model = model - 0.05 * (system.objective(mechanism).gradient(total, model) / 5.0)  # type: ignore[attr-defined]
    assert np.array_equal(left.models[1], model)
    kinds = [record.type for record in left.log.records]
    assert kinds == ["round.intent", "round.release"]


@for_each("system", ["delm-basic", "delm-enhanced"])
@for_each("selection", ["uniform", "top-k", "divergence"])
def test_every_client_sends_a_message_and_the_chosen_are_averaged(
    system: str, selection: str
) -> None:
    if system == "delm-basic" and selection != "uniform":
        pytest.skip("the basic scheme chooses nobody")
    keys = {"selection": selection, "selected": 3} if system == "delm-enhanced" else {}
    scheme = built(federation(), system, delm={**PROVEN, "shuffle": "none", **keys})
    with noise_of_grams() as drawn:
        left = made(scheme)
    assert len(drawn) == 15
    mechanism = scheme.mechanism(scheme.promise.noise_multiplier)
    exact = [exact_gram(scheme, mechanism, client) for client in range(5)]
    for number in range(3):
        messages = [total + drawn[5 * number + at] for at, total in enumerate(exact)]
        before, after = left.models[number : number + 2]
        averaged = 3 if keys else 5
        # Some set of so many clients gives the step, and no other.
        fitting = [
            chosen
            for chosen in subsets(5, averaged)
            if np.array_equal(after, stepped(scheme, mechanism, messages, chosen, before))
        ]
        assert len(fitting) == 1


def subsets(count: int, size: int) -> list[list[int]]:
    from itertools import combinations

    return [list(each) for each in combinations(range(count), size)]


def stepped(scheme: Any, mechanism: Any, messages: Any, chosen: list[int], before: Any) -> Any:
    total = np.sum([messages[at] for at in chosen], axis=0)
    return before - 0.05 * (scheme.objective(mechanism).gradient(total, before) / len(chosen))


def test_least_divergent_clients_are_those_whose_signs_agree_with_the_last_gradient() -> None:
    keys = {"selection": "top-k", "selected": 2, "shuffle": "none", **PROVEN}
    scheme = built(federation(), "delm-enhanced", delm=keys)
    with noise_of_grams() as drawn:
        left = made(scheme)
    mechanism = scheme.mechanism(scheme.promise.noise_multiplier)
    exact = [exact_gram(scheme, mechanism, client) for client in range(5)]
    last = np.zeros(left.models[0].size)
    for number in range(3):
        messages = [total + drawn[5 * number + at] for at, total in enumerate(exact)]
        before = left.models[number]
        gradients = [plain_gradient(scheme, mechanism, each, before) for each in messages]
        scores = [
            sum(np.sign(now) != np.sign(then) for now, then in zip(gradient, last, strict=True))
            for gradient in gradients
        ]
        scores = scores if last.any() else [0] * 5
        chosen = sorted(sorted(range(5), key=lambda at: (scores[at], at))[:2])
        expected = stepped(scheme, mechanism, messages, chosen, before)
        assert np.array_equal(left.models[number + 1], expected)
        last = left.states[number + 1]["direction"]
        assert np.array_equal(before - 0.05 * last, expected)


def printed(left: Rounds, scheme: Any, drawn: list[Any], number: int) -> list[Any]:
    """Return the clients' messages of a round in steps, from gradients by torch and the noise."""
    mechanism = scheme.mechanism(1.0)
    exact = gradients(scheme, left.models[number])
    clients = scheme.setup.silos
    noise = drawn[clients * number : clients * (number + 1)]
    return [np.rint(g / mechanism.grid) + n for g, n in zip(exact, noise, strict=True)]


def gradients(scheme: Any, at: Any) -> Any:
    """Return the sum of the gradients of each client's records, one record after the other."""
    data = scheme.federation
    models = np.tile(at, (data.silos, 1))
    rows = scheme.setup.local.record_gradients(models, np.arange(data.records), 1)
    return np.array([rows[data.silo == client].sum(axis=0) for client in range(data.silos)])


@for_each("system", ["delm-basic", "delm-enhanced"])
@for_each("shuffle", ["layers", "none"])
def test_a_round_of_another_model_is_a_noisy_gradient_step(system: str, shuffle: str) -> None:
    keys = {"selected": 5, "selection": "uniform"} if system == "delm-enhanced" else {}
    scheme = built(federation(), system, model="mlp-64", delm={"shuffle": shuffle, **keys})
    mechanism = scheme.mechanism(1.0)
    assert isinstance(mechanism, Laplace)
    with noise_of_laplace() as drawn:
        left = made(scheme)
    assert len(drawn) == 15
    for number in range(3):
        messages = printed(left, scheme, drawn, number)
        total = np.sum(messages, axis=0) * mechanism.grid
        before = left.models[number]
        expected = before - 0.05 * (total / 5.0)
        # Gradients are summed in another order here: a step of the grid, or none, apart.
        off = np.abs(left.models[number + 1] - expected)
        assert off.max() <= 0.05 * mechanism.grid + 1e-12 * np.abs(expected).max()


def test_the_printed_noise_has_the_printed_width() -> None:
    scheme = built(
        federation(),
        model="mlp-64",
        delm={"training_epsilon": 1.2, "shuffle": "none"},
        privacy={"epsilon": 0.6},
    )
    mechanism = scheme.mechanism(1.0)
    assert isinstance(mechanism, Laplace)
    assert mechanism.scale == pytest.approx((2 * 6 + 3 * 36) / 1.2)
    with noise_of_laplace() as drawn:
        made(scheme)
    sizes = np.abs(np.concatenate(drawn)) * mechanism.grid
    count = sizes.size
    # |Laplace| has mean and deviation b: 5 standard errors, 6e-7 of false alarms.
    assert sizes.mean() == pytest.approx(mechanism.scale, abs=5 * mechanism.scale / count**0.5)


def test_layers_are_shuffled_apart_and_their_means_stay() -> None:
    """The same seed, with and without: every model is the same to the last bit."""
    models = {}
    for shuffle in ("layers", "none"):
        scheme = built(federation(), model="mlp-64", delm={"shuffle": shuffle})
        models[shuffle] = made(scheme, seed=3).models
    assert all(map(np.array_equal, models["layers"], models["none"]))
