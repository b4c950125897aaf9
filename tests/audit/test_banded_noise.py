"""Runs with correlated noise: what is audited of them, of honest logs and of edited ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.arrays import IntArray
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import BandedGaussian
from privplan.accountant.records import Block, RoundIntent
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.budget import BudgetReport, audit_budget
from privplan.audit.derivation.blocks import beyond_schedule
from privplan.audit.edits import edits_of
from privplan.fl.log import read
from privplan.fl.running import Configuration, how_to_resume, ready_new_run, ready_to_resume
from privplan.fl.running.session import execute
from privplan.fl.uldp.correlated import Schedule

from . import forging
from .forging import Edit, Line, Lines

CONFIG = """
[run]
system = "uldp-avg"
rounds = 8
[data]
name = "breast-cancer"
users = 30
silos = 3
[privacy]
noise_multiplier = 3.0
noise = "banded"
cohorts = 4
bands = 3
blocks = 2
[training]
local_epochs = 1
[security]
aggregation = "masked"
"""
RESIDUAL = AttackRequest(tiers=("residual",))
STRATEGY = ev.ToeplitzStrategy(4, (1.0, 0.5, 0.375))
BLOCK_EVENT = ev.MatrixGaussian(3.0, STRATEGY, ev.SeparatedParticipation(1, 4))


class Stopped(Exception):
    """What ends a run in these tests."""


def carried_out(folder: Path, config: str = CONFIG, *, until: int | None = None) -> Path:
    """Begin a run in a folder, or go on with it; stop after so many rounds."""
    file = folder.parent / f"{folder.name}.toml"
    file.write_text(config)
    source = Configuration.read(file)
    ready = ready_to_resume(source, folder) if folder.exists() else ready_new_run(source, folder)

    def stop(measured: Any, _: int) -> None:
        if measured.round == until:
            raise Stopped

    with ready.writer, suppress(Stopped):
        execute(ready.prepared, folder, ready.writer, progress=ready.progress, report=stop)
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two blocks."""
    return carried_out(tmp_path_factory.mktemp("banded") / "run")


