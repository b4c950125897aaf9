"""Shamir's shares: against arithmetic in the field done by hand, and everything that is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.accountant.randomness import Secret
from privplan.fl.crypto import keys, shamir
from privplan.fl.crypto.shamir import combine, split

from ...cases import for_each

POLYNOMIAL = 2**16 + 2**12 + 2**3 + 2 + 1


def times(left: int, right: int) -> int:
    """Return a product in GF(2^16), bit by bit."""
    total = 0
    while right:
        if right & 1:
            total ^= left
        left <<= 1
        if left >> 16:
            left ^= POLYNOMIAL
        right >>= 1
    return total


def fixed(monkeypatch, coefficients):
    """Let the next coefficients be these, (threshold - 1, W), the highest power first."""
    raw = np.asarray(coefficients, "<u2").tobytes()
    monkeypatch.setattr(keys, "fresh", lambda length: Secret(raw[:length]))


def test_the_tables_are_those_of_the_field() -> None:
    exp, log = shamir._exp(), shamir._log()
    assert sorted(exp[:65535].tolist()) == list(range(1, 65536))  # x is a generator
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 65536, (2000, 2))
    pairs[:3] = [[0, 0], [0, 7], [7, 0]]
    pairs[3:5] = [[65535, 65535], [1, 65535]]
    expected = [times(int(a), int(b)) for a, b in pairs]
    assert exp[log[pairs[:, 0]] + log[pairs[:, 1]]].tolist() == expected


def test_shares_are_values_of_the_polynomial(monkeypatch) -> None:
    rng = np.random.default_rng(2)
    coefficients = rng.integers(0, 65536, (3, 2))
    secret = np.array([258, 65535], "<u2")
    fixed(monkeypatch, coefficients)
    holders = [1, 2, 40_000, 65_535]
    shares = split(secret.tobytes(), threshold=4, holders=holders)
    for holder in holders:
        for column in range(2):
            value = 0
            for coefficient in (*coefficients[:, column].tolist(), int(secret[column])):
                value = times(value, holder) ^ coefficient
            assert np.frombuffer(shares[holder], "<u2")[column] == value


@settings(max_examples=60)
@given(st.data())
def test_any_threshold_of_the_holders_have_the_secret(data) -> None:
    secret = data.draw(st.binary(min_size=1, max_size=20)) * 2
    holders = data.draw(st.lists(st.integers(1, 65535), min_size=2, max_size=12, unique=True))
    threshold = data.draw(st.integers(2, len(holders)))
    shares = split(secret, threshold=threshold, holders=holders)
    assert list(shares) == holders
    assert all(len(one) == len(secret) for one in shares.values())
    chosen = data.draw(st.permutations(holders))
    chosen = chosen[: data.draw(st.integers(threshold, len(holders)))]
    found = combine({holder: bytes(shares[holder]) for holder in chosen}, threshold)
    assert isinstance(found, Secret)
    assert found == secret


def test_each_subset_of_five_holders() -> None:
    secret = bytes(range(32))
    shares = split(secret, threshold=3, holders=[3, 1, 4, 15, 9])
    for size in range(1, 6):
        for some in itertools.combinations(shares, size):
            own = {holder: shares[holder] for holder in some}
            if size < 3:
                with pytest.raises(ProtocolFault, match="too few"):
                    combine(own, 3)
            else:
                assert combine(own, 3) == secret


@for_each("holder", [1, 2, 65_535])
@for_each("secret", [0, 1, 54_321])
def test_one_share_less_is_independent_of_the_secret(monkeypatch, holder, secret) -> None:
    """Over all coefficients, a single share of two takes every value exactly once."""
    fixed(monkeypatch, [np.arange(65536)])
    many = np.full(65536, secret, "<u2").tobytes()
    share = split(many, threshold=2, holders=[holder, 3])[holder]
    assert np.array_equal(np.sort(np.frombuffer(share, "<u2")), np.arange(65536))


def test_two_shares_of_three_are_independent_of_the_secret() -> None:
    """Any two shares are consistent with every secret: one degree of freedom is left."""
    shares = split(bytes(2), threshold=3, holders=[1, 2, 3])
    assert combine(shares, 3) == bytes(2)
    found = set()
    for guess in range(0, 65536, 257):
        third = np.array([guess], "<u2").tobytes()
        found.add(bytes(combine({1: shares[1], 2: shares[2], 3: third}, 3)))
    assert len(found) == 256


def test_coefficients_are_fresh_for_every_secret() -> None:
    first, second = (split(bytes(32), threshold=2, holders=[1, 2]) for _ in range(2))
    assert first[1] != second[1]
    # And for every part of it; the chance of fewer is below 2^-100.
    assert len(set(np.frombuffer(first[1], "<u2").tolist())) > 10


def test_many_holders_in_blocks(monkeypatch) -> None:
    secret = bytes(range(8))
    monkeypatch.setattr(shamir, "_ELEMENTS_AT_A_TIME", 64)
    holders = list(range(1, 301))
    shares = split(secret, threshold=120, holders=holders)
    assert combine(shares, 120) == secret
    assert combine({one: shares[one] for one in holders[-120:]}, 120) == secret


def test_all_holders_that_there_can_be() -> None:
    shares = split(b"ab", threshold=2, holders=range(1, 65536))
    assert len(shares) == 65535
    assert combine({65535: shares[65535], 1: shares[1]}, 2) == b"ab"


@for_each("changed", [1, 5, 7])
def test_a_wrong_share_among_more_than_enough_is_seen(changed) -> None:
    shares = dict(split(bytes(32), threshold=3, holders=[1, 2, 5, 7]))
    shares[changed] = shares[changed][:-1] + bytes([shares[changed][-1] ^ 1])
    with pytest.raises(ProtocolFault, match="contradict"):
        combine(shares, 3)


def test_shares_of_another_secret_are_seen() -> None:
    one, other = (split(bytes(32), threshold=2, holders=[1, 2, 3]) for _ in range(2))
    with pytest.raises(ProtocolFault):
        combine({1: one[1], 2: one[2], 3: other[3]}, 2)


@for_each(
    "shares",
    [
        {},
        {1: b"ab"},
        {0: b"ab", 1: b"cd"},
        {-1: b"ab", 1: b"cd"},
        {65536: b"ab", 1: b"cd"},
        {True: b"ab", 2: b"cd"},
        {1: b"ab", 2: b"cdef"},
        {1: b"abc", 2: b"abd"},
        {1: b"", 2: b""},
        {1: b"a", 2: b"abc"},
        {np.int64(1): b"ab", 2: b"cd"},
    ],
)
def test_shares_that_there_cannot_be_are_faults(shares) -> None:
    with pytest.raises(ProtocolFault) as caught:
        combine(shares, 2)
    assert "b'" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


HOLDERS = [[], [1], [1, 1], [0, 1], [1, 65536], [-1, 2], [1, 2.0], [True, 2], ["1", "2"]]


def test_holders_thresholds_and_secrets_that_there_cannot_be_are_refused() -> None:
    for holders in HOLDERS:
        with pytest.raises(InvalidInput):
            split(b"ab", threshold=2, holders=holders)
    for threshold in (0, 1, 4, -1, 2.0, True):
        with pytest.raises(InvalidInput, match="threshold"):
            split(b"ab", threshold=threshold, holders=[1, 2, 3])
    for secret in (b"", b"a", b"abc"):
        with pytest.raises(InvalidInput, match="even"):
            split(secret, threshold=2, holders=[1, 2])
