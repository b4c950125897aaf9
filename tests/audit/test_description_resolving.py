"""The settings of a described run: derived numbers beside simple formulas, and contradictions."""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.audit.description.merging import describe
from privplan.audit.description.run_description import ExtraRelease, Phase, RunDescription
from privplan.audit.description.run_settings import RunSettings, settings_of
from privplan.audit.description.tables import reading_of_names

from ..cases import for_each


def described(**facts: object) -> RunDescription:
    return describe([reading_of_names(facts, "run.toml")])


def resolved(**facts: object) -> RunSettings:
    return settings_of(described(**facts))


def contradictions(**facts: object) -> list[str]:
    return [item.says for item in described(**facts).contradictions]


def test_nothing_said_is_nothing_known() -> None:
    assert resolved() == RunSettings()


def test_all_that_is_stated_arrives() -> None:
    stated: dict[str, Any] = {
        **{"family": "laplace", "noise_multiplier": 1.1, "method": "fixed-size"},
        **{"neighbours": "zero-out", "unit": "user", "delta": 1e-5},
        **{"records": 1000, "users": 100, "silos": 5, "records_per_user": 20},
        **{"batch": 10, "clients_rate": 0.5, "steps": 50, "epochs": 5},
        **{"microbatches": 2, "accumulation": 3, "restarts": 4},
        **{"horizon_days": 30, "renews_every_days": 1},
    }
    follows = {"rate": 0.1, "steps_per_epoch": 10}
    releases = (ExtraRelease("counts", None, 2),)
    run = resolved(**stated, releases=[{"what": "counts", "count": 2}])
    assert run == RunSettings(**stated, **follows, releases=releases)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**7), st.integers(1, 10**7), st.integers(1, 20_000))
def test_rate_and_steps_beside_their_formulas(records: int, batch: int, hundredths: int) -> None:
    batch = min(batch, records)
    epochs = hundredths / 100
    run = resolved(records=records, batch=batch, epochs=epochs)
    assert run.rate == batch / records
    assert run.steps is not None
    # The fewest steps that pass over the records so often, in whole numbers.
    assert (run.steps - 1) * batch * 100 < hundredths * records <= run.steps * batch * 100
    assert run.steps_per_epoch is not None
    assert (run.steps_per_epoch - 1) * batch < records <= run.steps_per_epoch * batch


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 300), st.data())
def test_every_usual_way_to_count_steps_is_accepted(
    records: int, batch: int, epochs: int, data: st.DataObject
) -> None:
    batch = min(batch, records)
    kept, dropped = -(-records // batch), records // batch
    steps = data.draw(
        st.sampled_from(
            [
                epochs * kept,
                epochs * dropped,
                epochs * records // batch,
                -(-epochs * records // batch),
            ]
        )
    )
    assert contradictions(records=records, batch=batch, epochs=epochs, steps=steps) == []
    too_few, too_many = epochs * dropped - 1, epochs * kept + 1
    for wrong in (too_few, too_many):
        if wrong >= 1:
            assert contradictions(records=records, batch=batch, epochs=epochs, steps=wrong)


def test_local_epochs_tell_no_rounds() -> None:
    assert resolved(unit="user", users=1000, batch=10, epochs=5).steps is None
    assert resolved(clients_rate=0.1, records=60000, batch=256, epochs=5).steps is None
    assert resolved(unit="user", records=60000, batch=256, epochs=15).steps == 3516


def test_steps_and_epochs_that_differ_are_named_with_both_numbers() -> None:
    (says,) = contradictions(records=60000, batch=256, epochs=15, steps=1000)
    assert says.startswith("steps = 1,000 and epochs = 15 (3,516 steps) cannot both be true")
    assert "`sampling.batch` = 256 (stated, run.toml)" in says
    (says,) = contradictions(rate=0.01, epochs=15, steps=1000)
    assert says.startswith("steps = 1,000 and epochs = 15 (1,500 steps) cannot both be true")


@for_each(
    "facts",
    [
        # An epoch is not all records.
        {"records_per_epoch": 6000, "epochs": 15, "steps": 352},
        # One draw for eight batches, counted as draws or told with the whole batch.
        {"accumulation": 8, "epochs": 15, "steps": 440},
        {"accumulation": 8, "epochs": 15, "steps": 3516},
        # The accountant began anew in each epoch.
        {"restarts": 15, "epochs": 15, "steps": 235},
        # A printed number of epochs.
        {"epochs": Decimal("1.5"), "steps": 340},
        # Clients count their own passes, in rounds of their own.
        {"clients_rate": 0.1, "epochs": 5, "steps": 100},
        {"unit": "user", "users": 1000, "epochs": 5, "steps": 100},
    ],
)
def test_steps_that_other_facts_explain(facts: dict[str, object]) -> None:
    assert contradictions(**{"records": 60000, "batch": 256, **facts}) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**7), st.integers(1, 10**7), st.integers(1, 5))
