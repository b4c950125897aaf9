"""Attacks on transcripts: each finds the leak that there is, and nothing where there is none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("phe")
pytest.importorskip("cryptography")

from privplan.accountant.errors import InvalidInput
from privplan.audit.attack_methods import transcripts as attacks
from privplan.fl.uldp.weighting import published
from privplan.fl.uldp.weighting.published import PublishedWeighting

from ..cases import for_each
from .published_protocol import (
    LIMIT,
    MULTIPLE,
    STEP,
    counts,
    drawn,
    invited,
    masked_sums,
    run_published,
    updates,
)

# --- the published protocol itself ----------------------------------------------------------------


def test_the_published_protocol_adds_up_and_promises_nothing() -> None:
    deltas, noise = drawn(1, 3, 4, 5), drawn(2, 3, 5, scale=3.0)
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=STEP)
    result = session.round(1, deltas, noise)
    weights = counts() / counts().sum(axis=1, keepdims=True)
    true = np.einsum("us,sud->d", weights, deltas) + noise.sum(axis=0)
    assert np.abs(result.values - true).max() <= (4 * 1.0 + 3) * STEP / 2
    assert result.guarantee == session.guarantee == "no-guarantee"
    assert "no guarantee" in (published.__doc__ or "")


def test_users_who_do_not_join_do_not_count() -> None:
    deltas, noise = drawn(1, 3, 4, 2), np.zeros((3, 2))
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=STEP)
    result = session.round(1, deltas, noise, joining=[False, True, True, False])
    weights = counts() / counts().sum(axis=1, keepdims=True)
    true = np.einsum("us,sud->d", weights[1:3], deltas[:, 1:3])
    assert np.abs(result.values - true).max() <= 2 * STEP


@for_each("table", [[[0, 0], [1, 1]], [[13, 0], [1, 1]], [[-1, 2], [1, 1]], [[1, 1]]])
def test_the_published_protocol_refuses_counts_that_break_it(table: list[list[int]]) -> None:
    if table == [[1, 1]]:
        table = [[1], [1]]
    with pytest.raises(InvalidInput):
        PublishedWeighting(table, count_limit=LIMIT)


def test_the_published_protocol_refuses_sums_beyond_the_key() -> None:
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=1e-120)
    with pytest.raises(InvalidInput, match="key"):
        session.round(1, np.full((3, 4, 1), 1e50), np.zeros((3, 1)))


# --- (a) products of randomness -------------------------------------------------------------------


def test_randomness_is_the_ciphertext_modulo_n(key: tuple[int, int]) -> None:
    """R = c (1+n)^(-Dec c), which needs the key, is c modulo n, which needs none."""
    n = math.prod(key)
    for number in (0, 1, n - 1, 12345):
        rho = 987654321 + number
        ciphertext = (1 + n * number) * pow(rho, n, n * n) % (n * n)
        assert attacks.plaintext(ciphertext, key) == number
        shown = attacks.randomness(ciphertext, key)
        assert shown == pow(rho, n, n * n)
        assert shown % n == ciphertext % n


def test_the_published_form_shows_which_parameters_nobody_moved() -> None:
    deltas = drawn(1, 3, 4, 6)
    deltas[0, :, 2] = 0.0  # in one silo
    deltas[:, :, 4] = 0.0  # in all
    finding = attacks.shown_randomness(
        updates(session := run_published(deltas, drawn(2, 3, 6, scale=5.0))), session.modulus
    )
    assert finding.detected
    assert finding.p_value < 1e-100
    assert set(finding.places) == {
        "silo-0[2]",
        *(f"silo-{s}[4]" for s in range(3)),
        "all together[4]",
    }


def test_the_published_form_shows_equal_and_opposite_and_double_parameters() -> None:
    deltas = np.round(drawn(1, 3, 4, 5) / STEP) * STEP
    deltas[1, :, 1] = deltas[1, :, 0]
    deltas[1, :, 3] = -deltas[1, :, 0]
    deltas[2, :, 4] = 2 * deltas[2, :, 0]
    session = run_published(deltas, drawn(2, 3, 5, scale=5.0))
    finding = attacks.shown_randomness(updates(session), session.modulus, invited=invited(session))
    assert finding.detected
    related = finding.recovered["related"]
    assert (("silo-1", 0), ("silo-1", 1)) in related
    assert (("silo-1", 0), ("silo-1", 3)) in related
    assert (("silo-2", 0), ("silo-2", 4)) in related
    assert not any(a[0] == "silo-0" or b[0] == "silo-0" for a, b in related)


@for_each(("masked", "own"), [(True, True), (False, True)])
def test_fresh_randomness_shows_nothing(key: tuple[int, int], masked: bool, own: bool) -> None:
    digits = np.arange(12).reshape(3, 4) * (np.arange(4) > 1)
    digits[:, 3] = digits[:, 2]
    sent = masked_sums(key, digits, np.full((3, 4), 1000), 1, masked=masked, own=own)
    finding = attacks.shown_randomness(sent, math.prod(key))
    assert not finding.detected
    assert finding.places == ()
    assert attacks.decrypted_sums(sent, key) == (digits.sum(axis=0) + 3000).tolist()


def test_masks_between_silos_alone_leave_the_sum_open(key: tuple[int, int]) -> None:
    digits = np.zeros((3, 2), dtype=int)
    digits[0, 1] = 7
    sent = masked_sums(key, digits, np.ones((3, 2), dtype=int), 2, own=False)
    finding = attacks.shown_randomness(sent, math.prod(key))
    assert finding.places == ("all together[0]",)


# --- (b) the residue without noise ----------------------------------------------------------------


def published_values(deltas: np.ndarray[Any, Any], seed: int, draws: int) -> list[list[int]]:
    found = []
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=STEP)
    for number in range(1, draws + 1):
        noise = np.random.default_rng([seed, number]).normal(0.0, 5.0, (3, deltas.shape[2]))
        session.round(number, deltas, noise)
        found.append(attacks.decrypted_sums(updates(session, number), session.primes))
    return found


def test_the_published_noise_leaves_a_residue_that_shows_the_user() -> None:
    deltas = drawn(1, 3, 4, 3)
    without = deltas.copy()
    without[:, 1] = 0.0  # this user's 11 records: V moves by multiples of C / 11
    ours, theirs = published_values(deltas, 1, 4), published_values(without, 2, 4)
    finding = attacks.noise_free_residue(ours, MULTIPLE, without=theirs)
    assert finding.detected
    assert "without the target" in finding.what
    assert finding.recovered["residues"] == [value % MULTIPLE for value in ours[3]]
    assert finding.recovered["differs"]


def test_the_published_residue_is_the_same_under_all_noise() -> None:
    finding = attacks.noise_free_residue(published_values(drawn(3, 3, 4, 2), 1, 3), MULTIPLE)
    assert finding.detected
    assert "same under all noise" in finding.what


def test_one_published_round_has_a_factor_that_no_noise_touches() -> None:
    """V is a sum of multiples of C / N_u: for N_u of 6, 11, 5 and 5, always a multiple of 84."""
    values = published_values(drawn(3, 3, 4, 40), 1, 1)
    finding = attacks.noise_free_residue(values, MULTIPLE)
    assert finding.detected
    assert "factor" in finding.what


def fine_values(sums: list[int], seed: int, draws: int, std: float) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    noise = np.rint(rng.normal(0.0, std, (draws, len(sums)))).astype(np.int64)
    return [[one + int(z) for one, z in zip(sums, row, strict=True)] for row in noise]


def test_noise_on_every_residue_leaves_nothing() -> None:
    with_user = [MULTIPLE * 3 // 11 + 5, 0, 17, MULTIPLE // 2]
    without = [5, 0, 17, 0]
    std = 20.0 * MULTIPLE
    finding = attacks.noise_free_residue(
        fine_values(with_user, 1, 1000, std), MULTIPLE, without=fine_values(without, 2, 1000, std)
    )
    assert not finding.detected
    assert finding.p_value > 1e-3


def test_noise_that_covers_only_part_of_the_residues_is_seen() -> None:
    values = fine_values([0, 11, 5], 1, 1000, 0.1 * MULTIPLE)
    finding = attacks.noise_free_residue(values, MULTIPLE)
    assert finding.detected
    assert "not uniform" in finding.what


def test_noise_on_even_residues_is_seen() -> None:
    rng = np.random.default_rng(1)
    values = (2 * np.rint(rng.normal(0.0, 9.0 * MULTIPLE, (40, 5)))).astype(np.int64) + 1
    assert attacks.noise_free_residue(values.tolist(), MULTIPLE).detected


def test_residues_of_unequal_rows_are_refused() -> None:
    with pytest.raises(InvalidInput):
        attacks.noise_free_residue([[1, 2], [1]], 60)


@pytest.mark.slow
def test_false_alarms_of_the_residue_attack() -> None:
    """1,000 sound runs at a level of 1%: at most 1% alarms, plus 4 standard deviations."""
    rng = np.random.default_rng(0)
    alarms = sum(
        attacks.noise_free_residue(
            rng.integers(0, 2520, (8, 40)).tolist(),
            2520,
            without=rng.integers(0, 2520, (8, 40)).tolist(),
            false_alarm=0.01,
        ).detected
        for _ in range(1000)
    )
    assert alarms <= 10 + 4 * 10**0.5
