"""Which reader a file is for, what is refused before it is read, and what is never done."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.description.run_description import Reading
from privplan.audit.readers import recognition
from privplan.audit.readers.torch_archive import LEGACY_MAGIC, LEGACY_PROTOCOL
from privplan.fl.log.hash_chain import START, chained

from .reader_samples import OPAKE_STATE, SAMPLES, archive_of, flower_state, svt_budget

FORMATS = {
    "flower": "Flower accountant state",
    "nvflare": "NVFlare budget of the sparse vector filter",
    "opake": "opake accountant state",
    "diffprivlib": "diffprivlib budget",
    "diffprivlib printed": "diffprivlib budget",
    "csv": "CSV history",
    "csv of phases": "CSV history",
    "jsonl": "JSONL history",
    "log": "training log",
    "configuration": "configuration",
    "configuration as JSON": "configuration",
}

LISTED = (*recognition.LIBRARY_FORMATS, *recognition.GENERAL_FORMATS)


def exists(module: str) -> bool:
    return importlib.util.find_spec(f"privplan.audit.readers.{module}") is not None


@pytest.fixture(autouse=True)
def _only_readers_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    present = tuple(module for module in recognition.LIBRARY_FORMATS if exists(module))
    monkeypatch.setattr(recognition, "LIBRARY_FORMATS", present)


@pytest.mark.parametrize("module", LISTED)
def test_every_listed_reader_exists(module: str) -> None:
    assert exists(module)
    reader = importlib.import_module(f"privplan.audit.readers.{module}")
    assert callable(reader.recognises)
    assert callable(reader.read)


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_each_sample_is_recognised(sample: str) -> None:
    reading = recognition.read_content(SAMPLES[sample], sample)
    assert reading.format == FORMATS[sample]
    assert reading.source == sample
    assert reading.facts
    assert reading.doubts


def test_a_byte_order_mark_changes_nothing() -> None:
    for sample, content in SAMPLES.items():
        marked = recognition.read_content(b"\xef\xbb\xbf" + content, sample)
        assert marked == recognition.read_content(content, sample)


@pytest.mark.parametrize(
    ("both", "names"),
    [
        ({**flower_state(), **OPAKE_STATE}, "flower and opake"),
        ({**flower_state(), "svt_privacy_budget": svt_budget()}, "flower and nvflare"),
        ({**OPAKE_STATE, "spent_budget": [[1, 0]]}, "opake and diffprivlib"),
    ],
)
def test_two_formats_in_one_file_are_refused_with_both_names(
    both: dict[str, object], names: str
) -> None:
    with pytest.raises(InvalidInput, match=f"two formats: {names}"):
        recognition.read_content(json.dumps(both).encode(), "both.json")


@pytest.mark.parametrize(
    ("content", "look"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"\x00\xff", "it is binary"),
        ("noise: 1".encode("utf-16"), "it is binary"),
        (b"hello\nworld", "it is text of 2 lines."),
        (b'{"loss": 1, "acc": 2}', "keys `loss`, `acc`"),
        (b"{}", "it is {}"),
        (b"[1, 2, 3]", "JSON list of 3"),
        (b"3", "single JSON value"),
    ],
)
def test_unknown_contents_are_refused_with_their_look_and_the_formats(
    content: bytes, look: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        recognition.read_content(content, "thing.bin")
    assert look in refusal.value.what
    assert "thing.bin" in refusal.value.what
    assert "Opacus" in refusal.value.why


@pytest.mark.parametrize("text", ['{"a": ' * 100_000, "[" * 100_000, '{"a": 1, "a": 2}'])
def test_json_that_misleads_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        recognition.read_content(text.encode(), "x.json")


def test_refusals_of_a_reader_name_the_file() -> None:
    state = json.dumps(flower_state(compositions=[(-1.0, 1, 1)])).encode()
    with pytest.raises(InvalidInput, match=r"run 7.json: `compositions\[0\]"):
        recognition.read_content(state, "run 7.json")


@pytest.mark.parametrize("table", ["claim", "noise", "sampling", "schedule"])
def test_descriptions_are_recognised_and_no_other_reader_takes_them(table: str) -> None:
    from privplan.audit.readers import written_description

    for text in (
        f"[{table}]\nnoise_multiplier = 1.1\nepsilon = 1.19\ndelta = 1e-5\n",
        f"{table}.epsilon = 1.19\n",
        json.dumps({table: {"epsilon": 1.19}, "data": {}}),
    ):
        assert written_description.recognises(text.encode(), "run.toml")
    releases = b'[[releases]]\nwhat = "counts"\n'
    assert written_description.recognises(releases, "run.toml")
    assert not written_description.recognises(b"claim = 1.19\n", "run.toml")
    for sample, content in SAMPLES.items():
        assert not written_description.recognises(content, sample)


def first_line() -> bytes:
    line, _ = chained({"type": "run.open", "name": "x"}, 0, START)
    return line.encode() + b"\n"


def test_logs_of_privplan_are_recognised_and_not_read(tmp_path: Path) -> None:
    expected = "privplan log"
    assert recognition.read_content(first_line() + b"{}\n", "log").format == expected
    (tmp_path / "log.jsonl").write_bytes(first_line() + b"x" * 2**25)
    assert recognition.read_file(tmp_path / "log.jsonl").format == expected
    reading = recognition.read_file(tmp_path)
    assert reading == Reading(str(tmp_path), expected, {})
    round_first, _ = chained({"type": "round.intent"}, 0, START)
    with pytest.raises(InvalidInput):
        recognition.read_content(round_first.encode() + b"\n" + first_line(), "log")


def test_files_are_read_through_links_and_whatever_their_name(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(SAMPLES["csv"])
    (tmp_path / "link").symlink_to(tmp_path / "a.bin")
    assert recognition.read_file(str(tmp_path / "link")).format == "CSV history"


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").touch()
    for path, named in (
        (tmp_path / "pipe", "no regular file"),
        (Path(os.devnull), "no regular file"),
        (tmp_path, "folder without log.jsonl"),
        (Path("/proc/self/status"), "is empty, or no file on a disk"),
        (tmp_path / "empty", "is empty"),
        (tmp_path / "absent.json", "cannot be read"),
        (tmp_path / "loop", "cannot be read"),
        (Path("a\0b"), "cannot be read"),
        (tmp_path / ("x" * 5000), "cannot be read"),
    ):
        with pytest.raises(InvalidInput, match=named):
            recognition.read_file(path)


@pytest.mark.parametrize(
    ("head", "size", "limit"),
    [
        (b"noise: 1\n", 16 * 2**20, 16),
        ("é".encode() * 2**15 + b"x", 16 * 2**20, 16),
        (b"\0", 64 * 2**20, 64),
    ],
)
def test_large_files_are_refused_unread(tmp_path: Path, head: bytes, size: int, limit: int) -> None:
    file = tmp_path / "large"
    file.write_bytes(head)
    os.truncate(file, size + 1)  # sparse: it takes no room
    if limit == 16:
        # Beyond the head the sparse file is binary; what is refused is its stated size.
        file.write_bytes(head + b" " * (recognition.HEAD_BYTES - len(head)))
        os.truncate(file, size + 1)
    with pytest.raises(InvalidInput, match=f"larger than {limit} MiB"):
        recognition.read_file(file)


def test_files_that_change_while_they_are_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.csv"
    for size in (len(SAMPLES["csv"]) - 5, len(SAMPLES["csv"]) + 5):
        file.write_bytes(SAMPLES["csv"])

        @contextmanager
        def stated(path: Path, size: int = size) -> Iterator[tuple[BinaryIO, int]]:
            with path.open("rb") as opened:
                yield opened, size

        monkeypatch.setattr(recognition, "open_regular", stated)
        with pytest.raises(InvalidInput, match="changed while it was read"):
            recognition.read_file(file)


def test_of_old_files_of_torch_the_head_is_read(tmp_path: Path) -> None:
    state = {"history": [(1.1, 0.01, 100)], "mechanism": "rdp"}
    parts = (LEGACY_MAGIC, LEGACY_PROTOCOL, {"little_endian": True}, {"accountant": state})
    file = tmp_path / "old.pt"
    file.write_bytes(b"".join(pickle.dumps(part, protocol=2) for part in parts))
    os.truncate(file, 2**30)  # sparse: tensors would follow
    assert recognition.read_file(file).facts["schedule.steps"].value == 100


def test_misspelt_and_broken_tables_are_descriptions() -> None:
    for text, named in (
        ("[claims]\nepsilon = 1.3\n", "Did you mean `claim`"),
        ("[noises]\nnoise_multiplier = 1.1\n[tuning]\nruns = 50\n", "`noise`"),
        ("claims.epsilon = 1.3\nnoise_multiplier = 1.1\n", "`claim`"),
        ("[claim\nepsilon = 1.3\n[tuning\nruns = 50\n", "is not TOML"),
        ('{"claims": {"epsilon": 1.3}, "noise_multiplier": 1.1, "q": 1}', "`claim`"),
        ("[Schedules]\nrestarts = 20\nsigma = 1.1\nq = 0.1\n", "no table"),
    ):
        with pytest.raises(InvalidInput) as refusal:
            recognition.read_content(text.encode(), "run.toml")
        assert named in str(refusal.value)
    other = b"sigma = 1.1\nq = 0.1\n[scheduler]\nlr = 3\n"
    assert recognition.read_content(other, "run.ini").format == "configuration"


def test_of_an_archive_only_the_pickle_is_read(tmp_path: Path) -> None:
    # What lies in `data.pkl` is text here: which member is read is the question.
    members = {
        "model/data.pkl": SAMPLES["csv"],
        "model/data/0": b"\0" * 1000,
        "model/version": b"3",
    }
    content = archive_of(members)
    assert recognition.read_content(content, "model.pt").format == "CSV history"
    file = tmp_path / "model.pt"
    file.write_bytes(content)
    assert recognition.read_file(file).format == "CSV history"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (archive_of({"a": b""}), "0 members"),
        (archive_of({"a/data.pkl": b"", "b/data.pkl": b""}), "2 members"),
        (b"PK\x03\x04 and no archive", "none that can be read"),
        (archive_of({"a/data.pkl": b"x" * 100})[:-30], "none that can be read"),
        (archive_of({"a/data.pkl": bytes(65 * 2**20)}, zipfile.ZIP_DEFLATED), "64 MiB"),
    ],
    ids=["none", "two", "no archive", "cut off", "too large"],  # archives hold the time of day
)
def test_archives_that_are_no_checkpoints_are_refused(content: bytes, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        recognition.read_content(content, "model.pt")


def test_no_library_is_imported() -> None:
    names = ["torch", "opacus", "flwr", "nvflare", "diffprivlib", "tensorflow", "jax", "yaml"]
    script = (
        "import sys, importlib.util\nfrom privplan.audit.readers import recognition\n"
        "present = []\n"
        "for module in recognition.LIBRARY_FORMATS:\n"
        "    if importlib.util.find_spec('privplan.audit.readers.' + module):\n"
        "        present.append(module)\n"
        "recognition.LIBRARY_FORMATS = tuple(present)\n"
        "for content in eval(sys.stdin.read()): recognition.read_content(content, 'x')\n"
        f"print(sorted(set({names}) & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=repr(list(SAMPLES.values())),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