def test_every_usual_rate_is_accepted(records: int, batch: int, digits: int) -> None:
    batch = min(batch, records)
    exact = [batch / records, 1 / -(-records // batch), 1 / (records // batch)]
    for rate in exact:
        assert contradictions(records=records, batch=batch, rate=rate) == []
        assert resolved(records=records, batch=batch, rate=rate).rate == rate
    printed = Decimal(f"{batch / records:.{digits}e}")
    if printed <= 1:
        facts = {"records": records, "batch": batch, "rate": printed}
        assert contradictions(**facts) == []
        used = resolved(**facts).rate
        assert used is not None
        assert any(math.isclose(used, rate, rel_tol=2e-6) for rate in exact)
    wrong = 1.5 * exact[2]
    if wrong <= 1:
        assert contradictions(records=records, batch=batch, rate=wrong)


def test_a_printed_rate_gives_way_to_the_exact_one() -> None:
    run = described(records=60000, batch=256, rate=Decimal("0.004"))
    fact = run.facts["sampling.rate"]
    assert fact.value == 256 / 60000
    assert fact.text() == "derived (batch / records = 256 / 60,000, which agrees with run.toml)"
    phased = resolved(records=60000, batch=256, phases=[[1.1, Decimal("0.004"), 10]])
    assert phased.phases == (Phase(1.1, 256 / 60000, 10),)
    assert phased.rate == 256 / 60000


def test_a_rate_that_is_another_is_named() -> None:
    (says,) = contradictions(records=60000, batch=256, rate=0.01)
    expected = "rate = 0.01 and batch / records = 256 / 60,000 (0.004267) cannot both be true"
    assert says.startswith(expected)


@for_each(
    "facts",
    [
        {"rate": 8 * 256 / 60000, "accumulation": 8},
        {"rate": 0.1 * 256 / 60000, "clients_rate": 0.1},
        {"rate": 256 / 6000, "silos": 10},
        {"rate": 256 / 600, "users": 100, "records_per_user": 700},
        {"rate": 256 / 50000, "records_per_epoch": 50000},
    ],
)
def test_rates_that_other_facts_explain(facts: dict[str, object]) -> None:
    assert contradictions(records=60000, batch=256, **facts) == []


def test_a_batch_above_all_records_is_refused_with_both_sources() -> None:
    with pytest.raises(InvalidInput, match="512 cannot be drawn from 256 records") as caught:
        described(records=256, batch=512)
    assert "`data.records` = 256 (stated, run.toml)" in caught.value.why
    with pytest.raises(InvalidInput, match="300 cannot be drawn from 256 users"):
        described(users=256, batch=300, unit="user", sampled="users")
    # Of users whose records nobody counted, a batch may be one of records.
    assert resolved(users=256, batch=300, unit="user").rate is None
    assert resolved(records=256, batch=512, method="with-replacement").rate == 2.0


def test_users_are_what_batches_of_users_are_drawn_from() -> None:
    assert resolved(unit="user", users=100, records=10_000, batch=10).rate == 0.1
    assert resolved(unit="silo", silos=10, records=10_000, batch=5).rate == 0.5
    # More than there are users: these are records.
    assert resolved(unit="user", users=100, records=10_000, batch=500).rate == 0.05
    assert resolved(users=100, records=10_000, batch=10).rate == 0.001


def test_full_batches_have_rate_one() -> None:
    run = resolved(method="full", records=100, epochs=7)
    assert (run.rate, run.batch, run.steps, run.steps_per_epoch) == (1.0, 100, 7, 1)
    assert contradictions(method="full", rate=1) == []
    (says,) = contradictions(method="full", rate=0.5)
    assert says.startswith("rate = 0.5 and method = full (rate 1) cannot both be true")
    assert contradictions(method="full", records=100, batch=10)


def test_a_loaders_rate_tells_its_batches_but_no_batch() -> None:
    run = resolved(rate=1 / 235, records=60000, epochs=2)
    assert (run.steps_per_epoch, run.steps, run.batch) == (235, 470, None)
    assert resolved(rate=0.01, records=60000).batch == 600


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_noise_is_deviation_over_clipping_norm(std: float, clip: float) -> None:
    assert resolved(std=std, clip=clip).noise_multiplier == std / clip
    ratio = std / clip
    assert contradictions(std=std, clip=clip, noise_multiplier=ratio * 1.0005) == []
    for wrong in (ratio * 1.002, ratio * 0.998):
        (says,) = contradictions(std=std, clip=clip, noise_multiplier=wrong)
        assert "std / clip" in says


def test_of_two_noises_that_are_printed_alike_the_smaller_is_used() -> None:
    assert resolved(std=1.26, clip=1, noise_multiplier=Decimal("1.3")).noise_multiplier == 1.26
    assert resolved(std=1.34, clip=1, noise_multiplier=Decimal("1.3")).noise_multiplier == 1.3
    with pytest.raises(InvalidInput, match="no finite noise multiplier"):
        resolved(std=1e300, clip=1e-300)


def test_phases_say_noise_rate_and_steps() -> None:
    rows = [[1.1, 0.01, 100], [0.9, 0.02, 50]]
    run = resolved(phases=rows)
    assert run.phases == (Phase(1.1, 0.01, 100), Phase(0.9, 0.02, 50))
    assert (run.noise_multiplier, run.rate, run.steps) == (None, None, 150)
    alike = resolved(phases=[[1.1, 0.01, 100], [1.1, 0.01, 50]])
    assert (alike.noise_multiplier, alike.rate, alike.steps) == (1.1, 0.01, 150)
    assert resolved(phases=rows, noise_multiplier=1.1).noise_multiplier is None
    assert contradictions(phases=rows, noise_multiplier=1.1, rate=0.02, steps=150) == []
    assert "no phase" in contradictions(phases=rows, noise_multiplier=1.0)[0]
    assert "no phase" in contradictions(phases=rows, rate=0.1)[0]
    (says,) = contradictions(phases=rows, steps=100)
    assert says.startswith("steps = 100 and phases of 150 steps cannot both be true")


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 10**9))
def test_delta_by_its_rule(records: int) -> None:
    assert resolved(delta_rule="1/records", records=records).delta == 1 / records
    printed = Decimal(f"{1 / records:.2e}")
    facts = {"delta_rule": "1/records", "records": records, "delta": printed}
    # One significant digit is meant exactly, so 1.00e-5 is compared as 1e-5.
    exact = Fraction(printed) * records
    assume(not 1e-7 < abs(exact - 1) < 1e-5)
    assert (contradictions(**facts) == []) is (
        len(printed.normalize().as_tuple().digits) > 1 or abs(exact - 1) < 1e-6
    )


