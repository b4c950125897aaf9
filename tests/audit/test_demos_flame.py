"""FLAME as printed: the mechanism, the laws that the demonstrations draw from, and the controls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, binom, chisquare

from privplan.accountant.claims import flame as claims
from privplan.accountant.claims import flame_lower
from privplan.accountant.claims.flame_formulas import (
    DIMENSIONS,
    FIFTIETH,
    FLAME_DELTA,
    MESSAGE_EPSILON,
)
from privplan.accountant.errors import InvalidInput
from privplan.audit.demos import flame, flame_topk, flame_tuples, run_demo
from privplan.audit.demos.counting import delta_lower
from privplan.audit.statistics import Counts, epsilon_lower

from ..cases import for_each

ALARM = 1e-4
"""False-alarm rate of each test of a distribution; seeds are fixed."""


def claim_of(setting: str):
    return next(row() for row in claims.ROWS if row().setting == setting)


def fits(counted: np.ndarray, law: np.ndarray) -> bool:
    """Whether counts have the law: chi-square over cells with at least 20 expected."""
    expected = law * counted.sum()
    edges = [0]
    for at in range(len(law)):
        if expected[edges[-1] : at + 1].sum() >= 20.0 and expected[at + 1 :].sum() >= 20.0:
            edges.append(at + 1)
    seen, due = (np.add.reduceat(one, edges) for one in (counted.astype(float), expected))
    return float(chisquare(seen, due * seen.sum() / due.sum()).pvalue) > ALARM


def expected_bounds(p: np.ndarray, q: np.ndarray, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (epsilon at its delta, delta at the claim): Clopper-Pearson at exact rates."""
    least = beta.ppf(0.025, p * runs, runs - p * runs + 1)
    most = beta.ppf(0.975, q * runs + 1, runs - q * runs)
    with np.errstate(invalid="ignore", divide="ignore"):
        epsilon = np.log((least - FLAME_DELTA) / most)
    return epsilon, least - math.exp(flame.published_epsilon()) * most


# --- the mechanism --------------------------------------------------------------------------------


