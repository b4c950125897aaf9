"""What a vote is: how far a unit moves the sum, and what is told of it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privplan.fl.data.held_out import HeldOutRows
from privplan.fl.frame.held_out_release import HeldOutRelease
from privplan.fl.frame.held_out_score import HeldOutScore, logged, released_digest
from privplan.fl.frame.held_out_votes import (
    record_votes_sum,
    votes_of_records,
    votes_of_silos,
    votes_of_users,
    votes_sum,
)
from privplan.fl.uldp.record_flags import caps, records_taking_part

from ...cases import for_each
from ..extras import needs

pytestmark = needs("torch", "pyarrow")


@for_each("name, classes", [("logistic", 2), ("softmax", 3), ("mlp", 3)])
def test_an_answer_does_not_depend_on_other_records(name: str, classes: int) -> None:
    from privplan.fl.models import model_named
    from privplan.fl.training.single_answers import right_answers

    rng = np.random.default_rng(3)
    model = model_named(name, 7, classes)
    parameters = model.initial(1)
    features = rng.normal(size=(501, 7)).astype(np.float32)
    labels = rng.integers(classes, size=501)
    logits = model.logits(parameters, features)
    due = (logits[:, 0] > 0 if classes == 2 else logits.argmax(1)) == labels
    right = right_answers(model, parameters, features, labels)
    assert np.array_equal(right, due)
    assert 0 < right.sum() < 501
    # Records on the very edge: the last bit of a logit decides, and others must not turn it.
    edge = np.repeat(features[:1], 400, axis=0)
    mixed = np.concatenate([edge, features])[rng.permutation(901)]
    same = np.flatnonzero((mixed == features[0]).all(axis=1))
    alone = right_answers(model, parameters, mixed, np.full(901, labels[0]))[same]
    assert len(set(alone.tolist())) == 1
    for kept in (slice(0, 1), slice(3, 500), slice(None, None, 7)):
        some = right_answers(model, parameters, features[kept], labels[kept])
        assert np.array_equal(some, right[kept])
    assert right_answers(model, parameters, features[:0], labels[:0]).shape == (0,)


SILOS = 3


def release_of(rows: HeldOutRows, right: Any, rule: str) -> HeldOutRelease:
    """Return the release of users' votes, at noise 2, where these records are answered right."""
    mechanism = votes_sum(2.0, users=10, silos=rows.silos, rule=rule)
    cast = votes_of_users(rule)
    return HeldOutRelease(2.0, mechanism, {}, cast, "add-remove", rows, lambda _: right, 2.0)


def rows_of(cells: dict[tuple[int, int], list[bool]]) -> tuple[HeldOutRows, Any]:
    """Return records of five users in three silos, and which of them are answered right."""
    answers = [(user, silo, right) for (user, silo), given in cells.items() for right in given]
    user, silo, right = (np.array(column) for column in zip(*answers, strict=True))
    rows = HeldOutRows(
        np.zeros((len(user), 1), np.float32),
        np.zeros(len(user), np.int64),
        user.astype(np.int64),
        silo.astype(np.int64),
        5,
        SILOS,
        np.arange(5),
    )
    return rows, right.astype(bool)


def voting(cells: dict[tuple[int, int], list[bool]], rule: str) -> tuple[Any, float, float]:
    """Return the sum over silos that users' answers make, in steps of the grid, with the grid."""
    votes = release_of(*rows_of(cells), rule)
    total = votes.totals(np.zeros(1)).sum(axis=0)
    return total, votes.mechanism.grid, votes.mechanism.bound


OTHERS = {(1, 0): [True], (1, 1): [False, True, True], (2, 2): [False], (3, 0): [True, False]}

CONTRIBUTIONS: tuple[dict[int, list[bool]], ...] = (
    {},
    {0: [True]},
    {1: [False]},
    {0: [True] * 50},
    {0: [True], 1: [True], 2: [True]},
    {0: [False] * 9, 1: [False], 2: [False] * 3},
    {0: [True, False, False], 2: [True] * 7},
    {0: [True], 1: [False] * 8, 2: [True, True, False]},
)
"""What one user's rows may answer, by silo: none, in one silo, in all, alike and unlike."""


@for_each("rule", ["uniform", "records"])
def test_no_neighbour_moves_the_sum_by_more_than_one_vote(rule: str) -> None:
    """Every pair of neighbours: add-remove moves by at most C, replacing by at most 2 C."""
    totals = []
    for given in CONTRIBUTIONS:
        mine = {(4, silo): answers for silo, answers in given.items()}
        total, grid, bound = voting({**OTHERS, **mine}, rule)
        totals.append([int(value) for value in total])
    assert bound == 1.0
    steps = Fraction(1) / Fraction(grid)

    def moved(one: list[int], other: list[int]) -> int:
        return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))

    for total in totals[1:]:
        assert 0 < moved(total, totals[0]) <= steps**2
        for other in totals[1:]:
            assert moved(total, other) <= 4 * steps**2
    # The bound is reached, but for the grid: by who has rows everywhere, and is right in all.
    assert moved(totals[4], totals[0]) > (steps - 2 * SILOS) ** 2
    if rule == "records":  # one vote exactly, wherever the rows are
        assert moved(totals[1], totals[0]) > (steps - 2 * SILOS) ** 2


