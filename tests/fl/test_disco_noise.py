"""The noise of DISCO's peers: the stated share, what it hides from whom, and no worse neighbour."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.certified_search import SEARCH_PRECISION
from privplan.fl.disco.noise import NoiseTerms, views_of
from privplan.fl.disco.updates import clipped_by_tensor

from ..cases import for_each
from .disco_runs import VARIANTS, Parts, built, settings
from .extras import needs

pytestmark = needs("cryptography")

DELTA: Final = 1e-5
CLIP: Final = 0.25


def normal(value: float) -> float:
    return 0.5 * math.erfc(-value / math.sqrt(2.0))


def mu_of(epsilon: float, delta: float = DELTA) -> float:
    """Return the largest mu whose Gaussian experiment has (epsilon, delta), by bisection."""
    low, high = 0.0, 100.0
    for _ in range(200):
        mu = (low + high) / 2.0
        left = normal(-epsilon / mu + mu / 2.0)
        spent = left - math.exp(epsilon) * normal(-epsilon / mu - mu / 2.0)
        low, high = (mu, high) if spent <= delta else (low, mu)
    return low


GROUPS: Final = [(3, 0), (5, 0), (5, 1), (5, 2), (20, 0), (20, 9), (20, 17)]
"""How many peers, and how many tell: from none to all but those that hide the unit."""


def share_of(noise: str, epsilon: float, peers: int, told: int = 0, rounds: int = 20) -> float:
    """Return the deviation of what one peer adds in a run that is calibrated to a target."""
    own = settings(noise, silos=peers, colluders=told, rounds=rounds, privacy={"epsilon": epsilon})
    system = built(own, rows=np.zeros((peers, 2)))
    return system.mechanism(system.promise.noise_multiplier).share_std


@for_each("epsilon", [5.0, 10.0, 20.0])
@for_each(("peers", "told"), GROUPS)
def test_a_calibrated_share_is_enough_and_hardly_more(
    peers: int, told: int, epsilon: float
) -> None:
    """Never below the formula, and above it by no more than the search for noise stops at."""
    alone = 2.0 * CLIP * math.sqrt(20) / mu_of(epsilon)
    for noise, hiding in (("local", 1), ("shared", peers - 1 - told)):
        above = share_of(noise, epsilon, peers, told) * math.sqrt(hiding) / alone - 1.0
        # The formula of this test is itself rounded, by some 1e-12.
        assert -1e-10 <= above <= SEARCH_PRECISION


@for_each("epsilon", [5.0, 10.0, 20.0])
@for_each(("peers", "told"), GROUPS)
def test_a_share_of_given_noise_is_what_the_formula_says(
    peers: int, told: int, epsilon: float
) -> None:
    """At the multiplier that the formula gives, a share is s to 1e-12, and the claim holds it."""
    alone = 2.0 * CLIP * math.sqrt(20) / mu_of(epsilon)
    needed = alone / math.sqrt(peers - 1 - told)
    given = {"noise_multiplier": needed * math.sqrt(peers) / CLIP}
    own = settings(silos=peers, colluders=told, rounds=20, privacy=given)
    system = built(own, rows=np.zeros((peers, 2)))
    share = system.mechanism(system.promise.noise_multiplier).share_std
    assert share == pytest.approx(needed, rel=1e-12)
    claimed = system.promise.claim.epsilon
    assert claimed is not None
    # The claim is rounded up, in its sixth digit.
    assert epsilon * (1.0 - 1e-9) <= claimed <= epsilon * (1.0 + 2e-5)


def test_figures_of_six_tensors() -> None:
    """Six tensors of radius r, epsilon 10 over 20 rounds: 11.0 r, which is 4.47 C."""
    share = share_of("local", 10.0, 3)
    assert round(share / CLIP, 2) == 4.47
    assert round(share / (CLIP / math.sqrt(6)), 1) == 11.0


# --- what is seen of a round ---------------------------------------------------------------------


def distance(views: Any, shift: Any) -> float:
    """Return how far two Gaussian experiments lie apart: (shift^T K^-1 shift)^(1/2).

    `views` (seen, noises) says what is seen of independent noises of deviation 1, K = views views^T
    """
    return math.sqrt(shift @ np.linalg.solve(views @ views.T, shift))


def seen_by_peer(peers: int, told: int, in_the_clear: bool) -> float:
    """Return the distance for a peer that knows its noise and that of the first `told` others.

    Of noises of deviation 1, where the term of the last peer moves by 1.
    """
    noises = np.eye(peers)
    known = noises[: 1 + told]
    others = noises[1 + told :] if in_the_clear else np.ones((1, peers))
    shift = np.zeros(len(known) + len(others))
    shift[-1] = 1.0
    return distance(np.vstack([known, others]), shift)


@for_each("variant", list(VARIANTS))
@for_each(("peers", "told"), GROUPS)
def test_a_peer_learns_no_more_than_is_accounted(peers: int, told: int, variant: str) -> None:
    noise, aggregation = VARIANTS[variant]
    terms = NoiseTerms(noise, peers, told, aggregation, "silo")  # type: ignore[arg-type]
    multiplier = 3.0
    views = views_of(terms, multiplier)
    step = 2.0 * math.sqrt(peers) / multiplier  # 2 C in deviations of one share

    def accounted(observer: str) -> float:
        event = views[observer]
        assert isinstance(event, ev.Gaussian)
        return 2.0 / event.noise_multiplier

    peer = step * seen_by_peer(peers, told, aggregation == "plain")
    assert accounted("peer") >= peer * (1.0 - 1e-12)
    if noise == "shared":
        assert accounted("peer") == pytest.approx(peer, rel=1e-12)
    else:  # a message by itself, whoever tells what it knows
        everybody = step * seen_by_peer(peers, peers - 2, False)
        assert accounted("peer") == pytest.approx(everybody, rel=1e-12)
    whole = step / math.sqrt(peers)
    assert accounted("model") == pytest.approx(whole, rel=1e-12)
    # The coordinator has the messages in the clear, and else no more than is released.
    seen = step if aggregation == "plain" else whole
    assert accounted("coordinator") == pytest.approx(seen, rel=1e-12)


@for_each("variant", list(VARIANTS))
def test_claims_are_those_of_the_experiments(variant: str) -> None:
    system = built(settings(*VARIANTS[variant], silos=5), rows=np.zeros((5, 2)))
    plan = system.promise.plan
    for observer, event in views_of(
        system.terms.noise_terms, system.promise.noise_multiplier
    ).items():
        alone = pp.account(ev.Repeat(3, event), delta=DELTA, neighbours="replace-one")
        assert plan.guarantees[observer].epsilon.upper >= alone.epsilon.lower
        assert plan.guarantees[observer].epsilon.upper <= alone.epsilon.upper * (1.0 + 1e-9)


# --- neighbours ----------------------------------------------------------------------------------


def climbed(moved: Callable[[Any, Any], float], length: int, seed: int) -> tuple[float, Any]:
    """Return the farthest that an exchange of two rows moves the integers, and how many tries."""
    rng = np.random.default_rng(seed)
    farthest, best = -1.0, (np.zeros(length), np.zeros(length))
    for attempt in range(600):
        if attempt < 150:  # anything, of any size
            pair = tuple(rng.normal(size=length) * 10.0 ** rng.uniform(-12, 12) for _ in "ab")
        else:  # a little away from the farthest so far
            pair = tuple(
                row * (1.0 + 0.3 * rng.normal(size=length)) + 0.01 * rng.normal(size=length)
                for row in best
            )
            if attempt % 3 == 0:
                pair = (pair[0], -pair[0])
        reached = moved(*pair)
        if reached > farthest:
            farthest, best = reached, pair
    return farthest, best


@for_each("sizes", [(6,), (3, 2, 1)], ids=["model", "tensor"])
@for_each("clip", [0.25, 1.7e-3, 11.0])
def test_no_exchange_moves_the_integers_by_more_than_two_clips(
    clip: float, sizes: tuple[int, ...]
) -> None:
    system = built(settings(training={"clip": clip}), rows=np.zeros((3, 6)))
    mechanism = system.sum_mechanism(system.promise.noise_multiplier, clip, 1)
    most = 2.0 * clip / mechanism.grid

    def placed(row: Any) -> Any:
        rows = row[None, :]
        if len(sizes) > 1:
            rows = clipped_by_tensor(rows, sizes, clip / math.sqrt(len(sizes)))
        return mechanism.total(rows)

    def moved(one: Any, other: Any) -> float:
        steps = [int(value) for value in placed(one) - placed(other)]
        square = sum(step * step for step in steps)
        assert square <= most * most
        return math.sqrt(square)

    farthest, _ = climbed(moved, 6, 3)
    assert farthest >= 0.99 * most  # the search comes as far as that: it would find more
    wild = [np.full(6, bad) for bad in (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0)]
    for one in wild:
        for other in wild:
            moved(one, other)


def test_tensors_apart_are_worth_the_whole_model() -> None:
    """L releases of radius C / L^(1/2) at the same noise are one of radius C, in closed form."""
    for count in (2, 6, 31):
        apart = ev.Compose(tuple(ev.Gaussian(3.0 * math.sqrt(count)) for _ in range(count)))
        whole = pp.account(ev.Gaussian(3.0), delta=DELTA, neighbours="replace-one").epsilon.upper
        parts = pp.account(apart, delta=DELTA, neighbours="replace-one").epsilon.upper
        assert parts == pytest.approx(whole, rel=1e-9)
        assert mu_of(whole) == pytest.approx(2.0 / 3.0, rel=1e-6)


def test_clipping_by_tensor_changes_no_noise() -> None:
    by_model, by_tensor = (
        built(settings(clip_by=scope), rows=np.zeros((3, 4))) for scope in ("model", "tensor")
    )
    assert by_model.promise.plan == by_tensor.promise.plan
    noise = by_model.promise.noise_multiplier
    assert by_model.mechanism(noise) == by_tensor.mechanism(noise)


def test_a_model_says_how_long_its_tensors_are() -> None:
    from privplan.fl.disco.updates import tensor_sizes

    system = built(settings(), rows=np.zeros((3, 4)))
    assert tensor_sizes(system.setup, 4) == (4,)
    system.setup.local.model = Parts({"a": (1, 3), "b": (1,)})  # type: ignore[attr-defined]
    assert tensor_sizes(system.setup, 4) == (3, 1)
