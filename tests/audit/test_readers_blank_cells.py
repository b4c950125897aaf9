"""Rows that lack a setting: other rows never lend them theirs."""

from __future__ import annotations

from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.readers import csv_history, history_rows, jsonl_history

from ..cases import for_each


@for_each(
    ("reader", "text", "named"),
    [
        (
            csv_history,
            "sigma,q,steps\n2.0,0.004,1000\n,0.004,1000\n",
            "Line 3 has `q` and no `sigma",
        ),
        (csv_history, "sigma,q,steps\n2.0,0.004,1000\n2.0,,1000\n", "Line 3 has .* no `q`"),
        (csv_history, "sigma,q,steps\n2.0,0.004,1000\n2.0,0.004, \n", "Line 3 has .* no `steps`"),
        (csv_history, "sigma,q,steps\n2.0,0.004,\n2.0,0.004,1000\n", "Line 2 has .* no `steps`"),
        (csv_history, "epoch,sigma,epsilon\n1,1.1,0.5\n2,,0.7\n", "Line 3 has .* no `sigma`"),
        (csv_history, "epoch,batch_size,epsilon\n1,256,0.5\n2,,0.7\n", "no `batch_size`"),
        (
            jsonl_history,
            '{"sigma": 2.0, "q": 0.004, "steps": 9}\n{"noise_std": 0.2, "q": 0.004, "steps": 9}',
            "Line 2 has `q` and no `sigma`",
        ),
        (
            jsonl_history,
            '{"sigma": 2.0, "q": 0.004, "steps": 9}\n{"sigma": null, "q": 0.004, "steps": 9}',
            "Line 2 has `q` and no `sigma`",
        ),
    ],
)
def test_a_row_without_a_setting_is_refused(reader: Any, text: str, named: str) -> None:
    assert reader.recognises(text.encode(), "file")
    with pytest.raises(InvalidInput, match=named):
        reader.read(text.encode(), "file")


def test_a_first_line_of_settings_speaks_for_all_rows() -> None:
    text = '{"sigma": 1.1, "q": 0.004}\n{"epoch": 1, "epsilon": 0.5}\n{"epoch": 2, "epsilon": 0.7}'
    facts = jsonl_history.read(text.encode(), "file").facts
    assert facts["noise.noise_multiplier"].value == 1.1
    blank = "epoch,epsilon,loss,sigma\n1,0.5,,1.1\n1,0.6,0.3,1.1\n"
    assert csv_history.read(blank.encode(), "file").facts["noise.noise_multiplier"].value == 1.1


@for_each("zero", ["0", "0.0", "0.0000", "-0"])
def test_a_row_without_noise_never_gets_that_of_others(zero: str) -> None:
    for rows in (f"1.1,0.004,1000\n{zero},0.004,516\n", f"{zero},0.004,516\n1.1,0.004,1000\n"):
        reading = csv_history.read(f"sigma,q,steps\n{rows}".encode(), "file")
        assert "noise.noise_multiplier" not in reading.facts
        assert "schedule.phases" not in reading.facts
        assert any("no noise at all" in doubt for doubt in reading.doubts)
    lines = f'{{"sigma": 1.1, "q": 1, "steps": 9}}\n{{"sigma": {float(zero)}, "q": 1, "steps": 9}}'
    assert "noise.noise_multiplier" not in jsonl_history.read(lines.encode(), "file").facts


def test_numbers_with_stray_underscores_are_no_numbers() -> None:
    with pytest.raises(InvalidInput, match="1_1"):
        csv_history.read(b"sigma,q,steps\n1_1,0.004,1000\n", "file")


def test_tables_have_a_limit_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_rows, "MAX_HISTORY_ROWS", 3)
    for reader, first, row in (
        (csv_history, "epoch,epsilon\n", "1,0.5\n"),
        (jsonl_history, "", '{"epoch": 1, "epsilon": 0.5}\n'),
    ):
        reader.read((first + row * 3).encode(), "file")
        with pytest.raises(InvalidInput, match="more than 3 rows"):
            reader.read((first + row * 4).encode(), "file")
