"""Readers of accountants that are saved as JSON: Flower, NVFlare, opake and diffprivlib."""

from __future__ import annotations

import json
from math import inf, nan
from typing import Any

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.description.printed_number import PrintedNumber
from privplan.audit.description.run_description import Phase, Reading
from privplan.audit.readers import diffprivlib, flower, nvflare, opake

from ..cases import for_each
from .reader_samples import (
    OPAKE_STATE,
    flower_state,
    opake_gaussian,
    opake_poisson,
    opake_repeated,
    svt_budget,
    svt_sum,
)


def content_of(value: object) -> bytes:
    return json.dumps(value).encode()


def values_of(reading: Reading) -> dict[str, object]:
    return {key: fact.value for key, fact in reading.facts.items()}


def read_as(reader: Any, value: object) -> Reading:
    content = value if isinstance(value, bytes) else content_of(value)
    assert reader.recognises(content, "state")
    reading = reader.read(content, "state")
    assert isinstance(reading, Reading)
    assert all(fact.source == "state" for fact in reading.facts.values())
    return reading


def doubt(reading: Reading, part: str) -> bool:
    return any(part in sentence for sentence in reading.doubts)


def test_flower_state_gives_settings_and_no_claim_of_epsilon() -> None:
    assert values_of(read_as(flower, flower_state())) == {
        "claim.delta": 1e-5,
        "claim.unit": "user",
        "claim.neighbours": "replace-one",
        "claim.library": "flower",
        "claim.accountant": "rdp",
        "noise.family": "gaussian",
        "noise.noise_multiplier": 1.0,
        "data.users": 100_000,
        "sampling.method": "fixed-size",
        "sampling.rate": 0.01,
        "sampling.batch": 1000,
        "schedule.steps": 1000,
    }


def test_flower_rounds_of_one_kind_are_steps_and_of_several_are_phases() -> None:
    def state(*compositions: tuple[float, int, int]) -> dict[str, Any]:
        return flower_state("poisson", "add-or-remove-one", list(compositions))

    rounds = values_of(read_as(flower, state(*[(1.0, 1000, 1)] * 7)))
    assert (rounds["schedule.steps"], rounds["sampling.method"]) == (7, "poisson")
    schedule = values_of(read_as(flower, state((1.0, 1000, 3), (2.0, 500, 4))))
    assert schedule["schedule.phases"] == (Phase(1.0, 0.01, 3), Phase(2.0, 0.005, 4))
    assert "noise.noise_multiplier" not in schedule
    assert "sampling.batch" not in schedule


def test_flower_without_amplification_is_charged_for_every_round() -> None:
    reading = read_as(flower, flower_state("no-amplification", "add-or-remove-one"))
    values = values_of(reading)
    assert (values["sampling.method"], values["sampling.rate"]) == ("full", 1.0)
    assert "sampling.batch" not in values
    assert doubt(reading, "charged for all rounds")


def test_flower_limit_is_no_claim() -> None:
    reading = read_as(flower, flower_state(max_epsilon=4.0))
    assert "claim.epsilon" not in reading.facts
    assert doubt(reading, "max_epsilon 4")


def test_flower_pair_of_method_and_relation_that_flower_never_writes_is_doubted() -> None:
    assert doubt(read_as(flower, flower_state("poisson", "replace-one")), "not written by")
    assert not doubt(read_as(flower, flower_state()), "not written by")


@for_each(
    ("change", "named"),
    [
        ({"schema_version": 2}, "schema_version 2"),
        ({"schema_version": True}, "schema_version True"),
        ({"backend": "pld"}, "backend 'pld'"),
        ({"version": 1}, "`version` is not known"),
        ({"compositions": []}, "`compositions` must be a list"),
        ({"compositions": {}}, "`compositions` must be a list"),
        ({"config": None}, "`config` must be an object"),
        ({"config": {}}, "`config.target_delta` is missing"),
    ],
)
def test_flower_states_of_other_shapes_are_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named.replace("(", r"\(")):
        read_as(flower, {**flower_state(), **change})


