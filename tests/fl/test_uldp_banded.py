"""ULDP-AVG with correlated noise: who takes part, what is summed, and what does not go together."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from privplan.accountant.arrays import FloatArray
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gate, Gaussian
from privplan.accountant.mechanisms.clip import Sparse
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan.banded_strategy import error_ratio, error_ratio_to_everybody
from privplan.accountant.records import RoundIntent, RoundRelease
from privplan.fl.declarations.stated_settings import StatedSettings
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.running.forecast import forecast
from privplan.fl.running.preparation import prepare
from privplan.fl.settings.schema import Settings
from privplan.fl.settings.toml_file import parse
from privplan.fl.uldp.averaging import UldpAvg
from privplan.fl.uldp.correlated import RunningBlock, Schedule, require_room

from ..cases import for_each

TABLES: dict[str, dict[str, Any]] = {
    "run": {"system": "uldp-avg", "rounds": 6, "seed": 7},
    "data": {"name": "breast-cancer", "users": 20, "silos": 3},
    "privacy": {"noise_multiplier": 2.0, "noise": "banded", "cohorts": 3, "bands": 2},
    "training": {"local_epochs": 1},
    "security": {"aggregation": "plain"},
}


def settings_of(**changed: dict[str, Any]) -> Settings:
    """Return settings; a value of None takes a key out."""
    lines = []
    for table, keys in TABLES.items():
        lines.append(f"[{table}]")
        for key, value in {**keys, **changed.get(table, {})}.items():
            if value is not None:
                lines.append(f"{key} = {value!r}".replace("'", '"'))
    return parse("\n".join(lines).encode(), "run.toml")


class Lines:
    """A recorder that keeps the lines and what is sealed of them."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.sealed: list[dict[str, Any]] = []

    def append(self, record: Any) -> int:
        self.lines.append(record)
        return len(self.lines) - 1

    def seal(self, items: dict[str, Any]) -> dict[str, str]:
        self.sealed.append(dict(items))
        return dict.fromkeys(items, "c0")


def simulated(settings: Settings) -> tuple[UldpAvg, list[FloatArray], Lines]:
    """Return the system, its models before each round and after the last, and its log."""
    prepared, log = prepare(settings), Lines()
    gate = Gate(Odometer.for_plan(prepared.plan), log, prepared.streams)
    models = []
    assert isinstance(prepared.system, UldpAvg)
    for _, before, result in simulated_rounds(prepared.system, gate):
        models.append(before)
        last = result.parameters
    return prepared.system, [*models, last], log


def test_models_are_those_of_the_formula_but_for_noise() -> None:
    system, models, _ = simulated(settings_of(privacy={"noise_multiplier": 1e-3}))
    setup = system.setup
    training, local, federation = setup.training, setup.local, setup.federation
    for number, (before, after) in enumerate(pairwise(models), start=1):
        total = np.zeros_like(before)
        joined = range((number - 1) % 3, 20, 3)  # by hand: every third user, in turns
        held = federation.counts > 0
        users = [np.array([user for user in joined if held[user, silo]]) for silo in range(3)]
        for block in local.user_deltas(before, users, number):
            assert not isinstance(block.rows, Sparse)
            for row in block.rows:
                norm = float(np.linalg.norm(row))
                total += row * min(1.0, training.clip / norm if norm else 1.0) / 3
        expected = before + training.global_rate / (20 / 3 * 3) * total
        # 1e-3 of the clip is the noise of one round; seven deviations, of two rounds' noise.
        reach = 7 * 1.5 * 1e-3 * training.clip * training.global_rate / 20
        assert np.abs(after - expected).max() < reach
        assert np.abs(after - before).max() > 20 * reach


@for_each("aggregation", ["plain", "masked"])
def test_the_sum_is_the_same_whoever_adds_it_up(aggregation: str) -> None:
    _, models, _ = simulated(settings_of(security={"aggregation": aggregation}))
    _, again, _ = simulated(settings_of())
    assert (models[-1] == again[-1]).all()


def test_noise_of_later_rounds_takes_off_what_earlier_ones_had() -> None:
    """By the released models alone: without updates, C applied to their steps is white noise."""
    # A step of 1e-9 in local training leaves nothing but noise, on 31 coordinates of 120 rounds.
    config = settings_of(
        run={"rounds": 120, "seed": 11},
        training={"local_rate": 1e-9, "local_epochs": 1},
    )
    system, models, _ = simulated(config)
    unit = system.setup.training.global_rate / (20 / 3 * 3) * 2.0 * system.setup.training.clip
    steps = np.diff(np.array(models), axis=0) / unit
    white = steps.copy()
    white[1:] += 0.5 * steps[:-1]
    size = white.size
    # Chance of one in 10^6 that an honest run is beyond five deviations, for each statistic.
    assert abs(float((white**2).mean()) - 1.0) < 5 * math.sqrt(2 / size)
    assert abs(float((white[1:] * white[:-1]).mean())) < 5 / math.sqrt(size)
    # The steps themselves are not white: neighbours have the correlation -1/2.
    correlation = float((steps[1:] * steps[:-1]).mean() / (steps**2).mean())
    assert abs(correlation + 0.5) < 5.2 / math.sqrt(size)


