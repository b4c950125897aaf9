"""Whatever is done to a log, `verify` names the first bad line, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import (
    KINDS,
    AuditResult,
    Evaluation,
    Fact,
    PostProcessing,
    Randomness,
    Reach,
    Record,
    RoundAbort,
    RunClose,
    RunOpen,
    RunRecover,
)
from privplan.audit.verify import verify
from privplan.fl.log import BadLine, LogWriter, decoding, read
from privplan.fl.log.hash_chain import LOG, START, canonical, chained

from ..cases import for_each
from . import logs

Change = Callable[[list[dict[str, Any]]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of three rounds: open, three times intent and release, close; eight lines."""
    return logs.small_log(tmp_path / "run")


def why(folder: Path, number: int) -> str:
    """Return what is wrong with a line, which must be the first bad one."""
    found = verify(folder)
    assert found.first_bad is not None
    assert found.first_bad[0] == number, found.first_bad
    assert found.records == number - 1
    assert found.torn is None
    assert not found.ok
    assert not found.complete
    with pytest.raises(BadLine) as caught:
        list(read(folder))
    assert (caught.value.number, caught.value.reason) == found.first_bad
    return found.first_bad[1]


def test_a_good_log_is_good(folder: Path) -> None:
    found = verify(folder)
    assert found.ok
    assert found.complete
    assert found.records == 8
    assert found.dangling == ()
    assert found.head == json.loads(logs.lines_of(folder)[-1])["hash"]
    assert found.opened == logs.opening().__class__.from_json(
        {**logs.opening().to_json(), "fsync": "never"}
    )


def test_read_gives_back_what_was_written(folder: Path) -> None:
    read_back = list(read(folder))
    assert [line.seq for line in read_back] == list(range(8))
    assert [line.number for line in read_back] == list(range(1, 9))
    assert read_back[1].record == logs.intent(1)
    assert read_back[7].record == logs.closing()
    assert [line.prev for line in read_back] == [START, *(line.hash for line in read_back[:-1])]


def test_parts_that_are_remembered_are_those_that_are_decoded(folder: Path) -> None:
    for line, text in zip(read(folder), logs.lines_of(folder), strict=True):
        source = json.loads(text)
        for name in ("seq", "prev", "hash"):
            del source[name]
        slowly = type(line.record).from_json(source)
        assert line.record == slowly
        assert type(line.record) is type(slowly)


