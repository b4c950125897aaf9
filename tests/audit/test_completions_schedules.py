"""Epochs of a stated size, steps of several starts, and phases: what is allowed, what is not."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, Final

from privplan.accountant import events as ev

from ..cases import for_each
from .completion_runs import WITHIN, covers, drawn, ends, epsilon, of

EPOCHS: dict[str, Any] = {"noise_multiplier": 2.0, "epochs": 4, "records_per_epoch": 2000}


@for_each("method", ["poisson", "full", "unknown"])
def test_epochs_of_a_stated_size_ask_how_many_records_there_are(method: str) -> None:
    rate = {} if method == "full" else {"rate": 0.1}
    result = of(1.0, **EPOCHS, **rate, method=method)
    assert result.verdict == "unverifiable"
    assert result.proven is None
    assert "data.records" in {each.key for each in result.deciding}


@for_each("records, steps", [(1000, 80), (2000, 40), (4000, 20)])
def test_a_rate_is_the_share_of_all_records_or_of_those_of_a_longer_epoch(
    records: int, steps: int
) -> None:
    result = of(1.0, **EPOCHS, rate=0.1, records=records)
    of_all = epsilon(drawn(2.0, 0.1, steps))
    # One over the ten batches of an epoch is 200 of all records.
    of_epoch = epsilon(drawn(2.0, 200 / records, 40))
    lower, upper = ends(result)
    assert lower <= min(of_all.upper, of_epoch.upper)
    most = max(of_all.upper, of_epoch.upper)
    assert max(of_all.lower, of_epoch.lower) <= upper < 1.001 * most


@for_each("records", [1000, 4000])
def test_a_printed_rate_beside_an_epoch_of_a_size_is_that_of_all_or_of_the_epoch(
    records: int,
) -> None:
    result = of(1.0, **EPOCHS, rate=Decimal("0.11"), records=records)
    batch = round(0.11 * records)
    for epochs in (4 * (2000 // batch), 4 * -(-2000 // batch)):
        assert covers(result, drawn(2.0, 0.11, epochs))
    # A loader of the epoch has 220 of 2,000 in a batch: nine batches or ten.
    for epochs in (36, 40):
        assert covers(result, drawn(2.0, 220 / records, epochs))


@for_each("of_epoch, allowed", [(500, (2, 4)), (1000, (4,)), (2500, (4, 8, 10, 12))])
def test_full_batches_of_an_epoch_of_a_size_are_one_step_or_as_many_as_it_has(
    of_epoch: int, allowed: tuple[int, ...]
) -> None:
    facts = EPOCHS | {"noise_multiplier": 20.0, "records_per_epoch": of_epoch}
    result = of(0.5, **facts, method="full", records=1000)
    for steps in allowed:
        assert covers(result, drawn(20.0, 1.0, steps))


STARTS: dict[str, Any] = {"noise_multiplier": 4.0, "batch": 600, "records": 1000, "epochs": 4}


@for_each("steps", [6, 8, 20, 24])
def test_steps_of_all_starts_may_stand_beside_epochs_of_each(steps: int) -> None:
    result = of(4.0, **STARTS, steps=steps, restarts=3)
    assert "contradiction" not in {each.id for each in result.causes}
    assert covers(result, drawn(4.0, 0.6, steps))


def test_steps_of_one_start_may_stand_beside_epochs_of_all() -> None:
    # Twelve epochs are 20 to 24 steps, of which each of three starts made eight.
    result = of(4.0, **(STARTS | {"epochs": 12}), steps=8, restarts=3)
    assert "contradiction" not in {each.id for each in result.causes}
    assert covers(result, drawn(4.0, 0.6, 24))


@for_each("steps", [1, 30, 240])
def test_steps_that_no_number_of_starts_makes_of_the_epochs_contradict(steps: int) -> None:
    result = of(4.0, **STARTS, steps=steps, restarts=2)
    assert "contradiction" in {each.id for each in result.causes}
    assert result.proven is None


@for_each("phases", [[[2.0, 0.5, 10]], [[2.0, 1.0, 10], [2.0, 0.9, 10]]])
def test_phases_of_a_rate_below_one_contradict_full_batches(phases: list[list[float]]) -> None:
    result = of(1.0, method="full", phases=phases)
    assert "contradiction" in {each.id for each in result.causes}
    assert result.proven is None
    assert result.verdict == "unverifiable"


def test_phases_of_rate_one_are_full_batches() -> None:
    result = of(8.0, method="full", phases=[[2.0, 1, 10], [2.0, 1, 5]])
    assert covers(result, drawn(2.0, 1.0, 15))
    assert ends(result)[1] < 1.001 * epsilon(drawn(2.0, 1.0, 15)).upper


LOCAL_EPOCHS: Final = (1, 3, 20)
"""Passes that each user or silo makes over its records in a round: no number of rounds."""


@for_each("unit", ["user", "silo"])
def test_epochs_of_users_and_silos_tell_no_steps_and_contradict_none(unit: str) -> None:
    facts: list[dict[str, Any]] = [
        {"method": "full", "steps": 10},
        {"method": "poisson", "rate": 0.1, "steps": 10},
        {"method": "full", "phases": [[2.0, 1.0, 5], [1.0, 1.0, 5]], "noise_multiplier": None},
        {"method": "shuffled", "batch": 200, "steps": 10, f"{unit}s": 1000, "sampled": "users"},
        {"method": "shuffled", "rate": 0.2, "steps": 10},
    ]
    for run in facts:
        usual = {"noise_multiplier": 2.0, **run, "unit": unit}
        plain = {key: value for key, value in usual.items() if value is not None}
        without = of(1.0, **plain)
        for epochs in LOCAL_EPOCHS:
            with_epochs = of(1.0, **plain, epochs=epochs)
            assert ends(with_epochs) == ends(without), (run, epochs)


def test_batches_of_records_do_not_tell_how_many_rounds_a_silo_has() -> None:
    facts = {"unit": "silo", "batch": 100, "records": 1000, "epochs": 5, "noise_multiplier": 2.0}
    assert ends(of(21.0, **facts))[1] == math.inf
    # With the silo in each of 100 steps, its loss is that of one move by 5 deviations.
    shown = epsilon(ev.Repeat(100, ev.Gaussian(2.0))).lower
    assert ends(of(21.0, **facts, steps=100))[1] >= shown
    counted = ends(of(21.0, **facts, sampled="records"))
    assert counted[1] >= epsilon(ev.Repeat(50, ev.Gaussian(2.0))).lower
    assert counted[1] < math.inf


def test_the_other_rate_of_a_user_with_one_record_may_be_that_of_users() -> None:
    facts = {"unit": "user", "records_per_user": 1, "clients_rate": 0.1, "rate": 0.01}
    opened = ends(of(0.1, **facts, noise_multiplier=3.0, steps=10))
    for word in ("users", "records"):
        pinned = ends(of(0.1, **facts, noise_multiplier=3.0, steps=10, sampled=word))
        assert opened[0] <= pinned[0] * (1.0 + WITHIN)
        assert pinned[1] <= opened[1] * (1.0 + WITHIN)


@for_each(
    ("rate", "steps", "starts", "exact"),
    [("0.033", 90, 3, 1 / 30), ("0.013", 154, 2, 0.013), ("0.333", 12, 3, 0.333)],
)
def test_epochs_of_each_start_do_not_narrow_a_printed_rate(
    rate: str, steps: int, starts: int, exact: float
) -> None:
    facts = {"rate": Decimal(rate), "steps": steps, "restarts": starts, "noise_multiplier": 1.5}
    with_epochs = of(1.0, **facts, epochs=1)
    assert covers(with_epochs, drawn(1.5, exact, steps))
    lower, upper = ends(of(1.0, **facts))
    assert lower <= ends(with_epochs)[0] * (1.0 + WITHIN)
    assert ends(with_epochs)[1] <= upper * (1.0 + WITHIN)


def test_steps_of_all_starts_may_take_more_batches_each() -> None:
    facts = {"noise_multiplier": 4.07, "records": 680, "batch": 68, "epochs": 5, "restarts": 2}
    opened, counted = of(1.0, **facts, accumulation=2), of(1.0, **facts, accumulation=2, steps=50)
    # Fifty draws of two batches, or a hundred of one, are ten epochs.
    for result in (opened, counted):
        assert covers(result, drawn(4.07, 0.1, 100))
        assert covers(result, drawn(4.07, 0.2, 50))
    assert ends(counted)[1] <= ends(opened)[1] * (1.0 + WITHIN)


def test_batches_of_a_draw_are_told_by_any_rate_that_is_printed_alike() -> None:
    facts = {"rate": Decimal("0.000984"), "accumulation": 4, "epochs": 3, "noise_multiplier": 1.5}
    opened, counted = ends(of(0.2, **facts)), ends(of(0.2, **facts, steps=761))
    assert opened[0] <= counted[0] * (1.0 + WITHIN)
    assert counted[1] <= opened[1] * (1.0 + WITHIN)


def test_what_is_released_besides_may_be_released_once_for_all_starts() -> None:
    once = [{"what": "x", "noise_multiplier": 1.0, "of_batch": False}]
    facts = {"noise_multiplier": 2.0, "records": 1000, "batch": 100, "epochs": 3, "restarts": 3}
    result = of(5.0, **facts, steps=10, releases=once)
    released = ev.Gaussian(1.0)
    assert covers(result, ev.Compose([drawn(2.0, 0.1, 30), released]))
    assert covers(result, ev.Compose([drawn(2.0, 0.1, 30), ev.Repeat(3, released)]))
