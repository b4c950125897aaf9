"""What was computed later of a release, as `audit budget`, `audit log` and `report` say it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from privplan.fl.log import append_post_processing

from ..audit.ledgers import weighted, written
from .conftest import Run

SAID = "of what was released, at no cost"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The log of two rounds."""
    return written(tmp_path / "run", weighted(2))


@pytest.mark.parametrize(("fits", "words"), [(1, "1 fit"), (2, "2 fits")])
def test_fits_are_counted_at_no_cost(
    folder: Path, tmp_path: Path, run: Run, fits: int, words: str
) -> None:
    before = run("audit", "budget", str(folder), "--json").json["result"]
    for _ in range(fits):
        append_post_processing(folder, 2, "ridge", {"ridge": "0.5"}, "a" * 64)
    text = run("audit", "budget", str(folder))
    assert text.code == 0
    assert re.search(rf"derived +{words} {SAID}", text.out)
    after = run("audit", "budget", str(folder), "--json").json["result"]
    assert after["derived"] == fits
    assert after["epsilon"] == before["epsilon"]
    assert run("audit", "log", str(folder), "--json").json["result"]["complete"]
    page = tmp_path / "page.html"
    assert run("report", str(folder), "-o", str(page)).code == 0
    assert f"{words} {SAID}" in page.read_text()


def test_a_log_without_any_says_nothing_of_it(folder: Path, tmp_path: Path, run: Run) -> None:
    assert SAID not in run("audit", "budget", str(folder)).out
    page = tmp_path / "page.html"
    assert run("report", str(folder), "-o", str(page)).code == 0
    assert SAID not in page.read_text()
