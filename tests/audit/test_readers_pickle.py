"""Pickles are read as loading them would, where they are plain, and never run."""

from __future__ import annotations

import contextlib
import os
import pickle
import pickletools
import random
import struct
import sys
import time
from collections import OrderedDict, defaultdict
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.audit.readers import pickle_calls
from privplan.audit.readers.pickle_calls import Inert
from privplan.audit.readers.safe_pickle import looks_like_pickle, next_pickle, read_pickle

from ..cases import for_each
from .damaged import damaged

PROTOCOLS: Final = range(6)

keys = st.text(max_size=8) | st.integers(-(2**40), 2**40) | st.booleans() | st.none()
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**100), 2**100)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.sets(keys, max_size=4)
        | st.frozensets(keys, max_size=4)
    ),
    max_leaves=20,
)


def kinds(value: object) -> object:
    """Return a value with the types of all its parts, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return "dict", [(kinds(key), kinds(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [kinds(item) for item in value]
    return type(value).__name__, value


@settings(max_examples=300, deadline=None)
@given(plain, st.sampled_from(PROTOCOLS), st.booleans())
def test_plain_values_are_read_as_loading_reads_them(
    value: object, protocol: int, optimise: bool
) -> None:
    content = pickle.dumps(value, protocol=protocol)
    if optimise:
        content = pickletools.optimize(content)
    assert kinds(read_pickle(content, "file")) == kinds(pickle.loads(content))


@for_each("protocol", PROTOCOLS)
def test_values_of_the_closed_list(protocol: int) -> None:
    value = {
        "ordered": OrderedDict([("a", 1), ("b", [2])]),
        "default": defaultdict(list, {"c": [3]}),
        "set": {4},
        "numpy": [np.float64(1.5), np.float32(0.5), np.int64(-7), np.bool_(True)],
        "order": np.float64(2.5).astype(">f8"),
        "array": np.arange(3.0),
        "path": Path("a"),
        "complex": 1j,
    }
    result: Any = read_pickle(pickle.dumps(value, protocol=protocol), "file")
    assert result["ordered"] == {"a": 1, "b": [2]}
    assert result["default"] == {"c": [3]}
    assert result["set"] == {4}
    assert kinds(result["numpy"]) == kinds([1.5, 0.5, -7, True])
    assert result["order"] == 2.5
    for inert in ("array", "path", "complex"):
        assert isinstance(result[inert], Inert)


def test_attributes_of_a_dict_are_left_out() -> None:
    value: Any = OrderedDict(weight=1)
    value._metadata = {"version": 2}
    assert read_pickle(pickle.dumps(value), "file") == {"weight": 1}


def test_shared_and_circular_values_cost_nothing() -> None:
    laughs: Any = "ha"
    for _ in range(200):
        laughs = [laughs] * 10
    result: Any = read_pickle(pickle.dumps(laughs), "file")
    assert result[0] is result[9]
    circle: list[object] = []
    circle.append(circle)
    result = read_pickle(pickle.dumps(circle), "file")
    assert result[0] is result


class _Runs:
    """What a hostile file would have run."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> Any:
        return self.function, self.arguments


HOSTILE: Final = {
    "posix.system": _Runs(os.system, "touch harmed"),
    "builtins.eval": _Runs(eval, "1"),
    "builtins.exec": _Runs(exec, "1"),
    "builtins.getattr": _Runs(getattr, os, "sep"),
    "builtins.__import__": _Runs(__import__, "antigravity"),
    "_pickle.loads": _Runs(pickle.loads, b"."),
    "builtins.open": _Runs(open, "harmed", "w"),
}


@for_each("protocol", PROTOCOLS)
@for_each("name", [name for name in HOSTILE if name != "builtins.getattr"])
def test_unknown_globals_are_refused_by_name(
    name: str, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps({"history": [HOSTILE[name]]}, protocol=protocol)
    with pytest.raises(InvalidInput) as caught:
        read_pickle(content, "file")
    plain_name = name if protocol >= 3 else name.replace("builtins", "__builtin__")
    # Python 2 has other names for these two.
    if name not in ("builtins.open", "_pickle.loads"):
        assert f"would run `{plain_name}`" in caught.value.what
    assert "would run" in caught.value.what
    assert list(tmp_path.iterdir()) == []


@for_each(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93)\x81.",
        b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93\x8c\x05torch\x8c\x04Size\x93"
        b"\x8c\x08__init__\x86R.",
        b"\x80\x04\x8c\x08builtins\x8c\x10getattr.__call__\x93.",
        b"\x80\x02\x82\x01.",
        b"\x80\x05\x97.",
    ],
    ids=["global", "inst", "obj", "two", "four", "newobj", "getattr", "dotted", "ext", "buffer"],
)
def test_every_way_to_name_something_is_closed(content: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"would run|needs more than the file"):
        read_pickle(content, "file")


