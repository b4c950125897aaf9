"""Canaries in rounds that share correlated noise: whose turn it is, and what is seen of them."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.arrays import FloatArray
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gaussian
from privplan.accountant.sensitivity.matrix import sensitivity_bounds
from privplan.audit.attack.tiers import DEFAULT_CANARIES, canary_count
from privplan.audit.canaries import CanaryRehearsal, rehearse
from privplan.fl.canaries import RehearsalRequest, flip_coins, simulate_rounds
from privplan.fl.running.preparation import prepare
from privplan.fl.settings.schema import Settings
from privplan.fl.uldp.canaries.dispatch import work
from privplan.fl.uldp.canaries.turns import MAX_USERS_TIMES_SILOS, BlockRecorder, Turns
from privplan.fl.uldp.correlated import RunningBlock, Schedule

from ..audit.rehearsals import VIEWS, settings
from ..cases import for_each

FAR = 4.9
"""Deviations of a normal statistic that a sound run passes with probability 10^-6."""


def banded(
    rounds: int = 8, bands: int = 3, cohorts: int = 4, blocks: int = 2, **more: Any
) -> Settings:
    """Return settings with correlated noise; `more` as `rehearsals.settings`."""
    own = settings(rounds=rounds, silos=3, **more)
    turns = {"noise": "banded", "cohorts": cohorts, "bands": bands, "blocks": blocks}
    return replace(own, privacy=replace(own.privacy, **turns))


def turns_of(*shape: int, rounds: int | None = None) -> Turns:
    turns = Turns.of(banded(*shape), rounds)
    assert turns is not None
    return turns


# --- what is seen, against dense matrices ---------------------------------------------------------


def released(monkeypatch: pytest.MonkeyPatch) -> list[FloatArray]:
    """Return a list that takes the noisy sum of each round of a run, as its model is made of it."""
    sums: list[FloatArray] = []
    solved = RunningBlock.solved

    def recorded(block: RunningBlock, *given: Any) -> FloatArray:
        sums.append(solved(block, *given))
        return sums[-1]

    monkeypatch.setattr(RunningBlock, "solved", recorded)
    return sums


def dense_ratio(
    sums: FloatArray, blocks: list[tuple[int, int]], contributed: FloatArray, std: float
) -> FloatArray:
    """Return log N(y; x, S) / N(y; 0, S), S = std^2 C^-1 C^-T, by dense matrices of all rounds.

    `sums` and `contributed` are y and x, (rounds, m); a block is its first round from 0, and how
    many of its rounds were made.
    """
    whole = np.zeros((len(sums), len(sums)))
    for first, length in blocks:
        for row in range(length):
            for lag, coefficient in enumerate((1.0, 0.5, 0.375)[: row + 1]):
                whole[first + row, first + row - lag] = coefficient
    inverse = np.linalg.inv(whole)
    covariance = std**2 * inverse @ inverse.T
    explained = np.linalg.solve(covariance, contributed)
    return np.asarray((explained * (sums - contributed / 2.0)).sum(axis=0))


ORACLES: dict[str, Any] = {
    # shape, rounds made, where the process starts again, blocks as (first, length), and by round
    # from 0 in which the cohort of the canaries contributes, with which sign
    "two blocks of one turn": ((8, 3, 4, 2), 8, None, [(0, 4), (4, 4)], {0: -1, 4: 1}),
    "cut short": ((8, 3, 4, 2), 6, None, [(0, 4), (4, 2)], {0: -1, 4: 1}),
    "begun again": ((8, 3, 4, 2), 6, 3, [(0, 2), (2, 4)], {0: -1, 4: 1}),
    "blocks of two turns": (
        (16, 3, 4, 2),
        16,
        None,
        [(0, 8), (8, 8)],
        {0: -1, 4: 1, 8: 1, 12: -1},
    ),
    "a turn that begins in mid-block": (
        (10, 3, 3, 2),
        10,
        None,
        [(0, 5), (5, 5)],
        {0: -1, 3: 1, 6: 1, 9: -1},
    ),
}


@for_each("observer", ["model", "server"])
@for_each("name", ORACLES)
def test_the_score_is_the_likelihood_ratio_of_all_that_is_released(
    monkeypatch: pytest.MonkeyPatch, name: str, observer: str
) -> None:
    """A process that starts again has lost its sums, and a block of fresh noise begins."""
    shape, rounds, start, blocks, signs = ORACLES[name]
    own = banded(*shape, security={"aggregation": "masked"})
    sums = released(monkeypatch)
    if start is not None:
        begin_again(monkeypatch, start)
    found = rehearse(own, canaries=60, seed=3, rounds=rounds, observer=observer)
    coins = flip_coins(60, RehearsalRequest(own, observer, 60, 3, seed=3).rng())
    contributed = np.zeros((rounds, 60))
    for number, sign in signs.items():
        contributed[number] = sign * coins.signs * own.training.clip
    seen = np.array(sums)[:, coins.columns]
    expected = dense_ratio(seen, blocks, contributed, 2.0 * own.training.clip)
    assert (found.coins == coins.into).all()
    assert np.ptp(expected) > 1.0
    assert np.abs(found.scores - expected).max() < 1e-5  # the server's shift is rounded


def begin_again(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Lose what silos remember just before a round."""
    at = RunningBlock.at

    def lost(block: RunningBlock, asked: int) -> Any:
        if asked == number:
            block._block = None
        return at(block, asked)

    monkeypatch.setattr(RunningBlock, "at", lost)


