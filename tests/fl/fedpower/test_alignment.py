"""Orthogonal Procrustes: the rotation is orthogonal, nothing is nearer, and equals stay equal."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.fl.fedpower.iterate import aligned, reference_node, rotation

from ...cases import for_each


def random_rotation(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


@for_each("seed", range(5))
@for_each("rank", [1, 2, 5])
def test_the_rotation_is_orthogonal_and_nothing_is_nearer(rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    product, reference = rng.normal(size=(2, 12, rank))
    turn = rotation(product, reference)
    assert np.allclose(turn.T @ turn, np.eye(rank), rtol=0, atol=1e-12)
    distance = np.linalg.norm(product @ turn - reference)
    # |Y|^2 + |B|^2 - 2 |Y^T B|_*, the least that any orthogonal matrix reaches.
    nuclear = np.linalg.svd(product.T @ reference, compute_uv=False).sum()
    least = np.sum(product**2) + np.sum(reference**2) - 2.0 * nuclear
    assert distance**2 == pytest.approx(least, rel=1e-9)
    for _ in range(200):
        other = random_rotation(rng, rank)
        assert np.linalg.norm(product @ other - reference) >= distance - 1e-12
        small = np.linalg.qr(turn + 1e-3 * rng.normal(size=turn.shape))[0]
        small *= np.sign(np.sum(small * turn, axis=0))
        assert np.linalg.norm(product @ small - reference) >= distance - 1e-12


def test_a_turned_product_is_turned_back() -> None:
    rng = np.random.default_rng(3)
    reference = rng.normal(size=(20, 4))
    turns = [random_rotation(rng, 4) for _ in range(3)]
    products = [reference, *(reference @ turn for turn in turns)]
    for back in aligned(products, 0):
        assert np.allclose(back, reference, rtol=0, atol=1e-12)


def test_the_reference_itself_is_left_as_it_is() -> None:
    rng = np.random.default_rng(4)
    products = list(rng.normal(size=(3, 8, 2)))
    assert aligned(products, 1)[1] is products[1]


def test_equal_products_are_turned_by_nothing() -> None:
    product = np.random.default_rng(5).normal(size=(9, 3))
    assert np.allclose(rotation(product, product), np.eye(3), rtol=0, atol=1e-12)


def test_nodes_are_the_reference_in_turn() -> None:
    assert [reference_node(number, 3) for number in range(1, 8)] == [0, 1, 2, 0, 1, 2, 0]