def test_lines_with_and_without_later_fields_take_the_short_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand lines of rounds are read in a second because they do."""

    def slowly(*_: object) -> Record:
        raise AssertionError("the long way")

    monkeypatch.setattr(decoding, "_slowly", slowly)
    intent, release = logs.intent(1), logs.release(1, 1)
    reaching = replace(intent, reaches={"server": Reach("each", knows_sample=True)})
    stateful = replace(release, state_out="d" * 64)
    decoder = decoding.Decoder()
    for record in (intent, reaching, intent, release, stateful, release):
        assert decoder.record(record.to_json()) == record


@for_each("later", ["reaches", "state_out"])
def test_a_later_field_that_says_null_is_not_written_as_a_log_writes_it(later: str) -> None:
    record = logs.intent(1) if later == "reaches" else logs.release(1, 1)
    source = record.to_json()
    assert later not in source
    with pytest.raises(InvalidInput, match="not written as a log writes it"):
        decoding.Decoder().record({**source, later: None})


def test_neither_way_reads_a_line_that_lacks_a_field_or_has_another() -> None:
    source = logs.intent(1).to_json()
    for name in source.keys() - {"type"}:
        with pytest.raises(InvalidInput, match=f"lacks the field `{name}`"):
            decoding.Decoder().record({key: source[key] for key in source if key != name})
    for strange in ({**source, "other": 1}, {**source, "state_out": "d" * 64}):
        with pytest.raises(InvalidInput, match="unknown field"):
            decoding.Decoder().record(strange)


def test_the_short_way_skips_no_check_of_a_constructor() -> None:
    # Kinds with checks of their own take the long way; this notices when there are some.
    own = [kind for kind in KINDS.values() if kind.__post_init__ is not Fact.__post_init__]
    assert own == []


@pytest.mark.parametrize("at", range(8))
def test_a_removed_line_is_missed(folder: Path, at: int) -> None:
    lines = logs.lines_of(folder)
    logs.write_lines(folder, lines[:at] + lines[at + 1 :])
    if at == 7:
        found = verify(folder)
        assert found.ok
        assert not found.complete
    else:
        assert f"`seq` is {at + 1} where {at} belongs: lines were removed" in why(folder, at + 1)


@pytest.mark.parametrize("at", range(7))
def test_exchanged_lines_are_noticed(folder: Path, at: int) -> None:
    lines = logs.lines_of(folder)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    logs.write_lines(folder, lines)
    assert "moved" in why(folder, at + 1)


@pytest.mark.parametrize("at", range(8))
def test_a_repeated_line_is_noticed(folder: Path, at: int) -> None:
    lines = logs.lines_of(folder)
    logs.write_lines(folder, [*lines[: at + 1], *lines[at:]])
    assert f"`seq` is {at} where {at + 1} belongs: a line is repeated" in why(folder, at + 2)


@pytest.mark.parametrize("at", range(8))
def test_an_edited_line_is_noticed(folder: Path, at: int) -> None:
    lines = logs.lines_of(folder)
    changed = json.loads(lines[at])
    name = next(name for name in ("run_id", "phase", "aggregate", "engine") if name in changed)
    changed[name] = "another"
    lines[at] = canonical(changed)
    logs.write_lines(folder, lines)
    assert "so the line was edited" in why(folder, at + 1)


@pytest.mark.parametrize("at", range(1, 8))
def test_an_inserted_line_is_noticed(folder: Path, at: int) -> None:
    lines = logs.lines_of(folder)
    prev = json.loads(lines[at - 1])["hash"]
    extra = Evaluation(1, "declared-public", {"accuracy": "0.5"})
    lines.insert(at, chained(extra.to_json(), at, prev)[0])
    logs.write_lines(folder, lines)
    assert "a line is repeated or moved" in why(folder, at + 2)


@pytest.mark.parametrize("at", range(7))
def test_an_exchanged_line_breaks_the_next(folder: Path, at: int) -> None:
    lines = logs.lines_of(folder)
    line = json.loads(lines[at])
    seq, prev = line.pop("seq"), line.pop("prev")
    del line["hash"]
    name = next(name for name in ("run_id", "phase", "aggregate") if name in line)
    line[name] = "d" * 64
    lines[at] = chained(line, seq, prev)[0]
    logs.write_lines(folder, lines)
    assert "`prev` is not the hash of the line before" in why(folder, at + 2)


def test_every_flipped_byte_is_noticed(folder: Path) -> None:
    data = bytearray((folder / LOG).read_bytes())
    for at in range(0, len(data), 3):
        original = data[at]
        data[at] = original ^ (1 + at % 127)
        (folder / LOG).write_bytes(data)
        assert not verify(folder).ok, at
        data[at] = original


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"seq":1,', '"seq": 1,'),
        ('"seq":1,', '"seq":1,"seq":1,'),
        ('"type":"round.intent"', '"type":"round\\u002eintent"'),
        ("\n", "\r\n"),
        ("\n", " \n"),
        ("\n", "\n\n"),
    ],
)
def test_other_spellings_of_a_line_are_refused(folder: Path, old: str, new: str) -> None:
    whole = (folder / LOG).read_bytes().decode()
    first, rest = whole.split("\n", 1)
    (folder / LOG).write_bytes(f"{first}\n{rest.replace(old, new, 1)}".encode())
    if new == "\n\n":
        assert why(folder, 3) == "it is not JSON"
    else:
        assert why(folder, 2) == "it is not in canonical form"


@pytest.mark.parametrize(
    ("change", "number", "reason"),
    [
        (lambda all_: all_[1].update(event={**all_[1]["event"], "rate": 1}), 2, "not written as"),
        (lambda all_: all_[1].update(type="round.intents"), 2, "Did you mean `round.intent`"),
        (lambda all_: all_[1].update(colour="red"), 2, "unknown field `colour`"),
        (lambda all_: all_[1].pop("phase"), 2, "lacks the field `phase`"),
        (lambda all_: all_[1]["noise"].update(stdd="5.0"), 2, "unknown field `stdd`"),
        (lambda all_: all_[1]["noise"].update(std=5.0), 2, "decimal string"),
        (lambda all_: all_[1]["noise"].update(std="5"), 2, "shortest decimal form"),
        (lambda all_: all_[1]["noise"].update(std="NaN"), 2, "decimal"),
        (lambda all_: all_[1].update(round=True), 2, "must be an integer"),
        (lambda all_: all_[1].update(round=-1), 2, "integer from 0"),
        (lambda all_: all_[1].update(phase=None), 2, "type str"),
        (lambda all_: all_[1].update(event=canonical(all_[1]["event"])), 2, "not written as"),
        (lambda all_: all_[2]["streams"][0].update(first=1.0), 3, "must be an integer"),
        (lambda all_: all_[2]["streams"][0].update(more=1), 3, "unknown field `more`"),
        (lambda all_: all_[2]["sealed"].update(batch=17), 3, "type str"),
        (lambda all_: all_[0].update(schema="privplan-log/2"), 1, "written as `privplan-log/2`"),
        (lambda all_: all_.pop(0), 1, "`round.intent` stands before `run.open`"),
        (lambda all_: all_.insert(1, all_[0]), 2, "a second `run.open`"),
        (lambda all_: all_[2].update(intent=9), 3, "no earlier line is an intent with `seq` 9"),
        (lambda all_: all_[2].update(intent=0), 3, "no earlier line is an intent with `seq` 0"),
        (lambda all_: all_[2].update(intent=3, round=2), 3, "no earlier line is an intent"),
        (lambda all_: all_[2].update(round=2), 3, "its intent is of round 1, not 2"),
        (lambda all_: all_[4].update(intent=1), 5, "its intent is of round 1, not 2"),
        (lambda all_: all_.insert(3, all_[2]), 4, "`seq` 1 is already released"),
        (lambda all_: all_.append(all_[1]), 9, "`round.intent` stands after `run.close`"),
        (lambda all_: all_.append(all_[7]), 9, "`run.close` stands after `run.close`"),
    ],
)
def test_a_chain_that_was_built_anew_must_still_make_sense(
    folder: Path, change: Change, number: int, reason: str
) -> None:
    logs.rechained(folder, change)
    assert reason in why(folder, number)


def appended(record: Any) -> Change:
    """Put a record before the close."""
    return lambda all_: all_.insert(-1, record.to_json())


def recover(*dangling: int) -> RunRecover:
    """Return a recovery that names dangling intents."""
    return RunRecover(0, dangling, 4, Randomness("operating-system"))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (RoundAbort(4, None, "refused"), None),
        (RoundAbort(1, 1, "error"), "already released"),
        (RoundAbort(1, 2, "error"), "no earlier line"),
        (recover(), None),
        (recover(1), "`dangling` is not the list"),
        (AuditResult("claim", {"epsilon": "1.0"}), None),
    ],
)
def test_rules_for_single_records(folder: Path, record: Any, reason: str | None) -> None:
    logs.rechained(folder, appended(record))
    if reason is None:
        assert verify(folder).complete
    else:
        assert reason in why(folder, 8)


def test_an_aborted_intent_is_not_released(folder: Path) -> None:
    logs.rechained(folder, lambda all_: all_.insert(2, RoundAbort(1, 1, "error").to_json()))
    assert "is aborted" in why(folder, 4)


def test_an_intent_that_was_cut_off_is_not_released(folder: Path) -> None:
    logs.rechained(folder, lambda all_: all_.insert(2, recover(1).to_json()))
    assert "was cut off before a recovery" in why(folder, 4)


def test_a_dangling_intent_is_named(folder: Path) -> None:
    logs.rechained(folder, lambda all_: all_.pop(6))
    found = verify(folder)
    assert found.complete
    assert found.dangling == (5,)


def test_audit_results_may_follow_the_close(folder: Path) -> None:
    result = AuditResult("residual", {"passed": "sealed"})
    logs.rechained(folder, lambda all_: all_.append(result.to_json()))
    found = verify(folder)
    assert found.complete
    assert found.records == 9


def test_a_log_without_a_close_is_not_complete_and_not_bad(tmp_path: Path) -> None:
    found = verify(logs.small_log(tmp_path / "run", close=False))
    assert found.ok
    assert not found.complete


def test_an_empty_log_is_not_complete_and_not_bad(tmp_path: Path) -> None:
    LogWriter.create(tmp_path / "run").close()
    found = verify(tmp_path / "run")
    assert (found.records, found.head, found.complete, found.ok) == (0, None, False, True)


@pytest.mark.parametrize("tail", [b"{", b'{"a":', b"\0\0\0\0", b"{oops}\n", b"\xff\n", b'"x'])
def test_a_torn_last_line_is_torn_and_not_bad(folder: Path, tail: bytes) -> None:
    with (folder / LOG).open("ab") as file:
        file.write(tail)
    found = verify(folder)
    assert found.torn is not None
    assert (found.torn.number, found.torn.size) == (9, len(tail))
    assert found.first_bad is None
    assert found.records == 8
    assert not found.ok
    assert not found.complete
    assert len(list(read(folder))) == 8


@pytest.mark.parametrize("line", ["{", "", "\0\0"])
def test_the_same_elsewhere_is_corruption(folder: Path, line: str) -> None:
    lines = logs.lines_of(folder)
    lines[4] = line
    logs.write_lines(folder, lines)
    assert why(folder, 5) == "it is not JSON"


@pytest.mark.parametrize("line", ["null", "1", "[]", '"text"', "{}", "[" * 100_000])
def test_lines_that_are_no_records(folder: Path, line: str) -> None:
    lines = logs.lines_of(folder)
    logs.write_lines(folder, [*lines[:3], line, *lines[3:]])
    assert why(folder, 4)


def test_a_line_that_is_too_long_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privplan.fl.log.reader.LONGEST", 600)
    assert "longer than 600 bytes" in why(folder, 1)


@pytest.mark.parametrize("key", ["type", "z"])
def test_a_name_without_end_does_not_fill_the_message(folder: Path, key: str) -> None:
    name = "evaluatiox" * 10_000
    change = {key: name} if key == "type" else {name: 1}
    logs.rechained(folder, lambda all_: all_[3].update(change))
    assert len(why(folder, 4)) < 300


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(at=st.integers(0, 7), value=JSON, data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_any_value_anywhere_is_read_or_refused_but_never_crashes(
    folder: Path, at: int, value: object, data: st.DataObject
) -> None:
    before = (folder / LOG).read_bytes()

    def change(records: list[dict[str, Any]]) -> None:
        place: Any = records[at]
        while True:
            name = data.draw(st.sampled_from(sorted(place)))
            if not isinstance(place[name], dict) or not place[name] or data.draw(st.booleans()):
                break
            place = place[name]
        place[name] = value

    try:
        logs.rechained(folder, change)
        found = verify(folder)
        assert found.torn is None
        assert found.first_bad is None or found.first_bad[1]
    finally:
        (folder / LOG).write_bytes(before)


def test_lines_cut_off_at_the_end_are_missed_by_an_anchor(folder: Path) -> None:
    head = verify(folder).head
    assert head is not None
    assert verify(folder, expected_head=head).anchor == 8
    logs.write_lines(folder, logs.lines_of(folder)[:-2])
    assert verify(folder).ok
    found = verify(folder, expected_head=head)
    assert not found.ok
    assert found.first_bad is None
    assert found.anchor is None
    assert "lines were cut off, or it is another log" in str(found.problem)


def test_an_anchor_taken_earlier_still_holds(folder: Path) -> None:
    head = json.loads(logs.lines_of(folder)[4])["hash"]
    found = verify(folder, expected_head=head)
    assert found.complete
    assert found.anchor == 5


def test_a_log_that_was_written_anew_is_found_by_its_anchor(folder: Path) -> None:
    head = verify(folder).head
    logs.rechained(folder, lambda all_: all_[1]["noise"].update(std="9.0"))
    assert verify(folder).ok
    assert not verify(folder, expected_head=head).ok


@pytest.mark.parametrize("head", ["", "abc", "A" * 64, "g" * 64, "0" * 65, "0" * 31])
def test_an_anchor_must_be_a_hash(folder: Path, head: str) -> None:
    with pytest.raises(InvalidInput, match="32 to 64 hexadecimal digits"):
        verify(folder, expected_head=head)


@pytest.mark.parametrize("digits", [32, 33, 63, 64])
def test_the_first_digits_of_a_head_are_enough(folder: Path, digits: int) -> None:
    head = verify(folder).head or ""
    found = verify(folder, expected_head=head[:digits])
    assert found.ok
    assert found.anchor == found.records
    assert found.checked == "chain and head"
    other = head[: digits - 1] + ("0" if head[digits - 1] != "0" else "1")
    missed = verify(folder, expected_head=other)
    assert not missed.ok
    assert missed.checked == "chain only"


def test_where_there_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="no folder"):
        verify(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match=r"holds no log\.jsonl"):
        verify(tmp_path)
    with pytest.raises(InvalidInput, match="not a folder"):
        verify(tmp_path / "file")


def test_kinds_of_the_vocabulary_are_all_readable(tmp_path: Path) -> None:
    # Every kind in one log, so that no field of any of them is unreadable.
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(logs.opening())
        seq = writer.append(logs.intent(1))
        writer.append(RoundAbort(1, seq, "error"))
        writer.append(Evaluation(1, "private", {"loss": "0.5"}, logs.EVENT))
    writer, _ = LogWriter.resume(tmp_path / "run", randomness=Randomness("seeded"))
    with writer:
        logs.rounds_of(writer, range(2, 4))
        writer.append(AuditResult("claim", {"nested": {"numbers": [1, 2.5, None, True]}}))
        writer.append(PostProcessing(6, "ridge", {"nested": [0.5, None]}, "a" * 64))
        writer.append(RunClose(2, "stopped", {}, {"model": float("inf")}, 1e-5, "pld", "a" * 64))
    found = verify(tmp_path / "run")
    assert found.complete
    assert found.recoveries == 1
    assert found.dangling == (1,)
    kinds = {type(line.record) for line in read(tmp_path / "run")}
    assert {kind.__name__ for kind in set(KINDS.values()) - kinds} == {"Head"}
    assert RunOpen in kinds