def test_every_intent_says_to_which_block_it_belongs() -> None:
    _, _, log = simulated(settings_of(privacy={"blocks": 2}))
    intents = [line for line in log.lines if isinstance(line, RoundIntent)]
    assert [(each.block.first, each.block.last) for each in intents if each.block] == [
        *[(1, 3)] * 3,
        *[(4, 6)] * 3,
    ]
    assert [each.event.type for each in intents] == ["matrix-gaussian", "compose", "compose"] * 2
    assert {each.block.separation for each in intents if each.block} == {3}
    constants = {
        line.normaliser.value
        for line in log.lines
        if isinstance(line, RoundRelease) and line.normaliser
    }
    assert constants == {20.0}


def test_each_cohort_is_a_third_of_the_users_and_bands_as_many_as_may_be() -> None:
    schedule = Schedule(6, 2, 3, 1)
    joining = np.array([schedule.joining(number, np.arange(20)) for number in range(1, 7)])
    assert joining.sum(axis=1).tolist() == [7, 7, 6] * 2
    for rounds in joining.T:
        assert np.diff(np.flatnonzero(rounds)).tolist() == [3]

    def read(_: str, key: str) -> Any:
        return {"cohorts": 12, "bands": None, "blocks": 4, "rounds": 24}[key]

    assert Schedule.of(StatedSettings(read)) == Schedule(24, 6, 12, 4)


def test_nothing_is_remembered_behind_the_last_round() -> None:
    """Neither sums nor rows of users, nor noise: all that a run leaves in memory is public."""
    system, _, _ = simulated(settings_of(privacy={"blocks": 2}))
    assert system.block is not None
    held = vars(system.block)
    assert not held["_terms"]
    assert not held["_solved"]
    assert not held["_again"]
    assert not system.residuals._last


def test_no_more_noisy_sums_are_kept_than_later_rounds_need() -> None:
    """Of 4 rounds with 3 bands, the last two; what they are solved by is the latest first."""
    schedule = Schedule(8, 3, 4, 2)
    running, received = RunningBlock(schedule), np.array([1.0, 0.0, 0.0, 0.0])
    alone = Gaussian(bound=1.0, std=4.0)
    sums: list[float] = []
    kept: list[int] = []
    for number in (1, 2, 3, 4):
        mechanism = schedule.noise(alone, running.at(number), number)
        assert mechanism.block.first == 1  # it is known which round is the next
        sums.append(float(running.solved(mechanism, received[number - 1 : number])[0]))
        kept.append(len(vars(running)["_solved"]))
    # The first column of C^-1 with C of 1, 1/2, 3/8 on its diagonals.
    assert sums == [1.0, -0.5, -0.125, 0.25]
    assert kept == [1, 2, 2, 2]


def test_a_block_remembers_sums_and_no_row_of_a_user() -> None:
    prepared, log = prepare(settings_of()), Lines()
    system = prepared.system
    assert isinstance(system, UldpAvg)
    gate = Gate(Odometer.for_plan(prepared.plan), log, prepared.streams)
    next(iter(simulated_rounds(system, gate)))
    assert system.block is not None
    (again,) = vars(system.block)["_again"]
    assert set(vars(again)) == {"sums", "allowed"}


def test_a_first_round_that_failed_is_made_again_under_a_new_gate() -> None:
    prepared = prepare(settings_of())
    system = prepared.system
    assert isinstance(system, UldpAvg)
    failing = Gate(Odometer.for_plan(prepared.plan), Lines(), prepared.streams)

    def breaks(*_: object) -> None:
        raise OSError("the round fails behind its noise")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(system.block), "solved", breaks)
        with pytest.raises(OSError, match="behind its noise"):
            system.round(1, system.initial(), failing)
    anew = Gate(Odometer.for_plan(prepared.plan), Lines(), prepared.streams)
    assert len(list(simulated_rounds(system, anew))) == 6


def test_the_plan_says_what_is_gained_and_lost() -> None:
    (note,) = forecast(settings_of()).prepared.notes
    assert note.numbers["error_ratio"] == error_ratio(6, 2, 3)
    assert "times the noise that independent rounds" in note.sentences[1]
    (alone,) = forecast(settings_of(privacy={"bands": 1})).prepared.notes
    assert alone.sentences[1].startswith("Nothing is gained")
    note = Schedule(50, 10, 10, 1).note
    expected = error_ratio_to_everybody(50, 10, 10)
    assert note.numbers["error_ratio_to_everybody"] == expected > 1.0
    assert "everybody in every round, with independent noise" in note.sentences[2]
    assert f"{expected:.2g} times the noise" in note.sentences[2]
    assert "that is interrupted does not go on" in Schedule(6, 2, 3, 1).note.sentences[-1]
    assert "goes on with the next block" in Schedule(6, 2, 3, 2).note.sentences[-1]
    note = Schedule(20_000, 10, 10, 1).note
    assert not note.numbers
    assert len(note.sentences) == 2
    note = Schedule(50, 5, 10, 10).note
    assert note.numbers["error_ratio"] == pytest.approx(1.013, abs=1e-3)
    assert "has 1.01 times the noise" in note.sentences[1]
    assert "a loss here" in note.sentences[1]


