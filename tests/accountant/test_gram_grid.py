"""The grid of a Gram release: the finest that fits, and refusals that name it."""

from __future__ import annotations

import doctest
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import NoisyGram, gram_grid, grid_bits
from privplan.accountant.sensitivity.gram import GramBound

from ..cases import for_each

PLAIN = GramBound(dimension=4)
TEN = GramBound(dimension=785, classes=10)


def largest(gram: GramBound, bits: int, rows: int, std: float) -> float:
    """Return the largest number that a sum of so many rows and its noise come to, and the noise."""
    labels = {0: 0, 1: 2**bits}.get(gram.classes, gram.classes)
    norm = 2**bits * math.sqrt(gram.trace / gram.rows)
    noise = std * 4**bits
    if labels:
        noise = max(noise, std * 2**bits * labels / gram.label_weight)
    return rows * max(norm * norm, norm * labels) + 64 * noise


@given(
    st.builds(
        GramBound,
        dimension=st.just(4),
        classes=st.sampled_from([0, 1, 2, 10, 1000]),
        label_weight=st.floats(0.01, 10.0),
        rows=st.integers(1, 50),
    ),
    st.integers(1, 10**13),
    st.floats(0.5, 1e4),
    st.integers(1, 33),
)
def test_it_is_the_finest_that_fits(gram: GramBound, rows: int, std: float, shares: int) -> None:
    limit = 2.0**62 / 2 ** math.ceil(math.log2(shares))
    try:
        bits = grid_bits(gram, most_rows=rows, std=std, shares=shares)
    except InvalidInput as refusal:
        if "coarsest" in str(refusal):
            scale = gram_grid.label_scale(gram.classes, 8) * 2**8 / gram.label_weight
            assert largest(gram, 8, rows, std) > limit * 0.999 or std * scale > 2**39 * 0.99
        return
    assert largest(gram, bits, rows, std) <= limit * (1 + 1e-9)
    NoisyGram(gram=gram, std=std, bits=bits, shares=shares)
    if bits < 20:
        finer = largest(gram, bits + 1, rows, std)
        labels = gram_grid.label_scale(gram.classes, bits + 1) * 2 ** (bits + 1)
        widest = std * max(4 ** (bits + 1), labels / gram.label_weight if gram.classes else 0)
        assert finer > limit * 0.999 or widest > 2**39 * 0.998


@for_each(
    ("gram", "rows", "std", "shares", "bits"),
    [
        (PLAIN, 10**6, 0.4, 1, 20),  # 10^6 2^40 is below 2^60
        (PLAIN, 5 * 10**6, 0.4, 1, 19),
        (PLAIN, 10**6, 0.4, 9, 19),  # 16 such sums
        (TEN, 60_000, 5.0, 1, 18),  # noise below 2^39 steps
        (TEN, 60_000, 0.4, 10, 20),
    ],
)
def test_known_grids(gram: GramBound, rows: int, std: float, shares: int, bits: int) -> None:
    assert grid_bits(gram, most_rows=rows, std=std, shares=shares) == bits
    assert grid_bits(gram, most_rows=rows, std=std, shares=shares, most_bits=12) == 12


@given(st.integers(-4, 4), st.sampled_from(["add-remove", "replace-one"]), st.integers(1, 40))
def test_the_mechanism_takes_the_grid_at_every_edge(power: int, relation: Any, shares: int) -> None:
    """At noise of exactly 2^39 steps, to which `with_multiplier` adds a little."""
    for gram in (PLAIN, GramBound(dimension=3, classes=2, label_weight=0.5)):
        moved = gram.l2(relation) / (2 if relation == "replace-one" else 1)
        noise = math.ldexp(1.0, power)
        bits = grid_bits(gram, most_rows=1000, std=noise * moved, shares=shares)
        mechanism = NoisyGram.with_multiplier(
            noise, gram=gram, bits=bits, relation=relation, shares=shares
        )
        assert mechanism.event(relation).noise_multiplier >= noise  # type: ignore[attr-defined]


def test_a_cap_that_does_not_fit_is_refused_with_what_does() -> None:
    with pytest.raises(InvalidInput, match="the coarsest") as caught:
        grid_bits(PLAIN, most_rows=10**15, std=0.4)
    stated = re.search(r"cap of ([\d,]+) rows", str(caught.value))
    assert stated is not None
    most = int(stated[1].replace(",", ""))
    assert grid_bits(PLAIN, most_rows=most, std=0.4) == 8
    with pytest.raises(InvalidInput, match="the coarsest"):
        grid_bits(PLAIN, most_rows=most + 1, std=0.4)


def test_noise_that_no_grid_holds_is_refused() -> None:
    with pytest.raises(InvalidInput, match="No number of rows fits"):
        grid_bits(PLAIN, most_rows=1, std=1e9)
    light = GramBound(dimension=4, classes=2, label_weight=1e-9)
    with pytest.raises(InvalidInput, match="No number of rows fits"):
        grid_bits(light, most_rows=1, std=5.0)
    heavy = GramBound(dimension=4, classes=2, label_weight=1e9)
    with pytest.raises(InvalidInput, match="it must be 4,096 or more"):
        grid_bits(heavy, most_rows=1, std=5.0)
    with pytest.raises(InvalidInput, match="it must be 4,096 or more"):
        grid_bits(PLAIN, most_rows=1, std=1e-12)


REFUSED = {"most_rows": (0, 10**19), "std": (0.0, math.inf), "shares": (0,), "most_bits": (0, 7)}


@for_each(("field", "values"), list(REFUSED.items()))
def test_what_is_out_of_range_is_refused(field: str, values: Any) -> None:
    for value in values:
        with pytest.raises(InvalidInput):
            grid_bits(PLAIN, **{"most_rows": 100, "std": 1.0, field: value})


def test_examples_run() -> None:
    tried = doctest.testmod(gram_grid)
    assert tried.attempted > 0
    assert tried.failed == 0
