"""The rule that judges a claim, and what a row must be."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.claims import table as tables
from privplan.accountant.claims.table import LOOSE_CLAIM_FACTOR, VERDICTS, Claim, judge
from privplan.accountant.errors import InvalidInput

from ..cases import for_each

numbers = st.floats(0.0, 1e12)
maybe = st.none() | numbers | st.just(math.inf)


@given(numbers, maybe, maybe)
def test_a_verdict_follows_from_the_numbers(
    claimed: float, proven: float | None, lower: float | None
) -> None:
    verdict = judge(claimed, proven, lower)
    assert verdict in VERDICTS
    if proven == math.inf:
        assert verdict == "no-guarantee"
    elif lower is not None and lower > claimed:
        assert verdict == "false"
    elif proven is None or proven > claimed:
        assert verdict == "unproven"
    else:
        assert verdict in ("loose", "proven")
        assert (verdict == "loose") == (claimed > LOOSE_CLAIM_FACTOR * proven)


@given(numbers, numbers, numbers, st.floats(0.0, 1e3))
def test_a_larger_claim_is_never_judged_worse(
    claimed: float, first: float, second: float, more: float
) -> None:
    lower, proven = sorted((first, second))
    worse = {"proven": 0, "loose": 0, "unproven": 1, "false": 2, "no-guarantee": 3}
    assert worse[judge(claimed + more, proven, lower)] <= worse[judge(claimed, proven, lower)]


@given(numbers, numbers)
def test_without_a_lower_end_nothing_is_false(claimed: float, proven: float) -> None:
    assert judge(claimed, proven, None) != "false"
    assert judge(claimed, None, None) == "unproven"


EXAMPLE = Claim(
    system="flame",
    setting="a setting",
    unit="user",
    neighbours="replace-one",
    observer="analyzer",
    claimed=0.2379,
    delta=1e-5,
    proven=0.3,
    lower=0.2390,
    why="Because.",
    source="A paper",
)


def test_what_is_printed_counts_when_it_is_larger() -> None:
    """Rounding up by the text is no reason to call it false."""
    assert EXAMPLE.verdict == "false"
    assert dataclasses.replace(EXAMPLE, printed="0.24").verdict == "unproven"
    assert dataclasses.replace(EXAMPLE, printed="0.23").verdict == "false"
    assert dataclasses.replace(EXAMPLE, printed="ratio 2.55").largest == 0.2379
    assert dataclasses.replace(EXAMPLE, printed="1,234.5").largest == 1234.5


@for_each(
    ("field", "values"),
    [
        ("claimed", (-1.0, math.nan, math.inf)),
        *(("delta", (1.5,)), ("proven", (-0.1, math.nan)), ("lower", (math.nan, 0.4))),
    ],
)
def test_a_row_that_cannot_be_true_is_refused(field: str, values: tuple[float, ...]) -> None:
    for value in values:
        with pytest.raises(InvalidInput):
            dataclasses.replace(EXAMPLE, **{field: value})
    with pytest.raises(InvalidInput):
        dataclasses.replace(EXAMPLE, proven=0.2, lower=math.inf)


@for_each(
    ("typed", "meant"),
    [("flam", "flame"), ("FLAME", "flame"), ("uldp", "uldp-fl"), ("fedpow", "fedpower")],
)
def test_an_unknown_system_suggests_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        tables.table(typed)
    assert caught.value.next_step == f"privplan claims {meant}"


def test_rows_are_not_computed_before_they_are_asked_for() -> None:
    for system in tables.SYSTEMS:
        assert all(callable(row) for row in tables.rows(system))