@pytest.fixture(scope="module")
def by_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose weights are by records: a silo that holds some has no guarantee."""
    config = CONFIG.replace("[training]", '[training]\nweighting = "records"')
    return carried_out(tmp_path_factory.mktemp("by-records") / "run", config)


def of_blocks(count: int) -> float:
    """Return the epsilon of so many blocks."""
    return account(ev.Repeat(count, BLOCK_EVENT), delta=1e-5).epsilon.upper


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
    assert [line["event"]["type"] for line in intents] == [
        "matrix-gaussian",
        *["compose"] * 3,
    ] * 2


def test_the_residual_tier_sees_the_fresh_noise(honest: Path) -> None:
    report = attack(honest, RESIDUAL, append=False)
    assert not report.contradicted


@pytest.mark.parametrize("factor", [0.5, 2.0])
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
    monkeypatch.setattr(Schedule, "joining", lambda _, __, users: np.ones(users, bool))
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


@pytest.mark.parametrize(
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


def test_canaries_are_held_against_the_blocks_of_the_log(honest: Path) -> None:
    request = AttackRequest(tiers=("claim", "robust"), canaries=2000, seed=1)
    report = attack(honest, request, append=False)
    assert report.verdict == "not-contradicted"
    for measured in report.measurements:
        assert measured.claimed == pytest.approx(of_blocks(2), rel=1e-9)
        assert 0.0 < measured.value < measured.claimed
        assert any("cohort 1 of 4" in each for each in measured.assumes)


def test_fewer_rounds_are_held_against_the_blocks_that_they_begin(honest: Path) -> None:
    request = AttackRequest(tiers=("claim",), canaries=1000, rounds=3, seed=1)
    report = attack(honest, request, append=False)
    (measured,) = report.measurements
    assert measured.claimed == pytest.approx(of_blocks(1), rel=1e-9)
    assert any("3 rounds of 4 were made" in each for each in measured.assumes)


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


# --- edited logs ----------------------------------------------------------------------------------


def intents(change: Callable[[Line], object], *numbers: int) -> Edit:
    """Change the intents of these rounds, or all."""

    def edit(lines: Lines) -> Lines:
        for line in lines:
            if line["type"] == "round.intent" and (not numbers or line["round"] in numbers):
                change(line)
        return lines

    return edit


def in_every_event(change: Callable[[dict[str, Any]], object]) -> Edit:
    """Change every matrix event of a log, wherever it stands."""

    def events(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if value.get("type") == "matrix-gaussian":
                yield value
            for part in value.values():
                yield from events(part)
        elif isinstance(value, list):
            for part in value:
                yield from events(part)

    def edit(lines: Lines) -> Lines:
        for line in lines:
            for event in events(line):
                change(event)
        return lines

    return edit


def claiming(epsilon: float) -> Edit:
    """Claim less, and close with less."""

    def edit(lines: Lines) -> Lines:
        lines[0]["claim"]["epsilon"] = repr(epsilon)
        for name in lines[-1]["epsilon"]:
            lines[-1]["epsilon"][name] = repr(epsilon)
        return lines

    return edit


def less_noise_covered(event: dict[str, Any]) -> None:
    event["noise_multiplier"] = 6.0


def weaker_bands(line: Line) -> None:
    line["block"]["coefficients"] = ["1.0", "0.0", "0.0"]


def weaker_strategy(event: dict[str, Any]) -> None:
    event["strategy"]["coefficients"] = [1.0, 0.0, 0.0]


def shorter(line: Line) -> None:
    line["block"]["rounds"] = 3


def wider_apart(line: Line) -> None:
    line["block"]["separation"] = 8


EDITS: dict[str, tuple[Edit, ...]] = {
    "a claim below the blocks": (claiming(0.5),),
    "the event of a block has more noise": (in_every_event(less_noise_covered), claiming(0.9)),
    "another strategy": (intents(weaker_bands), in_every_event(weaker_strategy), claiming(1.8)),
    "other facts of one round": (intents(weaker_bands, 3),),
    "a block of fewer rounds": (intents(shorter),),
    "users that come less often": (intents(wider_apart),),
    "rounds of their own": (intents(lambda line: line.pop("block")),),
    "a round of its own": (intents(lambda line: line.pop("block"), 2),),
    "one block for all": (
        intents(
            lambda line: line.update(
                block={**line["block"], "first": 1}, event={"type": "compose", "events": []}
            ),
            *range(5, 9),
        ),
    ),
    "a later round that pays for nothing": (
        intents(lambda line: line["block"].update(first=2), 2, 3, 4),
    ),
    "a round cut out": (forging.without_rounds([3]),),
    "the paying round cut out": (forging.without_rounds([1]),),
    "a plan of one block": (
        lambda lines: [
            {**lines[0], "plan": {**lines[0]["plan"], "events": _once(lines)}},
            *lines[1:],
        ],
    ),
}


def _once(lines: Lines) -> dict[str, Any]:
    return {who: {**event, "count": 1} for who, event in lines[0]["plan"]["events"].items()}


@pytest.mark.parametrize("name", list(EDITS))
def test_an_edited_log_is_contradicted(honest: Path, tmp_path: Path, name: str) -> None:
    report = audit_budget(forging.forged(honest, tmp_path / "forged", *EDITS[name]))
    assert not report.ok
    assert [each.id for each in report.hazards if each.severity == "error"]


@pytest.mark.parametrize(
    "name", ["a block of fewer rounds", "one block for all", "the paying round cut out"]
)
def test_a_round_that_nobody_paid_for_proves_nothing(
    honest: Path, tmp_path: Path, name: str
) -> None:
    report = audit_budget(forging.forged(honest, tmp_path / "forged", *EDITS[name]))
    assert math.isinf(report.total.upper)


def test_a_round_that_goes_on_with_a_lost_block_is_unpaid(tmp_path: Path) -> None:
    """After a start of the process no sums are left, so nothing may go on with an old block."""
    folder = carried_out(tmp_path / "run", until=2)
    carried_out(folder)

    def old(line: Line) -> None:
        line.update(
            block={**line["block"], "first": 1},
            event={"type": "compose", "events": []},
            views={who: {"type": "compose", "events": []} for who in line["views"]},
        )

    report = audit_budget(forging.forged(folder, tmp_path / "forged", intents(old, 3, 4)))
    assert math.isinf(report.total.upper)
    assert not report.ok


def test_less_noise_in_the_facts_is_what_counts(honest: Path, tmp_path: Path) -> None:
    """Facts of half the noise under the old event: the weaker of both is counted."""

    def halved(line: Line) -> None:
        for name in ("std", "share_std", "grid"):
            line["noise"][name] = repr(float(line["noise"][name]) / 2.0)

    report: BudgetReport = audit_budget(
        forging.forged(honest, tmp_path / "forged", intents(halved))
    )
    half = ev.MatrixGaussian(1.5, STRATEGY, BLOCK_EVENT.participation)
    expected = account(ev.Repeat(2, half), delta=1e-5).epsilon.upper
    assert report.total.upper == pytest.approx(expected, rel=1e-6)
    assert not report.ok


@pytest.mark.parametrize("rounds", [10**7, 2**62])
def test_a_block_of_absurdly_many_rounds_proves_nothing(
    honest: Path, tmp_path: Path, rounds: int
) -> None:
    def vast(line: Line) -> None:
        line["block"]["rounds"] = rounds

    report = audit_budget(forging.forged(honest, tmp_path / "forged", intents(vast)))
    assert math.isinf(report.total.upper)
    assert not report.ok


# --- what covered rounds say ----------------------------------------------------------------------

NAMED = ("model", "server", "silo")
FIRST, COVERED = (1, 5), (2, 3, 4, 6, 7, 8)


def silos_dropped(line: Line) -> None:
    line["reaches"]["silo"]["dropouts"] = 1


def server_sees_each(line: Line) -> None:
    line["reaches"]["server"].update(sees="each", colluders=2)


def of_fewer_shares(*numbers: int) -> Edit:
    """Let the releases of these rounds state the noise of a single silo."""

    def edit(lines: Lines) -> Lines:
        for line in lines:
            if line["type"] == "round.release" and line["round"] in numbers:
                line["shares"] = 1
        return lines

    return edit


WEAKER: dict[str, Callable[..., Edit]] = {
    "silos may be missing": lambda *rounds: intents(silos_dropped, *rounds),
    "the server sees each sum": lambda *rounds: intents(server_sees_each, *rounds),
    "fewer shares arrived": of_fewer_shares,
}
"""What weakens a round before somebody, by its records."""


@pytest.mark.parametrize("name", list(WEAKER))
@pytest.mark.parametrize("covered", [COVERED, (3, 8)])
def test_what_covered_rounds_say_counts_as_what_the_paying_ones_say(
    by_records: Path, tmp_path: Path, name: str, covered: tuple[int, ...]
) -> None:
    """A block is as weak as its weakest row: the number is that of the same edit in first rounds.

    One covered round of each block is enough.
    """
    weak = audit_budget(forging.forged(by_records, tmp_path / "rows", WEAKER[name](*covered)))
    first = audit_budget(forging.forged(by_records, tmp_path / "first", WEAKER[name](*FIRST)))
    sound = audit_budget(by_records)
    epsilons = [
        {row.observer: row.total.upper for row in report.rows if row.observer in NAMED}
        for report in (weak, first, sound)
    ]
    assert epsilons[0] == pytest.approx(epsilons[1], rel=1e-9)
    assert any(epsilons[0][who] > epsilons[2][who] * 1.05 for who in epsilons[2])
    assert all(epsilons[0][who] >= epsilons[2][who] * (1 - 1e-9) for who in epsilons[2])
    assert not weak.ok
