"""What each observer sees of a release: against the noise that it faces, and by search."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.mechanisms.gaussian import SMOOTHING
from privplan.accountant.sensitivity.gram import GramBound
from privplan.accountant.sensitivity.release import sensitivity_multiplier
from privplan.fl.aggregation.weighted_sum import NO_NOISE_LEFT
from privplan.fl.statistics.views import statistics_views

from ..cases import for_each
from .statistics_runs import SIGMA, built, mechanism_of

S = 5

RUNS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "plain": ({}, {"model": S, "server": 1, "silo": S - 1}),
    "plain+2": (
        {"aggregation": "plain", "colluders": 2},
        {"model": S, "server": 1, "silo": S - 1, "server+2": 1},
    ),
    "masked": ({"aggregation": "masked"}, {"model": S, "server": S, "silo": S - 1}),
    "masked-lossy": (
        {"aggregation": "masked", "dropouts": 1, "colluders": 1},
        {"model": S - 1, "server": S - 1, "silo": S - 2, "server+1": S - 2},
    ),
    "shares": ({"aggregation": "shares"}, {"model": S, "peer": S - 1}),
    "shares+2": ({"aggregation": "shares", "colluders": 2}, {"model": S, "peer": S - 3}),
}
"""By protocol: how many shares of the noise each observer cannot take off."""


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("unit", ["record", "user", "silo"])
@for_each("name", RUNS)
def test_each_event_is_that_of_the_shares_that_cover_it(
    name: str, unit: str, neighbours: str, tiny: Any
) -> None:
    """sqrt(k (s^2 - 64 steps^2)) times the multiplier, over C, bounds the event from above."""
    pytest.importorskip("cryptography")
    security, shares = RUNS[name]
    table = {"rows_per_user": 7} if unit == "user" else {}
    system = built(
        tiny(silos=S),
        unit,
        security=security,
        privacy={"neighbours": neighbours},
        **table,
    )
    mechanism, views = mechanism_of(system), system.views(SIGMA)
    if unit == "user":
        shares = shares | {
            f"{who}-with-records": k for who, k in shares.items() if who not in ("model", "server")
        }
        shares.pop("peer-with-records", None)
    assert set(views) == set(shares)
    times = sensitivity_multiplier(neighbours)
    free = Fraction(mechanism.share_std) ** 2 - SMOOTHING * Fraction(mechanism.grid) ** 2
    moved = Fraction(mechanism.sensitivity(neighbours))
    for observer, count in shares.items():
        exact = count * free * (times / moved) ** 2
        event = views[observer]
        assert isinstance(event, ev.Gaussian)
        assert Fraction(event.noise_multiplier) ** 2 <= exact, observer
        assert event.noise_multiplier == pytest.approx(math.sqrt(exact), rel=1e-9), observer


def test_nobody_is_promised_noise_that_may_all_be_known() -> None:
    few = statistics_views(
        2.0, family="gaussian", unit="record", silos=3, aggregation="masked", dropouts=2
    )
    assert few["silo"] is NO_NOISE_LEFT
    assert few["model"] == ev.Gaussian(2.0)
    lossy = statistics_views(
        2.0,
        family="laplace",
        unit="record",
        silos=4,
        aggregation="masked",
        dropouts=1,
        coalitions=(1, 3),
    )
    assert lossy["server+1"] == ev.Laplace(2.0)
    assert lossy["server+3"] is NO_NOISE_LEFT


@for_each("aggregation", ["plain", "masked"])
def test_laplace_noise_is_all_of_it_in_every_share(aggregation: str) -> None:
    views = statistics_views(
        3.0, family="laplace", unit="user", silos=S, aggregation=aggregation, coalitions=(2,)
    )
    assert set(views.values()) == {ev.Laplace(3.0)}
    assert set(views) == {
        *("model", "server", "silo", "silo-with-records"),
        *("server+2", "server+2-with-records"),
    }


def test_one_silo_has_no_other() -> None:
    assert list(statistics_views(1.0, family="gaussian", unit="user", silos=1)) == [
        "model",
        "server",
    ]


def test_noise_is_found_for_any_observer(tiny: Any) -> None:
    """Noise that is each silo's own is noise that was sized for the server in the clear."""
    target = {"epsilon": 2.0, "delta": 1e-3}
    for observer in ("model", "server", "silo"):
        system = built(tiny(silos=S), privacy={**target, "observer": observer})
        guarantee = system.plan().guarantees[observer]
        assert 1.99 < guarantee.epsilon.upper <= 2.0
    model = mechanism_of(built(tiny(silos=S), privacy={**target, "observer": "model"}))
    server = mechanism_of(built(tiny(silos=S), privacy={**target, "observer": "server"}))
    assert server.share_std == pytest.approx(model.std, rel=1e-3)


# --- all vectors together move by no more than their sum -----------------------------------------


