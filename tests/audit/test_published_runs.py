"""Numbers that others published: the wrong ones are flagged, and none of the right ones accused.

The runs stand in `published_runs/`, with what is known of each in an index.  A wrong number counts
as flagged where the check names a cause of severity warning or error, calls it false or unproven,
or asks for the fact that is wrong, where the description lacks it.  A right one is accused by the
verdict `false`, or by a cause of severity error.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

import privplan as pp

from ..cases import for_each

FOLDER: Final = Path(__file__).parent / "published_runs"
PARTS: Final = {"open": "index.toml", "apart": "index_apart.toml"}
LEAST_FLAGGED: Final = 0.95

EVERY_EIGHTH: Final = 8


def runs_of(part: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tomllib.loads((FOLDER / PARTS[part]).read_text("utf-8"))["runs"]
    return rows


def flagged(row: dict[str, Any], result: Any) -> bool:
    """Return whether a wrong number is flagged."""
    severe = any(cause.severity != "info" for cause in result.causes)
    asked = row.get("fact") in {missing.key for missing in result.missing}
    return severe or asked or result.verdict in ("false", "unproven")


def accused(result: Any) -> bool:
    """Return whether a number is accused."""
    return result.verdict == "false" or any(cause.severity == "error" for cause in result.causes)


@for_each("part", PARTS)
def test_every_run_is_in_its_index(part: str) -> None:
    listed = {row["file"] for row in runs_of(part)}
    assert listed == {path.relative_to(FOLDER).as_posix() for path in (FOLDER / part).glob("*")}
    rights = [row["right"] for row in runs_of(part)]
    assert min(rights.count(True), rights.count(False)) >= len(rights) / 3


@for_each("row", runs_of("open")[::EVERY_EIGHTH], ids=lambda row: str(Path(row["file"]).stem))
def test_a_published_number(row: dict[str, Any]) -> None:
    result = pp.check(FOLDER / row["file"])
    assert not accused(result) if row["right"] else flagged(row, result)


@pytest.mark.slow
@for_each("part", PARTS)
def test_wrong_numbers_are_flagged_and_right_ones_are_not_accused(part: str) -> None:
    wrong, caught, innocent = 0, 0, []
    for row in runs_of(part):
        result = pp.check(FOLDER / row["file"])
        if row["right"]:
            innocent += [row["file"]] if accused(result) else []
        else:
            wrong += 1
            caught += flagged(row, result)
    assert caught >= LEAST_FLAGGED * wrong
    assert innocent == []