@for_each(
    ("field", "value"),
    [
        ("noise_multiplier", nan),
        ("noise_multiplier", 0),
        ("noise_multiplier", -1.0),
        ("noise_multiplier", "1.0"),
        ("sample_size", 0),
        ("sample_size", 100_001),
        ("sample_size", 10.5),
        ("population_size", 99_999),
        ("count", -3),
        ("count", 10**30),
        ("count", True),
        ("count", None),
    ],
)
def test_flower_numbers_out_of_range_are_refused_with_their_field(field: str, value: Any) -> None:
    state = flower_state()
    entry = state["compositions"][0]
    (entry if field == "count" else entry["event"])[field] = value
    with pytest.raises(InvalidInput, match=r"compositions\[0\]"):
        read_as(flower, state)


@for_each(
    ("field", "value"),
    [
        ("target_delta", 0),
        ("target_delta", 1),
        ("population_size", 0),
        ("max_epsilon", inf),
        ("sampling_method", "shuffled"),
        ("neighboring_relation", "zero-out"),
    ],
)
def test_flower_configurations_out_of_range_are_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"config.{field}"):
        read_as(flower, flower_state(**{field: value}))


def test_nvflare_sum_is_the_claim_and_its_calls_the_event() -> None:
    reading = read_as(
        nvflare,
        {"meta": {"svt_privacy_budget": svt_budget(), "svt_privacy_accountant": svt_sum(2, 10.0)}},
    )
    values = values_of(reading)
    assert values["claim.epsilon"] == PrintedNumber(10.0)
    assert values["claim.delta"] == 0.0
    call = ev.Compose((ev.Pure(0.5), ev.Pure(1.5), ev.Pure(3.0)))
    assert reading.event == ev.Repeat(2, call)
    assert doubt(reading, "acceptance_passes")
    assert doubt(reading, "taken for equal")


def test_nvflare_all_calls_are_composed_and_a_sum_that_does_not_fit_gives_no_event() -> None:
    rounds = [svt_budget(round=number) for number in range(3)]
    both = {"rounds": [{"svt_privacy_budget": each} for each in rounds]}
    assert isinstance(read_as(nvflare, both).event, ev.Compose)
    assert "claim.epsilon" not in read_as(nvflare, both).facts
    complete = read_as(nvflare, {**both, "svt_privacy_accountant": svt_sum(3, 15.0)})
    assert complete.event == ev.Compose(
        (ev.Compose((ev.Pure(0.5), ev.Pure(1.5), ev.Pure(3.0))),) * 3
    )
    partial = {
        "svt_privacy_budget": svt_budget(),
        "svt_privacy_accountant": svt_sum(3, 16.0),
    }
    assert read_as(nvflare, partial).event is None
    assert doubt(read_as(nvflare, partial), "is not known")


@for_each("note", [{}, {"note": "scalar passthrough is not covered"}])
def test_nvflare_values_that_pass_without_noise_leave_no_guarantee(note: dict[str, str]) -> None:
    budget = svt_budget(has_scalar_passthrough=True, **note)
    reading = read_as(nvflare, [[[{"svt_privacy_budget": budget}]]])
    assert reading.event is not None
    assert doubt(reading, "without noise")
    assert pp.account(reading.event, delta=1e-5).epsilon.upper == inf
    alone = read_as(nvflare, {"svt_privacy_accountant": svt_sum(3, 15.0, **note)})
    assert (alone.event is None) == (not note)


def test_nvflare_tables_are_looked_for_four_levels_deep() -> None:
    budget: Any = {"svt_privacy_budget": svt_budget()}
    for _ in range(4):
        budget = {"x": budget}
    assert nvflare.recognises(content_of(budget), "meta")
    assert not nvflare.recognises(content_of({"x": budget}), "meta")


