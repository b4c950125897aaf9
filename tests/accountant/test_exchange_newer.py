"""Newer events of dp_accounting: what their numbers mean, there and back."""

from __future__ import annotations

import itertools
import math
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import dp_event as dp
from dp_accounting.pld import PLDAccountant
from scipy.stats import binom

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import Unsupported
from privplan.accountant.events.contributions import (
    MAX_LISTED_RECORDS,
    binomial_weights,
    distribution,
)

from ..cases import for_each

NEWER = {
    # Fields as dp_accounting's main branch has them.
    "EpsilonDeltaDpEvent": {"epsilon": attr.NOTHING, "delta": attr.NOTHING},
    "ExponentialMechanismDpEvent": {"epsilon": attr.NOTHING},
    "PermuteAndFlipDpEvent": {"epsilon": attr.NOTHING},
    "DiscreteGaussianDpEvent": {"sigma": attr.NOTHING, "sensitivity": 1.0, "dimension": None},
    "RandomAllocationDpEvent": dict.fromkeys(("event", "num_selected", "num_steps"), attr.NOTHING),
}


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of their events, with the newer classes where the installed one lacks them."""
    for name, fields in NEWER.items():
        if not hasattr(dp, name):
            members = {field: attr.ib(default=default) for field, default in fields.items()}
            made = attr.make_class(name, members, bases=(dp.DpEvent,), frozen=True)
            monkeypatch.setattr(dp, name, made, raising=False)
    return dp


OURS = (
    ev.Pure(0.5),
    ev.Approximate(0.5, 1e-6),
    ev.Exponential(0.7),
    ev.DiscreteGaussian(2.0, 3),
    ev.DiscreteGaussian(0.1, 7),
    ev.RandomAllocation(10, 3, ev.Gaussian(1.5)),
    ev.Group(2, ev.Poisson(0.01, ev.Gaussian(1.3))),
    ev.Group(40, ev.Poisson(0.37, ev.Gaussian(5.0))),
)


@for_each("event", OURS, ids=repr)
@pytest.mark.usefixtures("newer")
def test_there_and_back(event: ev.Event) -> None:
    assert ev.from_dp_event(ev.Repeat(3, event).to_dp_event()) == ev.Repeat(3, event)


@for_each("event", [event for event in OURS if not isinstance(event, ev.Group)], ids=repr)
def test_a_version_that_lacks_a_class_is_named(
    monkeypatch: pytest.MonkeyPatch, event: ev.Event
) -> None:
    for name in NEWER:
        monkeypatch.delattr(dp, name, raising=False)
    with pytest.raises(Unsupported) as refused:
        ev.Repeat(2, event).to_dp_event()
    assert "`event.event`" in refused.value.what
    assert "which the installed version" in refused.value.why


def test_the_epsilon_of_the_exponential_mechanism_is_its_range_and_its_epsilon(newer: Any) -> None:
    """Weights exp(epsilon u / 2), u moving by up to 1: every table of utilities of a small grid.

    Both conventions are one number: the loss stays within epsilon of 0, and its range, too; and
    nothing smaller than epsilon would do for either.
    """
    epsilon = 1.3
    largest_loss = largest_range = 0.0
    for utilities in itertools.product((0.0, 1.0, 40.0), repeat=3):
        before = np.array(utilities)
        for moves in itertools.product((-1.0, 0.0, 1.0), repeat=3):
            after = before + np.array(moves)
            logs = []
            for table in (before, after):
                weights = epsilon * table / 2.0
                logs.append(weights - np.logaddexp.reduce(weights))
            losses = logs[0] - logs[1]
            largest_loss = max(largest_loss, float(np.abs(losses).max()))
            largest_range = max(largest_range, float(losses.max() - losses.min()))
    assert largest_loss == pytest.approx(epsilon, rel=1e-6)
    assert largest_range == pytest.approx(epsilon, rel=1e-12)
    ours = ev.from_dp_event(newer.ExponentialMechanismDpEvent(epsilon))
    assert ours == ev.Exponential(epsilon)
    # Their curve for one run, min(xi + eps^2 a / 8, eps), is not below ours.
    from privplan.accountant.engines.rdp.curves import curve

    orders = np.array([1.5, 2.0, 4.0, 16.0, 256.0])
    ratio = epsilon / math.expm1(epsilon)
    xi = ratio - 1.0 - math.log(ratio) - epsilon**2 / 8.0
    theirs = np.minimum(xi + epsilon**2 / 8.0 * orders, epsilon)
    assert (curve(ours, "add-remove").at(orders) <= theirs * (1.0 + 1e-9)).all()
    doubled = curve(ev.Exponential(2.0 * epsilon), "add-remove").at(orders)
    assert (doubled > 1.2 * theirs).any()


def test_permute_and_flip_is_its_epsilon(newer: Any) -> None:
    """Every order of three choices, each accepted with probability exp(epsilon (u - max) / 2)."""
    epsilon = 1.1

    def law(utilities: tuple[float, ...]) -> np.ndarray:
        accepted = np.exp(epsilon * (np.array(utilities) - max(utilities)) / 2.0)
        total = np.zeros(3)
        for order in itertools.permutations(range(3)):
            left = 1.0
            for choice in order:
                total[choice] += left * accepted[choice] / 6.0
                left *= 1.0 - accepted[choice]
        return total

    worst = 0.0
    for before in itertools.product((0.0, 0.5, 1.0, 30.0), repeat=3):
        for moves in itertools.product((-1.0, 0.0, 1.0), repeat=3):
            after = tuple(a + b for a, b in zip(before, moves, strict=True))
            p, q = law(before), law(after)
            seen = (p > 1e-15) & (q > 1e-15)
            worst = max(worst, float(np.abs(np.log(p[seen] / q[seen])).max()))
    assert 0.9 * epsilon < worst <= epsilon * (1.0 + 1e-9)
    assert ev.from_dp_event(newer.PermuteAndFlipDpEvent(epsilon)) == ev.Pure(epsilon)


@for_each(("size", "rate"), [(1, 0.1), (3, 0.25), (8, 0.01), (256, 0.003)])
def test_binomial_weights(size: int, rate: float) -> None:
    expected = binom.pmf(np.arange(size + 1), size, rate)
    assert binomial_weights(size, rate) == pytest.approx(expected, rel=1e-9, abs=1e-300)


HALVES = ev.Group(2, ev.Poisson(0.5, ev.Gaussian(2.0)))


@for_each(
    ("theirs", "ours"),
    [
        (dp.MixtureOfGaussiansDpEvent(2.0, [0, 1], [0.9, 0.1]), ev.Poisson(0.1, ev.Gaussian(2.0))),
        (dp.MixtureOfGaussiansDpEvent(2.0, [4.0], [1.0]), ev.Gaussian(0.5)),
        (dp.MixtureOfGaussiansDpEvent(2.0, [0.0], [1.0]), ev.Compose(())),
        (dp.MixtureOfGaussiansDpEvent(6.0, [0, 3, 6], [0.25, 0.5, 0.25]), HALVES),
        (dp.MixtureOfGaussiansDpEvent(6.0, [6, 0, 3], [0.25, 0.25, 0.5]), HALVES),
    ],
)
def test_mixtures_that_are_groups(theirs: dp.DpEvent, ours: ev.Event) -> None:
    assert ev.from_dp_event(theirs) == ours


@for_each(
    ("moves", "weights"),
    [
        ([0.0, 1.0, 3.0], [0.25, 0.5, 0.25]),
        ([1.0, 2.0], [0.5, 0.5]),
        ([0.0, 1.0, 2.0], [0.3, 0.4, 0.3]),
        ([0.0, 1.0, 2.0], [0.25 + 1e-9, 0.5 - 2e-9, 0.25 + 1e-9]),
    ],
)
def test_other_mixtures_stay_mixtures(moves: list[float], weights: list[float]) -> None:
    ours = ev.from_dp_event(dp.MixtureOfGaussiansDpEvent(1.0, moves, weights))
    assert isinstance(ours, ev.GaussianMixture)
    assert distribution(ours) == dict(zip(moves, weights, strict=True))
    back = ours.to_dp_event()
    assert (back.sensitivities, back.sampling_probs) == (moves, weights)
    assert ev.from_dp_event(back) == ours


def test_mixtures_of_parts_of_one_are_refused() -> None:
    with pytest.raises(Unsupported) as refused:
        ev.from_dp_event(dp.MixtureOfGaussiansDpEvent(1.0, [0, 1, 2], [0.25, 0.5, 0.24]))
    assert "add up" in refused.value.why
    nothing = dp.MixtureOfGaussiansDpEvent(1.0, [0.0, 0.0], [0.5, 0.5])
    assert ev.from_dp_event(nothing) == ev.Compose(())


@for_each(
    "event",
    [
        ev.GaussianMixture(1.0, [1.0, 2.5], [0.3, 0.1]),
        ev.Group(5, ev.Poisson(0.02, ev.Gaussian(2.0))),
    ],
)
def test_their_accountant_agrees_about_mixtures_and_groups(event: ev.Event) -> None:
    # Their grid is coarse here, so that this is fast; their value is an upper one.
    theirs = PLDAccountant(value_discretization_interval=1e-2)
    theirs.compose(event.to_dp_event(), 3)
    ours = pp.account(ev.Repeat(3, event), delta=1e-6).epsilon
    assert ours.lower <= theirs.get_epsilon(1e-6) <= 1.02 * ours.upper


def test_large_groups_are_not_listed() -> None:
    event = ev.Group(MAX_LISTED_RECORDS + 1, ev.Poisson(0.1, ev.Gaussian(1.0)))
    with pytest.raises(Unsupported, match="a group"):
        event.to_dp_event()
