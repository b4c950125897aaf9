"""Products of powers: equal to plain integers, whatever the sizes, the plan and the processes."""

from __future__ import annotations

import secrets
from itertools import product as every
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput

pytest.importorskip("gmpy2")
pytest.importorskip("phe")

from privplan.fl.crypto.paillier import keys, powers, products, straus
from privplan.fl.crypto.paillier.packing import Packing
from privplan.fl.crypto.paillier.processes import Workers

from ...cases import for_each

PRIVATE = keys.generate(256, small=True)
PUBLIC = PRIVATE.public
N = int(PUBLIC.n)


def unit() -> int:
    return int(PRIVATE.encrypt_many([secrets.randbelow(N)])[0])


def plainly(weights: list[int], digits: Any, noise: list[int]) -> list[int]:
    """Return the weighted sums by Python's integers."""
    columns = [[int(one) for one in column] for column in digits.T]
    return [
        sum(w * d for w, d in zip(weights, column, strict=True)) + z
        for column, z in zip(columns, noise, strict=True)
    ]


def under_encryption(
    weights: list[int], digits: Any, noise: list[int], packing: Packing, **more: Any
) -> list[int]:
    bases = PRIVATE.encrypt_many(weights)
    found = products.products(
        PUBLIC, bases, digits, packing, plaintexts=packing.pack(noise), **more
    )
    return packing.unpack(PRIVATE.decrypt_many(found), digits.shape[1], N)


@for_each("window", range(2, 10))
def test_tables_hold_powers_of_both_signs(window: int) -> None:
    base = unit()
    own = straus.table(base, window, PUBLIC.n)
    half = 1 << (window - 1)
    assert len(own.remainders) == len(own.carries) == 2 * half + 1
    for place, (remainder, carry) in enumerate(zip(*own, strict=True)):
        value = remainder * (1 + carry * N) % N**2
        assert value == pow(base, place - half, N * N)


