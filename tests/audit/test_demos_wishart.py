"""DELM's Wishart noise: how often the attack speaks, that it never errs, and what it shows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from privplan.accountant.claims import table as tables
from privplan.accountant.sensitivity import wishart
from privplan.audit.demos import DEMOS, run_demo
from privplan.audit.demos import wishart_support as demo
from privplan.audit.demos.counting import delta_lower
from privplan.audit.statistics import Counts

from ..cases import for_each
from .demos import check_rows

RUNS = 4000
RARE = 1e-6
"""How often a sound implementation fails a statistical test here."""


def hits(counts: Counts) -> int:
    return counts.positives - counts.misses


@for_each("epsilon", [0.1, 0.6, 1.0, 3.0])
@for_each("dimension", [2, 10])
def test_the_attack_speaks_with_probability_1_minus_e_to_minus_epsilon(
    epsilon: float, dimension: int
) -> None:
    counts = demo.counted(epsilon, RUNS, dimension, np.random.default_rng(1))
    exact = wishart.failure(epsilon)
    assert exact == pytest.approx(-math.expm1(-epsilon))
    assert binomtest(hits(counts), RUNS, exact).pvalue > RARE
    assert counts.false_alarms == 0


def test_it_never_errs_where_noise_is_nearly_singular() -> None:
    """Little noise beside large data: rounding must not make an eigenvalue negative."""
    rng = np.random.default_rng(2)
    records = rng.normal(size=(600, 10))
    records /= np.linalg.norm(records, axis=1, keepdims=True)
    gram = records.T @ records
    rest = records[1:].T @ records[1:]
    for epsilon in (1.0, 1e3, 1e6):
        released = demo.released(gram, epsilon, RUNS, rng)
        assert not demo.says_absent(released, rest, records[0]).any()


def test_a_released_matrix_is_the_gram_matrix_and_noise_of_the_published_scale() -> None:
    gram = np.diag([3.0, 1.0, 2.0])
    released = demo.released(gram, 0.6, 50_000, np.random.default_rng(3))
    assert released.shape == (50_000, 3, 3)
    np.testing.assert_array_equal(released, released.transpose(0, 2, 1))
    # E[Z Z^T] = (d + 1) / (2 epsilon) I, each element with standard deviation below 3
    off = np.abs(released.mean(axis=0) - gram - 4.0 / 1.2 * np.eye(3)).max()
    assert off < 6.0 * 3.0 / math.sqrt(50_000)


def test_against_a_sound_matrix_the_same_attack_shows_nothing() -> None:
    """34 more degrees of freedom, scale 1: delta is below 1e-5 at epsilon 1, and stays there."""
    assert wishart.one_row_delta(1.0, extra_freedom=34, scale=1.0).upper < 1e-5
    rng = np.random.default_rng(4)
    record = np.zeros(4)
    record[0] = 1.0
    said = []
    for gram in (np.zeros((4, 4)), np.outer(record, record)):
        z = rng.normal(size=(RUNS, 4, 4 + 34))
        said.append(
            int(demo.says_absent(gram + z @ z.transpose(0, 2, 1), np.zeros((4, 4)), record).sum())
        )
    counts = Counts(false_alarms=said[1], negatives=RUNS, misses=RUNS - said[0], positives=RUNS)
    assert delta_lower(counts, epsilon=1.0) == 0.0


def test_the_demonstration_contradicts_three_rows() -> None:
    found = run_demo("wishart-support")
    delta, epsilon, whole = found.measurements
    assert all(one.contradicted for one in found.measurements)
    assert 0.43 < delta.value <= wishart.failure(0.6) == found.exact[0]
    assert epsilon.value == whole.value
    assert 7.0 < epsilon.value < math.log(demo.WISHART_RUNS)  # counting shows no more
    assert delta.sample["called absent wrongly"] == 0
    check_rows(DEMOS["wishart-support"], found, tables.rows("delm"))


def test_a_seed_repeats_and_another_differs() -> None:
    first, again, other = (demo.run(np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert first == again
    assert first != other
