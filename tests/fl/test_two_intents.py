"""A round with two intents, a noisy count beside a noisy sum: run, cut at every write, audited."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded, InvalidInput
from privplan.accountant.mechanisms import Gate, Gaussian, Laplace, RoundDescription
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import PlannedPhase, plan_given_noise
from privplan.accountant.randomness import Streams
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify
from privplan.fl.frame.rounds import planned_release
from privplan.fl.log import LogWriter
from privplan.fl.log.hash_chain import LOG
from privplan.fl.running.forecast import forecast
from privplan.fl.running.preparation import prepare, randomness
from privplan.fl.running.resumption import prepare_resumption
from privplan.fl.running.run_records import RunResult
from privplan.fl.running.session import execute
from privplan.fl.settings.schema import Settings

from ..accountant.mechanism_tickets import Memory
from ..audit import forging
from ..audit.forging import Lines
from ..cases import for_each
from ..cli.killing import before_each_write
from .extras import needs
from .foreign import brought
from .small_runs import of

pytestmark = needs("torch", "sklearn", "cryptography")

COUNT = Laplace(bound=1.0, scale=20.0)
COUNTED = "count"


@pytest.fixture(scope="module", autouse=True)
def conducting() -> Iterator[Any]:
    """Return the module that makes runs, with its systems declared for all tests here."""
    with brought() as module:
        yield module


ROUNDS = 4


def settings(conducting: Any) -> Settings:
    """Return those of a run whose randomness is the system's, so that an audit has no error."""
    own: Settings = conducting.settings_of("counted")
    privacy = replace(own.privacy, noise_multiplier=5.0, delta=1e-3)
    return replace(own, run=replace(own.run, seed=None), privacy=privacy)


def started(own: Settings, folder: Path) -> RunResult:
    with LogWriter.create(folder) as writer:
        return execute(prepare(own), folder, writer)


def resumed(own: Settings, folder: Path) -> RunResult:
    writer, progress = LogWriter.resume(folder, randomness=randomness(own))
    with writer:
        return execute(prepare_resumption(own, progress), folder, writer, progress=progress)