def test_all_entries_of_a_table_are_as_long_as_the_key() -> None:
    # A zero digit must not be a cheaper multiplication than any other.
    own = straus.table(unit(), 8, PUBLIC.n)
    limbs = -(-PUBLIC.bits // 64)
    assert {-(-int(one).bit_length() // 64) for one in own.remainders} == {limbs}


def test_the_rows_of_a_block_do_not_depend_on_its_digits() -> None:
    plan = products.Plan(window=4, windows=4, segments=2, slots=3)
    extremes = (0, 1, -1, 32767, -32768)
    shapes = {
        tuple(map(len, products._rows(np.full((5, 6), one, np.int64), plan))) for one in extremes
    }
    assert shapes == {(10,) * 12}


@for_each("users", [2, 6])
def test_slots_in_which_nobody_has_anything_are_squared_at_full_length(
    users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From 1, what was squared stayed 1 until the first digit that is not 0: its time showed that.
    lengths: list[int] = []
    square = straus.square

    def watching(value: int) -> int:
        lengths.append(int(value).bit_length())
        return int(square(value))

    bases = PRIVATE.encrypt_many(range(1, users + 1))
    packing = Packing(slots=5, width=40, bound=2**39 - 1)
    digits = np.zeros((users, 12), np.int64)
    digits[:, 0] = 1  # in the lowest slot of the first block, taken in last
    monkeypatch.setattr(straus, "square", watching)
    found = products.products(PUBLIC, bases, digits, packing)
    assert min(lengths) > PUBLIC.bits - 80  # shorter by chance: one in 2^60 or so
    assert found[1:] == [1, 1]
    assert PRIVATE.decrypt_many(found[:1]) == [sum(range(1, users + 1))]


@given(data=st.data())
def test_windows_add_up_to_the_exponent(data: st.DataObject) -> None:
    window, count = data.draw(st.integers(2, 9)), data.draw(st.integers(1, 9))
    half = 1 << (window * count - 1)
    exponent = data.draw(
        st.one_of(st.integers(-half, half - 1), st.sampled_from([-half, half - 1]))
    )
    found = straus.indices(exponent, window, count)
    assert all(0 <= one <= 1 << window for one in found)
    total = 0
    for one in found:
        total = (total << window) + one - (1 << (window - 1))
    assert total == exponent


@settings(max_examples=60)
@given(data=st.data())
def test_weighted_sums_are_exact(data: st.DataObject) -> None:
    users, count = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 40))
    bits = data.draw(st.sampled_from([2, 5, 8, 16, 20]))
    heaviest = data.draw(st.sampled_from([0, 1, 1000, 2**40]))
    largest = 2 ** (bits - 1)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    digits = rng.integers(-largest, largest, (users, count))
    spots = rng.random((users, count))
    digits[spots < 0.2] = largest - 1
    digits[spots > 0.8] = -largest
    digits[(spots > 0.4) & (spots < 0.5)] = 0
    weights = [secrets.randbelow(heaviest + 1) for _ in range(users)]
    wide = data.draw(st.sampled_from([0, 7, 2**50]))
    noise = [secrets.randbelow(2 * wide + 1) - wide for _ in range(count)]
    packing = Packing.plan(PUBLIC.bits, max(users * heaviest * largest + wide, largest))
    found = under_encryption(weights, digits, noise, packing, digit_bits=bits)
    assert found == plainly(weights, digits, noise)


@for_each("sign", [1, -1])
def test_every_slot_at_the_largest_sum_there_is(sign: int) -> None:
    users, weight, largest, wide = 3, 2**30 - 1, 2**15 - 1, 10**9
    bound = users * weight * largest + wide
    packing = Packing(slots=4, width=bound.bit_length() + 1, bound=bound)
    digits = np.full((users, 4), sign * largest, np.int64)
    found = under_encryption([weight] * users, digits, [sign * wide] * 4, packing)
    assert found == [sign * bound] * 4


@for_each(("window", "segments"), list(every([2, 3, 8, 12], [1, 2, 3, 5])))
def test_every_plan_gives_the_same(
    window: int, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing = Packing.plan(PUBLIC.bits, 2**45)
    rng = np.random.default_rng(window + segments)
    digits = rng.integers(-(2**15), 2**15, (4, 23))
    own = products.Plan(window, -(-16 // window), segments, -(-packing.slots // segments))
    monkeypatch.setattr(products, "_plan", lambda *_: own)
    weights = [3, 0, 2**25, 77]
    noise = [int(one) for one in rng.integers(-1000, 1000, 23)]
    found = under_encryption(weights, digits, noise, packing)
    assert found == plainly(weights, digits, noise)


def test_users_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_TABLE_ENTRIES_AT_A_TIME", 40)
    packing = Packing.plan(PUBLIC.bits, 2**45)
    rng = np.random.default_rng(3)
    digits = rng.integers(-(2**15), 2**15, (37, 11))
    weights = [int(one) for one in rng.integers(0, 2**20, 37)]
    noise = [5] * 11
    found = under_encryption(weights, digits, noise, packing)
    assert found == plainly(weights, digits, noise)


def test_many_blocks_use_segments_and_few_do_not() -> None:
    packing = Packing.plan(3072, 2**76)
    few, many = (products._plan(10, count, 16, packing) for count in (100, 100_000))
    assert few.segments == 1 < many.segments
    assert products._plan(100, 4000, 16, packing) == (8, 2, 1, 39)


@given(st.integers(1, 5), st.sampled_from([1, 2, 3, 8]))
def test_rescaling_is_exponentiation(users: int, pieces: int) -> None:
    ciphertexts = PRIVATE.encrypt_many([secrets.randbelow(N) for _ in range(users)])
    exponents = [0, 1, N - 1, 2 ** (PUBLIC.bits - 1), secrets.randbelow(N)][:users]
    expected = [
        pow(int(one), exponent, N * N) for one, exponent in zip(ciphertexts, exponents, strict=True)
    ]
    assert powers.rescale(PUBLIC, PRIVATE.powers(ciphertexts, pieces), exponents) == expected
    assert powers.rescale(PUBLIC, ciphertexts, exponents) == expected


def test_rescaling_refuses_what_does_not_fit() -> None:
    one, two = PRIVATE.encrypt_many([1, 2])
    for ciphertexts, exponents in (
        ([one], [1, 2]),
        ([one], [-1]),
        ([one], [N]),
        ([(one, two), (one,)], [1, 2]),
        ([()], [1]),
    ):
        with pytest.raises(InvalidInput) as caught:
            powers.rescale(PUBLIC, ciphertexts, exponents)
        assert str(N) not in str(caught.value)


def test_products_refuse_what_does_not_fit() -> None:
    packing = Packing.plan(PUBLIC.bits, 2**40)
    base, good = unit(), np.zeros((1, 3), np.int64)
    for wrong in (32768, -32769, 2**62, -(2**63)):
        digits = good.copy()
        digits[0, 1] = wrong
        with pytest.raises(InvalidInput) as caught:
            products.products(PUBLIC, [base], digits, packing)
        assert str(abs(wrong)) not in str(caught.value)
    cases: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
        ([base, base], good, {}),
        ([], np.zeros((0, 3), np.int64), {}),
        ([base], np.zeros((1, 0), np.int64), {}),
        ([base], good[0], {}),
        ([base], good.astype(np.float64), {}),
        ([base], good, {"plaintexts": [0, 0]}),
        ([base], good, {"digit_bits": 1}),
        ([base], good, {"digit_bits": 33}),
    )
    for bases, digits, more in cases:
        with pytest.raises(InvalidInput):
            products.products(PUBLIC, bases, digits, packing, **more)


def test_processes_make_no_difference() -> None:
    pytest.importorskip("joblib")
    rng = np.random.default_rng(5)
    packing = Packing.plan(PUBLIC.bits, 2**45)
    digits = rng.integers(-(2**15), 2**15, (7, 31))
    ciphertexts = PRIVATE.encrypt_many(list(range(7)))
    exponents = [secrets.randbelow(N) for _ in range(7)]
    results = []
    for processes in (1, 2):
        workers = Workers(processes)
        pieces = PRIVATE.powers(ciphertexts, 2, workers)
        bases = powers.rescale(PUBLIC, pieces, exponents, workers)
        found = products.products(PUBLIC, bases, digits, packing, workers=workers)
        results.append((bases, found, PRIVATE.decrypt_many(found, workers)))
    assert results[0] == results[1]
