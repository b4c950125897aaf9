"""A run of DISCO as published, from configuration to page: no number is called a guarantee."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .conftest import Refused, Run
from .runs import written

AS_PUBLISHED = {
    "system": "disco",
    "privacy": "epsilon = 10.0",
    "silos": 4,
    "more": '[disco]\nnoise = "as_published"\n[security]\naggregation = "plain"',
}


def finite_uppers(found: object) -> list[object]:
    """Return every finite upper end in what was reported, wherever it stands."""
    if isinstance(found, dict):
        upper = found.get("upper", "inf")
        here = [] if upper in ("inf", None) else [upper]
        return here + [each for value in found.values() for each in finite_uppers(value)]
    if isinstance(found, list):
        return [each for value in found for each in finite_uppers(value)]
    return []


def metrics_without_guarantee(run: Run, config: str) -> Any:
    """Make a run that nobody may call private, and return its metrics: no number bounds it."""
    made = run("run", config, "--out", "out")
    assert made.code == 0
    assert "nothing: there is no guarantee" in made.out
    assert "as it was published, which is not sound" in " ".join(made.err.split())
    metrics = json.loads((Path("out") / "metrics.json").read_text())
    assert finite_uppers(metrics) == []
    return metrics


@pytest.mark.usefixtures("fl")
def test_a_claim_of_ten_stands_beside_no_guarantee(run: Run) -> None:
    config = written(**AS_PUBLISHED)
    planned = run("run", config, "--dry-run", "--json").json["result"]
    assert {row["observer"] for row in planned["observers"]} == {"model", "peer", "coordinator"}
    assert finite_uppers(planned) == []

    metrics = metrics_without_guarantee(run, config)
    assert [one["epsilon_so_far"] for one in metrics["rounds"]] == [{}] * 3
    assert {one["epsilon"] for one in metrics["guarantees"].values()} <= {None, "inf"}

    audited = run("audit", "budget", "out", "--json")
    assert audited.code == 1
    found = audited.json["result"]
    assert found["claimed"] == 10.0
    assert found["epsilon"]["upper"] == "inf"
    assert not found["supported"]
    assert finite_uppers(found) == []
    assert {one["id"] for one in found["hazards"]} == {"private-bound", "as-published"}

    reported = run("report", "out", "-o", "page.html")
    assert reported.code == 1
    assert "does not support what it claims" in reported.out
    page = " ".join(re.sub(r"<[^>]+>", " ", Path("page.html").read_text()).split())
    assert "Nothing that can be relied on: epsilon 10 at delta 1e-05 is claimed" in page
    assert "No number is proven before anybody." in page
    assert "There is no finite epsilon to draw." in page
    assert set(re.findall(r"epsilon ([0-9.]+)", page)) == {"10", "10.0000"}


def test_the_search_for_numbers_finds_those_of_a_sound_run(run: Run) -> None:
    """A control: the same noise rule but one, of which every report has numbers."""
    sound = {**AS_PUBLISHED, "more": AS_PUBLISHED["more"].replace("as_published", "local")}  # type: ignore[attr-defined]
    planned = run("run", written(**sound), "--dry-run", "--json").json["result"]
    assert len(finite_uppers(planned)) >= 3


@pytest.mark.usefixtures("fl")
def test_a_budget_beside_the_noise_is_refused(refused: Refused) -> None:
    both = {**AS_PUBLISHED, "privacy": "epsilon = 10.0\nnoise_multiplier = 21.7"}
    assert "gives `epsilon` and `noise_multiplier`" in refused(
        "run", written(**both), "--out", "out"
    )
    assert not Path("out").exists()
