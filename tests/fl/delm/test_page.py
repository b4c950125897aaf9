"""The page on DELM: its file, its epsilons and its accuracies are what comes out."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("sklearn")

import privplan
from privplan.accountant import events as ev
from privplan.accountant import rounding
from privplan.accountant.sensitivity import wishart
from privplan.accountant.sensitivity.functional import Objective, delta_as_published, sensitivity

ROOT: Final = Path(privplan.__file__).parent
SECTION: Final = (ROOT / "docs" / "how-to" / "objectives.md").read_text(encoding="utf-8")
EXAMPLE: Final[dict[str, Any]] = tomllib.loads((ROOT / "examples" / "delm.toml").read_text())


def test_the_file_in_short_is_a_part_of_the_example() -> None:
    """And what it leaves out is what is usual: both plan the same run."""
    (text,) = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
    short = tomllib.loads(text)
    for table, keys in short.items():
        assert keys.items() <= EXAMPLE[table].items()
    assert short.keys() == EXAMPLE.keys()
    plans = [privplan.plan_run(tables) for tables in (short, EXAMPLE)]
    assert plans[0].observers == plans[1].observers


def test_the_epsilons_are_those_of_the_plan() -> None:
    shown = dict(re.findall(r"^\| .*?(server|silo).*? \| ([\d.]+) \|", SECTION, re.M))
    planned = {
        row.observer: rounding.up(row.epsilon.upper) for row in privplan.plan_run(EXAMPLE).observers
    }
    assert shown == {name: planned[name] for name in ("server", "silo")}
    assert planned["model"] == planned["server"]  # they share a row


def test_the_accuracies_are_those_that_were_measured() -> None:
    rows = json.loads((ROOT / "bench" / "delm_headlines.json").read_text())["rows"]
    measured = {
        (row["data"], row["name"]): f"{row['accuracy']:.3f}".removeprefix("0")
        for row in rows
        if row["figure"] == "pieces"
    }
    names = ("network, as published", "delm-linear, Gaussian")
    expected = [measured[data, name] for data in ("digits", "synthetic-digits") for name in names]
    (sentence,) = re.findall(r"On digits of 100 clients.*?json", SECTION, re.DOTALL)
    assert re.findall(r"\.\d{3}\b", sentence) == expected


def test_the_numbers_of_the_pieces_are_computed() -> None:
    assert f"{wishart.failure(0.6):.3f}".removeprefix("0") == ".451"
    assert "its delta is .451 where the paper has epsilon .6" in SECTION
    crowd = privplan.account(
        ev.Shuffle(100, ev.Local(1.2)), delta=1e-5, neighbours="replace-one"
    ).epsilon.upper
    assert 0.574 < crowd <= 0.575
    assert "would have .575" in SECTION
    proven = sensitivity(Objective("logistic", 784), "replace-one").l1
    ratio = delta_as_published("logistic", 784) / proven
    assert f"noise {ratio:,.0f} times too wide at 784 features" in SECTION
