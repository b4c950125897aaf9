"""Attacks on masks: masks that come twice, and values without a mask."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("phe")
pytest.importorskip("cryptography")

from privplan.audit.attack_methods import transcripts as attacks
from privplan.fl.uldp.weighting import published_parties as parties

from ..cases import for_each
from .published_protocol import drawn, ring, update


@for_each("size", [4, 1000])
def test_a_mask_that_comes_again_in_the_next_round_is_seen(size: int) -> None:
    vectors = {
        "silo-0, round 1": ring(1, size) + update(2, size),
        "silo-0, round 2": ring(1, size) + update(3, size),
        "silo-1, round 1": ring(4, size) + update(5, size),
    }
    finding = attacks.reused_masks(vectors, 2**64)
    assert finding.detected
    assert finding.places == ("silo-0, round 1 and silo-0, round 2",)


def test_fresh_masks_look_fresh() -> None:
    vectors = {f"{n}": ring(n, 500) + update(n + 50, 500) for n in range(8)}
    finding = attacks.reused_masks(vectors, 2**64)
    assert not finding.detected
    assert finding.p_value > 1e-3


def test_masks_of_32_bits() -> None:
    fresh = {f"{n}": (ring(n, 500, 32) + update(n, 500) % 2**32) % 2**32 for n in range(4)}
    assert not attacks.reused_masks(fresh, 2**32).detected
    again = fresh | {"again": (fresh["0"] + update(9, 500)) % 2**32}
    assert attacks.reused_masks(again, 2**32).places == ("0 and again",)


def test_masks_modulo_n() -> None:
    n = 10**60 + 7
    rng = np.random.default_rng(1)
    masks = [[int.from_bytes(rng.bytes(40), "big") % n for _ in range(6)] for _ in range(3)]
    fresh = {f"{index}": mask for index, mask in enumerate(masks)}
    assert not attacks.reused_masks(fresh, n).detected
    again = fresh | {"again": [(one + 123456) % n for one in masks[0]]}
    assert attacks.reused_masks(again, n).places == ("0 and again",)


def test_a_mask_shared_by_tensors_is_seen() -> None:
    mask = ring(1, 300)
    one = np.concatenate([mask[:200], mask[:300]]) + update(2, 500)
    blocks = {"weights": (0, 200), "bias": (200, 500)}
    named = attacks.reused_masks({"silo-0": one}, 2**64, blocks=blocks)
    assert named.places == ("silo-0/weights and silo-0/bias",)
    unnamed = attacks.reused_masks({"silo-0": one}, 2**64)
    assert unnamed.places == ("silo-0, with itself",)
    assert not attacks.reused_masks({"silo-0": ring(3, 500)}, 2**64, blocks=blocks).detected
    assert not attacks.reused_masks({"silo-0": ring(3, 500)}, 2**64).detected


def test_a_key_that_hid_two_seeds_is_seen() -> None:
    rng = np.random.default_rng(1)
    own, other = rng.bytes(32), rng.bytes(32)
    hidden = {
        "round 1": parties.hide_seed(12345, own),
        "round 2": parties.hide_seed(98765, own),
        "another key": parties.hide_seed(12345, other),
    }
    assert attacks.reused_keystream(hidden).places == ("round 1 and round 2",)
    random = {str(n): rng.bytes(32) for n in range(12)}
    assert not attacks.reused_keystream(random).detected


def test_a_nonce_that_comes_again_is_seen() -> None:
    rng = np.random.default_rng(1)
    locked = {str(n): rng.bytes(12) + rng.bytes(48) for n in range(5)}
    assert not attacks.reused_keystream(locked).detected
    locked["again"] = locked["2"][:12] + rng.bytes(48)
    assert attacks.reused_keystream(locked).places == ("2 and again",)


# --- (e) values without a mask --------------------------------------------------------------------


@for_each("size", [5, 200, 20_000])
def test_plain_updates_are_not_uniform(size: int) -> None:
    vectors = {"silo-0": ring(1, size), "silo-1": update(2, size)}
    finding = attacks.unmasked(vectors, 2**64)
    assert finding.detected
    assert "silo-1" in finding.places
    assert "silo-0" not in finding.places


def test_masked_updates_are_uniform() -> None:
    vectors = {f"{n}": ring(n, 20_000) + update(n, 20_000) for n in range(5)}
    finding = attacks.unmasked(vectors, 2**64)
    assert not finding.detected
    assert finding.p_value > 1e-3


@for_each(
    "weak",
    [
        lambda values: values >> np.uint64(1),  # one bit short
        lambda values: values << np.uint64(1),  # only even values
        lambda values: values & np.uint64(2**64 - 1 - 2**60),
    ],
)
def test_a_mask_that_is_not_uniform_is_seen(weak: Any) -> None:
    assert attacks.unmasked({"silo-0": weak(ring(1, 5000))}, 2**64).detected


def test_float_shares_are_not_uniform() -> None:
    values = drawn(1, 5000, scale=1.0)
    assert attacks.unmasked({"peer": values.view(np.uint64)}, 2**64).detected


def test_residues_modulo_n(key: tuple[int, int]) -> None:
    n = math.prod(key)
    rng = np.random.default_rng(5)
    uniform = [int.from_bytes(rng.bytes(100), "big") % n for _ in range(400)]
    assert not attacks.unmasked({"masked": uniform}, n).detected
    assert attacks.unmasked({"plain": [one % 2**400 for one in uniform]}, n).detected


@pytest.mark.slow
def test_false_alarms_of_the_uniformity_test() -> None:
    """4,000 sound views at a level of 1%: at most 1% alarms, plus 4 standard deviations."""
    rng = np.random.default_rng(0)
    alarms = sum(
        attacks.unmasked(
            {"a": rng.integers(0, 2**64, size, dtype=np.uint64)}, 2**64, false_alarm=0.01
        ).detected
        for size in (40, 100, 700, 6000)
        for _ in range(1000)
    )
    assert alarms <= 40 + 4 * 40**0.5
