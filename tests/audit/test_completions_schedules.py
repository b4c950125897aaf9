"""Epochs of a stated size, steps of several starts, and phases: what is allowed, what is not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ..cases import for_each
from .completion_runs import covers, drawn, ends, epsilon, of

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
