"""Descriptions as files and options: TOML and JSON say the same, and what is neither is refused."""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan import check
from privplan.accountant.errors import InvalidInput
from privplan.audit.description.files import exact_decimal, read_description, reading_of_option
from privplan.audit.description.keys import KEYS, TABLES
from privplan.audit.description.merging import describe
from privplan.audit.description.printed_number import PrintedNumber
from privplan.audit.description.run_description import ExtraRelease, Phase
from privplan.audit.description.run_settings import settings_of

from ..cases import for_each

CONTRACT = b"""
[claim]            # what is said of the run
epsilon = 1.19
delta = 1e-5
unit = "record"
neighbours = "add-remove"
library = "opacus 1.4"
[noise]
family = "gaussian"
noise_multiplier = 1.3
clip_source = "constant"
[data]
records = 60000
[sampling]
method = "poisson"
batch = 256
clients_rate = 0.1
[schedule]
steps = 3516
microbatches = 1
accumulation = 1
restarts = 1
horizon_days = 1
[[releases]]
what = "counts"
noise_multiplier = 20.0
count = 3
"""


def facts(content: bytes) -> dict[str, object]:
    return {key: fact.value for key, fact in read_description(content, "run").facts.items()}


def test_the_contract_is_read() -> None:
    reading = read_description(CONTRACT, "run.toml")
    assert reading.format == "description in TOML"
    assert reading.facts["claim.epsilon"].value == PrintedNumber(1.19, 0.005)
    assert reading.facts["releases"].value == (ExtraRelease("counts", 20.0, 3),)
    assert {fact.text() for fact in reading.facts.values()} == {"stated (run.toml)"}
    run = settings_of(describe([reading]))
    assert (run.rate, run.steps, run.delta) == (256 / 60000, 3516, 1e-5)


def test_json_says_the_same() -> None:
    text = json.dumps(tomllib.loads(CONTRACT.decode()))
    reading = read_description(text.encode(), "run.json")
    assert reading.format == "description in JSON"
    assert facts(text.encode()) == facts(CONTRACT)


def test_json_is_told_by_its_content_and_keeps_digits() -> None:
    assert facts(b' \r\n{"claim": {"epsilon": 1.20}}') == {
        "claim.epsilon": PrintedNumber(1.2, 0.005)
    }
    assert facts(b'{"claim": {"epsilon": "1.20"}}') == {"claim.epsilon": PrintedNumber(1.2, 0.0)}
    assert facts(b'{"claim": {"delta": "1e-5"}}') == {"claim.delta": 1e-5}


def test_a_byte_order_mark_is_passed_over() -> None:
    bom = b"\xef\xbb\xbf"
    assert facts(bom + b"[data]\nrecords = 3") == {"data.records": 3}
    assert facts(bom + b'{"data": {"records": 3}}') == {"data.records": 3}


def test_phases_are_read() -> None:
    content = b"[schedule]\nphases = [[1.1, 0.004, 1000], [0.9, 0.004, 20]]"
    assert facts(content) == {"schedule.phases": (Phase(1.1, 0.004, 1000), Phase(0.9, 0.004, 20))}