@for_each(("observer", "aggregation", "rule", "relation", "times"), VIEWS)
def test_rows_are_white_and_moved_as_the_pattern_says(
    observer: str, aggregation: str, rule: str, relation: str, times: float
) -> None:
    own = banded(
        security={"aggregation": aggregation}, training={"weighting": rule}, neighbours=relation
    )
    found = rehearse(own, canaries=1200, observer=observer, seed=11)
    assert found.pattern is not None
    assert found.pattern.tolist() == [1.0, 0.5, 0.375, 0.0] * 2
    assert found.shift == pytest.approx(times / 2.0, rel=1e-6)
    assert isinstance(found.event, ev.Repeat)
    assert isinstance(found.event.event, ev.MatrixGaussian)
    assert found.shift == pytest.approx(1.0 / found.event.event.noise_multiplier, rel=1e-6)
    away = np.where(found.coins, 1.0, -1.0 if relation == "replace-one" else 0.0)
    noise = found.observations - found.shift * found.pattern[:, None] * away
    size = noise.size
    assert abs(noise.mean()) * math.sqrt(size) < FAR
    assert abs(noise.var() - 1.0) * math.sqrt(size / 2.0) < FAR
    for lag in (1, 2, 3):  # white: no row tells of another
        alike = (noise[lag:] * noise[:-lag]).mean() * math.sqrt(noise[lag:].size)
        assert abs(alike) < FAR
    for row in noise:
        assert abs(row[found.coins].mean() - row[~found.coins].mean()) < 2 * FAR / math.sqrt(1200)


def test_a_masked_server_sees_what_the_model_shows() -> None:
    """The noise is the same stream; C is taken off the model's steps in floats."""
    seen = [
        rehearse(banded(security={"aggregation": by}), canaries=60, observer=who, seed=5)
        for by, who in (("masked", "server"), ("masked", "model"), ("plain", "model"))
    ]
    assert np.abs(seen[0].observations - seen[1].observations).max() < 1e-9
    assert (seen[1].observations == seen[2].observations).all()


# --- whose turn it is -----------------------------------------------------------------------------

SHAPES = [
    *((8, 3, 4, 2), (16, 3, 4, 2), (10, 3, 3, 2), (12, 2, 5, 3), (7, 2, 3, 1), (50, 10, 20, 5)),
    # Here the second or the third cohort shows most of all rounds, and not of all but the last.
    *((9, 3, 5, 3), (10, 3, 4, 2), (15, 3, 4, 3)),
]


