"""Runs with correlated noise: what is audited of honest logs, whole and cut off."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.arrays import IntArray
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import BandedGaussian
from privplan.accountant.records import Block, RoundIntent
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.budget import audit_budget
from privplan.audit.derivation.correlated_rounds import beyond_schedule
from privplan.audit.edits import edits_of
from privplan.fl.log import read
from privplan.fl.running import how_to_resume
from privplan.fl.uldp.correlated import Schedule

from ..cases import for_each
from . import forging
from .banded_runs import BY_RECORDS, CONFIG, carried_out, of_blocks

RESIDUAL = AttackRequest(tiers=("residual",))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two blocks."""
    return carried_out(tmp_path_factory.mktemp("banded") / "run")


@pytest.fixture(scope="module")
def by_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose weights are by records: a silo that holds some has no guarantee."""
    return carried_out(tmp_path_factory.mktemp("by-records") / "run", BY_RECORDS)


# --- honest logs ----------------------------------------------------------------------------------


def test_the_log_supports_what_is_claimed_of_its_blocks(honest: Path) -> None:
    report = audit_budget(honest)
    assert report.ok
    assert report.supported
    assert not [each for each in report.hazards if each.severity == "error"]
    assert report.total.upper == pytest.approx(of_blocks(2), rel=1e-9)
    # One unit takes part once in each block: its column of C twice.
    sensitivity = math.sqrt(2 * (1.0 + 0.25 + 0.140625))
    alone = account(ev.Gaussian(3.0 / sensitivity), delta=1e-5).epsilon.upper
    assert report.total.upper == pytest.approx(alone, rel=1e-6)
    assert not edits_of(honest)


def test_the_log_says_which_rounds_an_event_covers(honest: Path) -> None:
    intents = [line for line in forging.lines_in(honest) if line["type"] == "round.intent"]
    assert [line["block"]["first"] for line in intents] == [1] * 4 + [5] * 4
    assert {line["block"]["rounds"] for line in intents} == {4}
    assert [line["event"]["type"] for line in intents] == ["matrix-gaussian", *["compose"] * 3] * 2


def test_the_residual_tier_sees_the_fresh_noise(honest: Path) -> None:
    report = attack(honest, RESIDUAL, append=False)
    assert not report.contradicted


@for_each("factor", [0.5, 2.0])
def test_noise_that_is_not_the_logs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    monkeypatch.setattr(
        BandedGaussian,
        "_parameter",
        property(lambda mechanism: factor * mechanism.share_std / mechanism.grid),
    )
    report = attack(carried_out(tmp_path / "run"), RESIDUAL, append=False)
    assert report.contradicted


def test_rows_that_forget_the_last_terms_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise is right there, and what it is added to is not C x."""

    def forgetful(_: BandedGaussian, totals: list[IntArray]) -> IntArray:
        return np.asarray(256 * totals[0])

    monkeypatch.setattr(BandedGaussian, "row", forgetful)
    report = attack(carried_out(tmp_path / "run"), RESIDUAL, append=False)
    assert report.contradicted


