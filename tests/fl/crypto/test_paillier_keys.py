"""Paillier keys: against phe's own, what is refused, and what stays hidden."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant.errors import InvalidInput, ProtocolFault

from ...cases import for_each

phe: Any = pytest.importorskip("phe.paillier")
gmpy2: Any = pytest.importorskip("gmpy2")

from privplan.fl.crypto.paillier import keys  # noqa: E402

PRIVATE = keys.generate(256, small=True)
PUBLIC = PRIVATE.public
N = int(PUBLIC.n)

FALSE_ALARM = 1e-6
"""How often a chi-square test here fails although all is well."""


@given(st.lists(st.integers(-N, 2 * N), min_size=1, max_size=4))
def test_what_is_encrypted_is_decrypted(plaintexts: list[int]) -> None:
    expected = [one % N for one in plaintexts]
    assert PRIVATE.decrypt_many(PRIVATE.encrypt_many(plaintexts)) == expected
    assert PRIVATE.decrypt_many([PUBLIC.encrypt(one) for one in plaintexts]) == expected


def test_phe_reads_ours_and_we_read_phes() -> None:
    pair, private = phe.generate_paillier_keypair(n_length=256)
    own = keys.PrivateKey(private.p, private.q, small=True)
    for plaintext in (0, 1, pair.n // 2, pair.n - 1):
        assert own.decrypt_many([pair.raw_encrypt(plaintext)]) == [plaintext]
        for ciphertext in (own.public.encrypt(plaintext), *own.encrypt_many([plaintext])):
            assert private.raw_decrypt(int(ciphertext)) == plaintext


def test_equal_plaintexts_never_meet_in_a_ciphertext() -> None:
    many = [*PRIVATE.encrypt_many([5] * 20), *(PUBLIC.encrypt(5) for _ in range(20))]
    assert len(set(many)) == 40


def test_the_servers_randomness_is_uniform_among_the_residues() -> None:
    # n = 35: the 24 n-th residues modulo 35^2, of both ways to encrypt.
    private = keys.PrivateKey(5, 7, small=True)
    residues = {pow(unit, 35, 35**2) for unit in range(1, 35**2) if gmpy2.gcd(unit, 35) == 1}
    assert len(residues) == 24
    drawn = (
        private.encrypt_many([0] * 2400),
        [private.public.encrypt(0) for _ in range(2400)],
    )
    for many in drawn:
        counted = Counter(int(one) for one in many)
        assert set(counted) <= residues
        _, chance = stats.chisquare([counted[one] for one in sorted(residues)])
        assert chance > FALSE_ALARM


@for_each("pieces", [1, 2, 3, 7, 64])
def test_powers_are_repeated_squares(pieces: int) -> None:
    ciphertexts = PRIVATE.encrypt_many([3, N - 1])
    apart = keys.piece_bits(PUBLIC.bits, pieces)
    assert apart * pieces >= PUBLIC.bits
    for ciphertext, row in zip(ciphertexts, PRIVATE.powers(ciphertexts, pieces), strict=True):
        expected = [pow(int(ciphertext), 1 << (apart * place), N * N) for place in range(pieces)]
        assert list(row) == expected


def test_ciphertexts_travel_with_a_fixed_length() -> None:
    ciphertexts = [*PRIVATE.encrypt_many([1, 2, 3]), 1, N * N - 1]
    sent = PUBLIC.write(ciphertexts)
    assert {len(one) for one in sent} == {PUBLIC.length} == {64}
    assert PUBLIC.read(sent) == ciphertexts
    for wrong in (-1, N * N):
        with pytest.raises(InvalidInput):
            PUBLIC.write([wrong])


BAD: dict[str, Any] = {
    "empty": b"",
    "too long": bytes(63) + b"\1\1",
    "too short": (1).to_bytes(63, "big"),
    "the modulus": (N * N).to_bytes(64, "big"),
    "all ones": (2**512 - 1).to_bytes(64, "big"),
    "zero": bytes(64),
    "n": N.to_bytes(64, "big"),
    "p": int(PRIVATE._p).to_bytes(64, "big"),
    "3 q": int(PRIVATE._q * 3).to_bytes(64, "big"),
    "text": "0" * 64,
    "a number": 7,
}


@for_each("wrong", BAD.values(), ids=BAD.keys())
def test_bad_ciphertexts_are_refused_among_good_ones(wrong: Any) -> None:
    good = PUBLIC.write(PRIVATE.encrypt_many([1, 2]))
    with pytest.raises(ProtocolFault) as caught:
        PUBLIC.read([good[0], wrong, good[1]])
    assert str(N) not in str(caught.value)
    assert str(PRIVATE._p) not in str(caught.value)


def test_moduli_that_are_no_keys_are_refused() -> None:
    prime = int(gmpy2.next_prime(1 << 2047))
    half = int(gmpy2.next_prime(3 << 1022))
    sevenths = 7 * int(gmpy2.next_prime((1 << 2048) // 7 - 10**9))
    assert sevenths.bit_length() == 2048
    for wrong in (0, 1, -15, N, 1 << 2047, prime, half * half, sevenths, (1 << 2050) + 1):
        with pytest.raises(ProtocolFault):
            keys.PublicKey(wrong)
    for wrong in (9, 16, 17, 125, -35):
        with pytest.raises(ProtocolFault):
            keys.PublicKey(wrong, small=True)


def test_a_key_of_full_size_is_accepted() -> None:
    p = int(gmpy2.next_prime(3 << 1022))
    q = int(gmpy2.next_prime((3 << 1022) + (1 << 900)))
    assert keys.PublicKey(p * q).bits == 2048
    assert keys.PrivateKey(p, q).decrypt_many([1]) == [0]


@for_each("bits", [0, 512, 1024, 3071, 8192])
def test_other_sizes_are_refused(bits: int) -> None:
    with pytest.raises(InvalidInput):
        keys.generate(bits)


@for_each(("p", "q"), [(7, 7), (3, 7), (9, 11), (11, 15)])
def test_factors_that_make_no_key_are_refused(p: int, q: int) -> None:
    with pytest.raises(InvalidInput):
        keys.PrivateKey(p, q, small=True)


def test_a_private_key_shows_itself_to_nobody() -> None:
    for shown in (repr(PRIVATE), str(PRIVATE), f"{PRIVATE}"):
        assert str(PRIVATE._p) not in shown
        assert str(PRIVATE._q) not in shown
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leave(PRIVATE)


def test_public_keys_are_equal_by_their_modulus() -> None:
    again = keys.PublicKey(N, small=True)
    assert again == PUBLIC
    assert hash(again) == hash(PUBLIC)
    assert again != keys.generate(256, small=True).public
