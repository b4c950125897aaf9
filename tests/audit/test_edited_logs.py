"""Logs of real runs, edited and chained anew: what each edit contradicts is found, by name.

The same rules are silent on honest logs: of earlier versions (`test_earlier_logs`), and whatever
moment a run is cut off at, once or twice.
"""

from __future__ import annotations

from pathlib import Path

from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify

from ..cases import for_each
from ..cli.killing import attempt
from . import forging
from .edited import EDITS, THRICE
from .forging import EarlierRun, Edit, Lines, relinked, restreamed


def spliced(other: Path) -> Edit:
    """Put the rounds of another run, from its third on, in the place of those of this one."""

    def edit(lines: Lines) -> Lines:
        more = forging.lines_in(other)
        for line in more:
            line["seq"] += 1000  # its own lines
            if line.get("intent") is not None:
                line["intent"] += 1000
        mine = [line for line in lines if line["seq"] == 0 or 0 < line.get("round", 9) < 3]
        close = next(line for line in more if line["type"] == "run.close")
        return [*mine, *(line for line in more if line.get("round", 0) >= 3), close]

    return edit


def found_in(folder: Path) -> set[str]:
    return {one.id for one in edits_of(folder)}


@for_each("name", list(EDITS))
def test_an_edit_is_found(earlier_run: EarlierRun, tmp_path: Path, name: str) -> None:
    run, edits, expected = EDITS[name]
    folder = forging.forged(earlier_run(run), tmp_path / "forged", *edits)
    assert verify(folder).ok  # the chain is whole
    found = found_in(folder)
    assert expected <= found, found
    assert found - expected <= {"foreign-metrics", "foreign-model"}, found
    report = audit_budget(folder)
    assert not report.ok
    assert report.supported is False
    assert found <= {hazard.id for hazard in report.hazards if hazard.severity == "error"}


def test_nothing_is_found_before_an_edit(earlier_run: EarlierRun) -> None:
    for run in {run for run, _, _ in EDITS.values()}:
        assert found_in(earlier_run(run)) == set(), run


def test_two_logs_are_not_one(earlier_run: EarlierRun, tmp_path: Path) -> None:
    """The rounds of one run behind those of another, of the same configuration."""
    config = tmp_path / "run.toml"
    config.write_text((earlier_run(THRICE) / "config.toml").read_text())
    attempt(config, tmp_path / "other")
    folder = forging.forged(earlier_run(THRICE), tmp_path / "forged", spliced(tmp_path / "other"))
    assert verify(folder).ok
    assert {"broken-lineage", "missing-recovery", "broken-streams"} <= found_in(folder)
    again = forging.forged(
        earlier_run(THRICE), tmp_path / "again", spliced(tmp_path / "other"), relinked, restreamed
    )
    assert "missing-recovery" in found_in(again)
