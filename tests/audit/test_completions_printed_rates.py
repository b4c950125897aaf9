"""Rates that were printed beside a batch, or steps and epochs: what else is meant by them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from privplan import check
from privplan.accountant import events as ev

from ..cases import for_each
from .completion_runs import covers, drawn, ends, epsilon, narrows, of

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


PHASED = """\
[claim]
epsilon = "1.99"
delta = 1e-5
[sampling]
method = "poisson"
[schedule]
phases = [[1.3, {}, 20], [1.1, {}, 15]]
"""


def of_phases(low: float, high: float) -> float:
    """Return the upper end of two phases at these rates, as certified of one event."""
    parts = (
        ev.Repeat(20, ev.Poisson(low, ev.Gaussian(1.3))),
        ev.Repeat(15, ev.Poisson(high, ev.Gaussian(1.1))),
    )
    return float(epsilon(ev.Compose(parts)).upper)


def test_a_short_rate_of_a_phase_leaves_the_digits_of_others_open(tmp_path: Path) -> None:
    """A rate of one digit was chosen so, and one of two digits beside it was not."""
    (tmp_path / "run.toml").write_text(PHASED.format("0.04", "0.067"))
    result = check(str(tmp_path / "run.toml"))
    assert ends(result)[0] <= of_phases(0.04, 0.0666) < of_phases(0.04, 0.0674) <= ends(result)[1]
    assert "chosen-rate" in {each.id for each in result.conventions}


def test_rates_of_phases_that_a_program_printed_are_open_whatever_their_digits(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.csv").write_text("sigma,q,steps\n1.3,0.04,20\n1.1,0.04,15\n")
    result = check(str(tmp_path / "run.csv"), delta=1e-5, claimed=1.4, method="poisson")
    low, high = ends(result)
    assert low <= of_phases(0.0351, 0.0351) < of_phases(0.0449, 0.0449) <= high
    assert "chosen-rate" not in {each.id for each in result.conventions}


def test_a_rate_beside_phases_is_no_more_open_than_they_are(tmp_path: Path) -> None:
    said = PHASED.format("0.043", "0.043")
    (tmp_path / "run.toml").write_text(said)
    (tmp_path / "told.toml").write_text(said.replace("method", "rate = 0.0434\nmethod"))
    open_to, told = check(str(tmp_path / "run.toml")), check(str(tmp_path / "told.toml"))
    assert narrows(told, open_to)
    assert ends(told)[0] <= of_phases(0.0434, 0.0434) <= ends(told)[1]