@for_each(
    ("tables", "named"),
    [
        ({"svt_privacy_budget": svt_budget(accountant="rdp")}, "accountant"),
        ({"svt_privacy_budget": svt_budget(delta=1e-5)}, "delta"),
        ({"svt_privacy_budget": svt_budget(epsilon_query=-1)}, "epsilon_query"),
        ({"svt_privacy_budget": svt_budget(epsilon_query=nan)}, "epsilon_query"),
        ({"svt_privacy_budget": svt_budget(epsilon_total=4.0)}, "sum of its three"),
        ({"svt_privacy_budget": svt_budget(has_scalar_passthrough="no")}, "true or false"),
        ({"svt_privacy_budget": svt_budget(gamma=1)}, "gamma"),
        ({"svt_privacy_budget": 3}, "must be an object"),
        ({"svt_privacy_accountant": svt_sum(0, 1.0)}, "calls"),
        ({"svt_privacy_accountant": svt_sum(1, inf)}, "epsilon_total"),
        ([{"svt_privacy_budget": svt_budget()}] * 2, "same `round`"),
    ],
)
def test_nvflare_budgets_that_cannot_be_are_refused(tables: Any, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_as(nvflare, tables)


def test_opake_poisson_process_becomes_settings() -> None:
    reading = read_as(opake, OPAKE_STATE)
    assert reading.event is None
    assert values_of(reading) == {
        "claim.delta": 1e-5,
        "claim.library": "opake",
        "claim.accountant": "pld",
        "noise.family": "gaussian",
        "noise.noise_multiplier": 1.1,
        "sampling.method": "poisson",
        "sampling.rate": 0.01,
        "schedule.steps": 1000,
    }
    assert doubt(reading, "it is no claim")


def opake_event(process: dict[str, Any]) -> ev.Event | None:
    return read_as(opake, {"process": process}).event


def test_opake_schedules_become_phases_and_full_batches_are_full() -> None:
    step, late = opake_poisson(opake_gaussian()), opake_poisson(opake_gaussian(2.0), 0.5)
    composed = {
        "type": "CachedProcess",
        "inner": {
            "type": "Composed",
            "left": {"type": "Composed", "left": {"type": "Identity"}, "right": step},
            "right": opake_repeated(opake_repeated(late, 2), 3),
        },
    }
    values = values_of(read_as(opake, {"process": composed}))
    assert values["schedule.phases"] == (Phase(1.1, 0.01, 1), Phase(2.0, 0.5, 6))
    full = values_of(read_as(opake, {"process": opake_repeated(opake_gaussian(), 5)}))
    assert (full["sampling.method"], full["sampling.rate"], full["schedule.steps"]) == (
        "full",
        1,
        5,
    )


def test_opake_events_that_no_key_expresses() -> None:
    noise = ev.Gaussian(1.1)
    truncated = opake_poisson(opake_gaussian(), truncated_batch_size=120, dataset_size=9000)
    assert opake_event(opake_repeated(truncated, 9)) == ev.Repeat(
        9, ev.TruncatedPoisson(0.01, 120, 9000, noise)
    )
    allocation = {"type": "KOutOfT", "inner": opake_gaussian(), "k": 3, "n_steps": 100}
    assert opake_event({**allocation, "allocation": "total"}) == ev.RandomAllocation(100, 3, noise)
    block = opake_event({**allocation, "allocation": "block"})
    assert block == ev.Compose(
        (
            ev.Repeat(2, ev.RandomAllocation(33, 1, noise)),
            ev.Repeat(1, ev.RandomAllocation(34, 1, noise)),
        )
    )
    assert opake_event({"type": "EpsDelta", "epsilon": 1.0, "delta": 0.0}) == ev.Pure(1.0)
    assert opake_event({"type": "EpsDelta", "epsilon": 1.0, "delta": 0.1}) == ev.Approximate(1, 0.1)
    assert isinstance(opake_event({"type": "NonPrivate"}), ev.NoGuarantee)
    assert isinstance(opake_event(opake_poisson(opake_gaussian(0))), ev.NoGuarantee)


def test_opake_adaptive_clip_pays_for_its_count_as_known_from_measurement() -> None:
    # Noise 1 with count noise 0.5 is noise (1 + 1)^(-1/2) of both together.
    clip = {
        "type": "AdaClip",
        "inner": opake_gaussian(1.0),
        "fraction_noise_std": 0.05,
        "expected_batch_size": 10,
        "num_groups": 1,
    }
    event = opake_event(opake_poisson(clip))
    assert isinstance(event, ev.Poisson)
    assert isinstance(event.event, ev.Gaussian)
    assert event.event.noise_multiplier == pytest.approx(2**-0.5)


def test_opake_long_chains_of_single_steps_are_one_phase() -> None:
    step = opake_poisson(opake_gaussian())
    process: dict[str, Any] = step
    for _ in range(200):
        process = {"type": "Composed", "left": process, "right": step}
    values = values_of(read_as(opake, {"process": process}))
    assert values["schedule.steps"] == 201


@for_each(
    ("process", "named"),
    [
        ({"type": "Identity"}, "nothing was released"),
        ({"type": "MfGaussian"}, "not known"),
        ({**opake_gaussian(), "strategy": None}, "strategy"),
        ({"type": "Gaussian"}, "noise_multiplier` is missing"),
        (opake_gaussian(nan), "process.noise_multiplier"),
        (opake_gaussian(-1), "process.noise_multiplier"),
        (opake_repeated(opake_gaussian(), 0), "process.count"),
        (opake_repeated(opake_repeated(opake_gaussian(), 10**17), 100), "process.count"),
        (opake_poisson(opake_gaussian(), 0), "process.sample_rate"),
        (opake_poisson(opake_gaussian(), 1.5), "process.sample_rate"),
        (opake_poisson(opake_gaussian(), truncated_batch_size=5), "dataset_size"),
        (opake_poisson(opake_repeated(opake_gaussian())), "process.inner.type"),
        (
            {"type": "ParallelPoisson", "inner": opake_poisson(opake_gaussian()), "num_workers": 4},
            "num_workers` is 4",
        ),
        (
            {
                "type": "KOutOfT",
                "inner": opake_gaussian(),
                "k": 9,
                "n_steps": 3,
                "allocation": "total",
            },
            "chosen",
        ),
    ],
)
def test_opake_processes_that_cannot_be_are_refused(process: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_as(opake, {"process": process})


def test_diffprivlib_lists_are_composed_however_they_are_written() -> None:
    expected = ev.Compose((ev.Repeat(2, ev.Pure(0.5)), ev.Approximate(1.0, 1e-5)))
    for content in (
        b"[[0.5, 0], [0.5, 0], [1.0, 1e-05]]",
        b'{"epsilon": 5, "delta": 0.1, "spent_budget": [[0.5, 0], [0.5, 0], [1, 1e-5]]}',
        b"[(0.5, 0), (0.5, 0),\n (np.float64(1.0), 1e-05)]\n",
        b"BudgetAccountant(epsilon=5, slack=0.1, spent_budget=[(0.5, 0), (.5, 0), (1., 1e-05)])",
    ):
        reading = read_as(diffprivlib, content)
        assert reading.event == expected
        assert "claim.epsilon" not in reading.facts


def test_diffprivlib_total_is_the_claim_and_limits_are_not() -> None:
    table = {"epsilon": 5, "spent_budget": [[0.5, 0], [1.0, 0]], "total": [1.5, 0]}
    reading = read_as(diffprivlib, table)
    assert values_of(reading)["claim.epsilon"] == PrintedNumber(1.5)
    assert doubt(reading, "is its limit")


@for_each(
    ("content", "named"),
    [
        (b"BudgetAccountant(spent_budget=[(0.5, 0), ...])", r"\.\.\."),
        (b"BudgetAccountant()", "at least one"),
        (b"BudgetAccountant(epsilon=exit())", "exit"),
        (b"[(0.5, 0), __import__('os')]", "__import__"),
        (b"[(0.5, 0)", "belongs"),
        (b"[(-0.5, 0)]", "epsilon"),
        (b"[(nan, 0)]", "epsilon"),
        (b"[(inf, 0)]", "epsilon"),
        (b"[[0.5, 1.5]]", "delta"),
        (b'{"spent_budget": []}', "at least one"),
        (b'{"spent_budget": [[0.5]]}', "pair"),
        (b'{"spent_budget": [[0.5, 0]], "rho": 1}', "rho"),
    ],
)
def test_diffprivlib_lists_that_cannot_be_are_refused(content: bytes, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        read_as(diffprivlib, content)