def _parts(rng: np.random.Generator, bound: GramBound, kept: list[int]) -> list[np.ndarray]:
    """Return one unit's rows in each silo, at most so many there; a label beside each row."""
    many = [int(rng.integers(0, most + 1)) for most in kept]
    rows = rng.normal(size=(sum(many), bound.dimension))
    if rng.random() < 0.5:
        rows[:] = rows[:1]
    rows /= np.maximum(np.linalg.norm(rows, axis=1), 1e-12)[:, None]
    rows *= math.sqrt(float(bound.row_square))
    labels = rng.integers(0, bound.classes, len(rows))
    if rng.random() < 0.5:
        labels[:] = labels[:1]
    table = np.hstack([rows, labels[:, None]])
    return np.split(table, np.cumsum(many)[:-1])


def _vector(part: np.ndarray, bound: GramBound) -> np.ndarray:
    rows, labels = part[:, :-1], part[:, -1].astype(int)
    hot = np.eye(bound.classes)[labels] - 1.0 / bound.classes
    grams = [rows[labels == c] for c in range(bound.classes)] if bound.by_class else [rows]
    matrices = [(each.T @ each).ravel() for each in grams]  # |G|_F is the isometric norm
    return np.concatenate([*matrices, bound.label_weight * (rows.T @ hot).ravel()])


def _apart(first: Any, second: Any, bound: GramBound) -> tuple[float, float]:
    """Return the distance of all vectors together, and that of their sums."""
    moved = [_vector(a, bound) - _vector(b, bound) for a, b in zip(first, second, strict=True)]
    return float(np.linalg.norm(moved)), float(np.linalg.norm(sum(moved)))


@for_each("by_class", [False, True])
@for_each("weight", [0.3, 1.0, 3.0])
@for_each(("kept", "dimension"), [([1], 3), ([1, 1, 1], 3), ([1, 1], 1), ([3, 2, 2], 3)])
def test_vectors_of_silos_move_no_farther_than_is_said(
    kept: list[int], dimension: int, weight: float, by_class: bool
) -> None:
    """Random units, and climbing from the worst of them, in one silo or over several."""
    records = max(kept) == 1
    bound = GramBound(
        dimension=dimension,
        classes=2,
        label_weight=weight,
        rows=1 if records else sum(kept),
        by_class=by_class,
    )
    rng = np.random.default_rng(7)

    def unit() -> list[np.ndarray]:
        parts = _parts(rng, bound, kept)
        if records:  # a record lies in one silo alone
            home = int(rng.integers(len(kept)))
            parts = [part if i == home else part[:0] for i, part in enumerate(parts)]
        return parts

    nothing = [np.zeros((0, bound.dimension + 1)) for _ in kept]
    for relation in ("add-remove", "replace-one"):
        limit, largest = bound.l2(relation), 0.0
        if relation == "replace-one":
            limit = max(limit, math.sqrt(2.0) * bound.l2("add-remove"))
        worst: Any = None
        for _ in range(500):
            pair = unit(), nothing if relation == "add-remove" else unit()
            together = _apart(*pair, bound)[0]
            if together > largest:
                largest, worst = together, pair
        for _ in range(500):
            climbed = [[part.copy() for part in side] for side in worst]
            for side in climbed:
                for part in side:
                    part[:, :-1] += 0.1 * rng.normal(size=part[:, :-1].shape)
                    norms = np.maximum(np.linalg.norm(part[:, :-1], axis=1), 1e-12)
                    part[:, :-1] *= (math.sqrt(float(bound.row_square)) / norms)[:, None]
            together = _apart(*climbed, bound)[0]
            if together > largest:
                largest, worst = together, climbed
        assert largest <= limit * (1.0 + 1e-12)
        if records and len(kept) > 1:  # attained by a record in one silo, or in two
            crossing = math.sqrt(1 + (relation != "add-remove")) * bound.l2("add-remove")
            assert largest > 0.98 * (limit if dimension > 1 else crossing)
        assert largest > 0.4 * limit


def test_a_record_that_crosses_silos_moves_two_vectors_in_l1(tiny: Any) -> None:
    """Twice the move of add-remove, attained by rows whose coordinates are equal."""
    system = built(tiny(), noise="laplace", privacy={"neighbours": "replace-one"})
    bound, d = system.terms.gram, system.terms.gram.dimension
    row, upper = np.full(d, 1 / math.sqrt(d)), np.triu_indices(d)
    label = np.eye(bound.classes)[0] - 1.0 / bound.classes
    one = np.abs(np.outer(row, row)[upper]).sum() + np.abs(np.outer(row, label)).sum()
    assert 2 * one == pytest.approx(bound.l1("replace-one"), rel=1e-9)
    views = system.views(SIGMA)
    assert views["server"].noise_multiplier == views["model"].noise_multiplier == SIGMA
