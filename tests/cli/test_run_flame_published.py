"""A run of FLAME as published, from configuration to page: no number is called a guarantee."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Run
from .test_run_disco_published import finite_uppers, metrics_without_guarantee

CONFIG = """
[run]
system = "flame-double"
rounds = 2
[data]
name = "breast-cancer"
users = 20
[privacy]
noise_multiplier = 4.0
[training]
local_epochs = 1
[flame]
chosen = 5
padded_to = 20
transport = "ideal"
as_published = {published}
"""


def written(published: str) -> str:
    Path("run.toml").write_text(CONFIG.format(published=published))
    return "run.toml"


@pytest.mark.usefixtures("fl")
def test_a_claim_stands_beside_no_guarantee(run: Run) -> None:
    config = written("true")
    planned = run("run", config, "--dry-run", "--json").json["result"]
    assert len(planned["observers"]) == 5
    assert finite_uppers(planned) == []
    said = " ".join(run("run", config, "--dry-run").out.split())
    assert "because FLAME as published: what a user sends stays together" in said

    metrics = metrics_without_guarantee(run, config)
    assert {one["epsilon"] for one in metrics["guarantees"].values()} <= {None, "inf"}

    audited = run("audit", "budget", "out", "--json")
    assert audited.code == 1
    found = audited.json["result"]
    assert 0.0 < found["claimed"] < 5.0  # two rounds of five messages of 0.5 are 5
    assert finite_uppers(found) == []
    assert {one["id"] for one in found["hazards"]} == {"as-published", "no-number"}
    assert "its bound on a message is mistyped" in " ".join(
        run("audit", "budget", "out").out.split()
    )

    reported = run("report", "out", "-o", "page.html")
    assert reported.code == 1
    page = " ".join(re.sub(r"<[^>]+>", " ", Path("page.html").read_text()).split())
    assert "No number is proven before anybody." in page
    assert "There is no finite epsilon to draw." in page


@pytest.mark.usefixtures("fl")
def test_the_same_run_in_a_form_that_holds_has_numbers(run: Run) -> None:
    planned = run("run", written("false"), "--dry-run", "--json").json["result"]
    assert len(finite_uppers(planned)) >= 4
