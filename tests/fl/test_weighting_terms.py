"""The public parameters of private weighting, and the counts that it weighs by."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.fl.aggregation.user_weights import checked_weights
from privplan.fl.uldp.weighting.counts import (
    checked_shares,
    exact_weights,
    reduced_counts,
    rounded_weights,
    totals,
)
from privplan.fl.uldp.weighting.introductions import facts
from privplan.fl.uldp.weighting.terms import WeightingTerms, common_multiple

from ..cases import for_each

TERMS = WeightingTerms(users=20, silos=3, dimensions=16, largest=2**15 - 1, tail=2**72)


def test_what_follows_from_the_terms_and_what_the_log_is_told() -> None:
    assert TERMS.count_cap == 13
    assert TERMS.multiple == common_multiple(40) == math.lcm(*range(1, 41))
    assert TERMS.bound == 20 * TERMS.multiple * (2**15 - 1) + 3 * 2**72
    assert TERMS.bound < 2 ** (TERMS.packing.width - 1)
    assert TERMS.packing.slots * TERMS.packing.width <= 3072 - 2
    assert (TERMS.blocks, replace(TERMS, dimensions=41).blocks) == (1, 2)
    assert (TERMS.modulus_bytes, TERMS.ciphertext_bytes) == (384, 768)
    own = replace(TERMS, drawn_by="oblivious-transfer", slots=10, chosen=3, records_per_count=7)
    facts = own.security()
    assert (facts.protocol, facts.parties, facts.fewest) == ("private-weighting", 3, 3)
    assert (facts.key_bits, facts.count_limit, facts.count_cap) == (3072, 40, 13)
    assert (facts.records_per_count, facts.slots, facts.chosen) == (7, 10, 3)
    assert facts.noise == "every-residue"
    for slots, chosen in ((10, 3), (3, 1), (7, 7), (65535, 1), (4, 1)):
        own = replace(TERMS, drawn_by="oblivious-transfer", slots=slots, chosen=chosen)
        assert Fraction(chosen, slots) <= Fraction(own.rate) <= 1
        assert own.rate == pytest.approx(chosen / slots, rel=1e-12)
    assert TERMS.rate == 1.0


def test_every_field_is_part_of_what_parties_agree_on() -> None:
    others = [
        replace(TERMS, **change)
        for change in (
            *({"users": 21}, {"silos": 4}, {"dimensions": 17}, {"largest": 9}, {"tail": 2**72 + 1}),
            *({"key_bits": 2048}, {"count_limit": 41}, {"records_per_count": 2}, {"digits": 17}),
            *({"drawn_by": "server"}, {"drawn_by": "oblivious-transfer", "slots": 2, "chosen": 1}),
        )
    ]
    assert len({one.digest() for one in (TERMS, *others)}) == len(others) + 1
    assert replace(TERMS).digest() == TERMS.digest()
    assert replace(TERMS, users=np.int64(20)).digest() == TERMS.digest()
    known = {facts(session, one, modulus) for session in (b"a", b"b") for modulus in (b"1", b"2")
             for one in (TERMS, others[0])}  # fmt: skip
    assert len(known) == 8


@for_each(
    ("change", "field"),
    [
        *(({"users": 0}, "users"), ({"silos": 1}, "silos"), ({"dimensions": 0}, "dimensions")),
        *(({"key_bits": 1024}, "key_bits"), ({"key_bits": 3073}, "key_bits")),
        *(({"key_bits": 128, "weak_key": True}, "key_bits"), ({"count_limit": 3}, "count_limit")),
        *(({"count_limit": 10**6}, "count_limit"), ({"records_per_count": 0}, "records_per_count")),
        *(({"digits": 1}, "digits"), ({"digits": 60}, "digits"), ({"largest": 2**15}, "largest")),
        *(({"largest": 0}, "largest"), ({"tail": -1}, "tail"), ({"tail": 1.5}, "tail")),
        *(({"tail": True}, "tail"), ({"drawn_by": "silos"}, "drawn_by")),
        *(({"slots": 3, "chosen": 1}, "slots"), ({"drawn_by": "oblivious-transfer"}, "slots")),
        ({"drawn_by": "oblivious-transfer", "slots": 1, "chosen": 1}, "slots"),
        ({"drawn_by": "oblivious-transfer", "slots": 3, "chosen": 0}, "chosen"),
        ({"drawn_by": "oblivious-transfer", "slots": 3, "chosen": 4}, "chosen"),
        ({"drawn_by": "oblivious-transfer", "slots": 70_000, "chosen": 4}, "slots"),
    ],
)
def test_terms_out_of_range_are_refused_by_name(change, field) -> None:
    with pytest.raises(InvalidInput, match=field):
        replace(TERMS, **change)


def test_terms_that_do_not_fit_and_shares_above_the_cap_are_refused() -> None:
    with pytest.raises(InvalidInput):
        replace(TERMS, tail=1 << 3072)
    with pytest.raises(InvalidInput):
        replace(TERMS, count_limit=2500)
    replace(TERMS, count_limit=2000)  # lcm(1..2000) has 2,878 bits
    checked_shares([13] * 20, TERMS)
    with pytest.raises(InvalidInput) as caught:
        checked_shares([0] * 19 + [977], TERMS)
    assert "977" not in str(caught.value)


def test_a_count_is_a_public_rule_of_ones_own_records() -> None:
    own = replace(TERMS, records_per_count=5)
    assert reduced_counts([0, 1, 5, 6, 65, 66, 10**12], own).tolist() == [0, 1, 1, 2, 13, 13, 13]
    big = np.array([2**64 - 1, 0], np.uint64)
    assert reduced_counts(big, own).tolist() == [13, 0]
    assert reduced_counts(np.array([120, 3], np.int8), own).tolist() == [13, 1]
    assert reduced_counts([7, 8], replace(TERMS, records_per_count=10**18)).tolist() == [1, 1]
    assert reduced_counts(np.empty((0, 3), int), own).shape == (0, 3)


@for_each("counts", [[-1], [1.0], ["1"], [True], [[1, 2], [3]], None])
def test_what_is_no_count_is_refused(counts) -> None:
    with pytest.raises(InvalidInput):
        reduced_counts(counts, TERMS)


@for_each("shares", [[0] * 19, [[0] * 20], [0.5] * 20, [-1] + [0] * 19])
def test_a_silo_is_refused_other_shares(shares) -> None:
    with pytest.raises(InvalidInput):
        checked_shares(shares, TERMS)


@given(
    st.integers(2, 6).flatmap(
        lambda silos: st.tuples(
            st.just(silos),
            st.integers(silos + 1, 120),
            st.integers(1, 9),
            st.lists(
                st.lists(st.integers(0, 300), min_size=silos, max_size=silos),
                min_size=1,
                max_size=5,
            ),
        )
    )
)
def test_weights_are_what_they_should_be(case) -> None:
    silos, limit, per_count, counts = case
    own = replace(
        TERMS, users=len(counts), silos=silos, count_limit=limit, records_per_count=per_count
    )
    reduced = reduced_counts(counts, own)
    whole = totals(reduced)
    assert whole.min() >= 1
    assert whole.max() <= limit
    exact = exact_weights(reduced)
    for row, total, shares in zip(exact, whole.tolist(), reduced.tolist(), strict=True):
        assert row == [Fraction(one, total) for one in shares]
        assert sum(row) == 1 - Fraction(1, total)
        assert all((own.multiple * one).denominator == 1 for one in row)
    rounded = rounded_weights(reduced)
    assert rounded.shape == reduced.shape
    for row, floats in zip(exact, rounded.tolist(), strict=True):
        for weight, one in zip(row, floats, strict=True):
            assert Fraction(one) <= weight < Fraction(np.nextafter(one, 2.0))
    checked_weights(rounded)