@for_each(
    ("content", "words"),
    [
        (b"", "says nothing"),
        (b"{}", "says nothing"),
        (b"\xff\xfe[\x00", "not UTF-8"),
        (b"claim", "not TOML"),
        (b"[1, 2]", "not TOML"),
        (b"{} {}", "not JSON"),
        (b"{'claim': 1}", "not JSON"),
        (b'{"claim": {"epsilon": 1, "epsilon": 1}}', "stands twice"),
        (b"[claim]\nepsilon = 1\nepsilon = 1", "not TOML"),
        (b'{"claim": {"epsilon": NaN}}', "`claim.epsilon` must be a finite number"),
        (b'{"claim": {"epsilon": Infinity}}', "promises nothing"),
        (b'{"noise": {"std": -Infinity}}', "`noise.std` must be a finite number"),
        (b"[noise]\nstd = nan", "`noise.std` must be a finite number"),
        (b"[noise]\nstd = 1e999", "beyond every float"),
        (b"[noise]\nstd = 1e-999999999999999999999", "beyond every float"),
        (b"[noise]\nstd = 0." + b"1" * 100, "more than 64 characters"),
        (b"[data]\nrecords = " + b"9" * 5000, "too many digits"),
        (b'{"data": {"records": ' + b"9" * 5000 + b"}}", "more than 400 characters"),
        (b"[data]\nrecords = 0x" + b"f" * 5000, r"10\^18"),
        (b"[data]\nrecords = 99999999999999999999", r"10\^18"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b".".join([b"a"] * 200_000) + b" = 1", "more than 20 parts"),
        (b" . ".join([b'"a"'] * 100_000) + b" = 1", "more than 20 parts"),
        (b"#" * (2**20 + 1), "larger than 1 MiB"),
        (b"[claim]\nepsilon = 2020-01-01", "finite number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_content_is_refused_at_once(content: bytes, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        read_description(content, "run.toml")
    assert "run.toml" in str(caught.value)
    assert str(caught.value).isprintable()


def test_nesting_below_the_parsers_limit_is_refused_as_well() -> None:
    for depth in (10, 100, 300):
        deep = b"[" * depth + b"]" * depth
        with pytest.raises(InvalidInput):
            read_description(b"[data]\nrecords = " + deep, "run.toml")
        with pytest.raises(InvalidInput):
            read_description(b'{"data": {"records": ' + deep + b"}}", "run.json")


def test_exact_decimals() -> None:
    assert exact_decimal("1.20").as_tuple() == Decimal("1.20").as_tuple()
    assert exact_decimal("nan").is_nan()


@for_each(
    ("option", "key", "value"),
    [
        ("sampling.method=shuffled", "sampling.method", "shuffled"),
        ("method = shuffled", "sampling.method", "shuffled"),
        ("claim.unit='user'", "claim.unit", "user"),
        ("claim.library=opacus 1.4", "claim.library", "opacus 1.4"),
        ("claim.library=1.0", "claim.library", "1.0"),
        ("claim.delta_rule=1/records", "claim.delta_rule", "1/records"),
        ("claim.epsilon=1.20", "claim.epsilon", PrintedNumber(1.2, 0.005)),
        ('claim.epsilon="1.20"', "claim.epsilon", PrintedNumber(1.2, 0.0)),
        ("claim.delta=1e-5", "claim.delta", 1e-5),
        ("noise.std=.5", "noise.std", 0.5),
        ("data.records=60_000", "data.records", 60000),
        ("schedule.phases=[[1.1, 0.004, 10]]", "schedule.phases", (Phase(1.1, 0.004, 10),)),
        ("releases=[{what = 'counts'}]", "releases", (ExtraRelease("counts", None),)),
    ],
)
def test_options(option: str, key: str, value: object) -> None:
    (item,) = reading_of_option(option).facts.items()
    assert item[0] == key
    assert item[1].value == value
    assert item[1].text() == "stated (--set)"


@for_each(
    ("option", "words"),
    [
        ("", "gives no key a value"),
        ("noise.std", "gives no key a value"),
        ("noise.std=", "gives no key a value"),
        ("=3", "gives no key a value"),
        ("sigma=3", "Did you mean `noise.noise_multiplier`"),
        ("sampling.methd=shuffled", "Did you mean `sampling.method`"),
        ("sampling.method=shufled", "Did you mean `shuffled`"),
        ("noise.std=1\nx=2", "must be a number"),
        ("noise.std=1\n[table]", "must be a number"),
        ("noise.std=nan", "finite number"),
        ("noise.std=1e999999", "beyond every float"),
        ("noise.std=" + "9" * 5000, "more than 64 characters"),
        ("noise.std=" + "[" * 5000, "must be a number"),
        ("noise.std=" + "[" * 50_000, "too long"),
        ("claim.epsilon=about 3", "without a number"),
    ],
    ids=lambda value: value[:20],
)
def test_bad_options_are_refused(option: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        reading_of_option(option)
    assert "--set" in str(caught.value)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["poisson", "1/records", "user", "1.20", "inf", "add-remove"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["what", "count", "noise_multiplier", "x"]), inner)
    ),
    max_leaves=6,
)


def table(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from([*TABLES[name], "x"]), VALUES, max_size=4)


RANDOM_TABLES = st.fixed_dictionaries(
    {}, optional={**{name: table(name) for name in TABLES}, "releases": VALUES}
)


@settings(max_examples=60, deadline=None)
@given(RANDOM_TABLES)
def test_no_json_ever_crashes(tables: dict[str, Any]) -> None:
    with suppress(InvalidInput):
        reading = read_description(json.dumps(tables).encode(), "run.json")
        settings_of(describe([reading]))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80), st.sampled_from([b"", b"[claim]\n", b'{"noise":{"std":']))
def test_no_bytes_ever_crash(content: bytes, before: bytes) -> None:
    with suppress(InvalidInput):
        describe([read_description(before + content, "run")])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(KEYS)), st.text(max_size=30))
def test_no_option_ever_crashes(key: str, text: str) -> None:
    with suppress(InvalidInput):
        describe([reading_of_option(f"{key}={text}")])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**12), st.integers(1, 9))
def test_the_last_digit_is_the_precision(digits: int, places: int) -> None:
    """Independent: whoever rounds half up to so many places had a number in that interval."""
    printed = f"{Decimal(digits).scaleb(-places):f}"
    content = b"[claim]\nepsilon = " + printed.encode()
    number = read_description(content, "run").facts["claim.epsilon"].value
    assert isinstance(number, PrintedNumber)
    assert number.highest == float(Decimal(10 * digits + 5).scaleb(-places - 1))
    assert number.lowest == float(Decimal(10 * digits - 5).scaleb(-places - 1))


def test_tables_in_one_line_are_a_description(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'claim = {epsilon = "4", delta = 1e-5}\nnoise = {noise_multiplier = 1.1}\n'
        'sampling = {method = "poisson", rate = 0.1}\nschedule = {steps = 10}\n'
    )
    result = check(path)
    assert result.claimed is not None
    assert result.verdict.startswith("holds")
