"""FedPower's algorithms as events: what each observer sees, with colluders and local steps."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity.fedpower import (
    PowerStep,
    client_sensitivity,
    element_as_published,
    entry_sensitivity,
    pair_sensitivity,
    row_sensitivity,
)
from privplan.accountant.sensitivity.fedpower_views import release, revealed_probability

from ..cases import for_each
from .fedpower import D, orthonormal

PUBLISHED_NOISE = element_as_published(10, 20.0, 0.2) * math.sqrt(2 * math.log(1.25e5))
"""The paper's noise for its epsilon 1 at delta 1e-5, by the classical formula."""


def epsilon(event: ev.Event, neighbours: str = "add-remove", delta: float = 1e-5) -> float:
    return pp.account(event, delta=delta, neighbours=neighbours).epsilon.upper


@for_each(
    ("moved_by", "once", "all_rounds"),
    [
        (element_as_published(10, 20.0, 0.2), 0.751, 9.87),
        (40.7, 2.74, 46.7),
        (58.2, 4.12, 79.5),
        (706.0, 114.6, 6_580.0),
        (row_sensitivity(PowerStep(math.sqrt(8467.0), 10, divisor=9.0)).l2, 182.4, 11_468.0),
        (client_sensitivity(PowerStep(math.sqrt(8467.0), 10)).l2, 1.013e4, 8.84e5),
        (row_sensitivity(PowerStep(10.0, 10, divisor=9.0)).l2, 0.652, 8.43),
    ],
)
def test_movielens_table(moved_by: float, once: float, all_rounds: float) -> None:
    """MovieLens-100k, 100 nodes, the paper's noise for its epsilon 1: what each notion costs."""
    event = ev.Gaussian(PUBLISHED_NOISE / moved_by)
    assert epsilon(event) == pytest.approx(once, rel=2e-3)
    assert epsilon(ev.Repeat(92, event)) == pytest.approx(all_rounds, rel=2e-3)


def test_movielens_bounds() -> None:
    assert element_as_published(10, 20.0, 0.2) == pytest.approx(12.65, abs=0.005)
    assert element_as_published(10, 20.0, 0.2, signed=True) == pytest.approx(25.3, abs=0.01)
    assert pytest.approx(61.3, abs=0.05) == PUBLISHED_NOISE
    wide = PowerStep(math.sqrt(8467.0), 10, divisor=9.0)
    assert row_sensitivity(wide).l2 == pytest.approx(941, abs=0.3)
    assert client_sensitivity(wide).l2 == pytest.approx(8467)
    narrow = PowerStep(92.0, 10, divisor=9.0, entry_clip=0.2, spectral=1.0)
    assert entry_sensitivity(narrow, 5.0).l2 == pytest.approx(83, abs=0.5)
    assert row_sensitivity(PowerStep(10.0, 10, divisor=9.0)).l2 == pytest.approx(11.1, abs=0.05)


@for_each(
    ("published", "rounds", "once", "exact", "at_summed_delta"),
    [
        (0.1, 92, "0.061", "0.72", "0.45"),
        (0.5, 92, "0.353", "4.33", "3.13"),
        (1.0, 23, "0.751", "4.33", "3.53"),
        (1.0, 92, "0.751", "9.87", "7.53"),
        (2.0, 92, "1.61", "24.1", "19.4"),
        (5.0, 92, "4.54", "90.4", "79.0"),
    ],
)
def test_naive_composition_against_exact(
    published: float, rounds: int, once: str, exact: str, at_summed_delta: str
) -> None:
    """The digits of the table, at delta 1e-5 and at the delta that naive composition adds up to."""

    def printed(value: float, like: str) -> str:
        return f"{value:.{len(like.split('.')[1])}f}"

    event = ev.Gaussian(math.sqrt(2 * math.log(1.25e5)) / published)
    run = ev.Repeat(rounds, event)
    assert printed(epsilon(event), once) == once
    assert printed(epsilon(run), exact) == exact
    assert printed(epsilon(run, delta=rounds * 1e-5), at_summed_delta) == at_summed_delta
    assert epsilon(run) < rounds * published


