"""Users who are held out: who they are, what they vote, and that nobody moves the sum further."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.data.held_out import HeldOutRows, held_out
from privplan.fl.frame.held_out_release import HeldOutRelease
from privplan.fl.frame.held_out_score import HeldOutScore, logged, released_digest
from privplan.fl.frame.held_out_votes import (
    record_votes_sum,
    votes_of_records,
    votes_of_silos,
    votes_of_users,
    votes_sum,
)
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.run_data import federation_of
from privplan.fl.tables.user_names import user_name
from privplan.fl.uldp.record_flags import caps, records_taking_part

from ...cases import for_each
from ..extras import needs
from .hospitals import configuration, write

pytestmark = needs("torch", "pyarrow")

VOTES = {"test": "held-out", "held_out": 0.4, "held_out_noise": 1.5}


def names_of(count: int) -> Any:
    return np.array([user_name(f"p{number}", 0) for number in range(count)])


# -- who is held out ----------------------------------------------------------------------------


def test_who_is_held_out_follows_from_each_id_by_itself() -> None:
    names = names_of(200)
    chosen = held_out(names, 0.3, 0)
    for number, name in enumerate(names):
        assert held_out(np.array([name]), 0.3, 0)[0] == chosen[number]
    assert np.array_equal(held_out(names[::-1], 0.3, 0), chosen[::-1])


def test_a_share_of_the_ids_is_held_out_and_a_larger_share_holds_out_more_of_the_same() -> None:
    names = names_of(20_000)
    few, many = held_out(names, 0.2, 0), held_out(names, 0.6, 0)
    for share, chosen in ((0.2, few), (0.6, many)):
        assert abs(chosen.mean() - share) < 5 * math.sqrt(share * (1 - share) / len(names))
    assert (many | ~few).all()
    # Another seed holds out others, and names that are neighbours have nothing in common.
    assert 0.2 < (few & held_out(names, 0.2, 1)).sum() / (0.2 * 0.2 * len(names)) < 2.0
    assert abs(held_out(np.arange(20_000), 0.2, 0).mean() - 0.2) < 0.015
    assert abs(held_out(names[names % 2 == 0], 0.2, 0).mean() - 0.2) < 0.02  # cohorts are mixed


def federation(folder: Path, edited: Any = None, **data: Any) -> Any:
    write(folder, edited)
    tables = configuration(evaluation=VOTES, data=data)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return federation_of(Configuration.of(tables).settings)[0]


def test_the_rows_of_a_user_are_all_on_one_side_in_every_silo(tmp_path: Path) -> None:
    from privplan.fl.tables.federated_table import table_of

    both = federation(tmp_path)
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        table = table_of(Configuration.of(configuration()).settings.data)
    out = held_out(table.user, 0.4, 0)
    assert 0 < out.sum() < len(out)
    assert both.records == (~out).sum()
    assert len(both.held_out.labels) == out.sum()
    assert set(both.names) == set(table.user[~out])
    assert both.held_out.users == len(set(table.user[out]))
    assert len(set(both.held_out.silo)) == both.silos == both.held_out.silos


def test_removing_a_user_moves_nobody_to_the_other_side(tmp_path: Path) -> None:
    whole = federation(tmp_path)
    for patient in ("p1,", "p2,", "p3,", "p7,", "p11,"):
        less = federation(
            tmp_path, lambda lines, out=patient: [row for row in lines if not row.startswith(out)]
        )
        gone = set(whole.names) - set(less.names)
        fewer = whole.held_out.users - less.held_out.users
        assert set(less.names) <= set(whole.names)
        assert len(gone) + fewer == 1


def test_rows_of_nobody_are_held_out_by_what_they_hold(tmp_path: Path) -> None:
    from privplan.fl.tables.federated_table import parted
    from privplan.fl.tables.schema_file import schema_of
    from privplan.fl.tables.table import TableColumns, read_table

    from .hospitals import SCHEMA, SILOS

    plain = {**SCHEMA, "columns": {**SCHEMA["columns"], "patient": {"kind": "ignored"}}}

    def contents(features: Any, labels: Any) -> set[bytes]:
        return {row.tobytes() + bytes([label]) for row, label in zip(features, labels, strict=True)}

    def sides(edited: Any) -> tuple[set[bytes], set[bytes]]:
        write(tmp_path, edited)
        table = read_table(
            {silo: [tmp_path / f"{silo}.csv"] for silo in SILOS},
            schema_of(plain),
            TableColumns(label="outcome"),
        )
        kept, out = parted(table, share=0.4, seed=0, named=False)
        return contents(kept.features, kept.labels), contents(out.features, out.labels)

    kept, out = sides(None)
    assert kept
    assert out
    assert not kept & out  # what holds the same is on one side
    fewer_kept, fewer_out = sides(lambda lines: lines[5:])
    assert fewer_kept <= kept
    assert fewer_out <= out


# -- what a record answers ----------------------------------------------------------------------


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


# -- how far one user moves the sum -------------------------------------------------------------

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


# -- what is told of it -------------------------------------------------------------------------


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


# -- the door -----------------------------------------------------------------------------------


@for_each(
    "tables, says",
    [
        ({"evaluation": {"test": "held-out"}}, "lacks `held_out_noise`"),
        ({"evaluation": {"test": "none", "held_out_noise": 2.0}}, "no effect"),
        ({"evaluation": {"test": "none", "held_out": 0.2}}, "no effect"),
        ({"evaluation": {**VOTES, "held_out": 0.0}}, "strictly between 0 and 1"),
        ({"evaluation": {**VOTES, "held_out": 1.0}}, "strictly between 0 and 1"),
        ({"evaluation": {**VOTES, "held_out_noise": 0.0}}, "`held_out_noise`"),
        ({"evaluation": {**VOTES, "source": "a register"}}, "`source`"),
        ({"evaluation": VOTES, "security": {"aggregation": "private-weighting"}}, "private-weight"),
        ({"evaluation": {**VOTES, "test": "held_out"}}, "held-out"),
    ],
)
def test_what_does_not_go_together_is_refused(tables: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Configuration.of(configuration(**tables))


DISCO: dict[str, dict[str, Any]] = {"run": {"system": "disco"}, "privacy": {"unit": "silo"}}


@for_each("system", ["statistics", "fedpower-one-shot", "delm-linear"])
def test_a_system_that_trains_no_model_says_that_nobody_can_vote_on_it(system: str) -> None:
    with pytest.raises(InvalidInput, match=r"has no use for it|trains no model"):
        Configuration.of(configuration(system, evaluation=VOTES, **OTHER_TABLES.get(system, {})))


@for_each(
    "tables, says",
    [
        (
            {"run": {"system": "uldp-naive"}, "uldp": {"as_published": True}},
            "as published cannot pay for votes",
        ),
        (
            {**DISCO, "disco": {"noise": "as_published"}},
            'noise = "as_published"',
        ),
        (
            {**DISCO, "disco": {"time_frames": ["1-2", "1-2", "1-2"]}},
            "`time_frames`",
        ),
        (
            {"run": DISCO["run"], "privacy": {"unit": "record"}, "disco": {"divisor": 9}},
            "no public number is known",
        ),
    ],
)
def test_votes_that_a_run_cannot_pay_for_are_refused(tables: dict[str, Any], says: str) -> None:
    system = tables["run"]["system"]
    with pytest.raises(InvalidInput) as refused:
        Configuration.of(configuration(system, evaluation=VOTES, **tables))
    assert 'test = "held-out"' in str(refused.value)
    assert says in str(refused.value)


OTHER_TABLES: dict[str, dict[str, Any]] = {
    "statistics": {"run": {"rounds": 1}, "statistics": {"row_norm": 2.0}},
    "fedpower-one-shot": {"run": {"rounds": 1}, "fedpower": {"rank": 2, "row_norm": 2.0}},
    "delm-linear": {"run": {"rounds": 1}, "delm": {"row_norm": 2.0}},
}


def test_a_data_set_of_a_paper_holds_nobody_out() -> None:
    tables = {
        "run": {"system": "uldp-avg", "rounds": 1},
        "data": {"name": "breast-cancer", "users": 10, "silos": 2},
        "privacy": {"noise_multiplier": 2.0},
        "evaluation": VOTES,
    }
    with pytest.raises(InvalidInput, match="data set of a paper"):
        Configuration.of(tables)


def test_survival_has_no_right_answers() -> None:
    tables = configuration(evaluation=VOTES)
    tables["data"]["label"] = {
        "column": "outcome",
        "kind": "survival",
        "range": [0, 9],
        "event": "died",
        "values": ["n", "y"],
    }
    with pytest.raises(InvalidInput, match="right answers"):
        Configuration.of(tables)


def test_a_fifth_is_held_out_where_nothing_is_said() -> None:
    said = Configuration.of(
        configuration(evaluation={"test": "held-out", "held_out_noise": 3.0})
    ).settings
    assert said.evaluation.held_out == 0.2
    assert Configuration.of(said).settings == said
    assert said.to_json()["evaluation"]["held_out"] == "0.2"
    none = Configuration.of(configuration()).settings.to_json()["evaluation"]
    assert not {"held_out", "held_out_noise"} & none.keys()  # logs of other runs are as they were
