"""What each observer sees of a release: against the noise that it faces, and by search."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.arrays import FloatArray, IntArray
from privplan.accountant.mechanisms.gaussian import SMOOTHING
from privplan.accountant.sensitivity.gram import GramBound
from privplan.accountant.sensitivity.release import sensitivity_multiplier
from privplan.fl.aggregation.unweighted_views import unweighted_views
from privplan.fl.aggregation.weighted_sum import NO_NOISE_LEFT

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
    few = unweighted_views(
        2.0, family="gaussian", unit="record", silos=3, aggregation="masked", dropouts=2
    )
    assert few["silo"] is NO_NOISE_LEFT
    assert few["model"] == ev.Gaussian(2.0)
    lossy = unweighted_views(
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
    views = unweighted_views(
        3.0, family="laplace", unit="user", silos=S, aggregation=aggregation, coalitions=(2,)
    )
    assert set(views.values()) == {ev.Laplace(3.0)}
    assert set(views) == {
        *("model", "server", "silo", "silo-with-records"),
        *("server+2", "server+2-with-records"),
    }


def test_one_silo_has_no_other() -> None:
    assert list(unweighted_views(1.0, family="gaussian", unit="user", silos=1)) == [
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


def _units(
    rng: np.random.Generator, bound: GramBound, silos: IntArray, count: int, *, alone: bool
) -> tuple[FloatArray, IntArray]:
    """Return rows and labels of units, zeros where a unit has fewer rows in a silo than it may."""
    rows = rng.normal(size=(count, len(silos), bound.dimension))
    labels = rng.integers(0, bound.classes, (count, len(silos)))
    for alike in (rows, labels):
        chosen = rng.random(count) < 0.5
        alike[chosen] = alike[chosen, :1]
    place = np.arange(len(silos)) - np.searchsorted(silos, silos)
    many = rng.integers(0, np.bincount(silos) + 1, (count, silos[-1] + 1))
    here = place < many[:, silos]
    if alone:  # a record lies in one silo alone
        here &= silos == rng.integers(silos[-1] + 1, size=(count, 1))
    return _scaled(rows * here[:, :, None], bound), labels


def _scaled(rows: FloatArray, bound: GramBound) -> FloatArray:
    norms = np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 1e-12)
    return rows * (math.sqrt(float(bound.row_square)) / norms)


def _vectors(rows: FloatArray, labels: IntArray, bound: GramBound, silos: IntArray) -> FloatArray:
    """Return the vectors of all silos, one after the other, of each unit."""
    hot, home = np.eye(bound.classes)[labels], np.eye(silos[-1] + 1)[silos]
    kinds = hot if bound.by_class else np.ones((*labels.shape, 1))
    placed = rows[:, :, None, None] * (kinds[:, :, :, None] * home[:, None])[..., None]
    grams = np.einsum("nri,nrcsj->nscij", rows, placed)  # |G|_F is the isometric norm
    sums = np.einsum("nri,nrc,rs->nsic", rows, hot - 1.0 / bound.classes, home)
    parts = [grams.reshape(len(rows), -1), bound.label_weight * sums.reshape(len(rows), -1)]
    return np.concatenate(parts, axis=1)


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
    rng, silos = np.random.default_rng(7), np.repeat(np.arange(len(kept)), kept)
    for relation in ("add-remove", "replace-one"):
        limit = bound.l2(relation)
        if relation == "replace-one":
            limit = max(limit, math.sqrt(2.0) * bound.l2("add-remove"))

        def distances(*pair: Any) -> FloatArray:
            first, second = (_vectors(*unit, bound, silos) for unit in pair)
            return np.linalg.norm(first - second, axis=1)

        pair = [_units(rng, bound, silos, 500, alone=records) for _ in range(2)]
        if relation == "add-remove":
            pair[1] = (np.zeros_like(pair[1][0]), pair[1][1])
        moved = distances(*pair)
        worst, largest = int(moved.argmax()), float(moved.max())
        best = [(rows[worst], labels[worst]) for rows, labels in pair]
        for _ in range(60):
            climbed = []
            for rows, labels in best:
                step = 0.1 * rng.normal(size=(20, *rows.shape)) * rows.any(axis=1)[:, None]
                climbed.append((_scaled(rows + step, bound), np.tile(labels, (20, 1))))
            moved = distances(*climbed)
            if moved.max() > largest:
                worst, largest = int(moved.argmax()), float(moved.max())
                best = [(rows[worst], labels[worst]) for rows, labels in climbed]
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
