"""Fixed point: towards zero, exact sums in every ring, and nothing that could wrap around."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.fl.crypto.fixed_point_sums import FixedPoint

from ...cases import for_each

PAILLIER = 3**1292 * 2 + 1  # an odd number of 2,049 bits
STEPS = st.sampled_from([2.0**-40, 2.0**-27, 2.0**-10, 1.0, 2.0**5])
WIDE = np.array([2**53], np.longdouble) + np.longdouble(1.5)
finite = st.floats(-1e3, 1e3, allow_nan=False)


def grid(step=2.0**-10, bound=1000.0, terms=100, modulus=2**64) -> FixedPoint:
    return FixedPoint(step=step, bound=bound, terms=terms, modulus=modulus)


@given(st.lists(finite, max_size=30), STEPS)
def test_encoding_is_the_fraction_rounded_towards_zero(values, step) -> None:
    steps = grid(step=step).encode(values)
    assert steps.dtype == np.int64
    assert steps.tolist() == [int(Fraction(one) / Fraction(step)) for one in values]


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=50), STEPS)
def test_what_was_clipped_stays_clipped(values, step) -> None:
    """In exact arithmetic: no coordinate grows, so no norm does."""
    steps = grid(step=step, bound=64.0).encode(values)
    for value, one in zip(values, steps.tolist(), strict=True):
        assert abs(one * Fraction(step)) <= abs(Fraction(value))
        assert abs(Fraction(value) - one * Fraction(step)) < Fraction(step)


@for_each("kind", [np.float64, np.float32, np.float16, np.int32])
def test_other_numbers_are_converted_without_loss(kind) -> None:
    assert grid().encode(np.array([1, -3, 0], kind)).tolist() == [1024, -3072, 0]


@for_each(
    "bad",
    [
        [2**53 + 3],  # as a float it is 2^53 + 4
        [-(2**62)],
        np.array([2**53 + 1], np.uint64),
        np.array([2**63 + 1], np.uint64),
        np.array([1 + 2j]),
        np.array(["1.5"]),
        ["1.5"],
        [True],
        [Fraction(1, 3)],
        np.array([0], "M8[D]"),
        # Where there are longer floats than doubles.
        *([WIDE] if np.finfo(np.longdouble).nmant > 52 else []),
    ],
)
def test_numbers_that_a_float_would_change_are_refused(bad) -> None:
    """Rounded to a float first, they could end up further from zero, or beyond the bound."""
    with pytest.raises(InvalidInput, match="values"):
        grid(step=1.0, bound=2.0**60, terms=1).encode(bad)


def test_integers_that_a_float_holds_are_encoded() -> None:
    wide = grid(step=1.0, bound=2.0**60, terms=1)
    for good in ([2**53, -(2**53), 0], np.array([], np.int64), []):
        assert wide.encode(good).tolist() == list(good)


def test_numpys_integers_do_not_wrap_around_in_the_bounds() -> None:
    """2^20 terms of 2^40 steps: in 32 or 64 bits the products here would be others."""
    for terms in (np.int32(2**20), np.int64(2**20), np.uint8(255)):
        own = grid(step=1.0, bound=2.0**40, terms=terms)
        assert type(own.terms) is int
        assert own == grid(step=1.0, bound=2.0**40, terms=int(terms))
        assert own.bytes_needed == 8 if terms == 2**20 else 7
        most = np.array([own.terms * 2**40, -own.terms * 2**40])
        assert own.from_ring(most.astype(np.uint64)).tolist() == most.tolist()


def test_long_vectors_are_encoded_in_parts() -> None:
    values = np.random.default_rng(0).uniform(-1000, 1000, 100_003)
    assert np.array_equal(grid().encode(values), np.trunc(values * 1024).astype(np.int64))


@for_each("step", [2.0**-1074, 2.0**-1022, 2.0**900])
def test_extreme_steps(step) -> None:
    """Subnormal steps and huge ones: the division stays exact."""
    extreme = grid(step=step, bound=step * 2.0**20, terms=4)
    assert extreme.encode([step * 2.0**20, -step, step * 0.5]).tolist() == [2**20, -1, 0]
    assert extreme.decode(np.array([2**20, -1])).tolist() == [step * 2.0**20, -step]


@for_each("bad", [np.nan, np.inf, -np.inf, 1000.0000001, -1000.0000001, 1e300, -1e300])
def test_values_beyond_the_bound_are_refused_and_not_shown(bad) -> None:
    with pytest.raises(InvalidInput) as caught:
        grid().encode([1.0, bad, 2.0])
    assert str(bad) not in str(caught.value)
    assert "0000001" not in str(caught.value)
    assert grid().encode([1000.0, -1000.0]).tolist() == [1024000, -1024000]


@given(st.data())
def test_sums_in_the_ring_are_exact(data) -> None:
    modulus = data.draw(st.sampled_from([2**32, 2**64]))
    terms = data.draw(st.integers(1, 12))
    largest = data.draw(st.sampled_from([1, 5, 2**20, (modulus // 2 - 1) // terms]))
    largest = min(largest, (modulus // 2 - 1) // terms, 2**50)
    one = grid(step=1.0, bound=float(largest), terms=terms, modulus=modulus)
    size = data.draw(st.integers(0, 5))
    extremes = st.integers(-largest, largest) | st.sampled_from([-largest, 0, largest])
    rows = [data.draw(st.lists(extremes, min_size=size, max_size=size)) for _ in range(terms)]
    kind = np.uint32 if modulus == 2**32 else np.uint64
    total = np.zeros(size, kind)
    for row in rows:
        words = one.to_ring(np.array(row, np.int64))
        assert words.dtype == kind
        total += words
    expected = [sum(column) for column in zip(*rows, strict=True)]
    assert one.from_ring(total).tolist() == expected
    assert one.from_ring(total).dtype == np.int64


@given(st.data())
def test_sums_of_residues_are_exact(data) -> None:
    modulus = data.draw(st.sampled_from([3, 4, 97, 98, 2**32, PAILLIER]))
    terms = data.draw(st.integers(1, max(1, min(5, (modulus - 1) // 2))))
    largest = min((modulus - 1) // 2 // terms, 2**61)
    one = grid(step=1.0, bound=float(largest), terms=terms, modulus=modulus)
    largest = one.largest
    row = st.lists(st.integers(-largest, largest), min_size=3, max_size=3)
    rows = data.draw(st.lists(row, min_size=terms, max_size=terms))
    residues = [one.to_residues(row) for row in rows]
    assert all(0 <= value < modulus for row in residues for value in row)
    total = [sum(column) % modulus for column in zip(*residues, strict=True)]
    assert one.from_residues(total) == [sum(column) for column in zip(*rows, strict=True)]


@for_each("modulus", [2**32, 2**64, 2**32 - 1, 2**64 - 59, 97, 96])
def test_the_room_is_used_to_the_last_step(modulus) -> None:
    """The largest sum that fits half the modulus is taken, and one more is refused."""
    most = (modulus - 1) // 2
    if most < 2**53:
        FixedPoint(step=1.0, bound=float(most), terms=1, modulus=modulus)
        with pytest.raises(InvalidInput, match="half the modulus"):
            FixedPoint(step=1.0, bound=float(most + 1), terms=1, modulus=modulus)
    FixedPoint(step=1.0, bound=1.5, terms=min(most, 10**18), modulus=modulus)
    if most < 10**18:
        with pytest.raises(InvalidInput, match="half the modulus"):
            FixedPoint(step=1.0, bound=1.5, terms=most + 1, modulus=modulus)


@for_each("modulus", [2**32, 2**64])
def test_steps_beyond_the_bound_are_not_sent(modulus) -> None:
    one = grid(step=1.0, bound=100.0, terms=5, modulus=modulus)
    assert len(one.to_ring(np.array([100, -100]))) == 2
    for bad in (101, -101, 2**63 - 1, -(2**63)):
        with pytest.raises(InvalidInput) as caught:
            one.to_ring(np.array([0, bad]))
        assert str(bad) not in str(caught.value)
        with pytest.raises(InvalidInput):
            one.to_residues([0, bad])


@for_each("modulus", [2**32, 2**64])
def test_sums_that_there_cannot_be_are_faults(modulus) -> None:
    one = grid(step=1.0, bound=100.0, terms=5, modulus=modulus)
    kind = np.uint32 if modulus == 2**32 else np.uint64
    assert one.from_ring(np.array([500, modulus - 500], kind)).tolist() == [500, -500]
    for bad in (501, modulus - 501, modulus // 2):
        with pytest.raises(ProtocolFault):
            one.from_ring(np.array([0, bad], kind))
        with pytest.raises(ProtocolFault):
            one.from_residues([0, bad])
    for bad in (-1, modulus):
        with pytest.raises(ProtocolFault):
            one.from_residues([bad])


RING = [np.zeros(2), np.zeros(2, np.int32), np.zeros((1, 2), np.int64), [0, 1]]
WORDS = [np.zeros(2, np.uint32), np.zeros(2, np.int64), np.zeros((1, 2), np.uint64)]


def test_other_kinds_and_shapes_are_refused() -> None:
    for bad in ([[1.0]], 1.0, ["x"], None, [[1.0], [2.0, 3.0]]):
        with pytest.raises(InvalidInput, match="vector"):
            grid().encode(bad)
    for bad in ([1.9], [np.nan], ["5"], [None]):
        with pytest.raises(InvalidInput, match="integers"):
            grid().to_residues(bad)
    for turn, wrong in ((grid().to_ring, RING), (grid().from_ring, WORDS)):
        for bad in wrong:
            with pytest.raises(InvalidInput):
                turn(bad)
    with pytest.raises(InvalidInput, match="to_residues"):
        grid(modulus=PAILLIER).to_ring(np.zeros(2, np.int64))


@for_each(
    "name, bad",
    [
        *(("step", bad) for bad in (0.0, -1.0, 0.1, 3.0, np.nan)),
        *(("bound", bad) for bad in (0.0, np.inf, 2.0**-11, 2.0**53)),
        *(("terms", bad) for bad in (0, 1.5)),
        *(("modulus", bad) for bad in (2, 2.0**64, True)),
    ],
)
def test_ranges(name, bad) -> None:
    with pytest.raises(InvalidInput):
        grid(**{name: bad})


def test_decoding_is_exact_for_sums_that_a_float_holds() -> None:
    one = grid(step=2.0**-30, bound=8.0, terms=2**20)
    sums = np.array([2**53 - 1, -(2**52) - 1, 0, 1], np.int64)
    expected = [float(Fraction(int(total)) * Fraction(2.0**-30)) for total in sums]
    assert one.decode(sums).tolist() == expected
    assert one.decode(sums.tolist()).tolist() == expected


@for_each(
    ("largest", "terms", "width"),
    [(1, 1, 1), (127, 1, 1), (128, 1, 2), (2**15 - 1, 1, 2), (2**15, 1, 3), (2**40, 2**10, 7)],
)
def test_bytes_needed_hold_the_extremes(largest, terms, width) -> None:
    one = grid(step=1.0, bound=float(largest), terms=terms)
    assert one.bytes_needed == width
    for total in (terms * largest, -terms * largest):
        total.to_bytes(width, "little", signed=True)
    if width > 1:
        with pytest.raises(OverflowError):
            (terms * largest).to_bytes(width - 1, "little", signed=True)
