"""Rates that were printed beside a batch, or steps and epochs: what else is meant by them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from privplan import check

from ..cases import for_each
from .completion_runs import covers, drawn, ends, of

DELTA = 1e-4


@for_each(
    "row, records, batch, rates",
    [
        # 1 / floor(n / b), 1 / ceil(n / b) and b / n, of which each is printed as the row has it.
        ("2.0,0.2,8", 30_418, 5_115, (5_115 / 30_418, 1 / 5)),
        ("3.5,0.2,46", 871, 196, (196 / 871, 1 / 5)),
        ("4.0,0.25,55", 1_988, 500, (500 / 1_988, 1 / 4)),
    ],
)
def test_a_rate_that_a_history_has_may_be_that_of_its_loader(
    tmp_path: Path, row: str, records: int, batch: int, rates: tuple[float, ...]
) -> None:
    file = tmp_path / "run.csv"
    file.write_text(f"noise_multiplier,sample_rate,steps\n{row}\n")
    facts: dict[str, Any] = {"records": records, "batch": batch, "method": "poisson"}
    result = check(file, **facts, neighbours="add-remove", delta=DELTA)
    noise, _, steps = row.split(",")
    for rate in rates:
        assert covers(result, drawn(float(noise), rate, int(steps)), delta=DELTA)


def test_a_batch_beside_a_printed_rate_allows_no_rate_that_is_printed_otherwise() -> None:
    facts = {"noise_multiplier": 17.0, "rate": Decimal("0.155"), "epochs": 2, "records": 394}
    before = ends(of(0.1, **facts, delta=DELTA))
    after = ends(of(0.1, **facts, batch=61, delta=DELTA))
    assert before[0] <= after[0] <= after[1] <= before[1]
    assert covers(of(0.1, **facts, batch=61, delta=DELTA), drawn(17.0, 61 / 394, 13), delta=DELTA)


def test_steps_beside_epochs_leave_the_rates_at_which_both_are_true() -> None:
    facts = {"noise_multiplier": 1.6, "rate": Decimal("0.11"), "epochs": 3}
    before = ends(of(2.0, **facts, delta=DELTA))
    result = of(2.0, **facts, steps=26, delta=DELTA)
    after = ends(result)
    assert before[0] <= after[0] <= after[1] <= before[1]
    # 26 steps in three epochs are eight batches in each, and two more.
    for rate in (1 / 9, 0.115):
        assert covers(result, drawn(1.6, rate, 26), delta=DELTA)
