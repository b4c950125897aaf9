"""Coins that something tells, copies that share one, and guesses about them."""

from __future__ import annotations

from typing import Any

import numpy as np

import privplan as pp
from privplan.accountant.arrays import BoolArray
from privplan.audit.model_audits.copies import copies
from privplan.audit.model_audits.guesses import correct

from ..cases import for_each
from .test_score_audit import DELTA, audited, simulated


def test_without_coins_groups_differ_and_nothing_is_bounded() -> None:
    phi, inside = simulated()
    audit = audited(phi, inside, coins=None, claimed=0.1)
    assert audit.conclusion == "groups differ"
    assert audit.primary.epsilon_lower is None
    assert audit.contradicted is None
    assert any("nobody said that coins decided" in each for each in audit.withheld)


def halved(inside: BoolArray) -> BoolArray:
    """Return coins with which every record is in exactly half of all models."""
    rng = np.random.default_rng(5)
    return np.asarray(
        rng.permuted(np.arange(len(inside))[:, None] % 2 == np.zeros(inside.shape), axis=0)
    )


def opposite(inside: BoolArray) -> BoolArray:
    changed = inside.copy()
    changed[7] = ~inside[0]
    return changed


def unfair(inside: BoolArray) -> BoolArray:
    changed = inside.copy()
    changed[0] |= np.random.default_rng(6).random(inside.shape[1]) < 0.5
    return changed


def of_two_shadows(inside: BoolArray) -> BoolArray:
    changed = inside.copy()
    changed[0] = inside[3] ^ inside[4]
    return changed


def of_odd_counts(inside: BoolArray) -> BoolArray:
    """Return coins that lie where a unit is in about half of the shadows."""
    changed = inside.copy()
    changed[0] = np.abs(inside[1:].sum(0) - (len(inside) - 1) / 2) < 2.0
    return changed


def in_blocks(inside: BoolArray) -> BoolArray:
    return np.repeat(inside[:, ::8], 8, axis=1)


def one_of_two(inside: BoolArray) -> BoolArray:
    changed = inside.copy()
    changed[:, 1::2] = ~inside[:, ::2]
    return changed


TOLD: list[tuple[Any, str]] = [
    (halved, "half of all"),
    (opposite, "opposite"),
    (unfair, "no fair coin"),
    (of_two_shadows, "two shadows agree"),
    (of_odd_counts, "in how many shadows"),
    (in_blocks, "several have one coin"),
    (one_of_two, "several have one coin"),
]


@for_each("told, word", TOLD)
def test_coins_that_something_tells_carry_no_bound(told: Any, word: str) -> None:
    phi, inside = simulated(models=34)
    inside = told(inside)
    audit = audited(phi + 1.5 * inside, inside, claimed=0.1)
    assert audit.coins == "refuted"
    assert audit.primary.epsilon_lower is None
    assert audit.contradicted is None
    assert any(word in each for each in audit.withheld)


def test_the_coins_of_all_targets_are_looked_at() -> None:
    phi, inside = simulated(models=12)
    inside[1] = ~inside[5]
    audit = pp.audit_scores(
        phi[:3], inside[:3], shadows=phi[3:], membership=inside[3:],
        coins="independent", delta=DELTA, guesses=40,
    )  # fmt: skip
    assert audit.coins == "refuted"
    assert audit.conclusion != "leak"
    assert any(each.startswith("epsilon: target 1") for each in audit.withheld)


def test_few_units_in_exactly_half_of_all_models_carry_no_bound() -> None:
    phi, inside = simulated(models=6, records=16)
    audit = audited(phi, halved(inside), guesses=8)
    assert audit.coins == "refuted"


