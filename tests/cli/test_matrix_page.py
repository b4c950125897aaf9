"""The page on correlated noise: every number on it is computed again."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import rounding
from privplan.accountant.sensitivity.matrix import sensitivity_bounds, strategy_matrix
from privplan.cli.pages import topics

from ..cases import for_each
from .conftest import Run

PAGE = topics.page("matrix")
OFTEN = ev.SeparatedParticipation(10, 10)
STRATEGIES = {
    "independent, toeplitz [1]": ev.ToeplitzStrategy(100, [1.0]),
    "toeplitz [1, 0.5]": ev.ToeplitzStrategy(100, [1.0, 0.5]),
    "toeplitz [1, -0.5]": ev.ToeplitzStrategy(100, [1.0, -0.5]),
    "blt, decay 0.9, scale 0.3": ev.BufferedToeplitzStrategy(100, [0.9], [0.3]),
    "tree, fan-out 2": ev.TreeStrategy(100, 2),
    "the same, padded to 128 rounds": ev.TreeStrategy(128, 2),
}


@for_each("name", STRATEGIES)
def test_the_table_of_strategies(name: str) -> None:
    printed = re.search(rf"^  {re.escape(name)} +(.*)$", PAGE, re.MULTILINE)
    assert printed is not None
    always = ev.SeparatedParticipation(100, 1)
    each = (ev.SingleParticipation(), OFTEN, always)
    ends = [sensitivity_bounds(STRATEGIES[name], participation).bounds for participation in each]
    most = [bounds.upper for bounds in ends]
    if name.startswith("independent"):
        # The root of the number of rounds, without the margin for rounding.
        most = [1.0, math.sqrt(10.0), 10.0]
        for bounds, root in zip(ends, most, strict=True):
            assert bounds.lower <= root <= bounds.upper
    assert printed[1].split() == [rounding.up(end) for end in most]


def test_the_numbers_of_the_text() -> None:
    differences = ev.DenseStrategy([[1, 0], [-1, 1]])
    matrix = strategy_matrix(differences)
    repelling = 4.0 * np.eye(3) - 1.0
    bends = np.array([[math.cos(a), math.sin(a)] for a in (0.0, 2 * math.pi / 3, 4 * math.pi / 3)])
    opposite = np.array([1.0, 1.0, -1.0])
    numbers = {
        "1.225": np.hypot.reduce(1.0 / np.linalg.norm(np.linalg.inv(matrix), axis=1)),
        "1.414": max(np.linalg.norm(matrix @ each) for each in ([1, 0], [0, 1], [1, 1])),
        "2.236": np.linalg.norm(matrix @ [1.0, -1.0]),
        "3.317": math.sqrt(opposite @ repelling @ opposite),
        "3.464": math.sqrt(np.einsum("id,ij,jd", bends, repelling, bends)),
        "3.873": math.sqrt(np.abs(repelling).sum()),
    }
    for printed, number in numbers.items():
        assert f"{number:.3f}" == printed
        assert re.search(rf"(?<![\d.]){printed}(?!\d)", PAGE), printed
    found = sensitivity_bounds(differences, ev.SeparatedParticipation(2, 1))
    assert round(found.bounds.upper, 3) == 2.236


def test_the_epsilons_of_the_text() -> None:
    for printed, name in (
        ("0.5613", "independent, toeplitz [1]"),
        ("0.8612", "blt, decay 0.9, scale 0.3"),
    ):
        run = ev.MatrixGaussian(20.0, STRATEGIES[name], OFTEN)
        assert rounding.up(pp.account(run, delta=1e-5).epsilon.upper) == printed
        assert printed in PAGE


def test_the_event_of_the_page_is_read() -> None:
    text = PAGE[PAGE.index('  {"type": "matrix-gaussian"') :].split("`privplan")[0]
    run = ev.from_json(json.loads(text))
    assert run == ev.MatrixGaussian(20.0, STRATEGIES["blt, decay 0.9, scale 0.3"], OFTEN)


def test_a_person_is_told_what_the_number_rests_on(run: Run, tmp_path: Path) -> None:
    text = PAGE[PAGE.index('  {"type": "matrix-gaussian"') :].split("`privplan")[0]
    event = tmp_path / "run.json"
    event.write_text(text, encoding="utf-8")
    account = " ".join(run("account", str(event), "--delta", "1e-5").out.split())
    assert "0.8612" in account
    assert "correlated Gaussian noise 20 over all rounds" in account
    explained = " ".join(run("explain", str(event), "--delta", "1e-5").out.split())
    assert "Kalinin and Lampert 2024" in explained
    assert "at most 10 rounds, any two at least 10 apart" in explained


def test_balls_in_bins() -> None:
    def run(participation: ev.Participation) -> ev.Event:
        return ev.MatrixGaussian(2.0, STRATEGIES["toeplitz [1, 0.5]"], participation)

    hidden = pp.account(run(ev.BallsInBins(50)), delta=1e-5).epsilon
    known = pp.account(run(ev.EpochParticipation(2)), delta=1e-5).epsilon
    low, high = rounding.down(hidden.lower, 4), rounding.up(hidden.upper, 4)
    assert f"epsilon between {low} and {high}, and {rounding.up(known.upper, 4)}" in PAGE
