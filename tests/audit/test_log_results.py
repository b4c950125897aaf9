"""Results of audits in a log: added to a run that is whole, and read as a stranger's."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import AuditResult
from privplan.audit.results import (
    append_results,
    decoded,
    encoded,
    measurements_in,
    results_in,
)
from privplan.audit.verify import verify
from privplan.fl.log import BadLine, LogWriter, Sidecar
from privplan.fl.log import append_file as disk_module
from privplan.fl.log.hash_chain import LOG, SEALED

from ..cases import for_each
from . import logs
from .measured import MEASURED, MEMBERSHIP


def test_what_is_appended_is_read_again(folder: Path) -> None:
    before = verify(folder)
    found = append_results(folder, [MEASURED, replace(MEASURED, tier="robust", value=3.5)])
    assert found.lines == (before.records + 1, before.records + 2)
    after = verify(folder, expected_head=before.head)
    assert after.ok
    assert (after.records, after.head) == (before.records + 2, found.head)
    assert after.complete == before.complete
    assert measurements_in(folder) == (MEASURED, replace(MEASURED, tier="robust", value=3.5))
    assert [one.number for one in results_in(folder)] == list(found.lines)


def test_no_number_with_a_fraction_stands_there_as_a_number(folder: Path) -> None:
    append_results(folder, [MEASURED])

    def floats(value: object) -> list[float]:
        if isinstance(value, Mapping):
            return [one for inner in value.values() for one in floats(inner)]
        if isinstance(value, list):
            return [one for inner in value for one in floats(inner)]
        return [value] if isinstance(value, float) else []

    line = json.loads(logs.lines_of(folder)[-1])
    assert line["result"]["value"] == "7.25"
    assert line["result"]["sample"] == {
        "canaries": 1000,
        "threshold": "0.30000000000000004",
        "view": "model",
    }
    assert floats(line) == []


def test_every_line_is_on_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(disk_module.os, "fsync", synced.append)
    append_results(folder, [MEASURED, MEASURED])
    assert len(synced) == 2


def test_a_run_that_is_being_written_is_refused(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(logs.opening())
        with pytest.raises(InvalidInput, match="being written by another process"):
            append_results(tmp_path / "run", [MEASURED])
        assert len(logs.lines_of(tmp_path / "run")) == 1


@for_each("line", [1, 4, 8])
def test_a_bad_line_is_named_and_nothing_is_added(tmp_path: Path, line: int) -> None:
    folder = logs.small_log(tmp_path / "run")
    lines = logs.lines_of(folder)
    lines[line - 1] = lines[line - 1].replace("1", "2", 1)
    logs.write_lines(folder, lines)
    before = (folder / LOG).read_bytes()
    with pytest.raises(BadLine) as caught:
        append_results(folder, [MEASURED])
    assert caught.value.number == line
    assert (folder / LOG).read_bytes() == before
    for reader in (measurements_in, results_in):
        with pytest.raises(BadLine):
            reader(folder)


def test_a_log_that_opens_no_run_is_refused(tmp_path: Path) -> None:
    LogWriter.create(tmp_path / "run").close()
    with pytest.raises(InvalidInput, match=r"no `run\.open`"):
        append_results(tmp_path / "run", [MEASURED])
    with pytest.raises(InvalidInput, match="There is no folder"):
        append_results(tmp_path / "nowhere", [MEASURED])


def test_a_torn_line_of_a_closed_run_is_dropped(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    before = verify(folder)
    with (folder / LOG).open("ab") as file:
        file.write(b'{"hash":"12')
    append_results(folder, [MEASURED])
    after = verify(folder, expected_head=before.head)
    assert after.complete
    assert after.records == before.records + 1


def test_a_torn_line_of_an_unfinished_run_is_left_for_its_resumption(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    with (folder / LOG).open("ab") as file:
        file.write(b'{"hash":"12')
    before = (folder / LOG).read_bytes()
    with pytest.raises(InvalidInput, match="cut off while it was written"):
        append_results(folder, [MEASURED])
    assert (folder / LOG).read_bytes() == before
    LogWriter.resume(folder, randomness=logs.SECURE)[0].close()
    append_results(folder, [MEASURED])
    assert verify(folder).ok


def test_only_results_can_be_added(folder: Path) -> None:
    with LogWriter.reopen(folder) as writer:
        for record in (logs.intent(9), logs.opening(), logs.closing()):
            with pytest.raises(InvalidInput, match="nothing that an audit adds"):
                writer.append(record)
        writer.append(AuditResult("claim", encoded(MEASURED)))


def test_a_link_in_the_place_of_the_log_is_not_written_through(
    folder: Path, tmp_path: Path
) -> None:
    (folder / LOG).rename(tmp_path / "elsewhere")
    (folder / LOG).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="cannot be used"):
        append_results(folder, [MEASURED])


@pytest.mark.parametrize("tier", ["residual", "weakness"])
def test_what_was_seen_before_the_noise_is_refused(folder: Path, tier: Any) -> None:
    before = (folder / LOG).read_bytes()
    with pytest.raises(InvalidInput, match="does not belong in a log"):
        append_results(folder, [MEASURED, replace(MEASURED, tier=tier)])
    with pytest.raises(InvalidInput, match="does not belong in a log"):
        append_results(folder, sealed=[replace(MEASURED, tier=tier)])
    assert (folder / LOG).read_bytes() == before


def test_a_sealed_result_leaves_one_commitment(folder: Path) -> None:
    hidden = [MEMBERSHIP, replace(MEMBERSHIP, value=0.7310585)]
    found = append_results(folder, sealed=hidden)
    assert len(found.lines) == 1  # however many there are: their number may tell something
    line = json.loads(logs.lines_of(folder)[-1])
    assert set(line["result"]) == {"sealed"}
    (one,) = results_in(folder)
    assert (one.tier, one.measurement, one.problem) == ("membership", None, "")
    assert measurements_in(folder) == ()
    sidecar = Sidecar.read(folder)
    item = sidecar.opening(one.sealed or "")
    assert item is not None
    assert item.name == "audit.membership"
    assert [decoded(content) for content in item.value] == hidden  # type: ignore[attr-defined]
    assert sidecar.unopened(folder) == ()
    assert "0.7310585" not in (folder / LOG).read_text()


def test_a_commitment_that_the_sidecar_lacks_is_found(folder: Path) -> None:
    append_results(folder, sealed=[MEMBERSHIP])
    lines = (folder / SEALED).read_text().splitlines()[:-1]
    (folder / SEALED).write_text("".join(line + "\n" for line in lines))
    (missing,) = Sidecar.read(folder).unopened(folder)
    assert missing.name == "audit.membership"


def test_without_a_sidecar_one_is_made_for_its_owner_only(folder: Path) -> None:
    (folder / SEALED).unlink()
    append_results(folder, [MEASURED])
    assert not (folder / SEALED).exists()
    append_results(folder, sealed=[MEMBERSHIP])
    assert stat.S_IMODE((folder / SEALED).stat().st_mode) == 0o600


def test_a_file_that_is_no_sidecar_is_left_alone(folder: Path) -> None:
    (folder / SEALED).write_text("a diary\nwithout an end")
    with pytest.raises(InvalidInput, match="is not an item"):
        append_results(folder, sealed=[MEMBERSHIP])
    assert (folder / SEALED).read_text() == "a diary\nwithout an end"
    assert results_in(folder) == ()
