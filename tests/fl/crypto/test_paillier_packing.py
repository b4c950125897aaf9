"""Packing: what goes into the slots comes out, to the last bit, and nothing else goes in."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput, ProtocolFault

pytest.importorskip("gmpy2")

from privplan.fl.crypto.paillier.packing import Packing

from ...cases import for_each


@given(data=st.data())
def test_packed_values_come_back(data: st.DataObject) -> None:
    bound = data.draw(st.integers(0, 2**70))
    bits = data.draw(st.integers(75, 400))
    packing = Packing.plan(bits, bound)
    border = st.sampled_from([-bound, bound, 0, -1 if bound else 0])
    values = data.draw(
        st.lists(st.one_of(st.integers(-bound, bound), border), min_size=1, max_size=12)
    )
    n = data.draw(st.integers(2 ** (bits - 1), 2**bits - 1))
    packed = [one % n for one in packing.pack(values)]
    assert len(packed) == packing.blocks(len(values))
    assert packing.unpack(packed, len(values), n) == values


@for_each("bound", [1, 127, 128, 2**53 - 1, 2**53])
def test_all_slots_at_their_borders(bound: int) -> None:
    packing = Packing.plan(1024, bound)
    n = 2**1024 - 105
    assert 2 ** (packing.width - 1) > bound >= 2 ** (packing.width - 2)
    assert packing.slots == 1022 // packing.width
    for pattern in ([bound], [-bound], [bound, -bound], [-bound, bound], [0, -bound]):
        values = (pattern * packing.slots)[: packing.slots]
        (packed,) = packing.pack(values)
        assert abs(packed) < n / 2
        assert packing.unpack([packed % n], packing.slots, n) == values


@given(st.lists(st.lists(st.integers(-20, 20), min_size=9, max_size=9), min_size=1, max_size=5))
def test_sums_of_plaintexts_are_sums_of_slots(rows: list[list[int]]) -> None:
    packing, n = Packing(slots=4, width=8, bound=100), 2**40 - 87
    summed = [sum(column) % n for column in zip(*map(packing.pack, rows), strict=True)]
    expected = [sum(column) for column in zip(*rows, strict=True)]
    assert packing.unpack(summed, 9, n) == expected


def test_what_does_not_fit_is_refused_and_not_shown() -> None:
    packing = Packing.plan(256, 98765)
    for wrong in (98766, -98766, 10**40):
        with pytest.raises(InvalidInput) as caught:
            packing.pack([1, wrong, 2])
        assert "9876" not in str(caught.value)
        assert str(abs(wrong)) not in str(caught.value)


@for_each("wrong", [1.5, 1.0, float("nan"), float("inf"), "1", None])
def test_only_integers_are_packed(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="integers"):
        Packing(slots=4, width=8, bound=100).pack([1, wrong, 2])


def test_plaintexts_that_are_no_sums_are_refused() -> None:
    packing, n = Packing(slots=4, width=8, bound=100), 2**40 - 87
    random.seed(1)
    beyond = [101, -101, 101 << 8, 1 << 32, -(1 << 32), n // 2, random.randrange(2**34, n // 2)]
    for wrong in beyond:
        with pytest.raises(ProtocolFault):
            packing.unpack([wrong % n], 4, n)
    with pytest.raises(ProtocolFault):
        packing.unpack([1 << 16], 2, n)  # of a slot that nobody was to use
    for number in (0, 2):
        with pytest.raises(ProtocolFault):
            packing.unpack([0] * number, 4, n)


def test_impossible_packings_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Packing.plan(64, 2**63)
    for wrong in (
        {"slots": 0, "width": 8, "bound": 1},
        {"slots": 1, "width": 0, "bound": 0},
        {"slots": 1, "width": 8, "bound": 128},
        {"slots": 1, "width": 8, "bound": -1},
    ):
        with pytest.raises(InvalidInput):
            Packing(**wrong)
