"""Results of audits in a log: added to a run that is whole, and read as a stranger's."""

from __future__ import annotations

import json
import math
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import AuditResult
from privplan.audit.budget import audit_budget
from privplan.audit.measurement import Measurement
from privplan.audit.results import (
    MAX_CURVE_POINTS,
    append_results,
    decoded,
    encoded,
    measurements_in,
    result_of,
    results_in,
)
from privplan.audit.verify import verify
from privplan.fl.log import BadLine, LogWriter, Sealed, read
from privplan.fl.log import disk as disk_module
from privplan.fl.log.canonical import LOG, SEALED

from . import ledgers, logs

MEASURED = Measurement(
    tier="claim",
    what="the claimed mechanism",
    value=7.25,
    kind="lower-bound",
    contradicted=False,
    proves="The mechanism is no better than that.",
    observer="model",
    unit="user",
    neighbours="add-remove",
    claimed=8.0,
    delta=1e-5,
    assumes=("canaries are users",),
    sample={"canaries": 1000, "threshold": 0.1 + 0.2, "view": "model"},
    curves={"trade-off": ((0.0, 1.0), (1 / 3, 0.25), (1.0, 0.0))},
)
MEMBERSHIP = replace(MEASURED, tier="membership", kind="estimate", quantity="AUC", value=0.61)


