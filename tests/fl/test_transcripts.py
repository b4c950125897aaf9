"""Transcripts in files: what is no message is refused, and nothing of it is quoted."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.parties.network import Message, Network
from privplan.fl.parties.transcripts import FOLDER, append_transcripts, read_transcript

from ..cases import for_each

GOOD: dict[str, Any] = {
    "session": "00ff",
    "round": 1,
    "kind": "kind",
    "sender": "b",
    "body": "QUJD",
}


def written(folder: Path, line: bytes) -> Path:
    (folder / FOLDER).mkdir()
    path = folder / FOLDER / "a.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + line + b"\n")
    return path


def changed(**fields: Any) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    sent = [Message(b"session", 3, "kind", sender, "a", bytes(5)) for sender in ("b", "c", "b")]
    network = Network(["a", "b", "c"], keep=True)
    for part in (sent[:1], sent[1:], []):
        for one in part:
            network.deliver(one)
        append_transcripts(tmp_path, network)
    assert list(read_transcript(tmp_path, "a")) == sent
    assert not (tmp_path / FOLDER / "b.jsonl").exists()


def test_transcripts_of_a_folder_that_was_copied_are_their_owners_again(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(GOOD).encode())
    path.chmod(0o644)
    path.parent.chmod(0o755)
    network = Network(["a", "b"], keep=True)
    network.deliver(Message(b"session", 1, "kind", "b", "a", bytes(5)))
    append_transcripts(tmp_path, network)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]


@for_each("torn", [b"{", json.dumps(GOOD).encode(), b"x" * 200_000])
@for_each("before", [True, False])
def test_a_line_that_was_cut_off_takes_no_other_with_it(
    tmp_path: Path, torn: bytes, before: bool
) -> None:
    path = written(tmp_path, torn)
    whole = json.dumps(GOOD).encode() + b"\n"
    path.write_bytes(whole * before + torn)
    network = Network(["a", "b"], keep=True)
    sent = [Message(b"session", number, "kind", "b", "a", bytes(5)) for number in (1, 2)]
    for one in sent:
        network.deliver(one)
    append_transcripts(tmp_path, network)
    assert list(read_transcript(tmp_path, "a"))[int(before) :] == sent


@for_each(
    "line",
    [
        *(b"\xff\xfe", changed(body="SECRET\u00e9"), changed(body="SECRET"), changed(body=5)),
        *(changed(round=1.5), changed(round=True), changed(round="1")),
        *(changed(round=1).replace(b": 1,", b": 1e999,"), changed(kind=5), changed(sender=None)),
        *(changed(session="SECRET"), changed()[:-5], b"[]", b"null", b'"SECRET"'),
        *(b"[" * 100_000, b""),
    ],
)
def test_a_line_that_is_no_message_is_refused_and_not_quoted(tmp_path: Path, line: bytes) -> None:
    written(tmp_path, line)
    found = read_transcript(tmp_path, "a")
    assert next(found).body == b"ABC"
    with pytest.raises(InvalidInput, match="Line 2 of the transcript of 'a'") as caught:
        next(found)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
