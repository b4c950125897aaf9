"""`privplan report`: one page, whole or not at all, and what the exit code says."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.records import Block
from privplan.fl.files import atomic

from ..audit import ledgers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a run of 20 rounds."""
    return ledgers.written(tmp_path / "run", ledgers.weighted())


def test_a_page_is_made(run: Any, folder: Path) -> None:
    done = run("report", str(folder), "-o", "report.html")
    assert done.code == 0
    assert done.err == ""
    assert "The log supports what it claims." in done.out
    assert "nothing yet: privplan audit attack DIR" in done.out
    assert Path("report.html").read_text().startswith("<!doctype html>")
    again = run("report", str(folder), "-o", "report.html", "--json")
    assert again.json["result"] == {
        "path": "report.html",
        "bytes": Path("report.html").stat().st_size,
        "ok": True,
        "contradicted": [],
        "unusual": [],
        "measured": 0,
        "checked": "chain only",
        "up_to": None,
    }
    assert run("report", str(folder), "-o", "report.html", "-q").out == "report.html\n"


def test_of_correlated_noise_it_is_said_how_it_is_attacked(run: Any, tmp_path: Path) -> None:
    folder = ledgers.written(
        tmp_path / "run", ledgers.intents(block=Block(1, 20, (1.0,), 20))(ledgers.weighted())
    )
    done = run("report", str(folder), "-o", "report.html")
    assert "nothing yet: privplan audit attack DIR" in done.out
    assert "<code>privplan audit attack DIR</code> does" in Path("report.html").read_text()


def test_a_log_that_does_not_support_its_claim_gets_its_page_and_exit_code_1(
    run: Any, tmp_path: Path
) -> None:
    small = ledgers.changed(ledgers.weighted(), ledgers.RunOpen, claim=ledgers.part(epsilon=1.0))
    folder = ledgers.written(tmp_path / "run", small)
    assert run("report", str(folder), "-o", "page.html").code == 1
    assert "does not support what it claims" in Path("page.html").read_text()


def test_bad_input_is_refused(refused: Any, folder: Path) -> None:
    assert "`out` is missing" in refused("report", str(folder))
    assert "cannot be written" in refused("report", str(folder), "-o", "nowhere/report.html")
    assert "cannot be written" in refused("report", str(folder), "-o", ".")
    assert "There is no folder" in refused("report", "nothing", "-o", "report.html")
    log = folder / "log.jsonl"
    log.write_text(log.read_text().replace('"rounds":20', '"rounds":21', 1))
    assert "is bad" in refused("report", str(folder), "-o", "report.html")
    assert not Path("report.html").exists()


def test_a_failed_write_leaves_the_page_that_was_there(
    refused: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("report.html").write_text("older")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic, "write", full)
    assert "No space left" in refused("report", str(folder), "-o", "report.html")
    assert Path("report.html").read_text() == "older"
    assert stat.S_ISREG(Path("report.html").stat().st_mode)
