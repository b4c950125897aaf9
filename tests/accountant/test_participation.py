"""Silos that take part in some rounds only: what a plan proves, and what its odometer refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded, InvalidInput
from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import Phase, PlannedPhase, plan, plan_given_noise
from privplan.accountant.randomness import Streams
from privplan.accountant.records.participation import counts_by_silo
from privplan.fl.log.decoding import Decoder

from ..cases import for_each
from .gates import FakeRecorder
from .participating import DELTA, SCHEDULES, busiest, exact

NOISE = 5.0
ROUND = ev.Gaussian(NOISE)


def planned(rounds: int, counted: int | None, event: ev.Event = ROUND) -> PlannedPhase:
    return PlannedPhase("train", NOISE, event, rounds, {"model": event}, counted)


def odometer(rounds: int, counted: int | None, event: ev.Event = ROUND) -> Odometer:
    phases = [planned(rounds, counted, event)]
    return Odometer.for_plan(plan_given_noise(phases, delta=DELTA, neighbours="replace-one"))


@for_each("name", sorted(SCHEDULES))
def test_a_plan_proves_what_its_busiest_silo_pays(name: str) -> None:
    schedule = SCHEDULES[name]
    counted = busiest(schedule)
    proven = plan_given_noise(
        [planned(len(schedule), counted)], delta=DELTA, neighbours="replace-one"
    )
    truth = exact(2 * math.sqrt(counted) / NOISE)
    upper = proven.guarantees["model"].epsilon.upper
    assert truth <= upper <= truth * (1 + 1e-6)
    assert proven.event == proven.seen_by("model") == ev.Repeat(counted, ROUND)
    assert sum(phase.rounds for phase in proven.phases) == len(schedule)
    assert "public schedule" in str(proven.guarantees["model"].derivation)


def test_noise_is_found_for_the_rounds_of_one_silo() -> None:
    found = plan(
        [Phase("train", ev.Gaussian, 12, counted=3)],
        epsilon=1.0,
        delta=DELTA,
        neighbours="replace-one",
    )
    # The closed form at the noise that was found, and a hair below it.
    noise = found.noise["train"]
    assert exact(2 * math.sqrt(3) / noise) <= 1.0 < exact(2 * math.sqrt(3) / (noise * 0.999))


@for_each("counted", [0, 5, 1.5, True])
def test_a_plan_refuses_a_count_that_cannot_be(counted: float) -> None:
    with pytest.raises(InvalidInput, match="counted"):
        Phase("train", ROUND, 4, counted=counted)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="counted"):
        plan_given_noise([planned(4, counted)], delta=DELTA)  # type: ignore[arg-type]


def test_units_of_many_records_pay_for_every_round() -> None:
    with pytest.raises(InvalidInput, match="another silo"):
        plan_given_noise([planned(4, 2)], delta=DELTA, group=2)
    with pytest.raises(InvalidInput, match="another silo"):
        plan([Phase("train", ev.Gaussian, 4, counted=2)], epsilon=1, delta=DELTA, group=2)


@for_each(
    ("unit", "neighbours", "group", "by_silo"),
    [
        ("silo", "replace-one", 1, True),
        ("silo", "add-remove", 1, False),
        ("silo", "zero-out", 1, False),
        ("record", "add-remove", 1, True),
        ("record", "replace-one", 2, False),
        ("entry", "replace-one", 1, True),
        ("user", "replace-one", 1, False),
    ],
)
def test_only_units_of_one_silo_are_counted_by_silo(
    unit: str, neighbours: str, group: int, by_silo: bool
) -> None:
    assert counts_by_silo(unit, neighbours, group) is by_silo


@given(st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=6), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_an_odometer_refuses_exactly_the_round_too_many(
    schedule: list[set[int]], counted: int
) -> None:
    rounds = max(len(schedule), counted)
    ledger, taken = odometer(rounds, counted), dict.fromkeys(range(4), 0)
    for silos in map(sorted, schedule):
        over = any(taken[silo] + 1 > counted for silo in silos)
        assert ledger.would_exceed(ROUND, silos=silos) is over
        if over:
            with pytest.raises(BudgetExceeded, match="more than"):
                ledger.spend(ROUND, silos=silos)
            continue
        ledger.spend(ROUND, silos=silos)
        taken = {silo: count + (silo in silos) for silo, count in taken.items()}


def test_a_round_of_all_counts_for_every_silo() -> None:
    ledger = odometer(4, 2)
    ledger.spend(ROUND, silos=(0,))
    ledger.spend(ROUND)
    assert ledger.remaining_rounds(ROUND) == 0
    with pytest.raises(BudgetExceeded):
        ledger.spend(ROUND, silos=(0, 1))
    ledger.spend(ROUND, silos=(1, 7))
    with pytest.raises(BudgetExceeded):
        ledger.spend(ROUND, silos=(7,))
    # Silo 0 has paid for both of its rounds, and no silo for more.
    truth = exact(2 * math.sqrt(2) / NOISE)
    assert truth <= ledger.reading().epsilon <= truth * (1 + 1e-6)


def test_all_planned_releases_are_admitted_and_no_more() -> None:
    ledger = odometer(4, 1)
    for silo in range(4):
        ledger.spend(ROUND, silos=(silo,))
    with pytest.raises(BudgetExceeded, match="carried out"):
        ledger.spend(ROUND, silos=(4,))


def test_several_releases_of_a_round_are_of_the_same_silos() -> None:
    count = ev.Gaussian(9.0)
    ledger = odometer(3, 2, ev.Compose((count, ROUND)))
    ledger.spend(count, silos=(0, 1))
    for others in (None, (1, 2)):
        assert ledger.would_exceed(ROUND, silos=others)
        with pytest.raises(BudgetExceeded, match="other silos"):
            ledger.spend(ROUND, silos=others)
    ledger.spend(ROUND, silos=(0, 1))


def test_a_plan_without_a_schedule_counts_as_ever() -> None:
    ledger = odometer(2, None)
    ledger.spend(ROUND, silos=(0,))
    assert ledger.remaining_rounds(ROUND) == 1


def intent(silos: object) -> records.RoundIntent:
    return records.RoundIntent(
        1,
        "train",
        ROUND,
        records.Contribution(1.0, "l2", "silo"),
        records.Noise("gaussian", NOISE, 2, 3.6),
        2.0,
        silos=silos,  # type: ignore[arg-type]
    )


@for_each("silos", [(), (1, 0), (0, 0), (-1,), (0, 1.0), ("0",), 3])
def test_a_schedule_that_cannot_be_is_refused(silos: object) -> None:
    with pytest.raises(InvalidInput, match=r"round\.intent\.silos"):
        intent(silos)


@for_each("silos", [[], [1, 0], [0, 0]])
def test_the_short_way_of_reading_refuses_it_too(silos: list[int]) -> None:
    source = {**intent((0, 1)).to_json(), "silos": silos}
    with pytest.raises(InvalidInput, match=r"round\.intent\.silos"):
        Decoder().record(source)


def test_a_line_without_a_schedule_is_as_it_was() -> None:
    assert "silos" not in intent(None).to_json()
    assert "counted" not in records.Planned(3, {"model": ROUND}).to_json()
    stated = intent((0, 2))
    assert records.RoundIntent.from_json(stated.to_json()) == stated
    assert stated.to_json()["silos"] == [0, 2]


@for_each("counted", [0, 4])
def test_a_first_line_counts_some_of_its_rounds(counted: int) -> None:
    with pytest.raises(InvalidInput, match=r"Planned\.counted"):
        records.Planned(3, {"model": ROUND}, counted)


def test_a_gate_refuses_before_anything_is_recorded() -> None:
    recorder = FakeRecorder([])
    gate = Gate(odometer(4, 1), recorder, Streams.seeded(1))
    gate.open(intent((0, 1))).abort("error")
    before = list(recorder.lines)
    with pytest.raises(BudgetExceeded, match="more than 1"):
        gate.open(replace(intent((1, 2)), round=2))
    assert recorder.lines == before
    gate.open(replace(intent((2, 3)), round=2)).abort("error")
    assert len(recorder.lines) == len(before) + 2
