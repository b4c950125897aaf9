"""The residual tier: sound runs pass, broken noise is found, and what is found stays sealed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.audit.residual import residual_tier
from privplan.audit.residual.tier import judged

from ..cases import for_each
from ..chance import FALSE_ALARM
from .residual_runs import (
    SILOS,
    SURE,
    WHAT,
    accused,
    against,
    in_memory,
    normal,
    noticed,
    on_disk,
    written,
)

# --- false alarms and power -----------------------------------------------------------------------


@for_each(("rounds", "width"), [(6, 31), (2, 300), (1, 12)])
def test_sound_runs_are_hardly_ever_accused(rounds: int, width: int) -> None:
    """At most one in twenty; the test fails for such a tier with probability 10^-6 at most."""
    runs = 150
    most = int(stats.binom.isf(FALSE_ALARM, runs, 0.05))
    contradicted, unusual = accused(normal, range(runs), rounds=rounds, width=width)
    assert contradicted == 0  # at 1 in 2,500; the seeds are fixed
    assert unusual <= most


@pytest.mark.slow
def test_sound_runs_are_accused_at_most_as_often_as_is_said() -> None:
    runs = 4000
    most = [int(stats.binom.isf(FALSE_ALARM, runs, level)) for level in (0.0004, 0.05)]
    contradicted, unusual = accused(normal, range(1000, 1000 + runs), rounds=5, width=40)
    assert contradicted <= most[0]
    assert 0 < unusual <= most[1]


@for_each(("scale", "width"), [(0.95, 250), (1.06, 250), (0.98, 2500)])
def test_noise_that_is_a_little_too_narrow_is_found(scale: float, width: int) -> None:
    """5,000 values of .95, and 50,000 of .98: 18 of 20 runs are unusual at least.

    Of runs that are found with probability .97, fewer than 18 are found with one of 0.02; the
    seeds are fixed.  Twice as many values contradict the log.
    """
    _, found = accused(
        lambda rng, number, size: scale * normal(rng, number, size),
        range(20),
        rounds=5,
        width=width,
    )
    assert found >= 18
    contradicted, _ = accused(
        lambda rng, number, size: scale * normal(rng, number, size),
        range(20),
        rounds=10,
        width=width,
    )
    assert contradicted >= 18


def once(_: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return the same noise in every round."""
    return normal(np.random.default_rng(99), number, width)


