"""Weights in the clear, and the server with silos that tell it all they know."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity.uldp import (
    CLEAR_WEIGHTS,
    coalition_release,
    insider_release,
    naive_release,
)

from ..cases import for_each

DELTA = 1e-5


def delta_of(epsilon: float, mu: float) -> float:
    """Return the delta of two Gaussians mu deviations apart, by its closed form."""
    return float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    )


def epsilon_of(mu: float) -> float:
    return float(brentq(lambda epsilon: delta_of(epsilon, mu) - DELTA, 1e-9, 500.0))


def mu_of(epsilon: float) -> float:
    return float(brentq(lambda mu: delta_of(epsilon, mu) - DELTA, 1e-6, 50.0))


def stated_mu(event: ev.Event, neighbours: str) -> float:
    """Return by how many deviations a sum moves for which an event is the bound."""
    assert isinstance(event, ev.Gaussian)
    return (2.0 if neighbours == "replace-one" else 1.0) / event.noise_multiplier


@for_each("neighbours", ["add-remove", "replace-one"])
def test_a_silo_that_applies_the_weight_has_no_guarantee(neighbours: str) -> None:
    """From n_su and n_su / N_u it knows N_u: with records elsewhere it is another number."""
    here = 3
    seen = {elsewhere: here / (here + elsewhere) for elsewhere in range(5)}
    assert len(set(seen.values())) == len(seen)
    run = insider_release(
        5.0, rounds=7, silos=5, weighting="records", holds_user=True, neighbours=neighbours
    )
    assert run.event == ev.Repeat(7, CLEAR_WEIGHTS)
    found = pp.account(run.event, delta=DELTA, neighbours=neighbours)
    assert found.epsilon.upper == math.inf
    assert "N_u" in CLEAR_WEIGHTS.reason


def test_where_nobody_sees_the_weight_it_has_one() -> None:
    given: dict[str, Any] = {"rounds": 1, "silos": 5, "weighting": "records"}
    hidden = insider_release(5.0, hidden_weights=True, **given)
    assert stated_mu(hidden.event, "add-remove") == pytest.approx(2 * math.sqrt(5 / 4) / 5)
    assert any("nobody sees a weight" in one for one in hidden.conditions)
    outside = insider_release(5.0, holds_user=False, **given)
    assert any("N_u reaches nobody" in one for one in outside.conditions)
    uniform = insider_release(5.0, rounds=1, silos=5)
    assert isinstance(uniform.event, ev.Gaussian)
    assert not any("N_u" in one for one in uniform.conditions)


@for_each(("dropouts", "expected"), [(0, 9.53), (1, 12.26)])
def test_shares_that_colluders_know_and_missing_ones_do_not_count(
    dropouts: int, expected: float
) -> None:
    """Five silos, of which four prove 8.00, and two that tell the server their own noise.

    Three shares are left where nobody is missing, and then there are five; the noise of four is
    what proves 8.00 in either case.
    """
    whole = mu_of(8.0)
    left = 5 - 2 - dropouts
    by_hand = whole * math.sqrt(4 / left)
    assert epsilon_of(by_hand) == pytest.approx(expected, abs=0.005)
    run = coalition_release(
        1.0 / whole,
        rounds=1,
        silos=5,
        colluders=2,
        weighting="records",
        holds_user=False,
        tolerated_dropouts=1,
    )
    found = pp.account(run.event, delta=DELTA).epsilon.upper
    assert found == pytest.approx(12.26, abs=0.005)
    assert found >= epsilon_of(by_hand) * (1 - 1e-9)


@for_each("weighting", ["uniform", "records"])
@for_each(("silos", "missing"), [(2, 0), (5, 0), (5, 2), (10, 3)])
@for_each("neighbours", ["add-remove", "replace-one"])
def test_one_colluder_sees_what_a_silo_sees(
    weighting: str, silos: int, missing: int, neighbours: str
) -> None:
    given: dict[str, Any] = {
        "rounds": 3,
        "silos": silos,
        "weighting": weighting,
        "holds_user": False,
        "neighbours": neighbours,
        "tolerated_dropouts": missing,
    }
    assert coalition_release(5.0, colluders=1, **given).event == insider_release(5.0, **given).event


def worst_mu(
    rng: np.random.Generator,
    *,
    silos: int,
    colluders: int,
    missing: int,
    rule: str,
    neighbours: str,
    together: bool,
) -> float:
    """Return the farthest that random and extreme users were found to move what a coalition sees.

    Deltas are points on a line, of which the clip is 1; each silo has noise 1 / sqrt(S - missing),
    so that all that may be relied on have 1 together.  Users have no record in silos that collude.
    """
    share = 1.0 / math.sqrt(silos - missing)
    honest = silos - colluders

    everywhere = np.full(honest, 1.0 / (honest if rule == "records" else silos))

    def user() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        counts = np.zeros(honest)
        held = rng.choice(honest, rng.integers(1, honest + 1), replace=False)
        counts[held] = rng.choice([1.0, 5.0, 1000.0], len(held))
        if rule == "records":
            weights = counts / counts.sum()
        else:
            weights = np.where(counts > 0, 1.0 / silos, 0.0)
        return weights, rng.choice([-1.0, 1.0, 0.5], honest)

    most = 0.0
    for trial in range(400):
        weights, deltas = user() if trial else (everywhere, np.ones(honest))
        moved = weights * deltas
        if neighbours == "replace-one":
            other, theirs = user() if trial else (everywhere, -np.ones(honest))
            moved = moved - other * theirs
        for there in range(honest - missing, honest + 1):  # the server chooses who is missing
            for kept in itertools.islice(itertools.combinations(range(honest), there), 12):
                seen = moved[list(kept)]
                far = float(np.linalg.norm(seen)) / share
                if together:
                    far = abs(float(seen.sum())) / (share * math.sqrt(there))
                most = max(most, far)
    return most


@for_each("together", [True, False])
@for_each("rule", ["uniform", "records"])
@for_each("neighbours", ["add-remove", "replace-one"])
@for_each(("silos", "colluders", "missing"), [(5, 2, 1), (4, 2, 0), (6, 1, 2)])
def test_no_table_of_weights_is_worse_for_a_coalition(
    silos: int, colluders: int, missing: int, neighbours: str, rule: str, together: bool
) -> None:
    run = coalition_release(
        1.0,
        rounds=1,
        silos=silos,
        colluders=colluders,
        weighting=rule,
        holds_user=False,
        neighbours=neighbours,
        together=together,
        tolerated_dropouts=missing,
    )
    allowed = stated_mu(run.event, neighbours)
    found = worst_mu(
        np.random.default_rng(7),
        silos=silos,
        colluders=colluders,
        missing=missing,
        rule=rule,
        neighbours=neighbours,
        together=together,
    )
    assert found <= allowed * (1 + 1e-12)
    if rule == "records" or missing == 0 or not together:
        assert found > 0.97 * allowed  # and it is attained


def test_uniform_weights_hide_what_colluders_do_not_hold() -> None:
    """What the other silos' weights leave: ((S - c) / S) C, over S - c - t shares."""
    given: dict[str, Any] = {"rounds": 1, "silos": 5, "colluders": 2, "tolerated_dropouts": 1}
    for holds in (False, True):
        run = coalition_release(5.0, weighting="uniform", holds_user=holds, **given)
        shares_left = 5 - 2 - 1
        noise = 5.0 / math.sqrt(4) * math.sqrt(shares_left)
        assert stated_mu(run.event, "add-remove") == pytest.approx(3 / 5 / noise, rel=1e-12)


