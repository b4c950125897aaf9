"""The residual tier over time: single rounds without noise, noise of older rounds, older logs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.audit.residual import residual_tier
from privplan.audit.residual.tier import judged

from ..cases import for_each
from .residual_runs import SILOS, accused, against, in_memory, normal, written


def in_one_round(scale: float, silos: slice = slice(None)) -> Any:
    """Return noise that is as wide as it should be but in round 3, in some silos."""

    def law(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
        found = normal(rng, number, width)
        if number == 3:
            found[silos] *= scale
        return found

    return law


@for_each("scale", [1e-4, 0.01, 0.05, 0.25, 0.5, 1.8])
@for_each("rounds", [4, 8, 40])
def test_a_single_round_without_its_noise_is_found(scale: float, rounds: int) -> None:
    found = judged(in_memory(in_one_round(scale), 1, rounds=rounds, width=31), 0.05)
    assert against(found) - {"values without noise"} == {"variance of the noise"}
    worst = next(one for one in found if one.contradicted).sample["worst"]
    assert str(worst).startswith("all shares of round 4,")


def test_a_single_share_of_a_single_round_is_found() -> None:
    law = in_one_round(0.05, slice(2, 3))
    found = judged(in_memory(law, 1, rounds=40, width=31), 0.05)
    assert against(found) == {"variance of the noise"}
    worst = next(one for one in found if one.contradicted).sample["worst"]
    assert str(worst).startswith("silo-2 of round 4,")


def test_a_single_step_of_a_single_round_is_found() -> None:
    """A round of 50 sums of 31 values, as in DP-SGD; the others drown it."""

    def law(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
        found = rng.normal(size=(SILOS, 50, width))
        if number == 1:
            found[1, 17] *= 0.05
        return found

    found = judged(in_memory(law, 1, rounds=2, width=31), 0.05)
    assert against(found) == {"variance of the noise"}
    worst = next(one for one in found if one.contradicted).sample["worst"]
    assert str(worst).startswith("silo-1 of the sum with the least noise of round 2,")


def reused(change: Any, ago: int = 2) -> Any:
    """Return noise that repeats, with a change, that of some rounds before, from round 6 on."""
    drawn: list[np.ndarray] = []

    def law(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
        found = normal(rng, number, width)
        if number >= 6 and number % (2 * ago) >= ago:
            found = change(found, drawn[number - ago])
        drawn.append(found)
        return found

    return law


def moving_average(_: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise that has half of its variance in common with that of two rounds before."""
    own = [normal(np.random.default_rng([7, each]), each, width) for each in (number, number + 2)]
    return np.asarray((own[0] + own[1]) / 2.0**0.5)


@for_each(
    ("law", "where"),
    [
        (reused(lambda _, before: -before), {"noise over time", "equal noise"}),
        (reused(lambda _, before: -before, ago=5), {"noise over time", "equal noise"}),
        (reused(lambda _, before: np.roll(before, 1, axis=-1)), {"equal noise"}),
        (reused(lambda _, before: -before[..., ::-1]), {"equal noise"}),
        (
            reused(lambda new, before: np.where(np.arange(new.shape[-1]) < 60, new, -before)),
            {"noise over time"},
        ),
        (moving_average, {"noise over time"}),
    ],
)
def test_noise_of_older_rounds_is_found(law: Any, where: set[str]) -> None:
    assert against(judged(in_memory(law, 1, rounds=16, width=100), 0.05)) == where


@pytest.mark.slow
def test_runs_of_many_steps_and_rounds_are_accused_at_most_as_often_as_is_said() -> None:
    """As `normal` alone, and each test is valid by itself, at chance 10^-4 of failing."""

    def steps(rng: np.random.Generator, _: int, width: int) -> np.ndarray:
        return rng.normal(size=(SILOS, 6, width))

    runs = 1500
    most = [int(stats.binom.isf(1e-4, runs, level)) for level in (0.0004, 0.05)]
    for law, width in ((normal, 31), (steps, 12)):
        contradicted, unusual = accused(law, range(7000, 7000 + runs), rounds=12, width=width)
        assert contradicted <= most[0]
        assert 0 < unusual <= most[1]


def test_statistics_of_earlier_versions_are_read_and_said_to_be_fewer(tmp_path: Path) -> None:
    def older(_: dict[str, Any], found: dict[str, Any]) -> None:
        for name in ("earlier", "unordered", "of_sums"):
            found["residuals"].pop(name, None)

    before = residual_tier(written(tmp_path / "older", older))
    now = residual_tier(written(tmp_path / "now", lambda *_: None))
    assert [one.what for one in before] == [one.what for one in now]
    assert any("an earlier version" in sentence for sentence in before[0].assumes)
    assert any("8 rounds before" in sentence for sentence in now[0].assumes)


@for_each(
    "wrong",
    [
        {"earlier": [[2.0]] * SILOS},
        {"earlier": [0.1] * SILOS},
        {"earlier": [[0.1]]},
        {"earlier": [[0.0] * 65] * SILOS},
        {"unordered": ["a"]},
        {"of_sums": {"n": 7, "least": [1.0] * SILOS, "most": [1.0] * SILOS}},
        {"of_sums": {"n": 20, "least": [1.0], "most": [1.0] * SILOS}},
        {"of_sums": {"n": 20, "least": [-1.0] * SILOS, "most": [1.0] * SILOS}},
        {"of_sums": {"n": 20, "least": [math.nan] * SILOS, "most": [1.0] * SILOS}},
    ],
)
def test_statistics_that_are_none_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    def change(_: dict[str, Any], found: dict[str, Any]) -> None:
        found["residuals"].update(wrong)

    with pytest.raises(InvalidInput, match="not understood"):
        residual_tier(written(tmp_path, change))