def test_labels_that_tell_members_carry_no_bound() -> None:
    rng = np.random.default_rng(11)
    labels = rng.integers(0, 3, 400)
    inside = rng.random((1, 400)) < np.array([0.2, 0.5, 0.8])[labels]
    audit = pp.audit_scores(
        rng.normal(size=(1, 400, 3)) + np.array([0.0, 1.0, 2.0]), inside,
        kind="logits", labels=labels, coins="independent", delta=DELTA, guesses=40,
    )  # fmt: skip
    assert audit.coins == "refuted"
    assert any("other classes" in each for each in audit.withheld)


def test_fair_coins_are_not_refuted() -> None:
    """64 tables of shadows in pairs, of which none is refuted at 1e-6."""
    for seed in range(64):
        rng = np.random.default_rng([45, seed])
        half = rng.random((4, 100)) < 0.5
        inside = np.concatenate([rng.random((2, 100)) < 0.5, half, ~half])
        order = np.argsort(inside[0], kind="stable")  # members last, as files often are
        phi = rng.normal(2.0, 2.0, 100) + rng.normal(size=inside.shape)
        audit = pp.audit_scores(
            phi[:2, order], inside[:2, order], shadows=phi[2:, order], membership=inside[2:, order],
            coins="independent", delta=DELTA, guesses=20, attacks=["loss"],
        )  # fmt: skip
        assert audit.coins == "declared independent"


def test_a_classifier_that_never_sees_the_model_voids_coins() -> None:
    rng = np.random.default_rng(7)
    phi, inside = simulated(models=9)
    records = rng.normal(size=(400, 4)) + 1.0 * inside[0][:, None]
    shifted = audited(phi, inside, records=records)
    assert shifted.blind is not None
    assert shifted.blind.above_chance
    assert shifted.conclusion == "groups differ"
    fair = audited(phi, inside, records=rng.normal(size=(400, 4)))
    assert fair.blind is not None
    assert not fair.blind.above_chance
    assert fair.conclusion == "leak"


# --- copies ---------------------------------------------------------------------------------------


@for_each("noise", [0.0, 1e-5, 4e-4])
def test_near_copies_are_found_wherever_they_lie(noise: float) -> None:
    """Pairs at a distance of up to 4e-4 of the spread, of 5 columns, one with an outlier."""
    rng = np.random.default_rng(12)
    features = rng.normal(size=(400, 5))
    features[200:] = features[:200] + noise * rng.normal(size=(200, 5))
    features[0, 2] = 1e9
    found = copies(features)
    assert len(np.unique(found)) == 201  # the one with the outlier has none
    assert (found[201:] == found[1:200]).all()


@for_each("columns", [1, 2, 5, 40])
def test_records_that_are_near_by_chance_are_no_copies(columns: int) -> None:
    features = np.random.default_rng([13, columns]).normal(size=(5000, columns))
    assert len(np.unique(copies(features))) == 5000


# --- guesses --------------------------------------------------------------------------------------


def test_neither_the_order_of_rows_nor_a_scale_chooses_among_ties() -> None:
    rng = np.random.default_rng(14)
    members, scores = rng.random(300) < 0.5, np.round(rng.normal(size=300))
    right = {
        correct(scale * scores[order], members[order], 60, share)
        for order in (rng.permutation(300) for _ in range(20))
        for scale in (1.0, 7.0)
        for share in (0.5,)
    }
    assert len(right) == 1


def test_guesses_are_the_highest_and_the_lowest() -> None:
    rng = np.random.default_rng(15)
    for _ in range(50):
        scores, members = rng.permutation(40).astype(float), rng.random(40) < 0.5
        rising = np.argsort(scores)
        expected = members[rising[-9:]].sum() + (~members[rising[:3]]).sum()
        assert correct(scores, members, 12, 0.75) == expected


def test_guesses_among_ties_are_right_as_often_as_a_draw_is() -> None:
    """1,000 tables of equal scores, of which half are members: 30 of 60 in the mean."""
    rng = np.random.default_rng(16)
    right = [correct(np.zeros(100), rng.random(100) < 0.5, 60, 0.5) for _ in range(1000)]
    assert abs(np.mean(right) - 30.0) < 5.0 * np.sqrt(15.0 / 1000)
