"""Pairs of canaries in a product: as far apart as the bound allows, and unseen in one another."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from privplan.accountant.sensitivity.product import ProductBound
from privplan.fl.fedpower.canary_pairs import canary_pairs, directions_each
from privplan.fl.fedpower.iterate import first_basis

from ..cases import for_each
from ..chance import limits

COLUMNS, DIRECTIONS, NORM = 12, 5, 3.0

BOUNDS = {
    "record": ({}, "add-remove"),
    "replaced record": ({}, "replace-one"),
    "silo": ({"unit": "silo", "rows": 4}, "add-remove"),
    "replaced silo": ({"unit": "silo", "rows": 4}, "replace-one"),
}

CHANGES = [0.01, 1.0, 1.6, 1.8, 3.0, 4.2, 4.3, 6.0]
"""Changes of an entry on both sides of where its two pairs are alike, and of sqrt(2) R."""


def bound(**more):
    return ProductBound(**{"dimension": COLUMNS, "rank": DIRECTIONS, "row_norm": NORM, **more})


def added(pairs, basis, rows):
    """Return what each canary adds to a product, from its rows one by one: (m, d, r)."""
    return NORM**2 * pairs.repeats * np.array([np.outer(row, row) @ basis for row in rows])


def drawn(name, basis):
    facts, relation = BOUNDS[name]
    given, replaced = bound(**facts), relation == "replace-one"
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(DIRECTIONS, DIRECTIONS))).Q
    count = DIRECTIONS // directions_each(given, replaced=replaced)
    return given.l2(relation), canary_pairs(given, basis @ turn, count, replaced=replaced)


@for_each("name", BOUNDS)
def test_rows_in_the_span_attain_the_bound(name):
    basis = first_basis(COLUMNS, DIRECTIONS, 0)
    most, pairs = drawn(name, basis)
    moved = added(pairs, basis, pairs.into)
    if pairs.out is not None:
        moved = moved - added(pairs, basis, pairs.out)
    lengths = np.linalg.norm(moved, axis=(1, 2))
    np.testing.assert_allclose(lengths, most, rtol=1e-12)
    np.testing.assert_allclose(NORM**2 * pairs.seen(basis * 0, basis)[1], lengths, rtol=1e-12)


@for_each("change", CHANGES)
def test_entries_attain_their_bound_within_the_norm(change):
    given = bound(rank=COLUMNS, unit="entry", largest_change=change)
    count = COLUMNS // directions_each(given, replaced=True)
    pairs = canary_pairs(given, np.eye(COLUMNS), count, replaced=True)
    basis = first_basis(COLUMNS, COLUMNS, 0)
    for rows in (pairs.into, pairs.out):
        assert (np.linalg.norm(rows, axis=1) <= 1.0 + 1e-12).all()
    apart = NORM * np.abs(pairs.into - pairs.out)
    assert ((apart > 1e-12).sum(axis=1) == 1).all()  # one entry
    assert apart.max() <= change * (1.0 + 1e-12)
    moved = added(pairs, basis, pairs.into) - added(pairs, basis, pairs.out)
    lengths = np.linalg.norm(moved, axis=(1, 2))
    assert (lengths <= given.l2("replace-one") * (1.0 + 1e-12)).all()
    if change <= math.sqrt(2.0) * NORM:
        np.testing.assert_allclose(lengths, given.l2("replace-one"), rtol=1e-12)


@for_each("name", BOUNDS)
def test_no_canary_is_seen_in_another_whatever_the_iterate(name):
    """What is seen of each is its own distance, from the middle, for any orthonormal Z."""
    rng = np.random.default_rng(2)
    _, pairs = drawn(name, first_basis(COLUMNS, DIRECTIONS, 0))
    basis = np.linalg.qr(rng.normal(size=(COLUMNS, DIRECTIONS))).Q
    into = rng.random(len(pairs)) < 0.5
    out = np.zeros_like(pairs.into) if pairs.out is None else pairs.out
    product = added(pairs, basis, np.where(into[:, None], pairs.into, out)).sum(axis=0) / NORM**2
    towards, moved = pairs.seen(product, basis)
    if pairs.out is None:
        expected = np.where(into, moved, 0.0)
    else:
        expected = np.where(into, 0.5, -0.5) * moved
    np.testing.assert_allclose(towards - pairs.middle(basis), expected, atol=1e-12)


def test_the_statistic_has_the_noise_of_one_number():
    """The variance over 2,000 tables, at 1 in 10^6 for all numbers: 20 or fewer."""
    rng = np.random.default_rng(3)
    low, high = limits(stats.chi2(1_999, scale=1 / 1_999), looks=20)
    for name in BOUNDS:
        _, pairs = drawn(name, first_basis(COLUMNS, DIRECTIONS, 0))
        basis = np.linalg.qr(rng.normal(size=(COLUMNS, DIRECTIONS))).Q
        noise = [pairs.seen(rng.normal(size=basis.shape), basis)[0] for _ in range(2_000)]
        variance = np.atleast_2d(np.cov(np.array(noise), rowvar=False)).diagonal()
        assert variance.size <= 5
        assert low < variance.min() <= variance.max() < high
