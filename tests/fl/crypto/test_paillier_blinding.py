"""Blinding: uniform, it cancels over all silos, and the plaintexts stay what they were."""

from __future__ import annotations

import math
import os
import pickle
import random
import secrets
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.errors import InvalidInput, ProtocolFault

pytest.importorskip("gmpy2")
pytest.importorskip("phe")

from privplan.fl.crypto.paillier import keys, residues
from privplan.fl.crypto.paillier.blinding import (
    Residues,
    aggregate,
    blinded,
    keystream_length,
    units,
)
from privplan.fl.crypto.paillier.packing import Packing
from privplan.fl.crypto.paillier.powers import rescale
from privplan.fl.crypto.paillier.products import products

from ...cases import for_each

PRIVATE = keys.generate(256, small=True)
PUBLIC = PRIVATE.public
N = int(PUBLIC.n)
TINY = keys.PrivateKey(5, 7, small=True)

FALSE_ALARM = 1e-6
"""How often a chi-square test here fails although all is well."""


def residue(ciphertext: int) -> int:
    """Return what the server finds beside the plaintext."""
    (plaintext,) = PRIVATE.decrypt_many([ciphertext])
    return int(ciphertext) * (1 - plaintext * N) % N**2


def masks(silos: int, count: int) -> dict[tuple[int, int], list[int]]:
    size = keystream_length(PUBLIC, count)
    return {pair: units(PUBLIC, os.urandom(size), count) for pair in combinations(range(silos), 2)}


def sent_by(silo, silos, own, sums, fresh):
    above = [own[silo, other] for other in range(silo + 1, silos)]
    below = [own[other, silo] for other in range(silo)]
    return blinded(PUBLIC, sums, fresh, above, below)


@for_each("silos", [1, 2, 3, 5])
def test_masks_cancel_over_all_silos_and_over_no_fewer(silos: int) -> None:
    count = 3
    own = masks(silos, count)
    ones = [1] * count
    parts = [sent_by(silo, silos, own, ones, ones) for silo in range(silos)]
    assert aggregate(PUBLIC, parts) == ones
    for without in range(silos if silos > 1 else 0):
        rest = aggregate(PUBLIC, parts[:without] + parts[without + 1 :])
        assert all(one != 1 for one in rest)


@for_each("expected", [1, 10**6])
def test_fresh_residues_change_the_residue_and_leave_the_plaintext(expected: int) -> None:
    own = Residues(PUBLIC, expected=expected)
    assert (own.shape is None) == (expected == 1)
    ciphertexts = PRIVATE.encrypt_many([0, 1, N - 1, 12345])
    before = [residue(one) for one in ciphertexts]
    seen = set(before)
    for _ in range(2):
        drawn = own.draw(4)
        found = blinded(PUBLIC, ciphertexts, drawn)
        assert PRIVATE.decrypt_many(drawn) == [0] * 4
        assert PRIVATE.decrypt_many(found) == [0, 1, N - 1, 12345]
        seen |= {residue(one) for one in found}
    assert len(seen) == 12
    assert own.draw(0) == []


@for_each("expected", [1, 10**6])
def test_residues_are_uniform(expected: int) -> None:
    # n = 35: 24 residues and 2,400 draws, from several tables, so that no one decides.
    group = {pow(one, 35, 35**2) for one in range(35) if math.gcd(one, 35) == 1}
    counted: Counter[int] = Counter()
    for _ in range(4):
        counted.update(int(one) for one in Residues(TINY.public, expected=expected).draw(600))
    assert set(counted) <= group
    _, chance = stats.chisquare([counted[one] for one in sorted(group)])
    assert chance > FALSE_ALARM


def test_masks_are_uniform() -> None:
    # n = 35: the 840 units modulo 35^2.  A mask that is no unit is refused, and left out here.
    key, random_bytes = TINY.public, random.Random(3).randbytes
    size = keystream_length(key, 1)
    counted: Counter[int] = Counter()
    for _ in range(24_500):
        try:
            counted.update(int(one) for one in units(key, random_bytes(size), 1))
        except ProtocolFault:
            counted["refused"] += 1
    refused = counted.pop("refused")
    group = [one for one in range(35**2) if math.gcd(one, 35) == 1]
    assert set(counted) <= set(group)
    _, chance = stats.chisquare([counted[one] for one in group])
    assert chance > FALSE_ALARM
    assert stats.binomtest(refused, 24_500, 1 - 24 / 35).pvalue > FALSE_ALARM


def test_masks_are_drawn_beyond_the_modulus() -> None:
    # As many bytes as n^2 has would favour small residues.
    assert keystream_length(PUBLIC, 3) == 3 * (PUBLIC.length + 16)
    stream = bytes(range(80)) * 2
    first, second = units(PUBLIC, stream, 2)
    assert first == second == int.from_bytes(bytes(range(80)), "big") % N**2


def test_wrong_masks_are_refused() -> None:
    size = keystream_length(PUBLIC, 1)
    for wrong in (b"", bytes(size - 1), bytes(size + 1)):
        with pytest.raises(InvalidInput):
            units(PUBLIC, wrong, 1)
    for value in (0, N, int(PRIVATE._p), N**2):
        with pytest.raises(ProtocolFault):
            units(PUBLIC, value.to_bytes(size, "big"), 1)
    with pytest.raises(InvalidInput):
        blinded(PUBLIC, [1, 2], [1])
    with pytest.raises(InvalidInput):
        blinded(PUBLIC, [1, 2], [1, 1], [[1, 1], [1]])
    with pytest.raises(InvalidInput):
        blinded(PUBLIC, [1, 2], [1, 1], [], [[1, 1, 1]])
    for parts in ([], [[1, 2], [1]]):
        with pytest.raises(ProtocolFault):
            aggregate(PUBLIC, parts)