@pytest.fixture(params=[True, False], ids=["closed", "unfinished"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The log of a run, closed or cut off."""
    return logs.small_log(tmp_path / "run", close=request.param)


def result(**changes: object) -> dict[str, object]:
    """Return the content of a good result, changed."""
    return {**encoded(MEASURED), **changes}


def earlier(**changes: object) -> dict[str, object]:
    """Return the content of a result as earlier versions wrote it, changed."""
    found = encoded(MEASURED)
    del found["verdict"], found["level"]
    return {**found, **changes}


# Writing


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


@pytest.mark.parametrize("line", [1, 4, 8])
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


# What may not be published


def test_a_sealed_result_leaves_one_commitment(folder: Path) -> None:
    hidden = [MEMBERSHIP, replace(MEMBERSHIP, value=0.7310585)]
    found = append_results(folder, sealed=hidden)
    assert len(found.lines) == 1  # however many there are: their number may tell something
    line = json.loads(logs.lines_of(folder)[-1])
    assert set(line["result"]) == {"sealed"}
    (one,) = results_in(folder)
    assert (one.tier, one.measurement, one.problem) == ("membership", None, "")
    assert measurements_in(folder) == ()
    sidecar = Sealed.read(folder)
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
    (missing,) = Sealed.read(folder).unopened(folder)
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


@pytest.mark.parametrize("contradicted", [False, True])
def test_a_result_of_an_earlier_version_reads_as_it_did(contradicted: bool) -> None:
    found = result_of(AuditResult("claim", earlier(contradicted=contradicted)))
    assert found.measurement == replace(MEASURED, contradicted=contradicted)
    assert found.measurement.level is None
    assert found.measurement.verdict == ("contradicted" if contradicted else "not-contradicted")


@pytest.mark.parametrize(
    "changes", [{}, {"unusual": True, "level": 0.0004}, {"contradicted": True, "level": 0.0002}]
)
def test_every_verdict_is_read_again(folder: Path, changes: dict[str, Any]) -> None:
    one = replace(MEASURED, **changes)
    append_results(folder, [one])
    (kept,) = measurements_in(folder)
    assert kept == one
    assert kept.verdict == one.verdict


# Reading what a stranger wrote

FORGED: tuple[tuple[str, Callable[[], Mapping[str, object]]], ...] = (
    ("Its fields are not those", dict),
    ("Its fields are not those", lambda: {"epsilon": "1.0"}),
    ("Its fields are not those", lambda: result(extra=1)),
    ("Its fields are not those", lambda: {"sealed": "not a hash"}),
    ("`value` of a measurement", lambda: result(value=7.25)),
    ("`value` of a measurement", lambda: result(value="nan")),
    ("`value` of a measurement", lambda: result(value="7.250")),
    ("`value` of a measurement", lambda: result(value="1" * 5000)),
    ("`value` must be", lambda: result(value="-1.0")),
    ("`claimed` of a measurement", lambda: result(claimed="-1.0")),
    ("`confidence` must be", lambda: result(confidence="1.0")),
    ("`delta` must be", lambda: result(delta="2.0")),
    ("Its tier and that", lambda: result(tier="robust")),
    ("`kind` must be", lambda: result(kind="proof")),
    ("`neighbours` must be", lambda: result(neighbours="anybody")),
    ("`contradicted` of a measurement", lambda: result(contradicted=0)),
    ("`note` of a measurement", lambda: result(note="This proves privacy.")),
    ("`proves` of a measurement", lambda: result(proves="x" * 100_000)),
    ("`proves` of a measurement", lambda: result(proves={"html": "<script>"})),
    ("`assumes` of a measurement", lambda: result(assumes=["x"] * 1000)),
    ("`assumes` of a measurement", lambda: result(assumes="none")),
    ("`sample` of a measurement", lambda: result(sample={"n": True})),
    ("`sample` of a measurement", lambda: result(sample={"n": 10**400})),
    ("`sample` of a measurement", lambda: result(sample={"n": [1]})),
    ("`curves` of a measurement", lambda: result(curves={"roc": [["0.5", "1.5"]]})),
    ("`curves` of a measurement", lambda: result(curves={"roc": [["0.5"]]})),
    ("`curves` of a measurement", lambda: result(curves={"roc": [["0.5", "0.5"]] * 1000})),
    ("`curves` of a measurement", lambda: result(curves={"roc": [[0.5, 0.5]]})),
    (
        "estimate contradicts nothing",
        lambda: result(kind="estimate", contradicted=True, verdict="contradicted"),
    ),
    ("`verdict` of a measurement", lambda: result(contradicted=True)),
    ("`verdict` of a measurement", lambda: result(verdict="contradicted")),
    ("`verdict` of a measurement", lambda: result(verdict="perhaps")),
    ("`verdict` of a measurement", lambda: result(verdict=["unusual"])),
    ("`level` of a measurement", lambda: result(level=0.0004)),
    ("`level` must be", lambda: result(level="1.5")),
    ("Its fields are not those", lambda: earlier(level="0.0004")),
    ("estimate contradicts nothing", lambda: result(kind="estimate", verdict="unusual")),
)


@pytest.mark.parametrize(("problem", "content"), FORGED)
def test_a_result_that_is_forged_or_absurd_is_a_problem_and_no_crash(
    tmp_path: Path, problem: str, content: Callable[[], Mapping[str, object]]
) -> None:
    folder = logs.small_log(tmp_path / "run")
    with LogWriter.reopen(folder) as writer:
        writer.append(AuditResult("claim", content()))
    append_results(folder, [MEASURED])
    forged, good = results_in(folder)
    assert problem in forged.problem
    assert forged.measurement is None
    assert good.measurement == MEASURED
    assert measurements_in(folder) == (MEASURED,)


@pytest.mark.parametrize("tier", ["residual", "x" * 1000, ""])
def test_a_tier_that_does_not_belong_there_is_a_problem(tier: str) -> None:
    found = result_of(AuditResult(tier, result()), 7)
    assert "does not belong in a log" in found.problem
    assert found.number == 7
    assert len(found.tier) <= 40
    assert len(found.problem) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(encoded(MEASURED))), JSON)
def test_any_value_in_any_field_is_read_or_refused(field: str, value: object) -> None:
    found = result_of(AuditResult("claim", result(**{field: value})))
    assert (found.measurement is None) == bool(found.problem)


@given(
    st.builds(
        replace,
        st.just(MEASURED),
        value=st.floats(0, math.inf),
        claimed=st.none() | st.floats(0, math.inf),
        delta=st.none() | st.floats(0, 1, exclude_max=True),
        confidence=st.floats(0.5, 0.999),
        sample=st.dictionaries(
            st.text(max_size=10),
            st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.just("a text"),
            max_size=5,
        ),
    )
)
def test_reading_gives_back_what_was_written(measurement: Measurement) -> None:
    written = encoded(measurement)
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert decoded(written) == measurement


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    measured: Any = replace(
        MEASURED,
        value=np.float64(0.5),
        contradicted=np.bool_(False),
        sample={"canaries": np.int64(3), "rate": np.float32(0.5)},
        curves={"roc": tuple(map(tuple, np.array([[0.0, 0.5], [1.0, 1.0]])))},
    )
    found = decoded(json.loads(json.dumps(encoded(measured))))
    assert (found.value, found.contradicted) == (0.5, False)
    assert found.sample == {"canaries": 3, "rate": 0.5}


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    curve = tuple((place / 9999, (place / 9999) ** 0.5) for place in range(10_000))
    found = decoded(encoded(replace(MEASURED, curves={"roc": curve}))).curves["roc"]
    assert len(found) == MAX_CURVE_POINTS
    assert (found[0], found[-1]) == (curve[0], curve[-1])
    assert set(found) <= set(curve)


def test_what_could_not_be_read_again_is_not_written(folder: Path) -> None:
    before = (folder / LOG).read_bytes()
    with pytest.raises(InvalidInput, match="`proves` of a measurement"):
        append_results(folder, [MEASURED, replace(MEASURED, proves="x" * 3000)])
    assert (folder / LOG).read_bytes() == before


def test_a_size_that_is_no_number_becomes_a_text() -> None:
    assert decoded(encoded(replace(MEASURED, sample={"n": math.nan}))).sample == {"n": "nan"}


# Beside everything else that reads a log


def test_an_unfinished_run_that_was_audited_is_resumed(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    append_results(folder, [MEASURED], sealed=[MEMBERSHIP])
    writer, progress = LogWriter.resume(folder, randomness=logs.SECURE)
    with writer:
        assert len(progress.releases) == 3
        writer.append(logs.closing())
    append_results(folder, [MEASURED])
    found = verify(folder)
    assert found.complete
    assert found.recoveries == 1
    assert len(measurements_in(folder)) == 2


OF_FEWER_ROUNDS = replace(MEASURED, claimed=1.0, value=0.5)


def test_the_budget_and_the_hazards_are_those_of_the_run(tmp_path: Path) -> None:
    folder = ledgers.written(tmp_path / "run", ledgers.weighted(rounds=4))
    before = audit_budget(folder).to_json()
    append_results(folder, [OF_FEWER_ROUNDS])
    after = audit_budget(folder).to_json()
    assert after.pop("records") == int(before.pop("records")) + 1  # type: ignore[call-overload]
    assert after.pop("head") != before.pop("head")
    assert after == before


@pytest.mark.parametrize("place", range(1, 9))
def test_a_result_may_stand_anywhere_after_the_opening(tmp_path: Path, place: int) -> None:
    folder = ledgers.written(tmp_path / "run", ledgers.weighted(rounds=3))
    before = audit_budget(folder)
    assert before.ok
    added = AuditResult("claim", encoded(OF_FEWER_ROUNDS)).to_json()

    def insert(records: list[dict[str, Any]]) -> None:
        records.insert(place, added)
        for at, record in enumerate(records):
            if record["type"] == "round.release":
                record["intent"] = at - (2 if records[at - 1] == added else 1)

    logs.rechained(folder, insert)
    assert verify(folder).complete
    after = audit_budget(folder)
    assert after.ok
    assert (after.total, after.hazards) == (before.total, before.hazards)
    assert measurements_in(folder) == (OF_FEWER_ROUNDS,)


# Crashes


def test_a_process_that_is_killed_leaves_a_log_that_takes_more(tmp_path: Path) -> None:
    """At every boundary of a write, and in the middle of it."""
    folder = logs.small_log(tmp_path / "run")
    head, size = verify(folder).head, (folder / LOG).stat().st_size
    append_results(folder, [MEASURED, MEASURED])
    whole = (folder / LOG).read_bytes()
    rng = np.random.default_rng(7)
    for cut in {size, size + 1, len(whole) - 1, *rng.integers(size, len(whole), 30).tolist()}:
        (folder / LOG).write_bytes(whole[:cut])
        found = verify(folder, expected_head=head)
        assert found.first_bad is None
        assert found.anchor is not None
        kept = len(measurements_in(folder))
        append_results(folder, [MEASURED])
        assert verify(folder, expected_head=head).complete
        assert len(measurements_in(folder)) == kept + 1


def test_a_kill_between_two_results_keeps_the_first(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    program = (
        "import os, signal, sys\n"
        "from privplan.fl.log import disk\n"
        "from privplan.audit.results import append_results, decoded, measurements_in\n"
        "import json\n"
        "real, seen = os.fsync, []\n"
        "def fsync(descriptor):\n"
        "    real(descriptor)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "disk.os.fsync = fsync\n"
        "one = decoded(json.loads(sys.argv[2]))\n"
        "append_results(sys.argv[1], [one, one])\n"
    )
    command = [sys.executable, "-c", program, str(folder), json.dumps(encoded(MEASURED))]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert verify(folder).complete
    assert measurements_in(folder) == (MEASURED,)


def test_two_auditors_at_once_add_one_after_the_other(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            done = 0
            while done < 5:
                try:
                    append_results(folder, [MEASURED])
                    done += 1
                except InvalidInput:
                    continue
                except BaseException:
                    os._exit(1)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * 4
    assert verify(folder).complete
    assert len(measurements_in(folder)) == 20


# Signed logs


def signed(folder: Path, *, close: bool = True) -> tuple[Path, Any, Any]:
    """Return a signed log, its key, and another one."""
    module = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    own, other = (module.Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
    return logs.small_log(folder, key=own, sign_every=2, close=close), own, other


def test_the_key_of_a_log_signs_what_is_added(tmp_path: Path) -> None:
    folder, own, _ = signed(tmp_path / "run")
    found = append_results(folder, [MEASURED, MEASURED], key=own)
    assert verify(folder, own.public_key()).complete
    assert [line.record.type for line in read(folder)][-4:] == ["audit.result", "head"] * 2
    assert found.head == verify(folder).head


@pytest.mark.parametrize("which", ["none", "other"])
def test_a_signed_log_takes_nothing_without_its_key(tmp_path: Path, which: str) -> None:
    folder, own, other = signed(tmp_path / "run")
    before = (folder / LOG).read_bytes()
    with pytest.raises(InvalidInput, match="signed"):
        append_results(folder, [MEASURED], key=None if which == "none" else other)
    assert (folder / LOG).read_bytes() == before
    assert verify(folder, own.public_key()).complete


def test_an_unfinished_signed_run_signs_the_result_later(tmp_path: Path) -> None:
    folder, own, other = signed(tmp_path / "run", close=False)
    append_results(folder, [MEASURED])
    append_results(folder, [MEASURED], key=own)
    with pytest.raises(InvalidInput, match="signed by another key"):
        append_results(folder, [MEASURED], key=other)
    writer, _ = LogWriter.resume(folder, randomness=logs.SECURE, key=own)
    with writer:
        writer.append(logs.closing())
    assert verify(folder, own.public_key()).complete


def test_a_run_that_is_not_signed_is_signed_once_it_is_closed(tmp_path: Path) -> None:
    _, own, _ = signed(tmp_path / "key")
    unfinished = logs.small_log(tmp_path / "unfinished", close=False)
    with pytest.raises(InvalidInput, match="nothing in it is signed yet"):
        append_results(unfinished, [MEASURED], key=own)
    closed = logs.small_log(tmp_path / "closed")
    append_results(closed, [MEASURED], key=own)
    assert verify(closed, own.public_key()).complete


def test_a_bad_signature_of_the_key_is_a_bad_line(tmp_path: Path) -> None:
    folder, own, _ = signed(tmp_path / "run")
    logs.rechained(folder, lambda all_: all_[3]["streams"][0].update(first=7))
    with pytest.raises(BadLine):
        append_results(folder, [MEASURED], key=own)