def squares(shape: tuple[int, ...], cohort: int, rounds: int) -> float:
    """Return |C x|^2 of a cohort in the first rounds of a run, by a dense matrix."""
    schedule = Schedule(*shape)
    coefficients = np.array(schedule.block(1).coefficients)
    terms = np.array([number % shape[2] == cohort for number in range(rounds)], float)
    moved = 0.0
    for first in range(0, rounds, schedule.block_rounds):
        block = terms[first : first + schedule.block_rounds]
        moved += float(np.square(np.convolve(block, coefficients)[: len(block)]).sum())
    return moved


@for_each(
    "shape, left",
    [
        (shape, left)
        for number, shape in enumerate(SHAPES)
        for left in (0, 3 if number in (1, 3, 5) else 1)
    ],
)
def test_canaries_are_in_the_cohort_that_shows_most(shape: tuple[int, ...], left: int) -> None:
    rounds = shape[0] - left
    every = [squares(shape, cohort, rounds) for cohort in range(shape[2])]
    turns = turns_of(*shape, rounds=rounds)
    assert every[turns.cohort] == max(every)
    found = rehearse(banded(*shape), canaries=6, seed=1, rounds=rounds)
    assert found.pattern is not None
    assert float(found.pattern @ found.pattern) == pytest.approx(max(every), rel=1e-12)
    times = sum(number % shape[2] == turns.cohort for number in range(rounds))
    (said,) = (note for note in found.note if "take part in" in note)
    assert said.startswith(f"all canaries are in cohort {turns.cohort + 1} of {shape[2]},")
    assert said.endswith(f"take part in {times} round{'s' * (times != 1)} of {rounds}")


def test_a_row_without_a_term_has_the_sign_of_its_round() -> None:
    """Two blocks of five rounds: of the turn in round 4 nothing is left in round 6."""
    turns = turns_of(10, 3, 3, 2)
    schedule = turns.schedule
    alone = Gaussian(bound=1.0, std=4.0)
    system: Any = SimpleNamespace(
        banded_mechanism=lambda number: schedule.noise(
            alone, schedule.block(1 if number < 6 else 6), number
        )
    )
    rows = BlockRecorder(turns, system)
    shown = []
    for number in range(1, 11):
        system.banded_mechanism(number)
        shown.append(rows.shown(number))
    assert turns.cohort == 0
    assert shown == [1, 1, 1, 4, 4, 6, 7, 7, 7, 10]
    assert [turns.turn(number) % 2 for number in (4, 6)] == [0, 1]
    assert rows.pattern.tolist() == [1.0, 0.5, 0.375, 1.0, 0.5, 0.0, 1.0, 0.5, 0.375, 1.0]


