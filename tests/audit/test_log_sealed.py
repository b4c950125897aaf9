"""The sealed sidecar: commitments bind, and hide even what has few possible values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.log import LogWriter, Sidecar, commitment
from privplan.fl.log.hash_chain import SEALED, canonical

from ..cases import for_each
from . import logs

ITEMS: Mapping[str, object] = {
    "batch": 17,
    "norms": [0.25, float("nan"), float("-inf")],
    "passed": True,
    "none": None,
    "users": {"drawn": np.array([3, 5]), "rate": np.float32(0.5), "count": np.int64(2)},
    "digest": b"\x00\xff",
}


def test_what_is_sealed_is_opened_again(writer: LogWriter) -> None:
    commitments = writer.seal(ITEMS)
    sealed = Sidecar.read(writer.folder)
    assert [item.name for item in sealed.items] == list(ITEMS)
    values = {item.name: item.value for item in sealed.items}
    assert values == {
        "batch": 17,
        "norms": ["0.25", "nan", "-inf"],
        "passed": True,
        "none": None,
        "users": {"drawn": [3, 5], "rate": "0.5", "count": 2},
        "digest": "00ff",
    }
    for name, value in commitments.items():
        item = sealed.opening(value)
        assert item is not None
        assert item.name == name
        assert item.after == 0
        text = canonical({"name": name, "value": item.value, "blind": item.blind})
        assert hashlib.sha256(text.encode()).hexdigest() == value
    assert sealed.opening("0" * 64) is None


def test_commitments_have_one_length_and_never_repeat(writer: LogWriter) -> None:
    seen = [writer.seal({"batch": 17})["batch"] for _ in range(20)]
    seen += writer.seal({"batch": list(range(1000))}).values()
    assert {len(one) for one in seen} == {64}
    assert len(set(seen)) == len(seen)
    blinds = [item.blind for item in Sidecar.read(writer.folder).items]
    assert {len(blind) for blind in blinds} == {64}
    assert len(set(blinds)) == len(blinds)


def test_few_possible_values_cannot_be_guessed(writer: LogWriter) -> None:
    shown = writer.seal({"batch": 17, "passed": True})
    guesses: list[object] = [*range(200), True, False, None, *(str(one) for one in range(200))]
    tried = set()
    for name in ("batch", "passed", ""):
        for value in guesses:
            for body in (
                {"name": name, "value": value},
                {"value": value},
                {"name": name, "value": value, "blind": ""},
                {"name": name, "value": value, "blind": "0" * 64},
                value,
            ):
                tried.add(hashlib.sha256(canonical(body).encode()).hexdigest())
                tried.add(hashlib.sha256(repr(body).encode()).hexdigest())
    assert not tried & set(shown.values())
    item = Sidecar.read(writer.folder).items[0]
    assert commitment("batch", 17, item.blind) == shown["batch"]  # the blind is what was missing


def test_the_log_shows_nothing_of_it(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    text = "\n".join(logs.lines_of(folder))
    for item in Sidecar.read(folder).items:
        assert item.blind not in text
        assert str(item.value) not in {one for line in text.splitlines() for one in leaves(line)}


def leaves(line: str) -> list[str]:
    """Return the values in a line that are neither places nor parameters."""
    found = json.loads(line)
    return [str(found[name]) for name in found if name not in ("seq", "round", "intent")]


@for_each("name", ["name", "value", "blind", "commitment"])
def test_an_edited_item_is_refused(tmp_path: Path, name: str) -> None:
    folder = logs.small_log(tmp_path / "run")
    lines = (folder / SEALED).read_text().splitlines()
    item = json.loads(lines[1])
    item[name] = {"name": "other", "value": 18}.get(name, "0" * 64)
    lines[1] = canonical(item)
    (folder / SEALED).write_text("\n".join(lines) + "\n")
    with pytest.raises(InvalidInput, match=r"Line 2 of .* does not fit its commitment") as caught:
        Sidecar.read(folder)
    assert "19" not in str(caught.value).replace(str(tmp_path), "")  # whose number may hold it


@for_each("line", ["", "{}", "null", "{", "[1]", '{"name": 1}', "\xff"])
def test_what_is_no_item_is_refused(tmp_path: Path, line: str) -> None:
    folder = logs.small_log(tmp_path / "run")
    with (folder / SEALED).open("a", encoding="latin-1") as file:
        file.write(line + "\n")
    with pytest.raises(InvalidInput, match=r"Line 4 of .* is not an item"):
        Sidecar.read(folder)


def test_every_commitment_of_the_log_opens(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    sealed = Sidecar.read(folder)
    assert len(sealed.items) == 3
    assert sealed.unopened(folder) == ()


def resealed(folder: Path, change: Any) -> None:
    """Change the items of a sidecar."""
    items = [json.loads(line) for line in (folder / SEALED).read_text().splitlines()]
    change(items)
    for item in items:
        item["commitment"] = commitment(item["name"], item["value"], item["blind"])
    (folder / SEALED).write_text("".join(canonical(item) + "\n" for item in items))


@for_each(
    ("change", "why"),
    [
        (lambda items: items.pop(1), "not in the sidecar"),
        (lambda items: items[1].update(value=99), "not in the sidecar"),
        (lambda items: items[1].update(after=7), "after the line was written"),
    ],
)
def test_a_commitment_that_does_not_open_is_named(tmp_path: Path, change: Any, why: str) -> None:
    folder = logs.small_log(tmp_path / "run")
    resealed(folder, change)
    (found,) = Sidecar.read(folder).unopened(folder)
    assert found.number == 5
    assert found.name == "batch"
    assert why in found.why


def test_an_item_under_another_name_does_not_open(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(logs.opening())
        seq = writer.append(logs.intent(1))
        shown = writer.seal({"norm": 3})
        writer.append(logs.release(1, seq, {"batch": shown["norm"]}))
    (found,) = Sidecar.read(tmp_path / "run").unopened(tmp_path / "run")
    assert found.why == "it was sealed as `norm`"


@pytest.mark.parametrize("value", [object(), {1: 2}, 1j, lambda: 0])
def test_what_is_not_json_is_refused_without_showing_it(writer: LogWriter, value: object) -> None:
    before = (writer.folder / SEALED).read_bytes()
    with pytest.raises(InvalidInput, match="`secret` cannot be sealed") as caught:
        writer.seal({"fine": 1, "secret": value})
    assert repr(value) not in str(caught.value)
    assert (writer.folder / SEALED).read_bytes() == before
    writer.append(logs.intent(1))  # nothing was written, so nothing is broken


def test_sealing_nothing_writes_nothing(writer: LogWriter) -> None:
    assert writer.seal({}) == {}
    assert (writer.folder / SEALED).read_bytes() == b""


def test_values_do_not_show_in_messages(writer: LogWriter) -> None:
    writer.seal({"batch": 123456})
    assert "123456" not in repr(Sidecar.read(writer.folder))


def test_without_a_sidecar_nothing_opens(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        Sidecar.read(tmp_path)


@for_each("tail", [b"\0" * 40, b"\0" * 40 + b"\n", b'{"name"', b'{"na\0\0\n\0\0'])
def test_an_end_that_a_failing_machine_left_is_torn(tmp_path: Path, tail: bytes) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    path = folder / SEALED
    before = path.read_bytes()
    path.write_bytes(before + tail)
    assert Sidecar.read(folder).torn == len(tail)
    writer, _ = LogWriter.resume(folder, randomness=logs.SECURE)
    writer.close()
    assert path.read_bytes() == before


def test_a_hole_in_the_middle_is_no_torn_end(tmp_path: Path) -> None:
    path = logs.small_log(tmp_path / "run", close=False) / SEALED
    first, rest = path.read_bytes().split(b"\n", 1)
    assert rest
    path.write_bytes(b"\0" * len(first) + b"\n" + rest)
    with pytest.raises(InvalidInput, match="Line 1 of"):
        Sidecar.read(path.parent)