def test_colluders_who_hold_a_record_know_its_count() -> None:
    run = coalition_release(5.0, rounds=2, silos=5, colluders=2, weighting="records")
    assert run.event == ev.Repeat(2, CLEAR_WEIGHTS)
    assert run.observer == "server with 2 silos"


def test_naive_coalitions_see_the_silos_that_are_left() -> None:
    """Each of the three silos that are left swings by 2C; two shares of the noise are left."""
    event = naive_release(5.0, rounds=1, silos=5, seen=3, tolerated_dropouts=1).event
    share = 5.0 * 5 / math.sqrt(4)
    assert stated_mu(event, "add-remove") == pytest.approx(2 * 3 / (share * math.sqrt(2)))


def test_a_coalition_of_all_is_refused() -> None:
    for silos, colluders, missing in ((3, 3, 0), (5, 3, 2), (2, 5, 0)):
        with pytest.raises(Unsupported, match="left with none"):
            coalition_release(
                1.0, rounds=1, silos=silos, colluders=colluders, tolerated_dropouts=missing
            )
    with pytest.raises(InvalidInput, match="colluders"):
        coalition_release(1.0, rounds=1, silos=3, colluders=0)
    with pytest.raises(InvalidInput, match="weighting"):
        coalition_release(1.0, rounds=1, silos=3, colluders=1, weighting="none")
