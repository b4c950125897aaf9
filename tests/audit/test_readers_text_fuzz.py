"""Damaged files: whatever a file holds, it is read or refused with a sentence, and nothing else.

The samples are those of `reader_samples.py`, with bytes exchanged, cut out or doubled, values of
JSON replaced, and cells of tables replaced; beside them random bytes and random JSON.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.audit.description.printed_number import PrintedNumber
from privplan.audit.readers import recognition

from .reader_samples import SAMPLES

pytestmark = pytest.mark.filterwarnings("error")
CHECKED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

WORDS = [
    *("epsilon", "delta", "sigma", "q", "steps", "epoch", "step", "batch_size", "noise_multiplier"),
    *("type", "process", "compositions", "schema_version", "config", "svt_privacy_budget"),
    *("spent_budget", "inner", "count", "left", "right", "Repeated", "Composed", "Gaussian"),
]
NUMBERS = [
    *(
        0,
        1,
        -1,
        0.5,
        1e-5,
        1e308,
        -0.0,
        1e-320,
        10**18,
        10**30,
        2**63,
        math.nan,
        math.inf,
        -math.inf,
    ),
    *(True, False, None, "", "1.0", "nan", [], {}),
]
CELLS = [
    *("", "0", "0.0000", "-1", "nan", "sNaN", "inf", "-inf", "1e999", "1e-999999999", "1_0", "٣"),
    *("x", '"', "1,5", "1e5", "9" * 500, "0." + "0" * 500 + "1", "-0", "1e30", "True"),
]


@pytest.fixture(autouse=True)
def _only_readers_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    package = "privplan.audit.readers."
    present = [m for m in recognition.LIBRARY_FORMATS if importlib.util.find_spec(package + m)]
    monkeypatch.setattr(recognition, "LIBRARY_FORMATS", tuple(present))


def answered(content: bytes) -> None:
    """Read a content: it is refused with sentences, or its facts are in their ranges."""
    refusal = None
    try:
        reading = recognition.read_content(content, "file")
    except InvalidInput as error:
        refusal = error
    if refusal is not None:
        assert refusal.what.strip()
        assert refusal.next_step.strip()
        assert len(str(refusal)) < 2000
        return
    assert all(isinstance(doubt, str) and doubt.strip() for doubt in reading.doubts)
    for key, fact in reading.facts.items():
        assert key.count(".") == 1
        for number in numbers_of(fact.value):
            assert 0 <= number < math.inf
        if key in ("noise.noise_multiplier", "sampling.rate", "schedule.steps", "noise.clip"):
            assert all(number > 0 for number in numbers_of(fact.value))


def numbers_of(value: object) -> Iterator[float]:
    if isinstance(value, PrintedNumber):
        yield value.value
        yield value.half_unit
    elif isinstance(value, tuple):
        for item in value:
            yield from (item.noise_multiplier, item.rate, item.steps)
    elif not isinstance(value, str):
        assert isinstance(value, (int, float))
        yield value


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    content = bytearray(SAMPLES[draw(st.sampled_from(sorted(SAMPLES)))])
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 20)))
        piece = draw(
            st.one_of(
                st.binary(max_size=4),
                st.sampled_from([cell.encode() for cell in (*CELLS, *WORDS)]),
                st.just(bytes(content[start:end]) * 2),
            )
        )
        content[start:end] = piece
    return bytes(content)


JSON_SAMPLES = [
    json.loads(text) for text in SAMPLES.values() if text[:1] in b"{[" and b"\n" not in text
]


def replaced(value: Any, draw: st.DrawFn) -> Any:
    """Return a JSON value with about one in eight of its parts replaced."""
    if draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from(NUMBERS))
    if isinstance(value, dict):
        table = {key: replaced(item, draw) for key, item in value.items()}
        if draw(st.integers(0, 7)) == 0:
            table[draw(st.sampled_from(WORDS))] = draw(st.sampled_from(NUMBERS))
        return table
    if isinstance(value, list):
        return [replaced(item, draw) for item in value]
    return value


@st.composite
def json_with_other_values(draw: st.DrawFn) -> bytes:
    return json.dumps(replaced(draw(st.sampled_from(JSON_SAMPLES)), draw)).encode()


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    header = draw(st.lists(st.sampled_from(WORDS[:9]), min_size=1, max_size=5))
    rows = draw(st.lists(st.lists(st.sampled_from(CELLS), min_size=1, max_size=5), max_size=4))
    kind = draw(st.sampled_from(["csv", "jsonl", "lines", "log"]))
    if kind == "csv":
        return "\n".join(",".join(row) for row in (header, *rows)).encode()
    if kind == "jsonl":
        return "\n".join(json.dumps(dict(zip(header, row, strict=False))) for row in rows).encode()
    pairs = [(name, row[0]) for name, row in zip(header, rows, strict=False)]
    separator = draw(st.sampled_from([": ", " = ", "="]))
    if kind == "lines":
        return "\n".join(f"{name}{separator}{cell}" for name, cell in pairs).encode()
    return ("started\n" + ", ".join(f"{name}{separator}{cell}" for name, cell in pairs)).encode()


@CHECKED
@given(damaged())
def test_damaged_samples(content: bytes) -> None:
    answered(content)


@CHECKED
@given(json_with_other_values())
def test_json_with_other_values(content: bytes) -> None:
    answered(content)


@CHECKED
@given(tables())
def test_tables_of_odd_cells(content: bytes) -> None:
    answered(content)


@CHECKED
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_random_bytes_and_text(content: bytes) -> None:
    answered(content)


@CHECKED
@given(
    st.recursive(
        st.sampled_from(NUMBERS),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
        ),
        max_leaves=20,
    )
)
def test_random_json(value: Any) -> None:
    answered(json.dumps(value).encode())
