"""Configurations and plans of jax_privacy: JSON, TOML and printed text, and what they mean.

The numbers 3.77, 9.66 and 155 stand in the library's documentation (accounting.py).
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.description.run_description import Reading
from privplan.audit.readers import jax_privacy as reader
from privplan.audit.readers.band_mf import BandedStrategy

from ..cases import for_each
from .damaged import damaged, read_or_refused
from .named_tuples import DP_SGD, FORMS, by_name, by_position

CONFIG: Final[dict[str, Any]] = {
    "iterations": 1000,
    "expected_participations": 100.0,
    "strategy": [1.0],
    "noise_multiplier": 2.0,
    "l2_clip_norm": 0.5,
    "rescale_to_unit_norm": True,
    "normalize_by": 256.0,
    "truncated_batch_size": None,
    "num_examples": None,
    "column_normalize": False,
}


def read(**changes: object) -> Reading:
    """Return the reading of a configuration as JSON; a field that is `...` is left out."""
    fields = {key: value for key, value in {**CONFIG, **changes}.items() if value is not ...}
    content = json.dumps(fields).encode()
    assert reader.recognises(content, "config.json")
    return reader.read(content, "config.json")


def values(reading: Reading) -> dict[str, object]:
    return {key: fact.value for key, fact in reading.facts.items()}


def test_one_band_is_dp_sgd() -> None:
    reading = read()
    assert values(reading) == {
        "claim.library": "jax_privacy",
        "claim.neighbours": "add-remove",
        "noise.family": "gaussian",
        "noise.noise_multiplier": 2.0,
        "noise.clip": 0.5,
        "sampling.rate": 0.1,
        "schedule.steps": 1000,
    }
    assert reading.event == ev.Repeat(1000, ev.Poisson(0.1, ev.Gaussian(2.0)))
    assert any("delta" in doubt and "unit" in doubt for doubt in reading.doubts)


def test_bands_take_turns() -> None:
    reading = read(strategy=[0.8, 0.6, 0.1], expected_participations=90)
    assert reading.event == ev.Repeat(334, ev.Poisson(0.27, ev.Gaussian(2.0)))
    assert values(reading)["schedule.steps"] == 334
    assert any("3 bands" in doubt for doubt in reading.doubts)


def test_sampling_probability_of_older_versions() -> None:
    reading = read(expected_participations=..., sampling_prob=0.4, strategy=[1.0, 0.5])
    assert reading.event == ev.Repeat(500, ev.Poisson(0.4, ev.Gaussian(2.0)))


def test_zero_out_where_the_number_of_examples_is_public() -> None:
    reading = read(num_examples=1001, strategy=[0.8, 0.6])
    assert values(reading)["claim.neighbours"] == "zero-out"
    assert values(reading)["data.records"] == 1001
    assert reading.event == ev.Repeat(500, ev.Poisson(0.2, ev.Gaussian(2.0)))
    cut = read(num_examples=1001, strategy=[0.8, 0.6], truncated_batch_size=120)
    assert cut.event == ev.Repeat(500, ev.TruncatedPoisson(0.2, 120, 500, ev.Gaussian(2.0)))
    uncut = read(num_examples=1001, strategy=[0.8, 0.6], truncated_batch_size=9999)
    assert uncut.event == ev.Repeat(500, ev.TruncatedPoisson(0.2, 500, 500, ev.Gaussian(2.0)))


def test_normalised_columns_need_a_strategy_of_norm_1() -> None:
    usual = read(strategy=[0.8, 0.6], column_normalize=True)
    assert isinstance(usual.event, ev.Repeat)
    short = read(strategy=[0.4, 0.3], column_normalize=True)
    assert any("0.5 times" in doubt for doubt in short.doubts)
    assert multiplier(short) == pytest.approx(1.0, rel=1e-12)
    assert multiplier(short) <= 1.0
    longer = read(strategy=[4.0, 3.0], column_normalize=True)
    assert multiplier(longer) == multiplier(read(strategy=[0.4, 0.3])) == 2.0
    assert multiplier(read(strategy=[1.0], column_normalize=True)) == 2.0


def multiplier(reading: Reading) -> float:
    """Return the noise multiplier of the event of a reading."""
    event = reading.event
    assert isinstance(event, ev.Repeat)
    assert isinstance(event.event, ev.Poisson)
    assert isinstance(event.event.event, ev.Gaussian)
    return event.event.event.noise_multiplier


@for_each("seed", range(5))
@for_each("normalised", [False, True])
def test_noise_beside_the_columns_of_the_strategy(seed: int, normalised: bool) -> None:
    """The event's noise is no more than what is drawn, beside the largest column of C.

    The columns of one record's turns share no row, so each turn is a Gaussian of its own.
    """
    generator = np.random.default_rng(seed)
    bands, iterations = int(generator.integers(1, 5)), 12
    strategy = np.abs(generator.normal(size=bands)) + 0.05
    strategy *= generator.choice([1.0 / np.linalg.norm(strategy), 0.7, 1.4])
    reading = read(
        iterations=iterations,
        expected_participations=1,
        strategy=strategy.tolist(),
        column_normalize=normalised,
    )
    matrix = sum(
        np.diag(np.full(iterations - lag, value), -lag) for lag, value in enumerate(strategy)
    )
    if normalised:
        matrix = matrix / np.linalg.norm(matrix, axis=0)
    columns = matrix[:, ::bands]
    assert (columns != 0).sum(axis=1).max() == 1
    std = CONFIG["noise_multiplier"] * float(np.linalg.norm(strategy))
    largest = float(np.linalg.norm(columns, axis=0).max())
    event = reading.event
    assert isinstance(event, ev.Repeat)
    assert event.count == columns.shape[1]
    assert multiplier(reading) <= std / largest * (1 + 1e-12)


def test_what_is_not_calibrated_has_no_event() -> None:
    reading = read(noise_multiplier=None)
    assert reading.event is None
    assert "noise.noise_multiplier" not in reading.facts
    assert any("calibrate()" in doubt for doubt in reading.doubts)
    assert isinstance(read(noise_multiplier=0.0).event, ev.NoGuarantee)


@for_each(
    ("changes", "says"),
    [
        ({"iterations": 0}, "iterations"),
        ({"iterations": 10.5}, "iterations"),
        ({"iterations": None}, "`iterations` is missing"),
        ({"strategy": []}, "at least one coefficient"),
        ({"strategy": [[1.0]]}, "strategy"),
        ({"strategy": [math.nan]}, "strategy"),
        ({"strategy": [1.0] * 1001}, "1,001 bands"),
        ({"expected_participations": 1001}, "in full cycles"),
        ({"expected_participations": 0}, "nothing would ever be sampled"),
        ({"expected_participations": math.inf}, "expected_participations"),
        ({"expected_participations": ..., "sampling_prob": 1.5}, "sampling_prob"),
        ({"sampling_prob": 0.5}, "both given"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": True}, "noise_multiplier"),
        ({"truncated_batch_size": 10}, "needs `num_examples`"),
        ({"truncated_batch_size": 0, "num_examples": 100}, "truncated_batch_size"),
        ({"truncated_batch_size": 1, "num_examples": 1, "strategy": [1.0, 0.5]}, "empty"),
        ({"column_normalize": 1}, "column_normalize"),
        ({"bands": 3}, "`bands` is not known"),
    ],
)
def test_configurations_that_the_library_refuses(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(**changes)
    assert says in str(caught.value)


TOML: Final = b"""
iterations = 1000
expected_participations = 100
strategy = [1.0]
noise_multiplier = 2.0
"""

PRINTED: Final = (
    "BandMFConfig(iterations=1000, expected_participations=100.0, strategy=array([1.]), "
    "noise_multiplier=2.0, l2_clip_norm=1.0, rescale_to_unit_norm=True, normalize_by=1.0, "
    "truncated_batch_size=None, num_examples=None, column_normalize=False)"
)


@for_each(
    "content",
    [
        TOML,
        b"[privacy]" + TOML,
        PRINTED.encode(),
        PRINTED.replace("array([1.])", "Array([1.], dtype=float32)").encode(),
        ("execution_plan." + PRINTED.replace("100.0", "np.float64(100.0)")).encode(),
        json.dumps({"config": {**CONFIG, "l2_clip_norm": 1.0}, "seed": 3}).encode(),
    ],
    ids=["toml", "table", "printed", "jax", "numpy", "nested"],
)
def test_every_form_means_the_same(content: bytes) -> None:
    assert reader.recognises(content, "config")
    reading = reader.read(content, "config")
    assert reading.event == ev.Repeat(1000, ev.Poisson(0.1, ev.Gaussian(2.0)))
    assert values(reading)["noise.clip"] == 1.0


def test_arrays_that_are_printed_with_dots() -> None:
    text = "array([0.0005, 0.001, 0.0015, ..., 0.999, 0.9995, 1.], shape=(2000,))"
    content = PRINTED.replace("array([1.])", text).replace("=1000", "=4000")
    content = content.replace("=100.0", "=1.0")
    reading = reader.read(content.encode(), "config")
    assert reading.event == ev.Repeat(2, ev.Poisson(0.5, ev.Gaussian(2.0)))
    normalised = content.replace("column_normalize=False", "column_normalize=True")
    reading = reader.read(normalised.encode(), "config")
    assert reading.event is None
    assert any("not all coefficients" in doubt for doubt in reading.doubts)
    with pytest.raises(InvalidInput, match="without its length"):
        reader.read(content.replace("shape=(2000,)", "dtype=float64").encode(), "config")


@for_each(
    "text",
    [
        PRINTED.replace("1000", "__import__('os').system('true')"),
        PRINTED.replace("array([1.])", "open('harmed', 'w')"),
        PRINTED.replace("noise_multiplier=2.0", "noise_multiplier=2.0, **x"),
        PRINTED.replace("iterations=1000, ", "1000, "),
        PRINTED + "; import os",
        PRINTED[:-1],
    ],
)
def test_text_outside_the_grammar(text: str) -> None:
    assert reader.recognises(text.encode(), "config")
    with pytest.raises(InvalidInput):
        reader.read(text.encode(), "config")


# --- plans ----------------------------------------------------------------------------------------

RELATIONS: Final = {
    "ADD_OR_REMOVE_ONE": "add-remove",
    "NeighboringRelation.REPLACE_ONE": "replace-one",
    "<NeighboringRelation.REPLACE_SPECIAL: 3>": "zero-out",
    1: "add-remove",
    3: "zero-out",
}


def plan(event: object, relation: object = "ADD_OR_REMOVE_ONE", **beside: object) -> bytes:
    """Return a plan as JSON."""
    return json.dumps({"dp_event": event, "neighboring_relation": relation, **beside}).encode()


@for_each("form", FORMS)
@for_each("relation", RELATIONS)
def test_plans(form: str, relation: object) -> None:
    text = FORMS[form](DP_SGD).decode()
    content = plan(text.strip() if form == "printed" else json.loads(text), relation)
    assert reader.recognises(content, "plan.json")
    reading = reader.read(content, "plan.json")
    assert reading.event == ev.Repeat(512, ev.Poisson(0.1, ev.Gaussian(3.0)))
    assert values(reading) == {
        "claim.library": "jax_privacy",
        "claim.neighbours": RELATIONS[relation],
        "noise.noise_multiplier": 3.0,
        "sampling.rate": 0.1,
        "schedule.steps": 512,
    }


def test_plans_as_they_are_printed() -> None:
    content = (
        "DPExecutionPlan(clipped_grad=<function clipped_grad at 0x7f>, "
        "batch_selection_strategy=CyclicPoissonSampling(sampling_prob=0.1, iterations=512, "
        "truncated_batch_size=None, cycle_length=1, partition_type=<PartitionType.INDEPENDENT: 1>),"
        " noise_addition_transform=GradientTransformationExtraArgs(init=<function f at 0x1>), "
        f"dp_event={DP_SGD!r}, neighboring_relation=<NeighboringRelation.ADD_OR_REMOVE_ONE: 1>)"
    ).encode()
    assert reader.recognises(content, "plan.txt")
    expected = reader.read(plan(json.loads(by_position(DP_SGD))), "plan.txt")
    assert reader.read(content, "plan.txt") == expected


@for_each(
    "content",
    [
        plan(json.loads(by_position(DP_SGD)), "ADD_OR_REMOVE_TWO"),
        plan(json.loads(by_position(DP_SGD)), True),
        plan(json.loads(by_position(DP_SGD)), [1]),
        plan(json.loads(by_position(DP_SGD)), clip=3),
        plan("GaussianDpEvent(noise_multiplier=-1.0)"),
        b"DPExecutionPlan(dp_event=GaussianDpEvent(1.0), dp_event=GaussianDpEvent(9.0))",
        b"DPExecutionPlan(dp_event=GaussianDpEvent(1.0",
        b"DPExecutionPlan()",
    ],
)
def test_plans_that_are_refused(content: bytes) -> None:
    assert reader.recognises(content, "plan")
    with pytest.raises(InvalidInput):
        reader.read(content, "plan")


def test_plans_without_an_event_or_a_relation() -> None:
    reading = reader.read(plan(json.loads(by_position(DP_SGD)), None), "plan")
    assert "claim.neighbours" not in reading.facts
    assert any("relation is missing" in doubt for doubt in reading.doubts)
    event = dp_event.UnsupportedDpEvent()
    reading = reader.read(plan(json.loads(by_name(event))), "plan")
    assert reading.event is None
    assert any("Unsupported" in doubt for doubt in reading.doubts)


@for_each(
    "content",
    [
        b"{}",
        b"iterations = 3",
        b"[training]\niterations = 3\nstrategy = 'fedavg'\n",
        b'{"dp_event": 3}',
        by_position(DP_SGD),
        b"BandMF",
        b"",
    ],
)
def test_other_files_are_not_recognised(content: bytes) -> None:
    assert not reader.recognises(content, "file")


# --- the library's documented numbers -------------------------------------------------------------


def test_documented_numbers_are_the_events() -> None:
    """The documentation prints 3.77 for noise 3, 512 iterations, probability .1, delta 1e-6."""
    reading = read(iterations=512, expected_participations=51.2, noise_multiplier=3.0)
    assert reading.event is not None
    epsilon = pp.account(reading.event, delta=1e-6).epsilon
    assert epsilon.lower <= 3.77 + 0.005
    assert epsilon.upper >= 3.77 - 0.005
    assert epsilon.upper - epsilon.lower < 0.01
    calibrated = read(iterations=512, expected_participations=51.2, noise_multiplier=9.66)
    assert calibrated.event is not None
    assert pp.account(calibrated.event, delta=1e-6).epsilon.upper == pytest.approx(1.0, abs=2e-3)
    shorter = read(iterations=155, expected_participations=15.5, noise_multiplier=3.0)
    assert shorter.event is not None
    assert pp.account(shorter.event, delta=1e-6).epsilon.upper <= 2.0


def test_norms_are_rounded_down() -> None:
    exact = BandedStrategy(2, (0.6, 0.8)).smallest_norm()
    assert exact is not None
    assert 1.0 - 1e-14 < exact <= 1.0
    assert BandedStrategy(1, (1.0,)).smallest_norm() == 1.0
    assert BandedStrategy(3, None).smallest_norm() is None


FILES: Final = [
    TOML,
    PRINTED.encode(),
    json.dumps(CONFIG).encode(),
    plan(json.loads(by_position(DP_SGD))),
    plan(repr(DP_SGD)),
    f"DPExecutionPlan(dp_event={DP_SGD!r}, neighboring_relation=<A.B: 1>)".encode(),
]


@settings(max_examples=500, deadline=None)
@given(damaged(FILES) | st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_damaged_files_are_read_or_refused(content: bytes) -> None:
    read_or_refused(reader.recognises, reader.read, content)
