"""Edited logs of runs with correlated noise: what is audited of each, and how it is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.audit.attack import AttackRequest
from privplan.audit.budget import BudgetReport, audit_budget

from ..cases import for_each
from . import forging
from .banded_runs import BLOCK_EVENT, BY_RECORDS, STRATEGY, carried_out
from .forging import Edit, Line, Lines

RESIDUAL = AttackRequest(tiers=("residual",))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two blocks."""
    return carried_out(tmp_path_factory.mktemp("banded") / "run")


@pytest.fixture(scope="module")
def by_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose weights are by records: a silo that holds some has no guarantee."""
    return carried_out(tmp_path_factory.mktemp("by-records") / "run", BY_RECORDS)


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


@for_each("name", list(EDITS))
def test_an_edited_log_is_contradicted(honest: Path, tmp_path: Path, name: str) -> None:
    report = audit_budget(forging.forged(honest, tmp_path / "forged", *EDITS[name]))
    assert not report.ok
    assert [each.id for each in report.hazards if each.severity == "error"]


@for_each("name", ["a block of fewer rounds", "one block for all", "the paying round cut out"])
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


@for_each("rounds", [10**7, 2**62])
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


@for_each("name", list(WEAKER))
@for_each("covered", [COVERED, (3, 8)])
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