def test_a_whole_round_is_the_plain_sum() -> None:
    rng = np.random.default_rng(2)
    silos, users, count, multiple = 3, 4, 9, math.lcm(*range(1, 11))
    counts = rng.integers(1, 3, (silos, users))
    totals = counts.sum(axis=0) + 1
    digits = rng.integers(-(2**15) + 1, 2**15, (silos, users, count))
    wide = 10**9
    noise = [[secrets.randbelow(2 * wide) - wide for _ in range(count)] for _ in range(silos)]
    packing = Packing.plan(PUBLIC.bits, users * multiple * 2**15 + silos * wide)
    blind = [secrets.randbelow(N - 1) + 1 for _ in range(users)]
    inverses = [pow(r * int(total), -1, N) for r, total in zip(blind, totals, strict=True)]
    sent = PRIVATE.powers(PRIVATE.encrypt_many(inverses), 2)
    own = masks(silos, packing.blocks(count))
    received, unmasked = [], []
    for silo in range(silos):
        exponents = [r * int(c) * multiple % N for r, c in zip(blind, counts[silo], strict=True)]
        bases = rescale(PUBLIC, sent, exponents)
        sums = products(PUBLIC, bases, digits[silo], packing, plaintexts=packing.pack(noise[silo]))
        fresh = Residues(PUBLIC, expected=len(sums)).draw(len(sums))
        received.append(PUBLIC.write(sent_by(silo, silos, own, sums, fresh)))
        unmasked.append(sums)
    parts = [PUBLIC.read(one) for one in received]
    total = aggregate(PUBLIC, parts)
    expected = [
        sum(
            multiple * int(counts[silo, user]) // int(totals[user]) * int(digits[silo, user, place])
            for silo in range(silos)
            for user in range(users)
        )
        + sum(noise[silo][place] for silo in range(silos))
        for place in range(count)
    ]
    assert packing.unpack(PRIVATE.decrypt_many(total), count, N) == expected
    # What the server knows of the product's residue without the silos' own is no longer there.
    bare = aggregate(PUBLIC, unmasked)
    assert all(residue(a) != residue(b) for a, b in zip(total, bare, strict=True))
    for part in parts:
        with pytest.raises(ProtocolFault):
            packing.unpack(PRIVATE.decrypt_many(part), count, N)


def log2_distance(key_bits: int, table_shape: residues.Shape) -> float:
    """Return log2 of the bound on one draw's distance from uniform, as `residues` states it."""
    m, t = table_shape
    # From d = 8 on f_d <= 5 / (4 d), and a sum is at most its first term and the integral.
    small = [2 * math.log2(d) + m * math.log2(1 / d + d / 4 ** (t + 1)) for d in range(4, 8)]
    rest = m * math.log2(5 / 32) + 6 + math.log2(1 + 8 / (m - 3))
    root = [term / 2 for term in [*small, rest, key_bits - m * t]]  # roots add up to more
    thirds = 3 + m * math.log2(1 / 3 + 2.0**-t)
    terms = [math.log2(3) - m, thirds, *root]
    top = max(terms)
    return top + math.log2(sum(2.0 ** (term - top) for term in terms)) - 1


@for_each("bits", [*keys.SIZES, 16, 512])
def test_tables_are_within_two_to_the_minus_128(bits: int) -> None:
    own = residues.shape(bits)
    assert log2_distance(bits, own) < -128
    assert own.bits % 8 == 0
    # Too few bases are not enough, however long their exponents.
    fewer = residues.Shape(own.bases - 8, own.bits)
    shorter = residues.Shape(44, 120)
    assert log2_distance(bits, fewer) > -128
    assert -45 < log2_distance(bits, shorter) < -40


def test_the_bound_on_the_distance_holds_where_it_can_be_computed() -> None:
    # Exactly, by the distribution of h on Z*_n (which the n-th residues are isomorphic to).
    rng = np.random.default_rng(4)
    group = [one for one in range(35) if math.gcd(one, 35) == 1]
    place = {one: index for index, one in enumerate(group)}
    for m, t in ((3, 2), (5, 3), (8, 2), (12, 4)):
        distances = []
        for _ in range(100):
            law = np.zeros(len(group))
            law[place[1]] = 1.0
            for base in rng.choice(group, m):
                steps = [pow(int(base), e, 35) for e in range(2**t)]
                law = np.mean(
                    [law[[place[one * pow(step, -1, 35) % 35] for one in group]] for step in steps],
                    axis=0,
                )
            distances.append(abs(law - 1 / len(group)).sum() / 2)
        size = 2**t
        chance = {d: 1 / d + d / (4 * size**2) for d in range(4, size)}
        root = sum(d * d * one**m for d, one in chance.items()) + len(group) / size**m
        bound = (3 * 2.0**-m + 8 * (1 / 3 + 1 / size) ** m + math.sqrt(root)) / 2
        spread = float(np.std(distances)) / math.sqrt(len(distances))
        assert np.mean(distances) <= bound + 5 * spread


def test_a_source_of_residues_is_not_pickled() -> None:
    own = Residues(PUBLIC, expected=10**6)
    own.prepare()
    with pytest.raises(TypeError):
        pickle.dumps(own)
    assert "base" not in repr(own)