UNIT = row_sensitivity(PowerStep(1.0, 10))
NOISE = 1.0 / 0.2064


def mu_of(event: ev.Event, neighbours: str = "add-remove") -> float:
    """The mu of a tree of Gaussians, straight from its definition."""
    if isinstance(event, ev.Compose):
        return math.hypot(*(mu_of(part, neighbours) for part in event.events))
    if isinstance(event, ev.Repeat):
        return math.sqrt(event.count) * mu_of(event.event, neighbours)
    assert isinstance(event, ev.Gaussian)
    return (2 if neighbours == "replace-one" else 1) / event.noise_multiplier


@for_each("algorithm", ["original", "utility", "private"])
@for_each("neighbours", ["add-remove", "zero-out", "replace-one"])
def test_the_server_sees_the_noise_of_one_sensitivity(algorithm: str, neighbours: str) -> None:
    moved_by = row_sensitivity(PowerStep(2.0, 3, divisor=5.0), neighbours)
    run = release(algorithm, moved_by, noise=3.0, rounds=50, clients=10)
    assert run.neighbours == neighbours
    assert mu_of(run.event, neighbours) == pytest.approx(math.sqrt(50) * moved_by.l2 / 3.0)
    assert mu_of(run.event, neighbours) >= math.sqrt(50) * moved_by.l2 / 3.0 * (1 - 1e-15)


def test_private_with_local_steps() -> None:
    run = release("private", UNIT, noise=NOISE, rounds=92, clients=100, local_steps=4)
    by_hand = 0.2064 * math.sqrt(92 / 4 * (3 * 100 + 1))
    assert mu_of(run.event) == pytest.approx(by_hand, rel=1e-12)
    assert by_hand == pytest.approx(17.2, abs=0.05)
    assert epsilon(run.event) == pytest.approx(220, abs=0.5)
    assert run.warnings
    alone = release("private", UNIT, noise=NOISE, rounds=92, clients=100)
    assert mu_of(alone.event) == pytest.approx(1.98, abs=0.005)
    assert epsilon(alone.event) == pytest.approx(9.87, abs=0.005)
    assert not alone.warnings


@for_each(("rounds", "local_steps"), [(1, 1), (7, 3), (9, 3), (5, 9), (92, 4)])
def test_no_product_of_private_is_left_out(rounds: int, local_steps: int) -> None:
    run = release("private", UNIT, noise=1.0, rounds=rounds, clients=5, local_steps=local_steps)
    local = rounds - rounds // local_steps
    syncs = math.ceil(rounds / local_steps)
    assert local + syncs >= rounds
    assert mu_of(run.event) ** 2 == pytest.approx(5 * local + syncs)


@for_each("colluders", [1, 3, 98])
def test_colluders_take_their_noise_out_of_the_sum(colluders: int) -> None:
    run = release(
        "private", UNIT, noise=NOISE, rounds=92, clients=100, observer="client", colluders=colluders
    )
    grown = math.sqrt(100 / (100 - colluders))
    assert mu_of(run.event) == pytest.approx(0.2064 * math.sqrt(92) * grown, rel=1e-12)
    if colluders == 1:
        assert grown == pytest.approx(1.005, abs=1e-4)
    with pytest.raises(InvalidInput, match="colluders"):
        release("private", UNIT, noise=1.0, rounds=1, clients=100, colluders=100)


def test_original_for_others_has_all_the_noise_of_the_sum() -> None:
    given = {"noise": 2.0, "rounds": 9, "clients": 10, "server_noise": 3.0}
    server = release("original", UNIT, **given)
    assert mu_of(server.event) == pytest.approx(3 / 2.0)
    others = release("original", UNIT, **given, observer="client", colluders=4, equal_weights=True)
    assert mu_of(others.event) == pytest.approx(3 / math.sqrt(6 * 4.0 + 9.0))
    weighted = release("original", UNIT, **given, observer="outsider")
    assert mu_of(weighted.event) == mu_of(server.event)


