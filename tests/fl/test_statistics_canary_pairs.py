"""Pairs of canaries in a Gram matrix: as far apart as the bound allows, each in its own numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from privplan.accountant.errors import Unsupported
from privplan.accountant.mechanisms.gram_noise import NoisyGram
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.accountant.sensitivity.gram import GramBound
from privplan.fl.canaries import equal_shifts
from privplan.fl.statistics.canary_pairs import Canaries, PairGeometry

from ..cases import for_each

RELATIONS = {"add-remove": False, "replace-one": True}

BOUNDS = [
    *({"classes": 0}, {"classes": 2}, {"classes": 10, "label_weight": 0.3}),
    *({"classes": 3, "label_weight": 1.8}, {"classes": 10, "label_weight": 5.0}),
    *({"classes": 4, "by_class": True}, {"classes": 4, "by_class": True, "label_weight": 0.5}),
]

SEVERAL = [
    {"classes": 2, "rows": 4},
    {"classes": 10, "rows": 3, "trace": 3.0},
    {"classes": 3, "rows": 6, "by_class": True},
]


def bound(**more):
    return GramBound(**{"dimension": 11, **more})


def drawn(geometry, seed=0):
    """Return as many canaries as there is room for."""
    rng = np.random.default_rng(seed)
    count = geometry.room
    return Canaries(
        rng.permutation(geometry.features)[: 2 * count].reshape(count, 2),
        rng.choice([-1.0, 1.0], size=(count, 2)),
        rng.integers(max(geometry.gram.classes, 1), size=count),
    )


def released(geometry, canaries, into, *, length=10.0, bits=16):
    """Return the mechanism, and its exact sum of the rows of canaries that are in, or out."""
    mechanism = NoisyGram(gram=geometry.gram, std=1.0, bits=bits, row_norm=3.0)
    rows, labels = geometry.rows(canaries, into)
    times = np.where(into | geometry.replaced, geometry.gram.rows, 0)
    rows, labels = length * 3.0 * np.repeat(rows, times, axis=0), np.repeat(labels, times)
    given = labels if geometry.gram.classes else None
    return mechanism, gram_total(mechanism, rows, given, intercept=geometry.intercept).total


@for_each("relation", RELATIONS)
@for_each("more", BOUNDS, ids=str)
def test_a_pair_attains_the_bound_of_one_row(more, relation):
    geometry = PairGeometry(bound(**more), 0.0, RELATIONS[relation])
    assert geometry.distance == pytest.approx(geometry.bound, rel=1e-12)


@for_each("relation", RELATIONS)
@for_each("more", [*BOUNDS, *SEVERAL], ids=str)
def test_no_pair_is_farther_apart_than_the_bound(more, relation):
    for intercept in (0.0, 0.01, 0.2, 0.5, 0.9):
        geometry = PairGeometry(bound(**more), intercept, RELATIONS[relation])
        assert 0.0 < geometry.distance <= geometry.bound * (1.0 + 1e-12)
    if relation == "add-remove":  # k equal rows
        geometry = PairGeometry(bound(**more), 0.0, replaced=False)
        assert geometry.distance == pytest.approx(geometry.bound, rel=1e-12)


@for_each("label_weight", [0.5, 1.0, 2.0])
def test_an_intercept_costs_what_all_canaries_move_alike(label_weight):
    """Of G v^2, the corner, and of S v; two rows with one label do not differ there."""
    v, square = 0.2, label_weight**2 * 0.9
    gram = bound(classes=10, label_weight=label_weight)
    geometry = PairGeometry(gram, v, replaced=False)
    wanted = math.sqrt(1.0 - v**2 + (1.0 - v) * square)
    assert geometry.distance == pytest.approx(wanted, rel=1e-12)
    replaced = PairGeometry(gram, v, replaced=True)
    if square / 2.0 <= 1.0 - 2.0 * v:  # the cosine of whole rows is 2 v - 1 or more
        assert replaced.distance == pytest.approx(replaced.bound, rel=1e-12)
    else:
        assert replaced.distance < replaced.bound


@for_each("relation", RELATIONS)
@for_each("intercept", [0.0, 0.2])
@for_each("more", [*BOUNDS, *SEVERAL], ids=str)
def test_what_a_canary_adds_is_seen_in_its_numbers_alone(more, intercept, relation):
    """Rows ten norms long are clipped on the grid; all others being out changes nothing."""
    geometry = PairGeometry(bound(**more), intercept, RELATIONS[relation])
    canaries = drawn(geometry)
    for seed in range(3):
        into = np.random.default_rng(seed).random(geometry.room) < 0.5
        mechanism, total = released(geometry, canaries, into)
        seen = geometry.projected(mechanism, total, canaries) - geometry.middle(canaries)
        towards = np.where(into, 0.5, -0.5) if geometry.replaced else np.where(into, 1.0, 0.0)
        wanted = geometry.distances[:, None] * towards
        # The grid of 16 bits moves a row of norm 1 by less than a few steps.
        assert np.abs(seen - wanted).max() < 2.0**-12 * geometry.gram.trace


def test_the_numbers_of_two_canaries_are_distinct_and_one_feature_has_no_plane():
    for more, intercept in itertools.product([*BOUNDS, *SEVERAL], (0.0, 0.2)):
        geometry = PairGeometry(bound(**more), intercept, replaced=False)
        numbers = geometry._positions(drawn(geometry))
        assert len(np.unique(numbers)) == numbers.size
        assert numbers.max() < geometry.gram.values
    with pytest.raises(Unsupported, match="two features"):
        PairGeometry(GramBound(dimension=2, classes=2), 0.2, replaced=False)
    assert PairGeometry(GramBound(dimension=2, classes=2), 0.0, replaced=False).room == 1


@for_each("relation", RELATIONS)
def test_noise_is_seen_with_its_deviation_and_apart_in_each_part(relation):
    """40 releases of 5 canaries: variances to 5 errors of 1 / sqrt(2 x 200)."""
    geometry = PairGeometry(bound(classes=3), 0.2, RELATIONS[relation])
    mechanism = NoisyGram(gram=geometry.gram, std=2.0, bits=16)
    rng, seen = np.random.default_rng(1), []
    scale = np.where(mechanism.diagonal, 1.0, math.sqrt(0.5)) * 4.0**16
    scale[mechanism.label_start :] = 2.0**16 * mechanism.label_scale
    for seed in range(40):
        noise = np.rint(2.0 * scale * rng.standard_normal(len(scale))).astype(np.int64)
        seen.append(geometry.projected(mechanism, noise, drawn(geometry, seed)))
    drawn_noise = np.hstack(seen) / 2.0
    assert drawn_noise.shape == (3, 200)
    assert (abs(drawn_noise.std(axis=1) - 1.0) < 5.0 / math.sqrt(400)).all()
    assert (abs(np.corrcoef(drawn_noise) - np.eye(3)) < 5.0 / math.sqrt(200)).all()


@for_each("distances", [[1.0], [3.0, 4.0], [0.5, 0.5, 0.5], [1e-3, 2.0, 1.0]])
def test_a_rotation_makes_parts_alike_and_loses_nothing(distances):
    given = np.array(distances)
    turned = equal_shifts(given)
    assert turned @ turned.T == pytest.approx(np.eye(len(given)), abs=1e-12)
    length = np.linalg.norm(given)
    assert turned @ given == pytest.approx(np.full(len(given), length / math.sqrt(len(given))))
    # The sum of what is rotated is the projection on the pair, times sqrt(n).
    wanted = given / length * math.sqrt(len(given))
    assert turned.sum(axis=0) == pytest.approx(wanted, abs=1e-12)