@for_each("most", [1, 2, 3, 5])
def test_a_record_moves_a_sum_by_one_over_k_and_a_user_by_one_vote(most: int) -> None:
    """Whatever a user's records answer, and in whatever silos they lie: at most k of them vote."""
    mechanism = record_votes_sum(2.0, silos=SILOS, most=most)
    cast = votes_of_records(most, lambda held: records_taking_part(held, most, 0))

    def total(given: dict[int, list[bool]]) -> tuple[int, ...]:
        cells = {**OTHERS, **{(4, silo): answers for silo, answers in given.items()}}
        rows, right = rows_of(cells)
        ballots = cast(rows, right)
        sums = mechanism.totals(ballots.votes, ballots.silo, SILOS, ballots.weights)
        return tuple(int(value) for value in sums.sum(axis=0))

    steps = Fraction(mechanism.bound) / Fraction(mechanism.grid)
    nobody, *others = map(total, CONTRIBUTIONS)
    moves = [sum((a - b) ** 2 for a, b in zip(each, nobody, strict=True)) for each in others]
    assert max(moves) <= (most * steps) ** 2
    # Three silos, all right, records enough in each: all k of them vote.
    every = total({silo: [True] * most for silo in range(SILOS)})
    assert every[0] - nobody[0] > most * steps - 2 * SILOS * most
    # A single record that comes, in a silo whose cap leaves room for it.
    caps_of = caps(np.arange(5), SILOS, most, 0)[4]
    alone = total({int(np.argmax(caps_of)): [True]})
    assert steps - 3 < alone[0] - nobody[0] <= steps
    assert alone[1] == nobody[1]


def test_a_silo_votes_once_whatever_its_records_are() -> None:
    rows, right = rows_of({**OTHERS, (4, 1): [True] * 20})
    ballots = votes_of_silos(rows, right)
    assert ballots.silo.tolist() == [0, 1, 2]
    assert ballots.votes[:, 0].tolist() == [2 / 3, 22 / 23, 0.0]
    assert ballots.votes.sum(axis=1).tolist() == [1.0, 1.0, 1.0]
    only, answers = rows_of({(0, 2): [False, True]})
    assert votes_of_silos(only, answers).silo.tolist() == [2]


@for_each("rule", ["uniform", "records"])
def test_a_sum_is_that_of_shares_of_right_answers(rule: str) -> None:
    """An independent count, with fractions: sum_u sum_s w_su right_su / n_su, and the rest."""
    cells = {**OTHERS, (4, 0): [True, False, False], (4, 2): [True] * 7}
    total, grid, _ = voting(cells, rule)
    right = wrong = Fraction(0)
    of_user = {user: sum(len(a) for (u, _), a in cells.items() if u == user) for user in range(5)}
    for (user, _), answers in cells.items():
        weight = Fraction(1, SILOS)
        if rule == "records":
            weight = Fraction(len(answers), of_user[user])
        share = Fraction(sum(answers), len(answers))
        right, wrong = right + weight * share, wrong + weight * (1 - share)
    for value, due in zip(total, (right, wrong), strict=True):
        assert 0 <= due - int(value) * Fraction(grid) <= len(cells) * Fraction(grid) * 2


@for_each("rule", ["uniform", "records"])
def test_nobody_who_is_held_out_is_a_sum_of_zeros(rule: str) -> None:
    none = np.zeros(0, np.int64)
    rows = HeldOutRows(np.zeros((0, 2), np.float32), none, none, none, 0, SILOS, none)
    votes = release_of(rows, np.zeros(0, bool), rule)
    assert votes.totals(np.zeros(1)).tolist() == [[0, 0]] * SILOS


def test_a_score_tells_how_much_of_it_is_noise() -> None:
    """The deviations are those of drawn noise; to first order for the quotient."""
    rng = np.random.default_rng(5)
    right, wrong, deviation = 300.0, 100.0, 4.0
    scores = [
        HeldOutScore(*(np.array([right, wrong]) + rng.normal(0, deviation, 2)), deviation, 800.0)
        for _ in range(4_000)
    ]
    true = HeldOutScore(right, wrong, deviation, 800.0)
    assert (true.accuracy, true.share) == (0.75, 0.375)
    assert np.std([one.accuracy for one in scores]) == pytest.approx(
        true.accuracy_deviation, rel=0.06
    )
    assert np.std([one.share for one in scores]) == pytest.approx(true.share_deviation, rel=0.06)


def test_a_quotient_of_noise_is_not_told() -> None:
    score = HeldOutScore(3.0, -2.0, 1.0, 50.0)
    assert math.isnan(score.accuracy)
    assert score.to_json()["accuracy"] is None
    assert "not told" in str(score)


def test_the_numbers_of_a_log_are_known_by_the_digest_of_the_release() -> None:
    from privplan.fl.frame.model import model_digest

    released = np.array([0.1 + 0.2, -1e-17])
    metrics = logged(*released.tolist())
    assert released_digest(metrics) == model_digest(released)
    for other in (
        {**metrics, "right": "0.3"},
        {**metrics, "more": "1.0"},
        {"right": metrics["right"]},
        {**metrics, "wrong": "none"},
    ):
        assert released_digest(other) != model_digest(released)