@for_each(("rounds", "share"), [(1, 0.01), (23, 0.21), (92, 0.60)])
def test_utility_reveals_the_exact_sum_to_a_client(rounds: int, share: float) -> None:
    run = release("utility", UNIT, noise=1e4, rounds=rounds, clients=100, observer="client")
    with mp.workdps(40):
        exact = 1 - (1 - mp.mpf(1) / 100) ** rounds
        assert exact * (1 - mp.mpf(10) ** -13) < revealed_probability(100, rounds) <= exact
    assert float(exact) == pytest.approx(share, abs=0.006)
    for budget in (0.5, 30.0):
        delta = pp.account(run.event, epsilon=budget).delta.upper
        assert exact <= delta <= exact * 1.001
    assert math.isinf(pp.account(run.event, delta=1e-5).epsilon.upper)
    assert run.warnings
    outside = release("utility", UNIT, noise=1e4, rounds=rounds, clients=100)
    assert epsilon(outside.event) < 0.1


def test_utility_toy_run_is_recognised_by_the_client_whose_noise_stayed() -> None:
    """Z equals orth(sum Y + N_c) in one release out of n with the unit's data, never without."""
    rng = np.random.default_rng(4)
    n, rank = 20, 2
    data = rng.normal(size=(n, 5, D))
    z = orthonormal(rng.normal(size=D * rank), rank)
    total = sum(block.T @ block @ z for block in data)
    without = total - np.outer(data[0, 0], data[0, 0]) @ z
    noise = rng.normal(size=(n, D, rank))
    seen = {}
    for name, truth in (("with", total), ("without", without)):
        matches = 0
        for kept in range(n):
            published = np.linalg.qr(truth + noise[kept])[0]
            guess = np.linalg.qr(total + noise[7])[0]
            matches += bool(np.allclose(published, guess, atol=1e-12))
        seen[name] = matches / n
    assert seen == {"with": 1 / n, "without": 0.0}


def test_a_coalition_or_a_biased_server_sees_more_of_utility() -> None:
    given = {"noise": 5.0, "rounds": 4, "clients": 10}
    both = release("utility", UNIT, **given, colluders=3)
    assert isinstance(both.event, ev.Repeat)
    exact = both.event.event.events[1]
    assert 3 <= Fraction(exact.delta) * 10 <= 3 + Fraction(1, 10**14)
    biased = release("utility", UNIT, **given, biased_server=True)
    assert isinstance(biased.event, ev.NoGuarantee)
    assert pp.account(biased.event, epsilon=1.0).delta.upper == 1.0


@for_each("algorithm", ["original", "utility"])
def test_local_steps_without_noise_are_no_guarantee_as_calibrated(algorithm: str) -> None:
    given = {"noise": 5.0, "rounds": 8, "clients": 10, "local_steps": 4}
    run = release(algorithm, UNIT, **given)
    assert isinstance(run.event, ev.NoGuarantee)
    sound = release(algorithm, UNIT, **given, drift=PowerStep(3.0, 10))
    assert mu_of(sound.event) == pytest.approx(math.sqrt(2) * 2 * 9.0 / 5.0)
    pair = pair_sensitivity(PowerStep(3.0, 10), 1.0)
    refused = release(algorithm, pair, **given, drift=PowerStep(3.0, 10))
    assert isinstance(refused.event, ev.NoGuarantee)


@for_each("field", ["row_norm", "divisor", "entry_clip", "spectral"])
def test_bounds_are_validated_and_must_be_public(field: str) -> None:
    given = {"row_norm": 1.0, "rank": 2, field: -1.0}
    with pytest.raises(InvalidInput, match=field):
        PowerStep(**given)
    with pytest.raises(Unsupported, match="private data"):
        PowerStep(1.0, 2, bound_source="private")
    with pytest.raises(Unsupported, match="extreme"):
        row_sensitivity(PowerStep(1e90, 2))
    with pytest.raises(InvalidInput, match="divisor"):
        row_sensitivity(PowerStep(1.0, 2, divisor=2.5), renormalised=True)
    with pytest.raises(InvalidInput, match="observer"):
        release("private", UNIT, noise=1.0, rounds=1, clients=2, observer="analyst")
