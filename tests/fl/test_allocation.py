"""Allocation: every record once, counts as asked, silos of the data kept, published laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.fl.data.allocation import (
    LABELS_PER_SILO,
    RULES,
    Allocation,
    allocate,
    allocate_within,
    zipf_probabilities,
)

from ..cases import for_each

FREE = tuple(rule for rule in RULES if rule not in LABELS_PER_SILO)
"""Rules that ask for no labels."""

HEART = (199, 172, 30, 85)
TCGA = (248, 156, 164, 129, 129, 40)


def fixed(sizes: tuple[int, ...]) -> np.ndarray:
    return np.repeat(np.arange(len(sizes)), sizes)


def counts(made: Allocation, users: int, silos: int) -> np.ndarray:
    found = np.zeros((users, silos), np.int64)
    np.add.at(found, (made.user, made.silo), 1)
    return found


@given(
    rule=st.sampled_from(FREE),
    users=st.integers(1, 60),
    silos=st.integers(1, 6),
    more=st.integers(0, 200),
    seed=st.integers(0, 99),
)
def test_free_records_are_allocated_once_and_every_user_has_one(
    rule: str, users: int, silos: int, more: int, seed: int
) -> None:
    records = max(users, silos) + more
    rng = np.random.default_rng(seed)
    made = allocate(rule, records=records, users=users, silos=silos, rng=rng)
    assert made.user.shape == made.silo.shape == (records,)
    table = counts(made, users, silos)  # raises if an index is out of range
    assert table.sum() == records
    assert table.sum(axis=1).min() >= 1
    if rule == "uniform":
        assert np.ptp(table.sum(axis=1)) <= 1
        assert np.ptp(table.sum(axis=0)) <= 1


@settings(max_examples=60)
@given(
    rule=st.sampled_from(FREE),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    least=st.integers(1, 2),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 99),
)
def test_silos_of_the_data_are_kept(
    rule: str, sizes: list[int], least: int, share: float, seed: int
) -> None:
    silo = np.random.default_rng(seed).permutation(fixed(tuple(sizes)))
    blocks = sum(max(size // least, 1) for size in sizes)
    most = min(blocks, len(silo) // least)
    if not most:
        return
    users = max(1, round(share * most))
    rng = np.random.default_rng(seed)
    made = allocate_within(rule, silo, silos=len(sizes), users=users, rng=rng, least=least)
    assert (made.silo == silo).all()
    table = counts(made, users, len(sizes))
    assert table.sum(axis=0).tolist() == sizes
    assert table.sum(axis=1).min() >= (least if rule == "zipf" else 1)


@for_each("sizes", [HEART, TCGA])
def test_uniform_within_is_balanced(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    made = allocate_within("uniform", fixed(sizes), silos=len(sizes), users=50, rng=rng)
    assert np.ptp(np.bincount(made.user)) <= 1


@for_each("rule", FREE)
@for_each("users", [50, 200])
def test_survival_users_have_two_records_wherever_they_have_any(rule: str, users: int) -> None:
    rng = np.random.default_rng(2)
    made = allocate_within(rule, fixed(TCGA), silos=6, users=users, rng=rng, least=2)
    table = counts(made, users, 6)
    assert table.sum(axis=1).min() >= 2
    assert (table == 1).sum() <= 0.02 * (table > 0).sum()  # overflow can leave a few


def test_zipf_within_puts_most_of_a_user_into_one_silo() -> None:
    sizes = (10_000,) * 4  # the first three users fit into any of them
    shares = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        made = allocate_within("zipf", fixed(sizes), silos=4, users=40, rng=rng)
        first = counts(made, 40, 4)[:3]  # the first users are placed before any silo is full
        shares.extend(first.max(axis=1) / first.sum(axis=1))
    # 120 shares of about 3,000 records each: the mean's deviation is below .001.
    assert np.mean(shares) == pytest.approx(0.8, abs=0.01)


def test_overflow_goes_to_the_next_silo() -> None:
    rng = np.random.default_rng(3)
    made = allocate_within("zipf", fixed((1, 1, 98)), silos=3, users=1, rng=rng)
    assert counts(made, 1, 3).tolist() == [[1, 1, 98]]


def test_creditcard_counts_are_those_of_the_paper() -> None:
    balanced = allocate("uniform", records=24_584, users=100, silos=5, rng=np.random.default_rng(0))
    assert set(np.bincount(balanced.user)) == {245, 246}
    found = []
    for seed in range(20):
        made = allocate("zipf", records=24_584, users=100, silos=5, rng=np.random.default_rng(seed))
        sizes = np.bincount(made.user, minlength=100)
        found.append([sizes.max(), *np.quantile(sizes, (0.75, 0.5, 0.25)), sizes.min()])
    # The reference draws once: 1315, 260/190/153, 116.  Deviations over draws: about 36, 10, 5.
    assert np.mean(found, axis=0) == pytest.approx([1315, 260, 190, 153, 116], rel=0.1)


def test_zipf_silos_follow_the_bounded_law_in_an_order_of_each_users_own() -> None:
    made = allocate("zipf", records=200_000, users=20, silos=5, rng=np.random.default_rng(4))
    table = counts(made, 20, 5)
    ranked = -np.sort(-table, axis=1).sum(axis=0) / 200_000
    assert ranked == pytest.approx(zipf_probabilities(5, 2.0), abs=0.01)
    assert len(set(table.argmax(axis=1))) > 1
    law = zipf_probabilities(20, 0.5)
    assert table.sum(axis=1) / 200_000 == pytest.approx(law, abs=0.005)


def test_users_whom_zipf_leaves_out_take_a_record_from_the_largest() -> None:
    made = allocate("zipf", records=1200, users=1000, silos=2, rng=np.random.default_rng(5))
    assert np.bincount(made.user, minlength=1000).min() == 1


@for_each("rule", FREE)
def test_each_user_has_two_labels(rule: str) -> None:
    rng = np.random.default_rng(6)
    labels = rng.permutation(np.repeat(np.arange(10), rng.integers(540, 680, 10)))
    made = allocate(
        rule, records=len(labels), users=100, silos=5, rng=rng, labels=labels, labels_per_user=2
    )
    held = np.zeros((100, 10), np.int64)
    np.add.at(held, (made.user, labels), 1)
    assert ((held > 0).sum(axis=1) == 2).all()
    assert ((held > 0).sum(axis=0) == 20).all()
    assert held.sum() == len(labels)
    if rule == "uniform":
        assert np.ptp(held.sum(axis=1)) < 20  # 54 to 68: labels differ in size


@for_each(("rule", "labels_per_silo"), LABELS_PER_SILO.items())
def test_silos_have_records_of_so_many_labels(rule: str, labels_per_silo: int) -> None:
    rng = np.random.default_rng(4)
    labels = rng.permutation(np.repeat(np.arange(10), rng.integers(120, 150, size=10)))
    made = allocate(rule, records=len(labels), users=200, silos=100, rng=rng, labels=labels)
    held = np.zeros((100, 10), np.int64)
    np.add.at(held, (made.silo, labels), 1)
    assert ((held > 0).sum(axis=1) == labels_per_silo).all()
    assert ((held > 0).sum(axis=0) == 10 * labels_per_silo).all()
    assert held.sum() == len(labels)
    # 120 to 149 records of a label among so many silos.
    assert held.sum(axis=1).min() >= 12
    assert held.sum(axis=1).max() <= 16
    assert np.ptp(np.bincount(made.user)) <= 1
    again = np.random.default_rng(9), np.random.default_rng(9)
    one, two = (
        allocate(rule, records=len(labels), users=200, silos=100, rng=one, labels=labels)
        for one in again
    )
    assert (one.silo == two.silo).all()


def test_the_seed_decides() -> None:
    one, two, other = (
        allocate("zipf", records=99, users=9, silos=3, rng=np.random.default_rng(seed))
        for seed in (7, 7, 8)
    )
    assert (one.user == two.user).all()
    assert (one.silo == two.silo).all()
    assert (one.user != other.user).any()


THREE = {"labels": np.repeat([0, 1, 2], 4)}
REFUSED = [
    ("zipff", 9, 3, 1, {}, "`allocation` must be one of uniform, zipf, classes-1"),
    ("uniform", 9, 10, 1, {}, "too few for 10 users"),
    ("uniform", 9, 1, 10, {}, "too few for 10 silos"),
    ("uniform", 9, 3, 1, {"labels_per_user": 2}, "needs one class label"),
    ("uniform", 12, 3, 1, {**THREE, "labels_per_user": 4}, "the data have 3 labels"),
    ("uniform", 12, 1, 1, {**THREE, "labels_per_user": 2}, "cannot be divided among 0 users"),
    ("classes-1", 12, 3, 3, {}, "needs one class label"),
    ("classes-1", 12, 3, 3, {**THREE, "labels_per_user": 1}, "does not go with .* classes-1"),
    ("classes-2", 12, 3, 1, THREE, "divided among 0 silos"),
]
REFUSED_WITHIN = [
    ("zipf", (9,), 1, 5, {"least": 2}, "too few for 5 users of 2"),
    ("uniform", (3, 3, 3), 3, 4, {"least": 2}, "make 3 blocks of 2"),
    ("uniform", (3, 3, 3), 2, 4, {}, "`silo` must be from 0 to 1"),
    ("classes-1", (4, 4), 2, 2, {}, "those of this data set are fixed"),
]


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(0)
    for rule, records, users, silos, more, what in REFUSED:
        with pytest.raises(InvalidInput, match=what):
            allocate(rule, records=records, users=users, silos=silos, rng=rng, **more)
    for rule, sizes, silos, users, more, what in REFUSED_WITHIN:
        with pytest.raises(InvalidInput, match=what):
            allocate_within(rule, fixed(sizes), silos=silos, users=users, rng=rng, **more)
