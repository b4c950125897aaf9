"""What the residual tier refuses to read, and the sealed report that it writes."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Contribution
from privplan.audit.measurement import Measurement
from privplan.audit.residual import SEALED_REPORT, residual_tier, write_sealed_report
from privplan.audit.residual.tier import judged
from privplan.fl.files import atomic
from privplan.fl.log import BadLine, LogWriter
from privplan.fl.log.hash_chain import LOG, SEALED

from ..cases import for_each
from . import logs
from .residual_runs import (
    SILOS,
    WHAT,
    in_memory,
    intent,
    normal,
    on_disk,
    opening,
    release,
    written,
)

# --- bad input ------------------------------------------------------------------------------------


def test_without_a_log(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no folder"):
        residual_tier(tmp_path / "nowhere")


def test_without_a_sidecar(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    (folder / SEALED).unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        residual_tier(folder)


def test_a_sidecar_that_lacks_items(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    lines = (folder / SEALED).read_text().splitlines(keepends=True)
    (folder / SEALED).write_text("".join(lines[1:]))
    with pytest.raises(InvalidInput, match=r"does not open 1 commitments.*`residuals` in line 3"):
        residual_tier(folder)


def test_a_sidecar_of_another_run(tmp_path: Path) -> None:
    folder, other = on_disk(tmp_path / "run"), on_disk(tmp_path / "other")
    (folder / SEALED).write_bytes((other / SEALED).read_bytes())
    with pytest.raises(InvalidInput, match="does not open 8 commitments"):
        residual_tier(folder)


def test_an_edited_item(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    text = (folder / SEALED).read_text()
    (folder / SEALED).write_text(text.replace('"n":50', '"n":51', 1))
    with pytest.raises(InvalidInput, match="does not fit its commitment"):
        residual_tier(folder)


def test_a_broken_chain(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    text = (folder / LOG).read_text()
    (folder / LOG).write_text(text.replace('"share_std":"2.5"', '"share_std":"2.4"', 1))
    with pytest.raises(BadLine):
        residual_tier(folder)


def test_an_older_run(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"3 of 3 releases .* sealed no statistics") as caught:
        residual_tier(folder)
    assert "earlier version" in str(caught.value)


def test_noise_of_single_messages_is_no_older_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    sends = replace(intent(1), contribution=Contribution(1.0, "l2", "user", terms="message"))
    with LogWriter.create(folder, fsync="never") as writer:
        writer.append(opening(1))
        seq = writer.append(sends)
        writer.append(release(1, seq, 50, writer.seal({"norms": [1.0]})))
    with pytest.raises(InvalidInput, match="noise is in single messages") as caught:
        residual_tier(folder)
    assert caught.value.why is not None
    assert "nothing of it is sealed" in caught.value.why
    assert "version" not in str(caught.value)
    assert caught.value.next_step is not None
    assert "Make the run again" not in caught.value.next_step


def test_a_run_without_a_release(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(opening(1))
        writer.append(intent(1))
    with pytest.raises(InvalidInput, match="No release"):
        residual_tier(tmp_path / "run")


@for_each(
    "change",
    [
        lambda found: found["residuals"].pop("std"),
        lambda found: found["residuals"].update(squares=["nan"] * SILOS),
        lambda found: found["residuals"].update(zeros=[0]),
        lambda found: found["residuals"].update(silos=None),
        lambda found: found.update(residuals="a text"),
        lambda found: found["recomputed"].pop("term_largest"),
    ],
)
def test_items_that_are_not_understood(tmp_path: Path, change: Any) -> None:
    folder = written(tmp_path / "run", lambda _, found: change(found))
    with pytest.raises(InvalidInput, match=r"line 3 .* not understood"):
        residual_tier(folder)


def test_too_few_values_for_a_statistic() -> None:
    with pytest.raises(InvalidInput, match="as many values"):
        judged(in_memory(normal, 1, rounds=3, width=5), 0.05)


@for_each("alpha", [0.0, 1.0, -0.1, float("nan")])
def test_a_level_out_of_range(tmp_path: Path, alpha: float) -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        residual_tier(on_disk(tmp_path / "run"), alpha=alpha)


# --- the sealed report ----------------------------------------------------------------------------


def test_the_report_is_for_its_owner_and_says_so(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    before = (folder / LOG).read_bytes(), (folder / SEALED).read_bytes()
    path = write_sealed_report(folder, residual_tier(folder))
    assert path == folder / SEALED_REPORT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = json.loads(path.read_text())
    assert found["note"].startswith("Not to be published")
    assert found["run_id"] == "run-1"
    assert [one["what"] for one in found["measurements"]] == list(WHAT)
    assert ((folder / LOG).read_bytes(), (folder / SEALED).read_bytes()) == before


def test_the_report_keeps_other_tiers_and_replaces_its_own(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run")
    one = residual_tier(folder)
    member = Measurement(
        "membership", "loss", 0.6, "estimate", False, "p", "model", "user", "add-remove"
    )
    write_sealed_report(folder, [member])
    write_sealed_report(folder, one)
    write_sealed_report(folder, one)
    found = json.loads((folder / SEALED_REPORT).read_text())["measurements"]
    assert [own["tier"] for own in found] == ["membership"] + ["residual"] * len(one)
    assert stat.S_IMODE((folder / SEALED_REPORT).stat().st_mode) == 0o600


@for_each(
    ("content", "why"),
    [
        (b"\xff\xfe", "cannot be read as one"),
        (b"[]", "cannot be read as one"),
        (b'{"run_id": "other", "measurements": []}', "is that of another run"),
    ],
)
def test_a_report_that_is_not_this_runs_stays(tmp_path: Path, content: bytes, why: str) -> None:
    folder = on_disk(tmp_path / "run")
    (folder / SEALED_REPORT).write_bytes(content)
    with pytest.raises(InvalidInput, match=why):
        write_sealed_report(folder, residual_tier(folder))
    assert (folder / SEALED_REPORT).read_bytes() == content


def test_a_report_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="needs a measurement"):
        write_sealed_report(on_disk(tmp_path / "run"), [])


def test_a_full_disk_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = on_disk(tmp_path / "run")
    found = residual_tier(folder)
    before = write_sealed_report(folder, found).read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(InvalidInput, match="No space left"):
        write_sealed_report(folder, found)
    assert (folder / SEALED_REPORT).read_bytes() == before
    assert [one.name for one in folder.iterdir() if "part" in one.name] == []
