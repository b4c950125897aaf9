"""Results in a log, read as a stranger's: forged, absurd, or of an earlier version."""

from __future__ import annotations

import json
import math
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
from privplan.fl.log import LogWriter
from privplan.fl.log.hash_chain import LOG

from ..cases import for_each
from . import logs
from .measured import MEASURED


def result(**changes: object) -> dict[str, object]:
    """Return the content of a good result, changed."""
    return {**encoded(MEASURED), **changes}


def earlier(**changes: object) -> dict[str, object]:
    """Return the content of a result as earlier versions wrote it, changed."""
    found = encoded(MEASURED)
    del found["verdict"], found["level"]
    return {**found, **changes}


@for_each("contradicted", [False, True])
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


@for_each(("problem", "content"), FORGED)
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


@for_each("tier", ["residual", "x" * 1000, ""])
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
