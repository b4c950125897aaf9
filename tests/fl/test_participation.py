"""A package whose silos take part in some rounds only: run, killed, resumed, audited, attacked."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("cryptography")

from privplan.accountant.errors import BudgetExceeded, InvalidInput
from privplan.accountant.plan import Plan
from privplan.accountant.records import RoundIntent, RunOpen
from privplan.audit.budget import audit_budget
from privplan.fl.frame.privacy import PrivacyTarget
from privplan.fl.frame.promise import Promise, promise
from privplan.fl.running import resume, run
from privplan.fl.running.preparation import prepare
from privplan.fl.settings.toml_file import parse

from ..accountant.participating import exact
from ..audit.forging import Edit, Lines, each, forged
from ..cases import for_each
from ..packages.toys import for_each_test
from .small_runs import of

NOISE, DELTA, SILOS, ROUNDS = 6.0, 1e-5, 6, 4
COUNTED = 3  # silos 2 and 3 of (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5)

CONFIG = f"""
[run]
system = "toy-frames"
rounds = {ROUNDS}

[data]
name = "breast-cancer"
users = 30
silos = {SILOS}

[privacy]
unit = "silo"
neighbours = "replace-one"
delta = {DELTA}
noise_multiplier = {NOISE}

[frames]
clip = 1.5
"""

toy = for_each_test("toy_frames")


def settings(text: str = CONFIG) -> Any:
    return parse(text.encode(), "run.toml")


def made(folder: Path) -> Path:
    run(settings(), folder)
    return folder


def truth(rounds: int = COUNTED, noise: float = NOISE) -> float:
    return exact(2 * math.sqrt(rounds) / noise, DELTA)


def test_a_run_states_its_schedule_and_what_one_silo_pays_and_is_audited(tmp_path: Path) -> None:
    folder = made(tmp_path / "out")
    (opened,) = of(folder, RunOpen)
    assert (opened.plan.rounds, opened.plan.counted) == (ROUNDS, COUNTED)
    assert truth() <= opened.claim.epsilon <= truth() * (1 + 1e-5)
    rosters = [intent.silos for intent in of(folder, RoundIntent)]
    assert rosters == [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5)]
    report = audit_budget(folder)
    assert [hazard.id for hazard in report.hazards] == []
    assert truth() <= report.total.upper <= truth() * (1 + 1e-4)
    assert report.supported is True
    found = {row.observer: row for row in report.rows}
    assert found["server"].total.upper >= truth(noise=NOISE / math.sqrt(3))


@for_each("cut", [2, 3])
def test_a_round_that_was_cut_off_is_spent_by_its_silos(
    cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toy_frames import system

    honest = system.Draft

    def draft(*given: Any, **more: Any) -> Any:
        drafted.append(1)
        if len(drafted) == cut:
            raise KeyboardInterrupt
        return honest(*given, **more)

    drafted: list[int] = []
    monkeypatch.setattr(system, "Draft", draft)
    folder = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(settings(), folder)
    resume(folder)
    rosters = [intent.silos for intent in of(folder, RoundIntent)]
    assert rosters == [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5)]
    report = audit_budget(folder)
    assert {hazard.id for hazard in report.hazards} <= {"dangling"}
    # The lost round is counted for its silos, and the promise holds.
    assert truth() <= report.total.upper <= truth() * (1 + 1e-4)


def test_a_round_beyond_the_schedule_is_refused_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toy_frames import system

    # The plan is for the schedule; then silo 2 takes part once more than it says.
    prepared = prepare(settings())
    assert prepared.plan.phases[0].counted == COUNTED
    folder = tmp_path / "out"
    monkeypatch.setattr(system, "roster", lambda number, _: (0, 1, 2) if number else ())
    monkeypatch.setattr(system, "counted", lambda *_: COUNTED)
    with pytest.raises(BudgetExceeded, match="more than 3"):
        run(settings(), folder)
    assert len(of(folder, RoundIntent)) == COUNTED


def dropping(silo: int) -> Edit:
    """Take a silo out of every round, and its noise with it, as a careful forger does."""

    def change(line: dict[str, Any]) -> None:
        line["silos"] = [other for other in line["silos"] if other != silo]

    return each("round.intent", change)


def exchanging(lines: Lines) -> Lines:
    """Let other silos take part in the busy rounds: no silo is then in more than two."""
    rosters = iter([[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5]])
    for line in lines:
        if line["type"] == "round.intent":
            line["silos"] = next(rosters)
    return lines


def without_schedule(line: dict[str, Any]) -> None:
    del line["silos"]


def restreamed_end(lines: Lines) -> Lines:
    """Let the last round draw from streams of another start of the run."""
    last = [line for line in lines if line["type"] == "round.release"][-1]
    for index, used in enumerate(last["streams"]):
        size = used["last"] - used["first"]
        used.update(stream=f"{index:032x}", first=0, last=size)
    return lines


def fewer(line: dict[str, Any]) -> None:
    line["plan"]["counted"] = 2


def test_another_start_and_a_first_line_that_counts_less_are_found(tmp_path: Path) -> None:
    whole = made(tmp_path / "out")
    folder = forged(whole, tmp_path / "start", restreamed_end)
    assert "missing-recovery" in {hazard.id for hazard in audit_budget(folder).hazards}
    report = audit_budget(forged(whole, tmp_path / "fewer", each("run.open", fewer)))
    assert any("plan.counted" in hazard.says for hazard in report.hazards)
    assert report.total.upper >= truth()


EDITS: dict[str, Edit] = {
    "a silo is dropped": dropping(2),
    "others are said to take part": exchanging,
    "no schedule": each("round.intent", without_schedule),
}


@for_each("name", sorted(EDITS))
def test_an_edited_schedule_is_found(name: str, tmp_path: Path) -> None:
    folder = forged(made(tmp_path / "out"), tmp_path / "edited", EDITS[name])
    report = audit_budget(folder)
    assert report.supported is not True
    found = " ".join(hazard.says for hazard in report.hazards if hazard.severity == "error")
    assert "silos" in found


def promised(counted: int | None, **privacy: Any) -> Promise:
    from privplan.accountant import events as ev

    given = {"unit": "silo", "neighbours": "replace-one", "delta": DELTA, **privacy}
    return promise(
        lambda noise: {"model": ev.Gaussian(noise)},
        PrivacyTarget(**given),
        ROUNDS,
        counted=counted,
    )


def test_noise_is_calibrated_to_the_rounds_of_one_silo() -> None:
    found = promised(COUNTED, epsilon=2.0)
    noise = found.noise_multiplier
    assert truth(noise=noise) <= 2.0 < truth(noise=noise * 0.999)
    assert found.planned.counted == COUNTED
    assert isinstance(found.plan, Plan)
    assert noise < promised(None, epsilon=2.0).noise_multiplier
    from privplan.fl.frame.promise import restated

    found = promised(COUNTED, noise_multiplier=NOISE)
    privacy = PrivacyTarget("silo", "replace-one", DELTA, noise_multiplier=NOISE)
    assert restated(found, found.planned, privacy) == found
    assert restated(found, replace(found.planned, counted=None), privacy) is None


@for_each(
    ("privacy", "text"),
    [
        ({"noise_multiplier": 5.0, "epsilon": 2.0}, "both given"),
        ({"noise_multiplier": 5.0, "neighbours": "add-remove"}, "cannot be counted"),
        ({"noise_multiplier": 5.0, "unit": "user"}, "cannot be counted"),
        ({"noise_multiplier": 5.0, "unit": "record", "group": 2}, "cannot be counted"),
    ],
)
def test_a_promise_that_cannot_be_counted_is_refused(privacy: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text) as refused:
        promised(COUNTED, **privacy)
    assert refused.value.why
    assert refused.value.next_step
