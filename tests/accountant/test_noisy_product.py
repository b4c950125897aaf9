"""Noise on products: what is stated, what is drawn, tickets, dropouts and wrap-around."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gate, Gaussian, NoisyProduct, RoundDescription
from privplan.accountant.mechanisms.gaussian import SMOOTHING
from privplan.accountant.mechanisms.product_grid import MAX_SHARE_STEPS, ProductGrid
from privplan.accountant.randomness import Streams
from privplan.accountant.sensitivity.product import ProductBound

from ..cases import for_each
from ..chance import limits
from .mechanism_tickets import FALSE_ALARM, Memory, ticket_for
from .products import bound, noisy_product

WIDE = ProductBound(dimension=2000, rank=10)
"""Enough numbers for a test of their law."""


def nothing(mechanism: NoisyProduct) -> np.ndarray:
    return np.zeros(mechanism.product.values, np.int64)


def times(relation: str) -> int:
    return 2 if relation == "replace-one" else 1


@given(
    unit_and_relation=st.sampled_from(
        [
            ("record", "add-remove"),
            ("record", "zero-out"),
            ("record", "replace-one"),
            ("silo", "add-remove"),
            ("silo", "replace-one"),
            ("entry", "replace-one"),
        ]
    ),
    noise=st.floats(0.01, 1e4),
    dimension=st.integers(3, 20_000),
    norm=st.sampled_from([1e-30, 0.1, 1.0, 92.0, 1e30]),
    divisor=st.sampled_from([1.0, 9.0, 1e30]),
    change=st.floats(1e-3, 3.0),
    shares=st.sampled_from([1, 2, 3, 10, 1000]),
    dropouts=st.integers(0, 999),
)
@settings(max_examples=100)
def test_with_multiplier_gives_at_least_that_and_hardly_more(
    unit_and_relation: tuple[str, str],
    noise: float,
    dimension: int,
    norm: float,
    divisor: float,
    change: float,
    shares: int,
    dropouts: int,
) -> None:
    unit, relation = unit_and_relation
    fields: dict[str, Any] = {"dimension": dimension, "row_norm": norm, "divisor": divisor}
    if unit == "entry":
        fields["largest_change"] = change * norm
    if unit == "silo":
        fields["rows"] = 3
    tolerated = min(dropouts, shares - 1)
    mechanism = noisy_product(
        bound(unit, **fields),
        noise_multiplier=noise,
        relation=relation,
        shares=shares,
        tolerated_dropouts=tolerated,
    )
    event = mechanism.event(relation)
    assert isinstance(event, ev.Gaussian)
    assert noise <= event.noise_multiplier <= noise * (1 + 1e-12)
    # What an audit computes of the log's numbers: each share loses 64 steps^2 of its variance.
    stated = mechanism.noise()
    promised = Fraction(shares - tolerated)
    moved = Fraction(mechanism.sensitivity(relation)) / times(relation)
    kept = Fraction(stated.std) ** 2 - promised * SMOOTHING * Fraction(stated.grid) ** 2
    assert kept >= (Fraction(noise) * moved) ** 2
    assert promised * Fraction(stated.share_std) ** 2 >= Fraction(stated.std) ** 2
    assert Fraction(stated.grid) >= mechanism.grid_bits.step(mechanism.product)
    # The noise that is lost to the grid is next to none.
    assert stated.std <= noise * float(moved) * (1 + 2**-18)
    # What is drawn is at least what is stated, in exact steps.
    step = mechanism.grid_bits.step(mechanism.product)
    drawn = (Fraction(mechanism._parameter) ** 2 - SMOOTHING) * step**2
    assert drawn >= Fraction(stated.share_std) ** 2
    assert drawn <= Fraction(stated.share_std) ** 2 * (1 + Fraction(1, 10**12))


@for_each("noise", [2.0**k for k in range(-6, 13)])
def test_an_entry_that_a_coarser_grid_lets_move_farther_still_finds_a_grid(noise: float) -> None:
    """Its bound is up to 100 times as wide on the grid, so the first grid may be too fine."""
    for dimension in (50, 5000, 100_000):
        for change in (1e-4, 1e-2, 0.3):
            one = bound("entry", dimension=dimension, largest_change=change)
            mechanism = noisy_product(one, noise_multiplier=noise)
            event = mechanism.event("replace-one")
            assert isinstance(event, ev.Gaussian)
            assert noise <= event.noise_multiplier <= noise * (1 + 1e-12)
            assert mechanism._parameter <= MAX_SHARE_STEPS


def test_the_log_has_the_facts_that_the_sensitivity_follows_from() -> None:
    silo = noisy_product(bound("silo", row_norm=2.0, divisor=3.0, rows=5))
    stated = silo.contribution
    assert (stated.terms, stated.unit, stated.norm, stated.source) == (
        "product",
        "silo",
        "l2",
        "public",
    )
    assert stated.bound == silo.product.l2("add-remove") == silo.product.row_bound
    grid = silo.grid_bits
    assert stated.product == records.Product(6, 3, 2.0, 3.0, 5, None, *grid)
    entry = noisy_product(bound("entry", largest_change=0.25))
    facts = entry.contribution.product
    assert facts is not None
    # An audit derives the sensitivity from these facts alone.
    again = ProductBound(
        dimension=facts.dimension,
        rank=facts.rank,
        row_norm=facts.row_norm,
        divisor=facts.divisor,
        rows=facts.rows,
        largest_change=facts.largest_change,
        unit="entry",
    )
    assert again.on_grid(facts.row_bits).l2("replace-one") == entry.sensitivity("replace-one")
    assert entry.sensitivity("replace-one") > again.l2("replace-one")


def test_samples_and_other_relations_are_refused() -> None:
    mechanism = noisy_product()
    with pytest.raises(Unsupported, match="released of all rows"):
        mechanism.event("add-remove", records.Sampling("poisson", "record", 0.1, "server"))
    with pytest.raises(InvalidInput, match="neighbours"):
        mechanism.event("swap")
    entry = noisy_product(bound("entry"))
    for relation in ("add-remove", "zero-out"):
        with pytest.raises(Unsupported, match="not accounted"):
            entry.event(relation)
        with pytest.raises(Unsupported, match="not accounted"):
            noisy_product(bound("entry"), relation=relation)


@for_each(
    ("fields", "said"),
    [
        ({"std": 0.0}, "std"),
        ({"std": math.nan}, "std"),
        ({"shares": 0}, "shares"),
        ({"shares": 3, "tolerated_dropouts": 3}, "`tolerated_dropouts` must be below `shares` (3)"),
        ({"tolerated_dropouts": -1}, "tolerated_dropouts"),
        ({"grid_bits": ProductGrid(7, 14)}, "`row_bits` and `basis_bits`"),
        ({"grid_bits": ProductGrid(13, 17)}, "from 24 to 42"),
        ({"std": 1e-9}, "4,096"),
        ({"std": 1e4}, "4,096 to 5.5e+11"),
    ],
)
def test_what_is_out_of_range_is_refused(fields: dict[str, Any], said: str) -> None:
    given_values = {"product": bound(), "std": 5.0, "grid_bits": ProductGrid(11, 13), **fields}
    with pytest.raises(InvalidInput) as caught:
        NoisyProduct(**given_values)
    assert said in str(caught.value)


@for_each(
    ("given_values", "said"),
    [
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"noise_multiplier": 1e9}, "`share_std`"),
        ({"product": bound("silo", rows=10**6)}, "`share_std`"),
        ({"tolerated_dropouts": 4}, "tolerated_dropouts"),
        ({"most_rows": 2**50}, "`most_rows`"),
    ],
)
def test_with_multiplier_refuses_what_the_class_does(given_values: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        noisy_product(**given_values)


@for_each(("shares", "dropouts"), [(1, 0), (4, 1)])
def test_shares_have_the_deviation_that_is_stated(shares: int, dropouts: int) -> None:
    """False alarm: 1e-6, of 30 comparisons; 20,000 numbers show 5 % of a deviation."""
    alarm = FALSE_ALARM / 30
    mechanism = noisy_product(
        WIDE, noise_multiplier=3.0, shares=shares, tolerated_dropouts=dropouts
    )
    ticket = ticket_for(mechanism)
    drawn = [
        mechanism.share_steps(ticket, nothing(mechanism), f"silo-{number}")
        for number in range(shares)
    ]
    assert ticket.close() > 0
    std = 3.0 * math.sqrt(2) / 2  # of R^2 / s; a replaced row moves sqrt(2), which counts half
    share = std / math.sqrt(shares - dropouts)
    step = 2.0**-mechanism.grid_bits.product_bits
    for one in drawn:
        scaled = one * step / share
        assert stats.kstest(scaled, "norm").pvalue > alarm
        law = stats.chi2(len(scaled))
        assert alarm < law.cdf(np.sum(scaled**2)) < 1 - alarm
    arrived = np.sum(drawn[: shares - dropouts], axis=0) * step / std
    assert alarm < stats.chi2(len(arrived)).cdf(np.sum(arrived**2)) < 1 - alarm
    for one in drawn[1:]:
        assert stats.pearsonr(drawn[0], one).pvalue > alarm


def test_low_bits_of_the_noise_are_even() -> None:
    """What shows of a sum by the last bits of its noisy one: nothing.  False alarm: 1e-6."""
    mechanism = noisy_product(WIDE)
    steps = mechanism.share_steps(ticket_for(mechanism), nothing(mechanism), "a")
    counts = np.bincount(steps & 63, minlength=64)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_units_are_steps_times_the_grid() -> None:
    mechanism = noisy_product(bound(dimension=2, rank=2, row_norm=3.0, divisor=7.0))
    steps = np.array([1, -(2**62), 0, 2**40], np.int64)
    found = mechanism.units(steps)
    exact = [int(x) * mechanism.grid_bits.step(mechanism.product) for x in steps]
    assert found.shape == (2, 2)
    assert found.reshape(-1) == pytest.approx([float(x) for x in exact], rel=1e-15)


def test_sums_wrap_around_and_neighbours_differ_as_before() -> None:
    mechanism = noisy_product()
    noise = mechanism.share_steps(ticket_for(mechanism), nothing(mechanism), "a")
    assert (noise > 0).any()
    assert (noise < 0).any()
    moved = np.arange(mechanism.product.values) * 4**12
    for start in (0, 2**63 - 1, -(2**63), 2**63 - 5 * 4**12, 2**62):
        total = np.full(mechanism.product.values, start, np.int64)
        results = [
            mechanism.share_steps(ticket_for(mechanism), one_sum, "a")
            for one_sum in (total, total + moved)
        ]
        # Python's integers, reduced to 64 bits by hand.
        ring = [(start + number + 2**63) % 2**64 - 2**63 for number in noise.tolist()]
        assert results[0].tolist() == ring
        assert (results[1] - results[0] == moved).all()


def test_draws_are_the_same_again_and_others_under_another_name_or_seed() -> None:
    mechanism = noisy_product()
    zero = nothing(mechanism)
    first = mechanism.share_steps(ticket_for(mechanism), zero, "a")
    assert (mechanism.share_steps(ticket_for(mechanism), zero, "a") == first).all()
    for ticket, name in ((ticket_for(mechanism), "b"), (ticket_for(mechanism, seed=2), "a")):
        assert (mechanism.share_steps(ticket, zero, name) != first).all()


def test_shares_and_their_sum_are_the_same_in_any_order() -> None:
    mechanism = noisy_product(shares=3)
    totals = [np.full(mechanism.product.values, number, np.int64) for number in (1, 20, 300)]
    sums = []
    for order in ((0, 1, 2), (2, 0, 1)):
        ticket = ticket_for(mechanism)
        sums.append(sum(mechanism.share_steps(ticket, totals[i], "abc"[i]) for i in order))
        with pytest.raises(Unsupported, match="announces 1 draws"):
            mechanism.share_steps(ticket, totals[0], "d")
        ticket.close()
    assert (sums[0] == sums[1]).all()


def test_a_round_needs_every_share_that_its_promise_counts() -> None:
    mechanism = noisy_product(shares=3, tolerated_dropouts=1)
    ticket = ticket_for(mechanism)
    mechanism.share_steps(ticket, nothing(mechanism), "a")
    with pytest.raises(InvalidInput, match="drawn its share"):
        mechanism.share_steps(ticket, nothing(mechanism), "a")
    with pytest.raises(Unsupported, match="shares"):
        ticket.close(shares=1)


def test_extra_noise_is_drawn_and_never_counted() -> None:
    """False alarm: 1e-6.  The release still lacks its share, and says which bytes were drawn."""
    mechanism = noisy_product(WIDE)
    recorder = Memory()
    gate = Gate(None, recorder, Streams.seeded(3))
    about = RoundDescription(1, "test", event_override=ev.NoGuarantee("a test"))
    ticket = gate.open(mechanism.intent(about, "replace-one"))
    extra = mechanism.extra_steps(ticket, nothing(mechanism), "server")
    scaled = extra * mechanism.grid / mechanism.share_std
    law = stats.chi2(len(scaled))
    low, high = limits(law)
    assert low <= np.sum(scaled**2) <= high
    with pytest.raises(Unsupported, match="noise"):
        ticket.close()
    counted = mechanism.share_steps(ticket, nothing(mechanism), "silo")
    assert (counted != extra).any()
    ticket.close()
    (release,) = [line for line in recorder.lines if isinstance(line, records.RoundRelease)]
    assert len({each.stream for each in release.streams}) == 2
    assert all(each.last > each.first for each in release.streams)
    assert (release.draws, release.shares) == (1, 1)


def test_tickets_of_other_mechanisms_are_refused() -> None:
    mechanism = noisy_product(bound(row_norm=2.0, divisor=4.0), shares=2)
    # The same bound R^2 / s and the same noise, of other facts.
    others = [
        noisy_product(bound(row_norm=1.0, divisor=1.0), shares=2),
        replace(mechanism, grid_bits=ProductGrid(12, mechanism.grid_bits.product_bits - 24)),
        replace(mechanism, product=bound(dimension=9, rank=2, row_norm=2.0, divisor=4.0)),
        replace(mechanism, product=bound("silo", rows=1, row_norm=2.0, divisor=4.0)),
        replace(mechanism, product=bound("entry", row_norm=2.0, divisor=4.0)),
        replace(mechanism, std=mechanism.std * (1 + 1e-15)),
        replace(mechanism, shares=3),
        replace(mechanism, tolerated_dropouts=1),
        Gaussian(1.0, mechanism.std, 2),
    ]
    assert others[0].contribution.bound == mechanism.contribution.bound
    assert others[0].std == mechanism.std
    for other in others:
        assert other != mechanism
        ticket = ticket_for(other)
        for call in (mechanism.share_steps, mechanism.extra_steps):
            with pytest.raises(Unsupported, match="another mechanism"):
                call(ticket, nothing(mechanism), "a")
    same = replace(mechanism)
    assert mechanism.share_steps(ticket_for(same), nothing(mechanism), "a").any()


def test_totals_of_another_shape_or_type_are_refused() -> None:
    mechanism = noisy_product()
    for total in (np.zeros(17, np.int64), np.zeros(18), np.zeros((6, 3), np.int64)):
        for call in (mechanism.share_steps, mechanism.extra_steps):
            with pytest.raises(InvalidInput, match="18 integers of 64 bits"):
                call(ticket_for(mechanism), total, "a")