@for_each("shape", SHAPES)
def test_what_canaries_show_is_what_is_claimed_or_less(shape: tuple[int, ...]) -> None:
    """All of it where there is one block, blocks are whole turns, or a cohort is always worst."""
    found = rehearse(banded(*shape), canaries=6, seed=1)
    assert found.pattern is not None
    assert isinstance(found.event, ev.Repeat)
    block = found.event.event
    assert isinstance(block, ev.MatrixGaussian)
    claimed = (
        found.event.count
        * sensitivity_bounds(block.strategy, block.participation).bounds.upper ** 2
    )
    shown = float(found.pattern @ found.pattern)
    worst = max(squares(shape, cohort, shape[0] // shape[3]) for cohort in range(shape[2]))
    assert claimed == pytest.approx(shape[3] * worst, rel=1e-9)
    every = [squares(shape, cohort, shape[0]) for cohort in range(shape[2])]
    attains = max(every) == shape[3] * worst
    assert shown <= claimed * (1.0 + 1e-12)
    assert (shown == pytest.approx(claimed, rel=1e-9)) == attains
    assert found.share == pytest.approx(math.sqrt(shown / claimed), rel=1e-9)
    assert (found.share == 1.0) == attains
    assert any("worst cohort" in note for note in found.note) != attains


def test_signs_alternate_by_turn_and_users_between_canaries_cost_little_work() -> None:
    turns = turns_of(16, 3, 4, 2)
    assert [turns.turn(number) % 2 for number in (1, 5, 9, 13)] == [1, 0, 0, 1]
    # Up to the next turn they stay, so that terms out of turn add up.
    assert [turns.turn(number) for number in range(1, 9)] == [1] * 4 + [2] * 4
    alone, turns = (work(own, 3, 1000) for own in (settings(silos=3), banded(50, 3, 50, 1)))
    assert turns == alone + 3 * 1000


@for_each("first", [0, 1, 6, 7])
def test_users_of_a_cohort_stand_apart(first: int) -> None:
    turns = Turns(Schedule(8, 3, 4, 2), 2)
    users = turns.users(5, first, 3)
    assert users.tolist() == [user for user in range(first, first + 40) if user % 4 == 2][:5]
    joined = turns.schedule.joining(3, np.arange(users[-1] + 1))
    assert joined[users].all()
    for number in (1, 2, 4):
        assert not turns.schedule.joining(number, np.arange(users[-1] + 1))[users].any()


@for_each(("rounds", "paid"), [(1, 1), (4, 1), (5, 2), (8, 2)])
def test_a_block_is_claimed_whole_however_few_of_its_rounds_are_made(
    rounds: int, paid: int
) -> None:
    found = rehearse(banded(), canaries=20, seed=1, rounds=rounds)
    assert isinstance(found.event, ev.Repeat)
    assert found.event.count == paid
    assert found.claimed == account(found.event, delta=1e-5).epsilon.upper
    assert len(found.observations) == found.rounds == rounds
    said = [note for note in found.note if "all are paid for and claimed" in note]
    assert bool(said) == (rounds % 4 != 0)


def test_public_records_train_beside_the_canaries_as_they_would_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("sklearn")
    own = banded(users=23, noise_multiplier=1e-6)
    sums = released(monkeypatch)
    found: CanaryRehearsal = rehearse(own, canaries=30, seed=4, real=True, rounds=1)
    (beside,) = sums
    sums.clear()
    ready = prepare(own)
    simulate_rounds(ready.system, ready.streams, rounds=1, each=lambda *_: None)
    assert beside.size == ready.model.parameters + 30
    # Noise of a round is a millionth of the clip, and nine deviations are far off.
    assert np.abs(beside[: ready.model.parameters] - sums[0]).max() < 9e-6 * own.training.clip
    assert np.abs(sums[0]).max() > 1e-3 * own.training.clip
    assert found.observations[:, found.coins] == pytest.approx(found.shift, rel=1e-4)


# --- bad input ------------------------------------------------------------------------------------


def test_more_canaries_than_memory_holds_are_refused() -> None:
    own = banded(5000, 3, 2500, 1)
    with pytest.raises(InvalidInput, match="20,000 canaries in one of 2,500 cohorts"):
        rehearse(own, canaries=20_000, seed=1, rounds=1)
    assert canary_count(own, 3, rounds=1, requested=None) * 2500 * 3 < MAX_USERS_TIMES_SILOS
    with pytest.raises(InvalidInput, match="are too many"):
        canary_count(own, 3, rounds=1, requested=20_000)
    assert canary_count(banded(50, 10, 10, 1), 3, rounds=None, requested=None) == DEFAULT_CANARIES


@for_each(("observer", "error"), [("silo-with-records", Unsupported), ("peer", InvalidInput)])
def test_who_cannot_be_rehearsed_is_refused(observer: str, error: type[Exception]) -> None:
    own = banded(training={"weighting": "records"})
    with pytest.raises(error):
        rehearse(own, canaries=20, seed=1, observer=observer)


def test_private_moments_are_left_out_where_users_take_turns() -> None:
    pytest.importorskip("sklearn")
    own = banded(50, 3, 10, 1)
    private = replace(
        own,
        data=replace(own.data, normalisation="private"),
        privacy=replace(own.privacy, epsilon=6.0, noise_multiplier=None, normalisation_noise=20.0),
    )
    found = rehearse(private, canaries=20, seed=1, rounds=2)
    assert any("moments" in note for note in found.note)
    assert isinstance(found.event, ev.Repeat)
    assert isinstance(found.event.event, ev.MatrixGaussian)
