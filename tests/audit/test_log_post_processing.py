"""What was computed later of a release: one line of a log, closed or not, at no cost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput, LogBroken
from privplan.accountant.records import PostProcessing, RoundRelease
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.ledger.entries import Entry, Ledger
from privplan.audit.verify import verify
from privplan.fl.log import BadLine, LogWriter, append_post_processing, read
from privplan.fl.log import append_file as append_module
from privplan.fl.log.hash_chain import LOG

from ..cases import for_each
from . import ledgers, logs
from .grams import gram_log, noisy

DIGEST = hashlib.sha256(b"a fit").hexdigest()
SETTINGS = {"ridge": "0.5", "components": 3, "labels": ["a", "b"], "by": {"rule": None}}


def _release(folder: Path) -> int:
    """Return the `seq` of the first release."""
    return next(line.seq for line in read(folder) if isinstance(line.record, RoundRelease))


def _derived(folder: Path) -> list[PostProcessing]:
    return [line.record for line in read(folder) if isinstance(line.record, PostProcessing)]


def test_a_log_closed_or_not_takes_what_was_computed_of_a_release(folder: Path) -> None:
    complete, head = verify(folder).complete, verify(folder).head
    of = _release(folder)
    seq = append_post_processing(folder, of, "ridge", SETTINGS, DIGEST)
    assert append_post_processing(folder, of, "ridge", {}, DIGEST) == seq + 1
    verified = verify(folder, expected_head=head)
    assert verified.complete is complete
    assert verified.records == seq + 2
    assert verified.up_to == seq  # whatever was kept of the log before still holds
    assert _derived(folder) == [
        PostProcessing(of, "ridge", SETTINGS, DIGEST),
        PostProcessing(of, "ridge", {}, DIGEST),
    ]
    assert edits_of(folder) == ()


@for_each(
    "records",
    [lambda: ledgers.weighted(4), lambda: ledgers.weighted(4)[:-1], lambda: gram_log(noisy())],
    ids=["rounds", "not closed", "a Gram matrix"],
)
def test_it_costs_nothing(tmp_path: Path, records: Callable[[], ledgers.Records]) -> None:
    folder = ledgers.written(tmp_path / "run", records())
    before = audit_budget(folder).to_json()
    assert before["derived"] == 0
    for number in (1, 2):
        append_post_processing(folder, _release(folder), "ridge", SETTINGS, DIGEST)
        after = audit_budget(folder).to_json()
        assert after["derived"] == number
        changed = {"records", "head", "derived"}
        assert {name for name in before if before[name] != after[name]} == changed


@for_each("of", [0, 1, 7, 8, 99])
def test_it_names_a_release_that_stands_before(tmp_path: Path, of: int) -> None:
    """Neither the opening, nor an intent, the close, itself, or what is not there."""
    folder = logs.small_log(tmp_path / "run")
    size = (folder / LOG).stat().st_size
    with pytest.raises(InvalidInput, match=f"`of` is {of}, and no earlier line"):
        append_post_processing(folder, of, "ridge", {}, DIGEST)
    assert (folder / LOG).stat().st_size == size


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"of": -1}, "`of`"),
        ({"of": True}, "`of`"),
        ({"of": "2"}, "`of`"),
        ({"what": ""}, "`what`"),
        ({"what": "x" * 201}, "`what`"),
        ({"what": "two\nlines"}, "`what`"),
        ({"what": 7}, "`what`"),
        ({"settings": [1]}, "`settings`"),
        ({"settings": None}, "`settings`"),
        ({"settings": {"x": float("nan")}}, "cannot stand in JSON"),
        ({"settings": {"x": object()}}, "cannot stand in JSON"),
        ({"settings": {"x": {2: "a", 10: "b"}}}, "does not read back"),
        ({"settings": {"x": "y" * 2**16}}, "are the most"),
        ({"values": "ridge"}, "`values`"),
        ({"values": DIGEST.upper()}, "`values`"),
        ({"values": b"a fit"}, "`values`"),
    ],
)
def test_what_cannot_be_so_is_refused_before_anything_is_written(
    folder: Path, arguments: dict[str, Any], said: str
) -> None:
    bytes_before = (folder / LOG).read_bytes()
    given = {"of": _release(folder), "what": "ridge", "settings": {}, "values": DIGEST}
    with pytest.raises(InvalidInput, match=said):
        append_post_processing(folder, **{**given, **arguments})
    assert (folder / LOG).read_bytes() == bytes_before


FORGED: dict[str, dict[str, Any]] = {
    "of an intent": {"of": 1},
    "of the opening": {"of": 0},
    "of a later line": {"of": 9},
    "of nothing": {"of": 10**6},
    "of another digest": {"values": "abc"},
    "of digits in upper case": {"values": DIGEST.upper()},
    "with a field more": {"epsilon": "0.1"},
    "with a cost": {"event": {"type": "pure", "epsilon": "1.0"}},
}


@for_each("name", list(FORGED))
def test_a_forged_line_is_a_bad_line(tmp_path: Path, name: str) -> None:
    folder = logs.small_log(tmp_path / "run")
    append_post_processing(folder, 2, "ridge", {}, DIGEST)
    logs.rechained(folder, lambda records: records[-1].update(FORGED[name]))
    verified = verify(folder)
    assert verified.first_bad is not None
    assert verified.first_bad[0] == verified.records + 1 == 9
    with pytest.raises(BadLine):
        append_post_processing(folder, 2, "ridge", {}, DIGEST)
    assert not audit_budget(folder).ok


@for_each("place", [1, 2])
def test_it_does_not_stand_before_its_release(tmp_path: Path, place: int) -> None:
    folder = logs.small_log(tmp_path / "run", rounds=1)
    added = PostProcessing(2 if place == 1 else 3, "ridge", {}, DIGEST).to_json()

    def insert(records: list[dict[str, Any]]) -> None:
        records.insert(place, added)
        records[place + (1 if place == 2 else 2)]["intent"] = 1 if place == 2 else 2

    logs.rechained(folder, insert)
    found = verify(folder).first_bad
    assert found is not None
    assert found[0] == place + 1


def test_of_a_release_that_was_cut_out_it_is_a_bad_line(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    append_post_processing(folder, 6, "ridge", {}, DIGEST)

    def cut(records: list[dict[str, Any]]) -> None:
        del records[5:7]

    logs.rechained(folder, cut)
    assert verify(folder).first_bad is not None


def test_a_torn_line_is_dropped_behind_a_close_and_kept_before_one(folder: Path) -> None:
    complete = verify(folder).complete
    with (folder / LOG).open("ab") as file:
        file.write(b'{"type":"post-proc')
    bytes_before = (folder / LOG).read_bytes()
    if complete:
        seq = append_post_processing(folder, 2, "ridge", {}, DIGEST)
        assert verify(folder).complete
        assert verify(folder).records == seq + 1
        return
    with pytest.raises(InvalidInput, match="was cut off"):
        append_post_processing(folder, 2, "ridge", {}, DIGEST)
    assert (folder / LOG).read_bytes() == bytes_before


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    folder = ledgers.written(tmp_path / "run", ledgers.weighted(2))
    size = (folder / LOG).stat().st_size
    append_post_processing(folder, 2, "ridge", {}, DIGEST)
    whole = (folder / LOG).read_bytes()
    for cut in range(size, len(whole), 23):
        (folder / LOG).write_bytes(whole[:cut])
        assert audit_budget(folder).derived == 0
    (folder / LOG).write_bytes(whole)
    assert audit_budget(folder).derived == 1


def test_a_disk_that_fails_leaves_no_line_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = logs.small_log(tmp_path / "run")
    monkeypatch.setattr(append_module.os, "fsync", logs.lost)
    with pytest.raises(LogBroken):
        append_post_processing(folder, 2, "ridge", {}, DIGEST)


def test_another_process_that_writes_is_waited_for_by_nobody(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    with (
        LogWriter.reopen(folder),
        pytest.raises(InvalidInput, match="another process"),
    ):
        append_post_processing(folder, 2, "ridge", {}, DIGEST)


def test_what_reopens_a_log_adds_nothing_else(folder: Path) -> None:
    with (
        LogWriter.reopen(folder) as writer,
        pytest.raises(InvalidInput, match="nothing that an audit adds"),
    ):
        writer.append(logs.release(3, 5))


def test_a_run_may_add_it_itself_and_goes_on(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    append_post_processing(folder, 2, "ridge", {}, DIGEST)
    writer, progress = LogWriter.resume(folder, randomness=logs.SECURE)
    with writer:
        assert len(progress.releases) == 3
        writer.append(PostProcessing(4, "components", {}, DIGEST))
        writer.append(logs.closing())
    assert verify(folder).complete
    assert [record.what for record in _derived(folder)] == ["ridge", "components"]


def test_a_signed_log_takes_it_under_its_own_key_alone(tmp_path: Path) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key, other = (
        ed25519.Ed25519PrivateKey.from_private_bytes(bytes([byte]) * 32) for byte in (1, 2)
    )
    folder = logs.small_log(tmp_path / "run", key=key)
    for wrong in (None, other):
        with pytest.raises(InvalidInput, match="signed"):
            append_post_processing(folder, 2, "ridge", {}, DIGEST, key=wrong)
    append_post_processing(folder, 2, "ridge", {}, DIGEST, key=key)
    verified = verify(folder, key.public_key())
    assert verified.complete
    assert verified.signed == verified.records - 1
    unsigned = logs.small_log(tmp_path / "other")
    append_post_processing(unsigned, 2, "ridge", {}, DIGEST)
    assert verify(unsigned).complete


def test_the_ledger_keeps_it_apart_from_what_was_spent() -> None:
    records = ledgers.weighted(2)
    added = PostProcessing(2, "ridge", {}, DIGEST)
    plain, more = (
        Ledger.of(Entry(seq + 1, seq, record) for seq, record in enumerate(lines))
        for lines in (records, [*records, added])
    )
    assert more.derived == ((7, added),)
    assert replace(more, derived=(), records=plain.records) == plain
