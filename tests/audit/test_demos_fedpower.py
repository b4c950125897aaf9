"""FedPower's demonstrations: the published mechanism, the laws of the scores, and controls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binomtest, kstest, norm

from privplan.accountant.claims import fedpower as published
from privplan.accountant.claims import table as tables
from privplan.accountant.sensitivity.fedpower_views import revealed_probability
from privplan.audit.demos import DEMOS, Weakness, fedpower, run_demo
from privplan.audit.demos import fedpower_client_view as client
from privplan.audit.demos import fedpower_removal as removal

from ..cases import for_each
from .demos import check_rows

RARE = 1e-6
"""How often a sound implementation fails a statistical test here."""


@pytest.fixture(scope="module")
def rows() -> list[tables.Row]:
    """The rows of FedPower that demonstrations measure, found without computing the others."""
    wanted = {*DEMOS["fedpower-client-view"].rows, *DEMOS["fedpower-removal"].rows}
    found = [row() for row in tables.rows("fedpower")]
    return [lambda one=one: one for one in found if one.setting in wanted]


@pytest.fixture(scope="module")
def removed() -> Weakness:
    return run_demo("fedpower-removal")


# --- the mechanism and its data -----------------------------------------------------------------


def test_ratings_meet_every_bound_of_the_published_setting() -> None:
    ratings = fedpower.ratings(removal.REMOVAL_ITEMS)
    assert len(ratings) == published.CLIENTS * published.ROWS_OF_NODE
    assert set(np.unique(ratings)) == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}
    assert np.linalg.norm(ratings, axis=1).max() <= published.ROW_NORM
    nodes = ratings.reshape(published.CLIENTS, published.ROWS_OF_NODE, -1)
    assert max(fedpower.product_of(node).max() for node in nodes) <= published.LARGEST_ELEMENT
    np.testing.assert_array_equal(ratings, fedpower.ratings(removal.REMOVAL_ITEMS))


def test_z_is_orthonormal_before_its_entries_are_clipped() -> None:
    rng = np.random.default_rng(1)
    sums = rng.normal(size=(3, 200, published.RANK))
    z = fedpower.next_z(sums)
    assert np.abs(z).max() <= published.ENTRY_CLIP
    q = np.linalg.qr(sums)[0]
    inside = np.abs(q) < published.ENTRY_CLIP
    np.testing.assert_array_equal(z[inside], q[inside])


def test_many_products_at_once() -> None:
    rng = np.random.default_rng(2)
    m, z = rng.normal(size=(7, 7)), rng.normal(size=(5, 7, 3))
    np.testing.assert_allclose(fedpower.times(m, z), m @ z, rtol=1e-12)


# --- Algorithm 2, seen by a client --------------------------------------------------------------


def explicit_sum(products: np.ndarray, noises: np.ndarray, hidden: int) -> np.ndarray:
    """Return what Algorithm 2's server ends with, step by step: products and noises (n, d, r)."""
    total = (products + noises).sum(axis=0)  # the secure sum
    for index, noise in enumerate(noises):
        taken_out = np.zeros_like(noise) if index == hidden else noise  # Enc(0) or Enc(N_i)
        total = total - taken_out
    return total


@for_each("sigma", [1.0, 61.3, 1e6])
def test_the_client_recognises_exactly_the_rounds_in_which_its_noise_stays(sigma: float) -> None:
    """All hidden indices, step by step, at any noise."""
    rng = np.random.default_rng(3)
    clients, items, rank = 6, 30, 4
    with_it = rng.integers(0, 6, (clients, 3, items)).astype(float)
    without = with_it.copy()
    without[1, 0, 5] = 5.0 if with_it[1, 0, 5] != 5.0 else 4.0
    z = fedpower.next_z(rng.normal(size=(items, rank)))
    noises = rng.normal(0.0, sigma, (clients, items, rank))
    expected = fedpower.next_z(sum(fedpower.product_of(rows) @ z for rows in with_it) + noises[0])
    for data in (with_it, without):
        products = np.stack([fedpower.product_of(rows) @ z for rows in data])
        for hidden in range(clients):
            seen = fedpower.next_z(explicit_sum(products, noises, hidden))
            agrees = bool(client._equal(seen[None], expected[None])[0])
            assert agrees == (hidden == 0 and data is with_it)


def test_noise_that_stays_is_ones_own_in_one_of_n_rounds() -> None:
    own = np.zeros((20_000, 1, 1))
    kept = client.kept_noise(own, np.random.default_rng(4))
    mine = int((kept == 0.0).sum())
    assert binomtest(mine, len(own), 1.0 / published.CLIENTS).pvalue > RARE
    others = kept[kept != 0.0] / fedpower.NOISE
    assert kstest(others, "norm").pvalue > RARE


def test_the_neighbours_differ_in_one_diagonal_element() -> None:
    with_it, without = client.data()
    change = with_it - without
    assert change[client.ITEM, client.ITEM] == pytest.approx(25.0 / published.ROWS_OF_NODE)
    change[client.ITEM, client.ITEM] = 0.0
    assert np.abs(change).max() == 0.0


def test_more_noise_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "NOISE", 1000.0 * fedpower.NOISE)
    counts = client.counted(20, 100, np.random.default_rng(5))
    exact = revealed_probability(published.CLIENTS, 20)
    assert binomtest(counts.positives - counts.misses, counts.positives, exact).pvalue > RARE
    assert counts.false_alarms == 0