@for_each(
    ("rounds", "blocks", "bands", "cohorts", "says"),
    [
        (10, 2, 3, 4, "At this epsilon, what rounds add up to has 0.86 times the noise"),
        (50, 10, 5, 10, "Correlated noise is a loss here: at this epsilon"),
        (50, 10, 5, 50, "has 2.3 times the noise"),
        (100, 10, 10, 100, "has 1.8 times the noise"),
    ],
)
def test_the_plan_says_where_several_blocks_are_a_loss(
    rounds: int, blocks: int, bands: int, cohorts: int, says: str
) -> None:
    note = Schedule(rounds, bands, cohorts, blocks).note
    assert says in note.sentences[1]
    assert note.numbers["error_ratio"] == error_ratio(rounds, bands, cohorts, blocks)


@for_each(
    ("changed", "says"),
    [
        ({"privacy": {"noise": None, "bands": None}}, "gives `cohorts` in \\[privacy\\]"),
        ({"privacy": {"noise": "independent", "cohorts": None}}, "gives `bands`"),
        ({"privacy": {"cohorts": None, "bands": None}}, "lacks `cohorts`.*gains nothing"),
        ({"privacy": {"cohorts": 1, "bands": None}}, "cohorts"),
        ({"privacy": {"cohorts": 21}}, "there are 20 users"),
        ({"privacy": {"bands": 4}}, "bands = 4 and cohorts = 3"),
        ({"privacy": {"blocks": 4}}, "blocks = 4 in \\[privacy\\] for 6 rounds"),
        ({"privacy": {"blocks": 6}}, "a block has 1 round\\."),
        ({"privacy": {"sampling_rate": 0.5}}, "in turns, by a public schedule"),
        ({"privacy": {"epsilon": 4.0}}, "`epsilon` and `noise_multiplier`"),
        ({"security": {"aggregation": "private-weighting"}}, "this protocol was not made for"),
        ({"security": {"aggregation": "shares"}}, "this protocol was not made for"),
        ({"security": {"aggregation": "masked", "dropouts": 1}}, "Leave `dropouts` out"),
        ({"run": {"system": "uldp-sgd"}, "training": {"local_epochs": None}}, "noise"),
    ],
)
def test_what_does_not_go_together_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        settings_of(**changed)


@for_each("given", [(7, 2, 3, 2), (6, 4, 3, 1), (6, 3, 3, 3)])
def test_a_schedule_that_cannot_be_is_refused(given: tuple[int, int, int, int]) -> None:
    with pytest.raises(InvalidInput, match="\\[privacy\\]"):
        Schedule(*given)


def test_a_system_is_not_built_from_what_does_not_go_together() -> None:
    prepared = prepare(settings_of(privacy={"noise": None, "cohorts": None, "bands": None}))
    assert isinstance(prepared.system, UldpAvg)
    setup = prepared.system.setup
    for aggregation in ("shares", "private-weighting"):
        object.__setattr__(setup.security, "aggregation", aggregation)
        with pytest.raises(Unsupported):
            type(prepared.system)(setup, step="average", schedule=Schedule(6, 2, 3, 1))
    settings = settings_of(
        data={"users": None},
        privacy={"cohorts": 5000, "bands": 2},
        run={"rounds": 6},
    )
    with pytest.raises(InvalidInput, match="5,000 cohorts are more than the 50 users"):
        prepare(settings)
    system, _, _ = simulated(settings_of(privacy={"noise_multiplier": 1e-9}))
    mechanism = system.banded_mechanism(1)
    require_room(mechanism, 50)
    with pytest.raises(InvalidInput, match="Give more noise"):
        require_room(mechanism, 2000)


@for_each(
    ("given", "said"),
    [
        *(((6, 2, 3, 0), "gives blocks = 0"), ((0, 2, 3, 1), "gives rounds = 0")),
        *(((6, 2, 3, -1), "gives blocks = -1"), ((6, 0, 3, 1), "gives bands = 0")),
        ((6, 2, -3, 1), "gives cohorts = -3"),
        ((10**9, 2, 3, 2), r"rounds = 1000000000 in \[run\] and blocks = 2 in \[privacy\]"),
    ],
)
def test_a_schedule_of_nothing_or_of_too_much_is_refused(
    given: tuple[int, int, int, int], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        Schedule(*given)
    assert "bands = 0" not in (refused.value.next_step or "")
    assert "Write `" in str(refused.value) or "more `blocks`" in str(refused.value)