def test_users_that_come_in_every_round_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number rests on turns, and no noise tells of them: 30 join, where a cohort is 7 or 8."""
    monkeypatch.setattr(Schedule, "joining", lambda _, __, names: np.ones(len(names), bool))
    folder = carried_out(tmp_path / "run")
    assert attack(folder, RESIDUAL, append=False).contradicted
    report = audit_budget(folder, sealed=True)
    assert "joined-against-schedule" in report.errors
    assert not report.supported


def test_honest_turns_are_no_hazard(honest: Path) -> None:
    report = audit_budget(honest, sealed=True)
    assert not report.errors
    assert report.sealed is not None
    assert report.sealed.counts == 8


@for_each(
    ("counts", "bad"),
    [
        ([8, 8, 7, 7, 8, 8, 7, 7], []),
        ([8, 8, 7, 8, 8, 8, 7, 7], [4, 5, 6, 7]),  # 31 from rounds 1, 2, 3 and 4 on
        ([30, 0, 0, 0, 30, 0, 0, 0], []),
        ([0, 0, 0, 1, 30, 0, 0, 0], [5, 6, 7]),
        ([-1, 8, 8, 8, 0, 0, 0, 0], [1]),
    ],
)
def test_units_of_the_turns_of_a_block_are_all_units_at_most(
    honest: Path, counts: list[int], bad: list[int]
) -> None:
    """By hand, of 30 units and turns of four rounds, in one block of eight."""
    records = (line.record for line in read(honest))
    intent = next(record for record in records if isinstance(record, RoundIntent))
    block = Block(1, 8, (1.0, 0.5), 4)
    rounds = [
        (replace(intent, round=number, block=block), number, count)
        for number, count in enumerate(counts, start=1)
    ]
    assert list(beyond_schedule(rounds, 30)) == bad
    apart = [(replace(each, block=None), line, count) for each, line, count in rounds]
    assert not beyond_schedule(apart, 1)


@for_each(
    ("rounds", "blocks", "said"), [(None, 2, "cohort 1 of 4"), (3, 1, "3 rounds of 4 were made")]
)
def test_canaries_are_held_against_the_blocks_that_their_rounds_begin(
    honest: Path, rounds: int | None, blocks: int, said: str
) -> None:
    request = AttackRequest(tiers=("claim",), canaries=1000, rounds=rounds, seed=1)
    report = attack(honest, request, append=False)
    (measured,) = report.measurements
    assert report.verdict == "not-contradicted"
    assert measured.claimed == pytest.approx(of_blocks(blocks), rel=1e-9)
    assert 0.0 < measured.value < measured.claimed
    assert any(said in each for each in measured.assumes)


def test_an_observer_without_a_number_is_not_rehearsed(by_records: Path) -> None:
    request = AttackRequest(tiers=("claim",), observer="silo-with-records", canaries=100)
    with pytest.raises(Unsupported, match="not rehearsed with canaries"):
        attack(by_records, request, append=False)


def test_an_observer_without_a_guarantee_is_no_accusation(by_records: Path) -> None:
    report = audit_budget(by_records)
    uppers = {row.observer: row.total.upper for row in report.rows}
    assert math.isinf(uppers["silo-with-records"])
    assert not report.errors
    assert report.supported


# --- runs that were cut off -----------------------------------------------------------------------


def test_a_block_that_was_cut_off_is_spent_whole(tmp_path: Path) -> None:
    folder = carried_out(tmp_path / "run", until=2)
    report = audit_budget(folder)
    assert report.ok
    assert report.total.upper == pytest.approx(of_blocks(1), rel=1e-9)


def test_a_run_that_goes_on_begins_a_new_block(tmp_path: Path) -> None:
    folder = carried_out(tmp_path / "run", until=2)
    carried_out(folder)
    intents = [line for line in forging.lines_in(folder) if line["type"] == "round.intent"]
    assert [(line["round"], line["block"]["first"]) for line in intents] == [
        *[(1, 1), (2, 1)],
        *[(number, 3) for number in range(3, 7)],
    ]
    report = audit_budget(folder)
    assert report.ok
    assert report.supported
    assert report.total.upper == pytest.approx(of_blocks(2), rel=1e-9)
    assert not edits_of(folder)
    assert not attack(folder, RESIDUAL, append=False).contradicted
    # Canaries rehearse the plan: what was cut off was paid for all the same.
    request = AttackRequest(tiers=("claim",), canaries=1000, seed=1)
    (measured,) = attack(folder, request, append=False).measurements
    assert measured.verdict == "not-contradicted"
    assert measured.claimed == pytest.approx(of_blocks(2), rel=1e-9)


def test_a_run_without_a_block_left_does_not_go_on(tmp_path: Path) -> None:
    folder = carried_out(tmp_path / "run", until=6)
    with pytest.raises(InvalidInput, match="cut off in the last block"):
        carried_out(folder)


ONE_BLOCK = CONFIG.replace("blocks = 2", "blocks = 1")


@for_each(
    ("config", "until", "goes_on"), [(CONFIG, 2, True), (CONFIG, 6, False), (ONE_BLOCK, 2, False)]
)
def test_nobody_is_told_to_resume_what_cannot_be_resumed(
    tmp_path: Path, config: str, until: int, goes_on: bool
) -> None:
    folder = carried_out(tmp_path / "run", config, until=until)
    step = how_to_resume(folder)
    (hazard,) = [each for each in audit_budget(folder).hazards if each.id == "incomplete"]
    assert ("run --resume" in step) == goes_on
    assert hazard.next_step.startswith("Resume the run") == goes_on
    assert ("with more `blocks`" in step) == ("with more `blocks`" in hazard.next_step) != goes_on


@for_each(
    ("until", "limit", "left", "paid"),
    [
        (2, of_blocks(2), 6, 2),  # two of the block that is paid, and one block of four
        (4, of_blocks(2), 4, 0),
        (4, of_blocks(4), 12, 0),
        (6, of_blocks(2), 2, 2),
        (6, 0.5, 0, 0),
    ],
)
def test_what_is_left_is_counted_in_rounds(
    tmp_path: Path, until: int, limit: float, left: int, paid: int
) -> None:
    report = audit_budget(carried_out(tmp_path / "run", until=until), limit=limit * (1 + 1e-9))
    assert (report.left, report.paid_ahead) == (left, paid)