def test_a_delta_that_its_rule_does_not_give_is_named() -> None:
    (says,) = contradictions(delta_rule="1/records", records=60000, delta=Decimal("1e-5"))
    expected = "delta = 1e-05 and delta_rule = 1/records (1.667e-05) cannot both be true"
    assert says.startswith(expected)


def test_delta_of_batches() -> None:
    batches = {"delta_rule": "1/batches", "records": 60000, "batch": 256}
    assert resolved(**batches).delta == 1 / 235
    assert contradictions(**batches, delta=1 / 234) == []
    assert contradictions(**batches, delta=1 / 60000)
    assert resolved(delta_rule="1/batches").delta is None
    assert resolved(delta_rule="1/records").delta is None


def test_schedules_that_no_run_has_are_refused() -> None:
    for facts in ({"rate": 1e-18, "epochs": 1e300}, {"phases": [[1, 1, 10**18], [1, 1, 10**18]]}):
        with pytest.raises(InvalidInput, match=r"10\^18 steps"):
            resolved(**facts)


COUNTS = st.sampled_from([1, 2, 3, 7, 256, 60000, 2**53, 10**18]) | st.integers(1, 10**18)
REALS = st.floats(5e-324, 1.7e308) | st.sampled_from([5e-324, 1.0, 1e308])
RATES = st.floats(1e-18, 1.0) | st.sampled_from([1e-18, 1.0, Decimal("0.1"), Decimal("1e-3")])
EXTREME: dict[str, st.SearchStrategy[object]] = {
    "noise_multiplier": REALS,
    "std": REALS,
    "clip": REALS,
    "records": COUNTS,
    "users": COUNTS,
    "silos": COUNTS,
    "records_per_user": COUNTS,
    "batch": COUNTS,
    "rate": RATES,
    "clients_rate": RATES,
    "steps": COUNTS,
    "epochs": REALS | COUNTS | st.sampled_from([Decimal("1.5"), Decimal("0.1")]),
    "records_per_epoch": COUNTS,
    "accumulation": COUNTS,
    "restarts": COUNTS,
    "phases": st.lists(st.tuples(REALS, RATES, COUNTS), min_size=1, max_size=3),
    "delta": st.floats(0.0, 1.0, exclude_max=True),
    "delta_rule": st.sampled_from(["1/records", "1/batches"]),
    "unit": st.sampled_from(["record", "user", "silo"]),
    "method": st.sampled_from(["poisson", "shuffled", "full", "with-replacement", "unknown"]),
}


@settings(max_examples=80, deadline=None)
@given(st.fixed_dictionaries({}, optional=EXTREME))
def test_allowed_values_resolve_or_are_refused(facts: dict[str, object]) -> None:
    with suppress(InvalidInput):
        run = settings_of(described(**facts))
        # With replacement there may be more draws than there are records.
        most = math.inf if run.method == "with-replacement" else 1.0
        assert run.rate is None or 0.0 < run.rate <= most
        assert run.delta is None or 0.0 <= run.delta < 1.0
        assert run.steps is None or 1 <= run.steps <= 10**18
        assert run.epochs is None or 0.0 < run.epochs < math.inf
        assert run.noise_multiplier is None or math.isfinite(run.noise_multiplier)
        assert run.steps_per_epoch is None or 1 <= run.steps_per_epoch <= 10**18


@for_each("batches", [33, 49, 107, 235, 1031])
def test_a_rate_as_a_float_agrees_with_the_steps_of_its_epochs(batches: int) -> None:
    rate = Decimal(repr(1 / batches))
    facts = {"rate": rate, "steps": batches * 30, "epochs": 30, "noise_multiplier": 1.0}
    assert contradictions(**facts) == []
    assert contradictions(**{**facts, "steps": batches * 30 + 40}) != []