def partly(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise of which a third of the variance is the same in every round."""
    return (2 / 3) ** 0.5 * normal(rng, number, width) + (1 / 3) ** 0.5 * once(rng, number, width)


def shared(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise of which silos 1 and 3 have the same."""
    found = normal(rng, number, width)
    found[3] = found[1]
    return found


def against_each_other(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise of which silo 0 takes off what the others add."""
    found = normal(rng, number, width)
    found[0] = -found[1:].sum(axis=0) / (SILOS - 1) ** 0.5
    return found


def one_silo(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise that is too narrow in one silo only."""
    found = normal(rng, number, width)
    found[2] *= 0.8
    return found


def laplace(rng: np.random.Generator, _: int, width: int) -> np.ndarray:
    """Return Laplace noise of the right variance."""
    return rng.laplace(scale=0.5**0.5, size=(SILOS, width))


def one_value(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return noise that one value of one round lacks."""
    found = normal(rng, number, width)
    found[1, 7] *= number != 3
    return found


def nothing(rng: np.random.Generator, number: int, width: int) -> np.ndarray:
    """Return no noise."""
    return 0.0 * normal(rng, number, width)


@for_each(
    ("law", "where"),
    [
        (lambda *own: 0.5 * normal(*own), "variance of the noise"),
        (one_silo, "variance of the noise"),
        (against_each_other, "variance of the noise"),
        (nothing, "variance of the noise"),
        (nothing, "values without noise"),
        (laplace, "shape of the noise"),
        (once, "noise over time"),
        (once, "equal noise"),
        (partly, "noise over time"),
        (shared, "noise across silos"),
        (shared, "equal noise"),
    ],
)
def test_broken_noise_is_found(law: Any, where: str) -> None:
    assert where in against(judged(in_memory(law, 1, rounds=10, width=100), 0.05))


def test_one_value_without_noise_is_unusual_and_no_accusation() -> None:
    """Of 8,000 values on a grid one is 0 by chance once in 330 runs."""
    found = judged(in_memory(one_value, 1, rounds=10, width=100), 0.05)
    assert (against(found), noticed(found)) == (set(), {"values without noise"})
    own = next(one for one in found if one.unusual)
    assert 0.0004 < own.value <= 0.05
    assert "At most one honest run in 20" in own.proves
    assert "accusation" not in own.proves  # which another question may make
    assert "here" in next(one for one in found if not one.unusual).proves


@for_each(
    ("limits", "where"),
    [
        ({"sum_off": 1.01}, "sums made again"),
        ({"sum_off": float("inf")}, "sums made again"),
        ({"term_largest": 1.0001}, "norms after clipping"),
        ({"weight_largest": 1.25}, "weights of a unit"),
    ],
)
def test_a_limit_that_is_passed_is_found(limits: dict[str, float], where: str) -> None:
    assert against(judged(in_memory(normal, 1, rounds=3, width=50, **limits), SURE)) == {where}


# --- what is read ---------------------------------------------------------------------------------


def test_every_question_is_answered(tmp_path: Path) -> None:
    found = residual_tier(on_disk(tmp_path / "run"))
    assert tuple(one.what for one in found) == WHAT
    assert {one.tier for one in found} == {"residual"}
    assert {(one.kind, one.quantity) for one in found} == {("test", "p-value")}
    assert {(one.unit, one.neighbours) for one in found} == {("user", "add-remove")}
    assert all(one.contradicted == (one.value <= 0.0004) for one in found)
    assert all(one.unusual == (0.0004 < one.value <= 0.05) for one in found)
    assert {(one.level, one.confidence) for one in found} == {(0.0004, 0.95)}
    assert all(one.value > SURE for one in found)


def test_the_disk_says_what_memory_does(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "run", seed=5, rounds=4, width=50)
    kept = judged(in_memory(normal, 5, rounds=4, width=50), 0.05)
    for one, other in zip(residual_tier(folder), kept, strict=True):
        assert one.value == pytest.approx(other.value)


@for_each(
    "change",
    [
        lambda facts, _: facts["intent"].update(share_std=2.4),
        lambda facts, _: facts["intent"].update(shares=SILOS + 1),
        lambda facts, _: facts["release"].update(shares=SILOS - 1),
        lambda facts, _: facts["release"].update(values=49),
        lambda _, found: found["residuals"].update(silos=[0, 1, 2, 2]),
        lambda _, found: found["residuals"].update(sums=2),
        lambda _, found: found["residuals"].update(std=2.4),
        lambda _, found: found["residuals"]["whole"].update(silos=[0, 1, 2]),
    ],
)
def test_draws_that_the_log_does_not_speak_of_are_found(tmp_path: Path, change: Any) -> None:
    assert against(residual_tier(written(tmp_path / "run", lambda *_: None), alpha=SURE)) == set()
    assert "draws and shares" in against(
        residual_tier(written(tmp_path / "other", change), alpha=SURE)
    )


def test_a_log_that_states_more_noise_than_was_drawn_is_found(tmp_path: Path) -> None:
    """The stated variance is the log's, whatever the run scaled its statistics by."""

    def change(facts: dict[str, Any], found: dict[str, Any]) -> None:
        facts["intent"].update(share_std=5.0)
        found["residuals"].update(std=5.0)

    found = against(residual_tier(written(tmp_path / "run", change), alpha=SURE))
    assert found == {"variance of the noise"}
