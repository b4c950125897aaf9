"""Rates that were printed with few digits, beside counts and batches that do not say them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from privplan.accountant import events as ev

from ..cases import for_each
from .completion_runs import covers, drawn, ends, epsilon, narrows, of

PRINTED: dict[str, Any] = {"noise_multiplier": 1.1, "rate": Decimal("0.0043")}


@for_each("unit, counted", [("record", "records"), ("user", "users")])
def test_a_printed_rate_stays_open_where_it_times_all_is_whole(unit: str, counted: str) -> None:
    facts = PRINTED | {"unit": unit, counted: 60_000, "steps": 3500}
    open_to = of(1.14, **facts)
    # Batches of 255 to 261 are all printed so, and 258 is no more likely than another.
    for batch in (255, 258, 261):
        assert covers(open_to, drawn(1.1, batch / 60_000, 3500))
    assert open_to.verdict == "unverifiable"
    told = of(1.14, **facts, batch=260)
    assert covers(told, drawn(1.1, 260 / 60_000, 3500))
    assert narrows(told, open_to)
    lower, upper = ends(told)
    assert upper - lower < 1e-3


def test_a_count_of_records_adds_nothing_to_a_printed_rate() -> None:
    assert ends(of(1.14, **PRINTED, steps=3500, records=60_000)) == ends(
        of(1.14, **PRINTED, steps=3500)
    )


def test_a_printed_rate_leaves_open_how_many_passes_a_shuffled_loader_made() -> None:
    facts = PRINTED | {"noise_multiplier": 6.0, "records": 60_000, "steps": 3460}
    how: dict[str, Any] = {"method": "shuffled", "neighbours": "zero-out"}
    open_to = of(1.0, **facts, **how)
    # A loader of 261 that drops the last has 229 batches: 3,460 steps reach into a sixteenth pass,
    # and who knows the order sees a record of its first batches.
    passes = epsilon(ev.Repeat(16, ev.Gaussian(6.0)), neighbours="zero-out")
    assert ends(open_to)[1] >= passes.lower
    assert ends(of(1.0, **facts, **how, batch=258))[1] < passes.lower


@for_each("batch, neighbours", [(256, "add-remove"), (258, "zero-out"), (260, "zero-out")])
def test_a_printed_rate_leaves_open_what_a_shuffled_loader_drops(
    batch: int, neighbours: str
) -> None:
    # A loader of 258 drops 144 of 60,000 records, and one of 255 no more than 75.
    facts = PRINTED | {"noise_multiplier": 6.0, "records": 60_000, "steps": 3440}
    how: dict[str, Any] = {"method": "shuffled", "neighbours": neighbours}
    assert narrows(of(1.0, **facts, **how, batch=batch), of(1.0, **facts, **how))


def test_a_printed_rate_of_a_phase_leaves_as_much_open() -> None:
    how: dict[str, Any] = {"method": "shuffled", "neighbours": "zero-out"}
    of_rate = of(1.0, **(PRINTED | {"noise_multiplier": 6.0}), steps=3440, **how)
    of_phase = of(1.0, phases=[[6.0, Decimal("0.0043"), 3440]], **how)
    assert ends(of_phase) == ends(of_rate)


@for_each("last", ["dropped", "kept"])
@for_each("batch", [256, 257, 259, 260])
def test_epochs_at_a_printed_rate_cover_the_loaders_that_print_it(batch: int, last: str) -> None:
    facts = PRINTED | {"records": 60_000, "epochs": 15}
    open_to = of(1.14, **facts)
    steps = 15 * (60_000 // batch if last == "dropped" else -(-60_000 // batch))
    assert covers(open_to, drawn(1.1, batch / 60_000, steps))
    told = of(1.14, **facts, batch=batch)
    assert covers(told, drawn(1.1, batch / 60_000, steps))
    assert narrows(told, open_to)


@for_each("records", [1, 100, 999])
def test_a_batch_of_fewer_records_than_users_may_be_a_share_of_the_records(records: int) -> None:
    batch = min(10, records)
    facts = {"noise_multiplier": 2.0, "batch": batch, "records": records, "users": 1000}
    result = of(1.0, unit="user", **facts, steps=10)
    # Users with one record or none are data, too, of whom some are drawn as often as records are.
    assert covers(result, drawn(2.0, batch / records, 10))
    assert covers(result, drawn(2.0, batch / 1000, 10))


def test_users_of_whom_each_has_records_are_drawn_as_users() -> None:
    facts = {"noise_multiplier": 2.0, "batch": 10, "records": 1000, "users": 1000}
    lower, upper = ends(of(1.0, unit="user", **facts, steps=10))
    truth = epsilon(drawn(2.0, 0.01, 10))
    assert lower <= truth.upper
    assert truth.lower <= upper < 1.001 * truth.upper


@for_each("printed", [".33", ".333", ".3333"])
def test_a_rate_of_a_loader_beside_its_batch_leaves_the_share_open(printed: str) -> None:
    rate = Decimal(f"0{printed}")
    result = of(2.5, noise_multiplier=2.0, batch=300, records=1000, rate=rate, steps=10)
    # One over three batches was printed: the sampler draws at it, or takes 300 of 1,000.
    assert covers(result, drawn(2.0, 0.3, 10))
    assert covers(result, drawn(2.0, 1 / 3, 10))
    assert result.verdict == "unverifiable"


def test_a_rate_that_the_batch_is_printed_as_is_that_of_the_batch() -> None:
    result = of(2.5, noise_multiplier=2.0, batch=334, records=1001, rate=Decimal("0.33"), steps=10)
    truth = epsilon(drawn(2.0, 334 / 1001, 10))
    lower, upper = ends(result)
    assert lower <= truth.upper
    assert truth.lower <= upper < 1.001 * truth.upper


@for_each(
    "rate, counts",
    [
        (0.4, ((0.4, 2), (0.4, 3))),
        (Decimal("0.43"), ((0.425, 2), (0.425, 3), (0.435, 2), (0.435, 3))),
        (Decimal("0.49"), ((0.485, 2), (0.485, 3), (0.495, 2), (0.495, 3))),
        (0.5, ((0.5, 2),)),
    ],
)
def test_delta_by_the_batches_of_a_rate_keeps_the_last_one_or_drops_it(
    rate: Any, counts: tuple[tuple[float, int], ...]
) -> None:
    facts = {"noise_multiplier": 1.0, "rate": rate, "steps": 20}
    result = of(1.6, delta=None, delta_rule="1/batches", **facts)
    for sampled, batches in counts:
        assert covers(result, drawn(1.0, sampled, 20), delta=1 / batches)
    if len(counts) > 1:
        assert result.verdict == "unverifiable"