def test_every_coordinate_is_padded_and_nothing_is_lost() -> None:
    rng = np.random.default_rng(1)
    indices = flame.drawn(6, 12, 3, rng)
    messages = 100.0 + np.arange(18.0).reshape(6, 3)
    given = {"dimensions": 12, "padded_to": 7, "local_epsilon": 1.0, "rng": rng}
    shuffled = flame.by_coordinate(indices, messages, **given)
    assert [len(one) for one in shuffled] == [7] * 12
    for place, own in enumerate(shuffled):
        assert sorted(own[own > 50.0]) == sorted(messages[indices == place])
    places, values = flame.in_tuples(indices, messages, **given)
    assert places.shape == values.shape == (12 * 7 // 3, 3)
    assert all(len(set(row)) == 3 for row in places.tolist())
    assert np.bincount(places.ravel()).tolist() == [7] * 12
    whole = {tuple(row) for row in values.tolist()}
    assert {tuple(row) for row in messages.tolist()} <= whole


def test_messages_that_do_not_fit_are_seen_or_refused() -> None:
    rng = np.random.default_rng(2)
    indices, messages = np.array([[0, 1], [0, 2], [0, 3]]), np.zeros((3, 2))
    given = {"dimensions": 4, "padded_to": 2, "local_epsilon": 1.0, "rng": rng}
    assert [len(one) for one in flame.by_coordinate(indices, messages, **given)] == [3, 2, 2, 2]
    with pytest.raises(InvalidInput, match="fit"):
        flame.in_tuples(indices, messages, **given)


def test_the_largest_coordinates_are_largest_in_size() -> None:
    updates = np.array([[0.1, -3.0, 2.0, 0.0], [1.0, 0.5, -0.2, 4.0]])
    assert [set(row) for row in flame.largest(updates, 2).tolist()] == [{1, 2}, {0, 3}]
    assert flame.to_unit([-3.0, -1.0, 0.0, 0.5, 9.0], 1.0).tolist() == [0.0, 0.0, 0.5, 0.75, 1.0]


def test_every_subset_is_drawn_alike() -> None:
    rng = np.random.default_rng(3)
    drawn = np.sort(flame.drawn(20_000, 5, 2, rng), axis=1)
    assert fits(np.bincount(drawn @ [5, 1])[[1, 2, 3, 4, 7, 8, 9, 13, 14, 19]], np.full(10, 0.1))


# --- the count ------------------------------------------------------------------------------------


@for_each("sign", [1.0, -1.0])
def test_the_count_has_the_law_from_which_it_is_drawn(sign: float) -> None:
    """Rounds in full, messages and all, against the sum of two binomials: 3 of 12 coordinates."""
    rng, rounds = np.random.default_rng(4), 1500
    updates = np.full((4, 12), 0.1)
    updates[0, :3], updates[1:, 3:6] = sign, 1.0
    above = np.zeros(16, int)
    for _ in range(rounds):
        seen = flame_topk.published_topk(updates, rng, chosen=3, padded_to=5, local_epsilon=1.5)
        above[sum(int((one > 0.5).sum()) for one in seen[:3])] += 1
    stays = flame_lower.laplace_stays(1.5)
    own = stays if sign > 0 else 1.0 - stays
    law = np.convolve(binom.pmf(np.arange(13), 12, 0.5), binom.pmf(np.arange(4), 3, own))
    assert fits(above, law)
    drawn = flame_topk.counts_above(100_000, own, rng, chosen=3, padded_to=5)
    assert fits(np.bincount(drawn, minlength=16), law)


def test_the_exact_count_is_that_of_the_claims_table() -> None:
    """The largest epsilon of all thresholds, 1.198; likelihood ratios show a little more."""
    best = max(
        math.log((p - FLAME_DELTA) / q)
        for p, q in (flame_topk.exact_tails(at) for at in range(26_560, 26_620, 5))
    )
    stays, messages = (
        flame_lower.laplace_stays(MESSAGE_EPSILON),
        FIFTIETH.chosen * FIFTIETH.padded_to,
    )
    other = flame_lower.count_epsilon(stays, FIFTIETH.chosen, messages, FLAME_DELTA)
    assert best == pytest.approx(other, abs=1e-3)
    assert best == pytest.approx(1.198, abs=1e-3)


@for_each("which", [0, 1])
def test_the_thresholds_of_the_count_are_those_that_are_expected_to_show_most(which: int) -> None:
    chosen = (flame_topk.TOPK_THRESHOLD_EPSILON, flame_topk.TOPK_THRESHOLD_DELTA)[which]
    near = [chosen + step for step in (-60, -20, 0, 20, 60)]
    p, q = np.array([flame_topk.exact_tails(at) for at in near]).T
    values = expected_bounds(p, q, flame_topk.TOPK_RUNS)[which]
    assert int(values.argmax()) == 2


def test_the_largest_coordinates_contradict_the_claim() -> None:
    found = run_demo("flame-topk", 2)
    epsilon, overflow, delta = found.measurements
    assert all(one.contradicted for one in found.measurements)
    assert 0.8 < epsilon.value < found.exact[0] < claim_of(flame_topk.DEMO.rows[0]).lower
    assert overflow.value == math.inf
    assert 0.040 < delta.value < found.exact[2]
    assert found.exact[2] == pytest.approx(0.0421, abs=1e-4)


def test_coordinates_that_are_drawn_are_not_contradicted() -> None:
    """The control: SS-Double by coordinate, proven 0.168, under the same count of all messages."""
    rng, runs = np.random.default_rng(5), 4_000_000
    stays, messages = flame_lower.laplace_stays(MESSAGE_EPSILON), DIMENSIONS * FIFTIETH.padded_to
    others = messages - FIFTIETH.chosen
    counted = [
        rng.binomial(others, 0.5, runs) + rng.binomial(FIFTIETH.chosen, own, runs)
        for own in (stays, 1.0 - stays)
    ]
    row = claim_of("SS-Double, beta 1/50, by coordinate")
    for deviations in (0.0, 2.0, 3.0):
        cut = messages / 2.0 + deviations * math.sqrt(messages) / 2.0
        hits, alarms = (int((one > cut).sum()) for one in counted)
        counts = Counts(alarms, runs, runs - hits, runs)
        assert epsilon_lower(counts, delta=FLAME_DELTA) < row.proven < row.claimed
        assert delta_lower(counts, epsilon=row.claimed) == 0.0


def test_a_coordinate_has_room_for_as_many_as_it_is_padded_to() -> None:
    rng = np.random.default_rng(6)
    assert flame_topk.most_messages(333, True, rng) == 334
    assert flame_topk.most_messages(333, False, rng) == 333
    assert flame_topk.most_messages(332, True, rng) == 333


# --- the tuples -----------------------------------------------------------------------------------


@for_each("value", [0.0, 0.5, 1.0])
def test_a_tuples_score_has_the_law_from_which_it_is_drawn(value: float) -> None:
    rng = np.random.default_rng(7)
    values = np.full((20_000, FIFTIETH.chosen), value)
    seen = flame_tuples.scores(flame.randomized(values, MESSAGE_EPSILON, rng))
    reach = flame_tuples.TUPLE_SCORE_STEPS * FIFTIETH.chosen
    law = -np.diff(flame_tuples.score_tails(value), append=0.0)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert fits(np.bincount(seen + reach, minlength=len(law)), law)


def test_the_exact_tuples_give_the_lower_end_of_the_claims_table() -> None:
    """7.13, up to the size of the score's steps and the union bound of the table."""
    rates = np.array([flame_tuples.exact_rates(at)[:2] for at in range(1060, 1100, 5)])
    best = float(np.log((rates[:, 0] - FLAME_DELTA) / rates[:, 1]).max())
    row = claim_of(flame_tuples.DEMO.rows[0])
    assert row.lower == pytest.approx(best, abs=1e-3)


@for_each("which", [0, 1])
def test_the_thresholds_of_the_tuples_are_those_that_are_expected_to_show_most(which: int) -> None:
    chosen = (flame_tuples.TUPLE_THRESHOLD_EPSILON, flame_tuples.TUPLE_THRESHOLD_DELTA)[which]
    near = [chosen + step for step in (-60, -20, 0, 20, 60)]
    p, q = np.array([flame_tuples.exact_rates(at)[:2] for at in near]).T
    values = expected_bounds(p, q, flame_tuples.TUPLE_RUNS)[which]
    assert int(values.argmax()) == 2


def test_whole_tuples_contradict_the_claim() -> None:
    found = run_demo("flame-tuples", 2)
    epsilon, delta = found.measurements
    assert epsilon.contradicted
    assert delta.contradicted
    assert 2.0 < epsilon.value < found.exact[0] < 7.2
    assert 0.04 < delta.value < found.exact[1] < 0.06


def small_rounds(tuples: bool, value: float, rounds: int, rng: np.random.Generator) -> int:
    """Return in how many small rounds some tuple of 8 messages favours 1 strongly.

    8 users of 40 coordinates, sent in full form; by coordinate, tuples are put together from
    messages that were shuffled apart.
    """
    found = 0
    values = np.full((8, 40), 0.5)
    values[0] = value
    given = {"chosen": 8, "padded_to": 8, "local_epsilon": 4.0}
    for _ in range(rounds):
        _, messages = flame_tuples.published_double(values, rng, **given)
        if not tuples:
            messages = rng.permuted(messages, axis=0)
        found += bool(flame_tuples.scores(messages).max() >= 70)
    return found


@for_each("tuples", [True, False])
def test_tuples_that_are_taken_apart_point_at_nobody(tuples: bool) -> None:
    rng, rounds = np.random.default_rng(8), 1500
    hits = small_rounds(tuples, 1.0, rounds, rng)
    alarms = small_rounds(tuples, 0.0, rounds, rng)
    shown = epsilon_lower(Counts(alarms, rounds, rounds - hits, rounds), delta=1e-5)
    assert shown > 1.5 if tuples else shown < 0.5