def test_where_all_noise_stays_the_client_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the client's own noise is never alone."""

    def all_noise(own: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rest = rng.normal(0.0, fedpower.NOISE * math.sqrt(published.CLIENTS - 1), own.shape)
        return np.asarray(own + rest)

    monkeypatch.setattr(client, "kept_noise", all_noise)
    counts = client.counted(20, 50, np.random.default_rng(6))
    assert counts.misses == counts.positives
    assert counts.false_alarms == 0


def test_the_demonstration_of_algorithm_2(rows: list[tables.Row]) -> None:
    found = run_demo("fedpower-client-view")
    for one, exact in zip(found.measurements, found.exact, strict=True):
        assert one.contradicted
        assert exact is not None
        assert one.claimed is not None
        assert one.claimed < one.value <= exact
        assert one.sample["recognised wrongly"] == 0
    assert found.exact == pytest.approx((0.01, 0.6033), abs=1e-4)
    assert found.measurements[0].value > 100.0 * published.DELTA
    check_rows(DEMOS["fedpower-client-view"], found, rows)


# --- removal of a user --------------------------------------------------------------------------


def test_the_distance_is_that_of_the_products() -> None:
    one = removal.removed_user()
    z = removal.converged(one)
    with_it = one.node + np.outer(one.row, one.row) / published.ROWS_OF_NODE
    moved = with_it @ z - one.node @ z
    np.testing.assert_allclose(one.direction(z), moved, atol=1e-9)
    distance = float(one.distance(z))
    assert distance == pytest.approx(float(np.linalg.norm(moved)))
    assert distance > 50.0 * published.PUBLISHED_SENSITIVITY
    norm_square = float(one.row @ one.row)
    assert distance <= norm_square / published.ROWS_OF_NODE * float(np.linalg.norm(z, 2))


def test_even_the_median_user_exceeds_the_published_bound() -> None:
    assert removal.typical(removal.converged(removal.removed_user())) > (
        4.0 * published.PUBLISHED_SENSITIVITY
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> removal.RemovedUser:
    """The same with 60 items, for the laws of the scores."""
    monkeypatch.setattr(removal, "REMOVAL_ITEMS", 60)
    return removal.removed_user()


def test_scores_of_one_round_are_gaussian(small: removal.RemovedUser) -> None:
    z = removal.converged(small)
    mu = float(small.distance(z)) / fedpower.NOISE
    rng = np.random.default_rng(7)
    absent = removal.one_round(small, z, False, 3000, rng)
    present = removal.one_round(small, z, True, 3000, rng)
    assert len(present) == len(absent) == 3000
    assert kstest(absent, "norm").pvalue > RARE
    assert kstest(present - mu, "norm").pvalue > RARE


def test_scores_of_whole_runs_are_standard_gaussian_without_the_user(
    small: removal.RemovedUser,
) -> None:
    """Although each Z depends on the noise before: every projection is N(0, 1) given the past."""
    absent = removal.all_rounds(small, False, 200, np.random.default_rng(8))
    assert kstest(absent, "norm").pvalue > RARE
    present = removal.all_rounds(small, True, 50, np.random.default_rng(9))
    assert present.min() > absent.max()


def test_epsilon_of_a_round_is_that_of_a_gaussian(removed: Weakness) -> None:
    """An oracle of its own: the root of the exact curve."""
    one = removal.removed_user()
    mu = float(one.distance(removal.converged(one))) / fedpower.NOISE

    def excess(epsilon: float) -> float:
        second = math.exp(epsilon + norm.logcdf(-mu / 2.0 - epsilon / mu))
        return float(norm.cdf(mu / 2.0 - epsilon / mu)) - second - published.DELTA

    exact = brentq(excess, 1.0, 500.0, xtol=1e-10)
    assert removed.exact[0] == removed.exact[2] == pytest.approx(exact, rel=1e-6)


def test_the_demonstration_of_a_removal(removed: Weakness, rows: list[tables.Row]) -> None:
    counted, often, tail = removed.measurements
    assert all(one.contradicted for one in removed.measurements)
    assert 5.0 < counted.value < math.log(removal.SINGLE_ROUND_RUNS)
    assert tail.value > 0.7 * (removed.exact[2] or math.inf)
    for one, exact in zip(removed.measurements, removed.exact, strict=True):
        assert one.value <= (math.inf if exact is None else exact)
    assert often.value > 1000.0
    assert often.sample["recognised wrongly"] == 0
    check_rows(DEMOS["fedpower-removal"], removed, rows)


def test_noise_made_for_the_distance_is_not_contradicted(
    monkeypatch: pytest.MonkeyPatch, small: removal.RemovedUser
) -> None:
    """The control: noise at which epsilon 1 holds for this user; nothing above 1 is shown."""
    z = removal.converged(small)
    monkeypatch.setattr(removal, "NOISE", 3.7307 * float(small.distance(z)))
    mu = 1.0 / 3.7307  # epsilon 1 at delta 1e-5, exactly
    rng = np.random.default_rng(10)
    present = removal.one_round(small, z, True, 4000, rng)
    absent = removal.one_round(small, z, False, 4000, rng)
    by_counts = removal._by_counts(removal._counts_at(present, absent, mu / 2.0))
    by_tail = removal._by_tail(
        removal._counts_at(present, absent, mu + removal.THRESHOLD_ABOVE_MU),
        mu + removal.THRESHOLD_ABOVE_MU,
    )
    assert not by_counts.contradicted
    assert not by_tail.contradicted
    assert 0.0 < by_tail.value <= 1.0