def test_what_a_placeholder_stands_for_cannot_be_called() -> None:
    # A tensor is inert: calling it, or what its state holds, is not.
    content = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R)R."
    with pytest.raises(InvalidInput, match="whole pickle"):
        read_pickle(content, "file")


def deep_key() -> bytes:
    """Return a pickle with a key whose hash takes 2^64 steps: a tuple of one tuple, twice, ..."""
    return b"\x80\x04}K\x01" + b"2\x86" * 64 + b"K\x01s."


def copying() -> bytes:
    """Return a short pickle that copies a long list again and again."""
    head = b"\x80\x04](" + b"N" * 50_000 + b"e\x94\x8c\x08builtins\x8c\x04list\x93\x94"
    return head + b"h\x01h\x00\x85R0" * 1_000 + b"N."


@for_each(
    ("content", "says"),
    [
        (deep_key(), "neither text nor a short number"),
        (copying(), "copies more"),
        (b"\x80\x02\x8b" + struct.pack("<i", 400) + b"\x7f" * 400 + b".", "bits"),
        (b"\x80\x02" + b"(" * 2_000 + b".", "marks"),
        (b"\x80\x04}\x8a\x0a" + b"\x01" * 10 + b"Ns.", "neither text nor a short number"),
        (b"\x80\x04}]Ns.", "neither text nor a short number"),
    ],
    ids=["deep-key", "copies", "integer", "marks", "integer-key", "list-key"],
)
def test_what_costs_too_much_is_refused(content: bytes, says: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidInput, match=says):
        read_pickle(content, "file")
    assert time.process_time() - started < 60.0  # the first would take longer than anybody lives


def test_counts_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    from privplan.audit.readers import safe_pickle

    values = pickle.dumps({index: [index] for index in range(200)})
    read_pickle(values, "file")
    for module, limit in (
        (safe_pickle, "MAX_OPCODES"),
        (safe_pickle, "MAX_MEMO"),
        (pickle_calls, "MAX_NUMBER_KEYS"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 100)
            with pytest.raises(InvalidInput, match="more than 100"):
                read_pickle(values, "file")
    with monkeypatch.context() as patch:
        patch.setattr(safe_pickle, "MAX_PICKLE_BYTES", 2**20)
        with pytest.raises(InvalidInput, match="larger than 1 MiB"):
            read_pickle(bytes(2**20 + 1), "file")


def test_nesting_without_end_is_no_recursion() -> None:
    result: Any = read_pickle(b"\x80\x04)" + b"\x85" * 100_000 + b".", "file")
    depth = 0
    while result:
        (result,) = result
        depth += 1
    assert depth == 100_000 > sys.getrecursionlimit()


def test_pickles_in_a_row() -> None:
    stream = BytesIO(pickle.dumps(1) + pickle.dumps("two") + b"rest")
    assert next_pickle(stream, "file") == 1
    assert next_pickle(stream, "file") == "two"
    assert stream.read() == b"rest"


@for_each("protocol", PROTOCOLS)
@for_each("value", [{}, [], {"a": 1}, [1], OrderedDict(a=1)])
def test_pickles_are_told_from_text(value: object, protocol: int) -> None:
    assert looks_like_pickle(pickle.dumps(value, protocol=protocol))


@for_each(
    "content",
    [b"", b"{}", b"[1.0]", b'{"a": 1}', b"epoch,epsilon\n1,2\n", b"(a).", b"PK\x03\x04", b"\x80"],
)
def test_other_files_are_no_pickles(content: bytes) -> None:
    assert not looks_like_pickle(content)


FILES: Final = [
    pickle.dumps(
        {"state": OrderedDict(history=[(1.1, 0.01, np.int64(20))]), "s": {1}, "p": Path("a")},
        protocol=protocol,
    )
    for protocol in PROTOCOLS
]


@settings(max_examples=600, deadline=None)
@given(damaged(FILES) | st.binary(max_size=200) | st.binary(max_size=60).map(b"\x80\x04".__add__))
def test_damaged_pickles_are_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        read_pickle(content, "file")


def test_programs_of_random_opcodes_are_read_or_refused() -> None:
    chosen = random.Random(7)
    codes = [opcode.code.encode("latin-1") for opcode in pickletools.opcodes]
    fillers = [b"\x01", b"\x00\x00\x00\x00", b"a\nb\n", b"1\n", b"'x'\n"]
    read = 0
    for _ in range(20_000):
        program = b"".join(
            chosen.choice(codes) + (chosen.choice(fillers) if chosen.random() < 0.3 else b"")
            for _ in range(chosen.randrange(1, 12))
        )
        try:
            read_pickle(program + b".", "file")
            read += 1
        except InvalidInput:
            pass
    assert read > 100
