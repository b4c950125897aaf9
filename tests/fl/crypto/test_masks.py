"""Masks: the stream that is documented, one for each use, in place and without remainder."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.fl.crypto import masks
from privplan.fl.crypto.keys import derive
from privplan.fl.crypto.masks import Mask, mask_into, masks_into, residues, words

from ...cases import for_each
from ...chance import FALSE_ALARM, limits

KEY = bytes(range(32))
PLACE = {"session": b"session", "round": 3, "label": b"label"}

SHORT = [1242360946, 3552502448, 2849758653, 3578585107]
LONG = "0735a7bdd82ebeb2f7d1717963e4c6d4fef86449736d8f0b48a1f5a3f0a0f862"

BLOCK = masks._CHUNK_BYTES


def drawn(kind, count, key=KEY, **place):
    out = np.zeros(count, kind)
    mask_into(out, key, sign=1, **{**PLACE, **place})
    return out


@for_each(("kind", "name"), [(np.uint32, b"words of 32 bits"), (np.uint64, b"words of 64 bits")])
def test_the_stream_is_aes_in_counter_mode_by_the_block(kind, name) -> None:
    """The oracle counts by itself and encrypts block by block, across a chunk's end."""
    count = BLOCK // kind(0).itemsize + 5
    domain = b"".join(len(one).to_bytes(8, "little") + one for one in (b"session", b"label", name))
    domain += (3).to_bytes(8, "little") + count.to_bytes(8, "little")
    own = derive(KEY, b"mask" + domain, 32)
    first = int.from_bytes(own[16:], "big")
    size = count * kind(0).itemsize
    blocks = range(first, first - (-size // 16))
    counters = b"".join((one % 2**128).to_bytes(16, "big") for one in blocks)
    stream = Cipher(algorithms.AES128(own[:16]), modes.ECB()).encryptor().update(counters)[:size]
    width = kind(0).itemsize
    expected = [int.from_bytes(stream[at : at + width], "little") for at in range(0, size, width)]
    assert drawn(kind, count).tolist() == expected


def test_the_stream_never_changes() -> None:
    """Parties of different versions and machines must make the same mask."""
    short, long = drawn(np.uint32, 4), drawn(np.uint64, 100_000)
    assert short.tolist() == SHORT
    assert hashlib.sha256(long.astype("<u8").tobytes()).hexdigest() == LONG


@given(
    st.integers(0, 3 * BLOCK // 4 + 7),
    st.sampled_from([np.uint32, np.uint64]),
    st.integers(0, 2**32 - 1),
)
def test_what_is_added_comes_off_again(count, kind, seed) -> None:
    rng = np.random.default_rng(seed)
    before = rng.integers(0, np.iinfo(kind).max, count, dtype=kind, endpoint=True)
    after = before.copy()
    mask_into(after, KEY, sign=1, **PLACE)
    with np.errstate(over="ignore"):
        assert np.array_equal(after, before + drawn(kind, count))
    mask_into(after, KEY, sign=-1, **PLACE)
    assert np.array_equal(after, before)


def test_several_masks_at_once_are_the_same_as_one_by_one() -> None:
    count = BLOCK // 4 + 77
    several = [Mask(bytes([one]) * 32, b"%d" % one, 1 if one % 3 else -1) for one in range(7)]
    once, single = np.zeros((2, count), np.uint32)
    masks_into(once, several, session=b"s", round=0)
    for one in several:
        mask_into(single, one.key, session=b"s", round=0, label=one.label, sign=one.sign)
    assert np.array_equal(once, single)
    assert once.any()


def test_each_use_has_a_stream_of_its_own() -> None:
    uses = [
        {},
        {"session": b"sessio", "label": b"nlabel"},
        {"session": b"other"},
        {"round": 4},
        {"label": b"labels"},
        {"label": b""},
        {"key": KEY[::-1]},
    ]
    found = [drawn(np.uint64, 50, **use).tobytes() for use in uses]
    found += [drawn(np.uint32, 100).tobytes(), drawn(np.uint64, 51).tobytes()[:400]]
    pieces = Counter(one[at : at + 8] for one in found for at in range(0, 400, 8))
    assert max(pieces.values()) == 1


def test_words_are_the_mask() -> None:
    assert np.array_equal(words(KEY, 40, **PLACE), drawn(np.uint64, 40))
    assert words(KEY, 0, **PLACE).shape == (0,)


BAD = [
    *(np.zeros(4, kind) for kind in (np.int64, np.uint16, np.dtype(np.uint64).newbyteorder())),
    np.zeros((2, 2), np.uint64),
    np.zeros(8, np.uint64)[::2],
    [1, 2],
]


def test_other_arrays_signs_rounds_and_short_keys_are_refused() -> None:
    for array in BAD:
        with pytest.raises(InvalidInput, match="words"):
            mask_into(array, KEY, sign=1, **PLACE)
    out, frozen = np.zeros((2, 4), np.uint64)
    for sign in (0, 2, -2):
        with pytest.raises(InvalidInput, match="sign"):
            mask_into(out, KEY, sign=sign, **PLACE)
    with pytest.raises(InvalidInput, match="round"):
        mask_into(out, KEY, session=b"", round=-1, label=b"", sign=1)
    frozen.flags.writeable = False
    for array, key in ((out, KEY[:15]), (frozen, KEY)):
        with pytest.raises(InvalidInput):
            mask_into(array, key, sign=1, **PLACE)
    assert not out.any()


def test_bits_of_a_mask_are_balanced() -> None:
    """64 x 20,000 bits, each column about half; at most 1 in 10^6 for all, over keys."""
    bits = np.unpackbits(drawn(np.uint64, 20_000).view(np.uint8)).reshape(-1, 64)
    low, high = limits(stats.binom(20_000, 0.5), looks=64)
    sums = bits.sum(axis=0, dtype=np.int64)
    assert low <= sums.min() <= sums.max() <= high


@for_each("modulus", [2, 3, 97, 2**64, 3**400, 2**6144 - 1])
def test_residues_are_below_their_modulus_and_repeat_for_the_other_side(modulus) -> None:
    found = residues(KEY, 30, modulus, **PLACE)
    assert found == residues(KEY, 30, modulus, **PLACE)
    assert found != residues(KEY, 30, modulus, **{**PLACE, "round": 4})
    assert len(found) == 30
    assert all(0 <= one < modulus for one in found)
    if modulus > 2**60:
        assert max(found).bit_length() > modulus.bit_length() - 8  # chance below 2^-200


def test_residues_of_other_moduli_share_nothing() -> None:
    """Of three moduli of 16 bytes: one number of 32 bytes modulo all of them would be found."""
    moduli = [2**127 - 1, 2**126 + 7, 2**125 + 1]
    whole = math.prod(moduli)
    parts = [
        residues(KEY, 1, one, **PLACE)[0] * (whole // one) * pow(whole // one, -1, one)
        for one in moduli
    ]
    assert sum(parts) % whole >= 2**256  # chance of less: 2^-120


def test_residues_are_uniform() -> None:
    """Chi-square of 7,000 draws, 1 in 10^6; a byte modulo 192 would be below 64 half of the time.

    The key is fixed.
    """
    counts = np.bincount(residues(KEY, 7_000, 7, **PLACE), minlength=7)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM / 2
    below = sum(one < 64 for one in residues(KEY, 6_000, 192, **PLACE))
    low, high = limits(stats.binom(6_000, 1 / 3), looks=2)
    assert low <= below <= high


def test_threads_do_not_disturb_one_another() -> None:
    count = 4 * BLOCK // 8

    def one(label):
        return drawn(np.uint64, count, label=b"%d" % label)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(one, range(16)))
    assert all(np.array_equal(own, one(label)) for label, own in enumerate(found))


@for_each("modulus", [1, 0, -5, True, 2.0])
def test_other_moduli_are_refused(modulus) -> None:
    with pytest.raises(InvalidInput, match="modulus"):
        residues(KEY, 1, modulus, **PLACE)
    assert residues(KEY, 0, 5, **PLACE) == []