@pytest.fixture(scope="module")
def whole(conducting: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    folder.mkdir()
    started(settings(conducting), folder)
    return folder


def require_right(folder: Path) -> None:
    """Require what must hold of every such run that came to its end."""
    assert verify(folder).complete
    assert edits_of(folder) == ()
    intents, releases = of(folder, records.RoundIntent), of(folder, records.RoundRelease)
    (close,) = of(folder, records.RunClose)
    assert close.rounds == len(releases) <= len(intents)
    numbers = [(one.round, one.phase) for one in intents]
    assert len(set(numbers)) == len(numbers)
    assert {number for number, _ in numbers} == set(range(1, ROUNDS + 1))
    report = audit_budget(folder)
    errors = [one for one in report.hazards if one.severity == "error"]
    assert errors == []
    assert report.ok, report.hazards
    assert (report.spent, report.planned_rounds) == (ROUNDS, ROUNDS)


# --- a whole run ----------------------------------------------------------------------------------


def test_both_are_counted_and_the_audit_finds_the_same_number(whole: Path) -> None:
    require_right(whole)
    (opened,) = of(whole, records.RunOpen)
    assert opened.plan.rounds == ROUNDS
    report = audit_budget(whole)
    one = ev.Compose((COUNT.event("add-remove"), ev.Gaussian(5.0)))
    due = plan_given_noise(
        [PlannedPhase("train", 5.0, one, ROUNDS, {"model": one})],
        delta=1e-3,
        neighbours="add-remove",
    ).guarantees["model"]
    row = next(row for row in report.rows if row.observer == "model")
    assert row.total.upper == pytest.approx(due.epsilon.upper, rel=1e-6)
    assert report.released == ROUNDS
    intents = of(whole, records.RoundIntent)
    assert [one.phase for one in intents] == [COUNTED, "release"] * ROUNDS
    for one in intents:
        assert (one.model_in is None) == (one.phase == COUNTED)
        assert type(one.event) is (ev.Laplace if one.phase == COUNTED else ev.Gaussian)


def test_a_forecast_the_plan_the_run_and_the_audit_say_one_number(
    conducting: Any, tmp_path: Path
) -> None:
    own = settings(conducting)
    expected = {one.observer: one.epsilon.upper for one in forecast(own).observers}
    planned = {who: one.epsilon.upper for who, one in prepare(own).plan.guarantees.items()}
    folder = tmp_path / "run"
    folder.mkdir()
    result = started(own, folder)
    made = {who: one.epsilon.upper for who, one in result.guarantees.items()}
    assert expected == planned == made
    rows = {row.observer: row.total.upper for row in audit_budget(folder).rows}
    assert rows == pytest.approx(made, rel=1e-6)
    assert result.measured[-1].epsilon["model"] == pytest.approx(made["model"])


def test_a_target_pays_for_both_intents(conducting: Any, tmp_path: Path) -> None:
    own = settings(conducting)
    own = replace(own, privacy=replace(own.privacy, epsilon=2.0, noise_multiplier=None))
    folder = tmp_path / "run"
    folder.mkdir()
    started(own, folder)
    report = audit_budget(folder)
    assert report.claim is not None
    assert report.claim.epsilon == 2.0
    assert report.ok, report.hazards
    assert 1.99 < report.total.upper <= 2.0


class Stop(Exception):
    """What a test raises between two intents."""


def test_the_rest_of_a_round_that_was_cut_is_spent_and_not_made_up(
    conducting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import counts

    def stop(number: int) -> None:
        if number == 2:
            raise Stop

    own, folder = settings(conducting), tmp_path / "run"
    folder.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(counts.Counted, "between", staticmethod(stop))
        with pytest.raises(Stop):
            started(own, folder)
    before = audit_budget(folder)
    assert (before.spent, before.released) == (2, 2)  # the count of round 2 was
    result = resumed(own, folder)
    intents = [(one.round, one.phase) for one in of(folder, records.RoundIntent)]
    pairs = [(number, phase) for number in (1, 2, 3, 4) for phase in (COUNTED, "release")]
    assert intents == [pair for pair in pairs if pair != (2, "release")]
    assert (result.rounds, result.planned) == (ROUNDS - 1, ROUNDS)
    report = audit_budget(folder)
    whole = result.guarantees["model"].epsilon.upper
    assert report.total.upper == pytest.approx(whole, rel=1e-6)  # the whole plan, and no less
    require_right(folder)


# --- cut off --------------------------------------------------------------------------------------


def cuts(own: Settings, place: Path) -> list[Path]:
    """Return folders with what a kill before each write of a run leaves."""
    left: list[Path] = []
    folder = place / "run"

    def copied() -> None:
        if folder.exists():
            left.append(place / str(len(left)))
            shutil.copytree(folder, left[-1])

    folder.mkdir()
    end = before_each_write(copied)
    try:
        started(own, folder)
    finally:
        end()
    return left


@pytest.mark.parametrize("every", [19, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_that_is_cut_off_anywhere_goes_on_and_contradicts_nothing(
    every: int, conducting: Any, tmp_path: Path
) -> None:
    """Before each write; in the quick form before some of them."""
    own, between = settings(conducting), 0
    promised = forecast(own).observers[0].epsilon.upper
    for folder in cuts(own, tmp_path)[::every]:
        begun_at_all = (folder / LOG).exists() and of(folder, records.RunOpen)
        if not begun_at_all or of(folder, records.RunClose):
            continue
        assert edits_of(folder) == ()
        intents = of(folder, records.RoundIntent)
        releases = of(folder, records.RoundRelease)
        report = audit_budget(folder)
        assert not [one for one in report.hazards if one.severity == "error"], folder
        between += len(intents) % 2 == 1 and len(releases) == len(intents)
        result = resumed(own, folder)
        require_right(folder)
        assert result.guarantees["model"].epsilon.upper == promised
        after = of(folder, records.RoundIntent)
        assert after[: len(intents)] == intents
        begun = {one.round for one in intents}
        new = [one.round for one in after[len(intents) :]]
        assert not begun & set(new)  # a round that was begun is not begun again
    assert every > 2 or between >= ROUNDS // 2


# --- edited ---------------------------------------------------------------------------------------


def without(number: int, phase: str) -> Callable[[Lines], Lines]:
    """Cut the intent of a round, and its release, out."""

    def edit(lines: Lines) -> Lines:
        gone = {
            line["seq"]
            for line in lines
            if line["type"] == "round.intent" and (line["round"], line["phase"]) == (number, phase)
        }
        return [one for one in lines if one["seq"] not in gone and one.get("intent") not in gone]

    return edit


def renamed(phases: dict[str, str]) -> Callable[[Lines], Lines]:
    """Give the intents of round 2 other phases."""

    def edit(lines: Lines) -> Lines:
        for line in lines:
            if line["type"] == "round.intent" and line["round"] == 2:
                line["phase"] = phases[line["phase"]]
        return lines

    return edit


EDITS: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "a count is cut out": (without(2, COUNTED), "uneven-rounds"),
    "a sum is cut out": (without(2, "release"), "uneven-rounds"),
    "the last sum is cut out": (without(ROUNDS, "release"), "uneven-rounds"),
    "the other order": (renamed({"release": COUNTED, COUNTED: "release"}), "uneven-rounds"),
    "two of one phase": (renamed(dict.fromkeys((COUNTED, "release"), "release")), "missing-rounds"),
}


@for_each("name", EDITS)
def test_rounds_of_other_intents_are_found(name: str, whole: Path, tmp_path: Path) -> None:
    edit, hazard = EDITS[name]
    found = edits_of(forging.forged(whole, tmp_path / "edited", edit))
    assert hazard in {one.id for one in found}


# --- the gate and the odometer --------------------------------------------------------------------

SUM = Gaussian(bound=1.0, std=5.0)
ROUND = ev.Compose((COUNT.event("add-remove"), SUM.event("add-remove")))


def planned(rounds: int = 2) -> Odometer:
    phase = PlannedPhase("train", 5.0, ROUND, rounds, {"model": ROUND})
    return Odometer.for_plan(plan_given_noise([phase], delta=1e-5, neighbours="add-remove"))


def test_a_plan_is_spent_part_by_part_in_its_order() -> None:
    first, second = ROUND.events
    own = planned()
    with pytest.raises(BudgetExceeded):
        own.spend(second)
    own.spend(first)
    with pytest.raises(InvalidInput):
        own.spend(second, observers=["model"])
    assert own.reading().share == 0.5  # the whole round, as soon as it has begun
    own.spend(second)
    own.spend(ROUND)
    for more in (first, second, ROUND):
        assert own.would_exceed(more)
        with pytest.raises(BudgetExceeded):
            own.spend(more)
    assert own.reading().epsilon == own.spent().epsilon.upper


def test_what_a_round_left_out_is_never_made_up_and_whole_rounds_leave_no_part_open() -> None:
    first, second = ROUND.events
    own = planned()
    own.spend(first)
    own.spend(first)  # the first was cut off
    own.spend(second)
    for more in (first, second, ROUND):
        assert own.would_exceed(more)
    first, second = ROUND.events
    own = planned(3)
    own.spend(first)
    own.spend(ev.Repeat(2, ROUND))
    assert own.would_exceed(second)
    assert own.would_exceed(first)


def test_a_part_of_a_plan_is_one_release_of_each_of_its_rounds() -> None:
    planned = PlannedPhase("train", 5.0, ROUND, 2, {"model": ROUND, "server": ROUND})
    count = planned_release(planned, 0, COUNTED)
    assert (count.name, count.event, count.rounds) == (COUNTED, ROUND.events[0], 2)
    assert count.views == dict.fromkeys(("model", "server"), ROUND.events[0])
    assert planned_release(planned, 1).name == "train"
    for place in (-1, 2):
        with pytest.raises(InvalidInput, match="has no release"):
            planned_release(planned, place)
    with pytest.raises(InvalidInput, match="has no release 0"):
        planned_release(replace(planned, views={"model": SUM.event("add-remove")}), 0)


def test_two_tickets_may_be_open_at_once_and_each_has_its_own_streams() -> None:
    memory = Memory()
    gate = Gate(planned(), memory, Streams.seeded(1))
    with gate.open(COUNT.intent(RoundDescription(1, COUNTED), "add-remove")) as count:
        with gate.open(SUM.intent(RoundDescription(1, "train"), "add-remove")) as total:
            COUNT.noisy(count, COUNT.total(np.ones((4, 1))), "count")
            with pytest.raises(InvalidInput, match="in use by another open round"):
                total.stream("count")
            SUM.noisy(total, [SUM.total(np.ones((4, 3)))], ["noise"])
            total.close(values=3)
        count.close()
    assert gate.releases == 2
    assert [one.intent for one in memory.lines[2:]] == [1, 0]


def test_an_error_in_the_second_leaves_the_first_released_and_both_spent() -> None:
    memory, odometer = Memory(), planned()
    gate = Gate(odometer, memory, Streams.seeded(1))
    with gate.open(COUNT.intent(RoundDescription(1, COUNTED), "add-remove")) as count:
        COUNT.noisy(count, COUNT.total(np.ones((4, 1))), "count")
        count.close()
    with (
        pytest.raises(ZeroDivisionError),
        gate.open(SUM.intent(RoundDescription(1, "train"), "add-remove")),
    ):
        _ = 1 // 0
    assert [one.type for one in memory.lines] == [
        "round.intent",
        "round.release",
        "round.intent",
        "round.abort",
    ]
    assert odometer.reading().share == 0.5


def test_progress_knows_the_last_round_and_what_is_open() -> None:
    count = COUNT.intent(RoundDescription(2, COUNTED), "add-remove")
    total = SUM.intent(RoundDescription(1, "train"), "add-remove")
    opened = records.RunOpen(
        "r",
        "s",
        records.Claim("user", "add-remove", 1e-5, 1.0),
        records.Planned(2, {"model": ev.Repeat(2, ROUND)}),
        records.Population(4, 1),
        records.Randomness("operating-system"),
    )
    own = records.Progress(opened, {1: total, 4: count}, {}, 0)
    assert own.last_round == 2
    assert own.dangling == (1, 4)
    assert replace(own, intents={}).last_round == 0
