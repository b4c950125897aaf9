"""Noise on Gram matrices: three scales, the event of each relation, tickets and wrap-around."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gaussian, NoisyGram, gram_noise
from privplan.accountant.mechanisms.gaussian import SMOOTHING
from privplan.accountant.sensitivity.gram import GramBound

from ..cases import for_each
from .grams import released
from .mechanism_tickets import LEAST_P, ticket_for

BOUND = GramBound(dimension=4, classes=3, label_weight=0.7)
PAIRS = ("add-remove", "replace-one")


def noisy_gram(gram: GramBound = BOUND, std: float = 2.0, **given: Any) -> NoisyGram:
    return NoisyGram(**{"gram": gram, "std": std, "bits": 12, **given})


def nothing(mechanism: NoisyGram) -> np.ndarray:
    return np.zeros(mechanism.gram.values, np.int64)


def exact_l2(gram: GramBound, relation: str) -> Any:
    """Return the L2 sensitivity by the formulas of the issue, in many digits."""
    y = 1 - mpmath.mpf(1) / gram.classes if gram.classes > 1 else mpmath.mpf(gram.classes)
    part = gram.rows * mpmath.mpf(gram.label_weight) ** 2 * y / gram.trace
    if relation == "add-remove":
        return gram.trace * mpmath.sqrt(1 + part)
    best = min(part / 2, mpmath.mpf(1))  # the cosine between the rows, less its sign
    return gram.trace * mpmath.sqrt(2 - 2 * best**2 + 2 * part * (1 + best))


def exact_epsilon(multiplier: Any, delta: float) -> float:
    """Return epsilon of Gaussian noise of so many sensitivities, by mpmath, from its definition."""

    def excess(epsilon: Any) -> Any:
        ahead = mpmath.ncdf(1 / (2 * multiplier) - epsilon * multiplier)
        behind = mpmath.ncdf(-1 / (2 * multiplier) - epsilon * multiplier)
        return ahead - mpmath.exp(epsilon) * behind - delta

    low, high = mpmath.mpf(0), mpmath.mpf(200)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return float(low)


@for_each("relation", PAIRS)
@for_each("classes", [0, 1, 10])
@for_each(("rows", "trace"), [(1, 1.0), (4, 1.0), (4, 4.0)])
def test_the_proven_epsilon_is_that_of_its_noise_and_never_below(
    rows: int, trace: float, classes: int, relation: str
) -> None:
    with mpmath.workdps(40):
        for weight in (0.3, 1.0, 2.0):
            gram = GramBound(
                dimension=5, classes=classes, label_weight=weight, rows=rows, trace=trace
            )
            mechanism = noisy_gram(gram, std=3.0, shares=3)
            event = mechanism.event(relation)
            proven = pp.account(event, delta=1e-5, neighbours=relation).epsilon
            exact = exact_epsilon(mechanism.std / exact_l2(gram, relation), 1e-5)
            assert exact <= proven.upper <= exact * (1 + 1e-4)


@given(
    st.builds(
        GramBound,
        dimension=st.integers(1, 6),
        classes=st.sampled_from([0, 1, 2, 10]),
        label_weight=st.floats(0.1, 5.0),
        rows=st.integers(1, 5),
    ),
    st.floats(0.3, 5.0),
    st.sampled_from(PAIRS),
    st.integers(1, 9),
    st.integers(0, 8),
    st.sampled_from(["gaussian", "laplace"]),
)
def test_with_multiplier_gives_at_least_that_and_hardly_more(
    gram: GramBound, noise: float, relation: str, shares: int, dropouts: int, family: Any
) -> None:
    mechanism = NoisyGram.with_multiplier(
        noise,
        gram=gram,
        bits=15,
        relation=relation,
        family=family,
        shares=shares,
        tolerated_dropouts=min(dropouts, shares - 1),
    )
    event = mechanism.event(relation)
    assert isinstance(event, ev.Laplace if family == "laplace" else ev.Gaussian)
    assert noise <= event.noise_multiplier <= noise * (1 + 1e-12)
    # What an audit computes of the log's numbers: each share loses 64 steps^2 of its variance.
    stated = mechanism.noise()
    least = stated.shares - stated.tolerated_dropouts
    if family == "gaussian":
        share = Fraction(stated.std) ** 2 / least - SMOOTHING * Fraction(stated.grid) ** 2
        times = 2 if relation == "replace-one" else 1
        kept = least * share * (times / Fraction(mechanism.sensitivity(relation))) ** 2
        assert Fraction(noise) ** 2 <= kept
        assert least * Fraction(stated.share_std) ** 2 >= Fraction(stated.std) ** 2
    else:
        assert stated.share_std == stated.std
    # The noise that is lost is next to none.
    moved = mechanism.sensitivity(relation) / (2 if relation == "replace-one" else 1)
    assert mechanism.std <= noise * moved * (1 + 2**-18)


def test_the_log_has_the_facts_that_the_sensitivity_follows_from() -> None:
    gram = GramBound(dimension=4, classes=3, label_weight=0.7, rows=5, by_class=True)
    mechanism = noisy_gram(gram, unit="user", row_norm=6.0)
    stated = mechanism.contribution
    assert (stated.terms, stated.unit, stated.norm) == ("gram", "user", "l2")
    assert stated.bound == gram.l2("add-remove")
    assert stated.gram == records.Gram(4, 3, 0.7, 5, 1.0, True, 6.0, 12)
    assert replace(mechanism, family="laplace").contribution.bound == gram.l1("add-remove")
    assert mechanism.sensitivity("replace-one") == gram.l2("replace-one")


def test_zero_out_and_samples_are_refused() -> None:
    mechanism = noisy_gram()
    for call in (
        lambda: mechanism.event("zero-out"),
        lambda: mechanism.sensitivity("zero-out"),
        lambda: NoisyGram.with_multiplier(5.0, gram=BOUND, bits=12, relation="zero-out"),
    ):
        with pytest.raises(Unsupported, match="not accounted under zero-out"):
            call()
    with pytest.raises(Unsupported, match="released of all units"):
        mechanism.event("add-remove", records.Sampling("poisson", "record", 0.1, "server"))
    with pytest.raises(InvalidInput, match="neighbours"):
        mechanism.event("swap")


@for_each(
    ("field", "values", "said"),
    [
        ("std", (0.0, math.nan), "std"),
        ("bits", (7, 21), "`bits` must be from 8 to 20"),
        ("shares", (0,), "shares"),
        ("tolerated_dropouts", (1, -1), "tolerated_dropouts"),
        ("family", ("gauss",), "noise"),
        ("unit", ("entry",), "unit"),
        ("row_norm", (0.0,), "row_norm"),
        ("std", (1e-5,), "deviations from 0.176 to 168 steps"),
        ("std", (2.0**16,), "must lie from 4,096"),
        ("std", (1e100,), "deviations from"),
        ("gram", (replace(BOUND, label_weight=1e9),), "another `label_weight`"),
        ("gram", (replace(BOUND, label_weight=1e-300),), "another `label_weight`"),
        ("gram", (replace(BOUND, trace=2.0),), "trace of 1 rows"),
    ],
)
def test_what_is_out_of_range_is_refused(field: str, values: Any, said: str) -> None:
    for value in values:
        with pytest.raises(InvalidInput) as caught:
            NoisyGram(**{"gram": BOUND, "std": 2.0, "bits": 12, field: value})
        assert said in str(caught.value)


def test_with_multiplier_refuses_what_the_class_does() -> None:
    for name, value, said in (("bits", 10**9, "bits"), ("tolerated_dropouts", 4, "dropouts")):
        fields = {"gram": BOUND, "bits": 12, "relation": "add-remove", name: value}
        with pytest.raises(InvalidInput, match=said):
            NoisyGram.with_multiplier(5.0, **fields)


WIDE = GramBound(dimension=40, classes=60, label_weight=0.37, by_class=True)
"""Enough numbers of each of the three kinds: 2,400 and 46,800 and 2,400."""


def kinds(mechanism: NoisyGram) -> dict[str, np.ndarray]:
    """Return where the three kinds of numbers stand, counted from the definition."""
    d, labels = mechanism.gram.dimension, mechanism.gram.dimension * mechanism.gram.classes
    triangle = [i == j for i in range(d) for j in range(i, d)]
    matrices = (mechanism.gram.values - labels) // len(triangle)
    on = np.array(triangle * matrices + [False] * labels)
    last = np.arange(len(on)) >= len(on) - labels
    return {"diagonal": on, "above": ~on & ~last, "labels": last}


@for_each("family", ["gaussian", "laplace"])
@for_each(("shares", "dropouts"), [(1, 0), (4, 1)])
def test_each_kind_of_number_has_the_deviation_that_is_stated(
    family: Any, shares: int, dropouts: int
) -> None:
    """False alarm: 1e-6 for all of some 70 comparisons."""
    mechanism = noisy_gram(
        WIDE, std=1.7, bits=11, family=family, shares=shares, tolerated_dropouts=dropouts
    )
    ticket = ticket_for(mechanism)
    names = [f"silo-{number}" for number in range(shares)]
    drawn = [mechanism.share_steps(ticket, nothing(mechanism), name) for name in names]
    assert ticket.close() > 0
    root = math.sqrt(2) if family == "gaussian" else 1.0
    scales = {
        "diagonal": 1.7 * 4**11,
        "above": 1.7 * 4**11 / root,
        "labels": 1.7 * 2**11 * 60 / 0.37,
    }
    # Laplace shares are each all of the noise; Gaussian ones are less by the shares that count.
    divided = math.sqrt(shares - dropouts) if family == "gaussian" else 1.0
    for kind, at in kinds(mechanism).items():
        for share in drawn:
            scaled = share[at] / (scales[kind] / divided)
            law = "norm" if family == "gaussian" else "laplace"
            assert stats.kstest(scaled, law).pvalue > LEAST_P
            if family == "gaussian":
                size, freedom = np.sum(scaled**2), len(scaled)
            else:  # twice the size of a Laplace variable is chi-square of two degrees
                size, freedom = 2 * np.sum(np.abs(scaled)), 2 * len(scaled)
            assert LEAST_P < stats.chi2(freedom).cdf(size) < 1 - LEAST_P
        if family == "gaussian":
            arrived = np.sum(drawn[: shares - dropouts], axis=0)[at] / scales[kind]
            assert LEAST_P < stats.chi2(len(arrived)).cdf(np.sum(arrived**2)) < 1 - LEAST_P
    for share in drawn[1:]:
        assert stats.pearsonr(drawn[0], share).pvalue > LEAST_P


@for_each("family", ["gaussian", "laplace"])
def test_white_coordinates_have_one_deviation(family: Any) -> None:
    """False alarm: below 1e-6 for all kinds."""
    mechanism = noisy_gram(WIDE, std=1.7, bits=11, family=family)
    steps = mechanism.share_steps(ticket_for(mechanism), nothing(mechanism), "a")
    white = mechanism.white(steps) / mechanism.std
    for at in kinds(mechanism).values():
        law = "norm" if family == "gaussian" else "laplace"
        assert stats.kstest(white[at], law).pvalue > LEAST_P


@for_each("by_class", [False, True])
def test_rows_on_the_grid_move_it_as_the_bound_says(by_class: bool) -> None:
    """Integers written out number by number are the vectors of which the bounds are proven."""
    gram = replace(BOUND, by_class=by_class)
    mechanism = noisy_gram(gram, bits=12)
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 4))
    q = np.trunc(rows / np.linalg.norm(rows, axis=1, keepdims=True) * 2**12).astype(int)
    labels = rng.integers(0, 3, 40)
    totals = []
    for row, label in zip(q.tolist(), labels.tolist(), strict=True):
        triangle = [row[i] * row[j] for i in range(4) for j in range(i, 4)]
        zeros = [0] * len(triangle)
        matrices = [triangle if group == label else zeros for group in range(3)]
        sums = [row[i] * (3 * (j == label) - 1) for i in range(4) for j in range(3)]
        numbers = np.concatenate(matrices) if by_class else triangle
        totals.append(np.array([*numbers, *sums]))
    expected = released(gram, q[:, None] / 2**12, labels[:, None].astype(float), "isometric")
    for total, vector in zip(totals, expected, strict=True):
        assert mechanism.white(total) == pytest.approx(vector, rel=1e-12)
    sizes = np.linalg.norm(expected, axis=1)
    assert 0.999 * gram.l2("add-remove") < sizes.max() <= gram.l2("add-remove")
    gaps = np.linalg.norm(expected[:, None] - expected[None], axis=2)
    assert 0.8 * gram.l2("replace-one") < gaps.max() <= gram.l2("replace-one")
    first = labels.tolist().index(0)
    plain = mechanism.units(totals[first])
    assert plain[0] == (q[first, 0] / 2**12) ** 2
    assert plain[mechanism.label_start :].reshape(4, 3) == pytest.approx(
        np.outer(q[first] / 2**12, np.eye(3)[0] - 1 / 3)
    )


def test_sums_wrap_around_and_neighbours_differ_as_before() -> None:
    mechanism = noisy_gram()
    noise = mechanism.share_steps(ticket_for(mechanism), nothing(mechanism), "a")
    assert (noise > 0).any()
    assert (noise < 0).any()
    moved = np.arange(mechanism.gram.values) * 4**12
    for start in (0, 2**63 - 1, -(2**63), 2**63 - 5 * 4**12, 2**62):
        total = np.full(mechanism.gram.values, start, np.int64)
        neighbour = total + moved
        results = [
            mechanism.share_steps(ticket_for(mechanism), one_sum, "a")
            for one_sum in (total, neighbour)
        ]
        # Python's integers, reduced to 64 bits by hand.
        ring = [(start + number + 2**63) % 2**64 - 2**63 for number in noise.tolist()]
        assert results[0].tolist() == ring
        assert (results[1] - results[0] == moved).all()


def test_shares_and_their_sum_are_the_same_in_any_order() -> None:
    mechanism = noisy_gram(shares=3)
    totals = [np.full(mechanism.gram.values, number, np.int64) for number in (1, 20, 300)]
    names = ["a", "b", "c"]
    apart = []
    for order in ((0, 1, 2), (2, 0, 1)):
        ticket = ticket_for(mechanism)
        apart.append(sum(mechanism.share_steps(ticket, totals[i], names[i]) for i in order))
        with pytest.raises(Unsupported, match="announces 1 draws"):
            mechanism.share_steps(ticket, totals[0], "d")
        ticket.close()
    assert (apart[0] == apart[1]).all()


@for_each("family", ["gaussian", "laplace"])
def test_a_round_needs_every_share_that_its_intent_names(family: Any) -> None:
    """Also of Laplace noise, each of whose shares would do: silos add what the log says."""
    mechanism = noisy_gram(family=family, shares=3, tolerated_dropouts=1)
    ticket = ticket_for(mechanism)
    mechanism.share_steps(ticket, nothing(mechanism), "a")
    with pytest.raises(InvalidInput, match="drawn its share"):
        mechanism.share_steps(ticket, nothing(mechanism), "a")
    with pytest.raises(Unsupported, match="shares"):
        ticket.close()
    mechanism.share_steps(ticket, nothing(mechanism), "b")
    ticket.close()


def test_laplace_noise_of_several_silos_counts_as_that_of_one_silo() -> None:
    single = noisy_gram(family="laplace")
    several = noisy_gram(family="laplace", shares=5)
    for relation in PAIRS:
        assert single.event(relation) == several.event(relation)
    assert several.share_std == several.std


OTHERS = [
    noisy_gram(std=1.9),
    noisy_gram(bits=13),
    noisy_gram(family="laplace"),
    noisy_gram(shares=2),
    noisy_gram(replace(BOUND, label_weight=0.6)),
    noisy_gram(replace(BOUND, rows=2)),
    noisy_gram(row_norm=2.0),
    noisy_gram(unit="user"),
    Gaussian(BOUND.l2("add-remove"), 2.0),
]


@for_each("other", OTHERS, ids=range(len(OTHERS)))
def test_a_ticket_of_another_mechanism_is_refused(other: Any) -> None:
    mechanism = noisy_gram()
    with pytest.raises(Unsupported, match="another mechanism"):
        mechanism.share_steps(ticket_for(other), nothing(mechanism), "a")


def test_a_ticket_with_another_event_is_refused() -> None:
    """Every relation is asked whether it explains the event, zero-out among them."""
    mechanism = noisy_gram()
    ticket = ticket_for(mechanism)
    ticket.intent = replace(ticket.intent, event=ev.Gaussian(50.0))
    with pytest.raises(Unsupported, match="another mechanism"):
        mechanism.share_steps(ticket, nothing(mechanism), "a")


@for_each(
    "total",
    [np.zeros(22), np.zeros(21, np.int64), np.zeros((22, 1), np.int64), np.zeros(22, np.int32)],
    ids=range(4),
)
def test_totals_of_another_shape_get_no_noise(total: np.ndarray) -> None:
    mechanism = noisy_gram()
    assert mechanism.gram.values == 22
    with pytest.raises(InvalidInput, match="22 integers of 64 bits"):
        mechanism.share_steps(ticket_for(mechanism), total, "a")


def test_examples_run() -> None:
    tried = doctest.testmod(gram_noise)
    assert tried.attempted > 0
    assert tried.failed == 0
