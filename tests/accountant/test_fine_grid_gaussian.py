"""Gaussian noise on a finer grid than the terms: what it states, what it draws, what it hides."""

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

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import (
    FineGaussian,
    Gaussian,
    RoundDescription,
    fine_grid_gaussian,
)
from privplan.accountant.mechanisms.gaussian import SMOOTHING
from privplan.accountant.neighbours import NEIGHBOURS
from privplan.audit.derivation.event_order import compared
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.run_setting import RunSetting
from privplan.audit.derivation.supported_event import supported
from privplan.audit.ledger.entries import SpentIntent

from ..cases import for_each
from .fine_grids import FORTY, TWENTY, of

RELATIONS = NEIGHBOURS
USERS = records.Sampling("poisson", "user", 0.25, "oblivious-transfer")


class Lying(int):
    """An integer that compares as one number, and is another."""

    def __int__(self) -> int:
        return -5


@for_each("relation", RELATIONS)
@for_each("sampling", [None, USERS])
@for_each("dropouts", [0, 2])
def test_it_states_what_a_gaussian_on_one_grid_does(
    relation: str, sampling: records.Sampling | None, dropouts: int
) -> None:
    weights = records.Weights("records", 1.0)
    own = of(weights=weights, tolerated_dropouts=dropouts)
    plain = Gaussian(0.3, 1.5, 4, weights=weights, tolerated_dropouts=dropouts)
    assert own.event(relation, sampling, 3) == plain.event(relation, sampling, 3)
    about = RoundDescription(7, "train", sampling or records.Sampling(), draws=3)
    one, other = own.intent(about, relation), plain.intent(about, relation)
    assert one.noise.grid < other.noise.grid
    assert replace(one, noise=replace(one.noise, grid=other.noise.grid)) == other
    assert FineGaussian.of(plain, FORTY) == own


def test_the_grid_is_stated_rounded_up() -> None:
    for multiple in (3, TWENTY, FORTY, FORTY**5):
        own = of(multiple=multiple)
        assert own.step == Fraction(own.unit_grid) / multiple
        assert own.step <= Fraction(own.noise().grid) <= own.step * (1 + Fraction(1, 2**52))


@given(
    bound=st.floats(1e-3, 1e3),
    ratio=st.floats(1e-2, 1e3),
    multiple=st.integers(1, 2**200),
    shares=st.integers(1, 40),
    dropouts=st.integers(0, 5),
    largest=st.floats(0.01, 1.0),
    digits=st.integers(14, 32),
    relation=st.sampled_from(RELATIONS),
)
def test_it_never_states_more_noise_than_there_is(
    bound: float,
    ratio: float,
    multiple: int,
    shares: int,
    dropouts: int,
    largest: float,
    digits: int,
    relation: str,
) -> None:
    weights = records.Weights("records", largest)
    try:
        own = FineGaussian(
            bound,
            bound * ratio,
            multiple,
            shares,
            digits,
            weights,
            tolerated_dropouts=min(dropouts, shares - 1),
        )
    except InvalidInput:  # a share is only a few steps wide
        assert bound * ratio / math.sqrt(shares) * multiple < bound * 2.0 ** (9 - digits)
        return
    event, reach = own.event(relation), 2 if relation == "replace-one" else 1
    assert isinstance(event, ev.Gaussian)
    # the norm of digits, what a unit moves the integer sum by, and what is stated for it
    assert own.largest < 2 ** (digits - 1)
    assert own.largest * Fraction(own.unit_grid) <= Fraction(bound)
    assert math.frexp(own.unit_grid)[0] == 0.5
    moved = Fraction(largest) * multiple * own.largest * own.step * reach
    assert moved <= Fraction(own.sensitivity(relation))
    assert Fraction(event.noise_multiplier) * moved <= Fraction(own.std) * reach
    # the noise that is drawn has the stated variance and the smoothing on top
    noise = own.noise()
    least = noise.shares - noise.tolerated_dropouts
    assert least * Fraction(noise.share_std) ** 2 >= Fraction(noise.std) ** 2
    share = (Fraction(noise.share_std) / own.step) ** 2
    smooth = share + SMOOTHING
    assert smooth <= own._share_noise.variance <= smooth * (1 + Fraction(1, 2**50))
    assert share >= 128**2
    assert own._share_noise.log_error < -2175 * math.log(10)


@for_each(
    ("field", "values", "said"),
    [
        ("bound", (0.0,), "bound"),
        ("std", (math.nan,), "std"),
        ("shares", (0,), "shares"),
        ("tolerated_dropouts", (4,), "tolerated_dropouts"),
        ("multiple", (0, 2.0, True, Lying(60)), "multiple"),
        ("weights", (None,), "weights"),
        ("digits", (1, 49, 16.0), "digits"),
        ("weights", (records.Weights("none", math.inf),), "largest_sum"),
        ("multiple", (2**400,), "399"),
    ],
)
def test_values_out_of_range_are_refused(field: str, values: Any, said: str) -> None:
    for value in values:
        with pytest.raises(InvalidInput, match=said):
            of(**{field: value})
    with pytest.raises(InvalidInput, match="128"):
        of(multiple=1, digits=4)


def test_whole_silos_and_private_bounds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="whole silo"):
        FineGaussian.of(Gaussian(1.0, 4.0, terms="silo-delta"), 60)
    with pytest.raises(Unsupported, match="private data"):
        of(source="private").intent(RoundDescription(1, "train"), "add-remove")


ANY_FLOAT = st.floats(-1e3, 1e3) | st.sampled_from([0.0, math.inf, -math.inf, math.nan, 1e-300])


@given(
    rows=st.lists(st.lists(ANY_FLOAT, min_size=3, max_size=3)),
    bound=st.floats(1e-2, 1e2) | st.sampled_from([0.25, 1.0, 2.0]),
    digits=st.integers(10, 24),
)
def test_digits_keep_their_bound_exactly(
    rows: list[list[float]], bound: float, digits: int
) -> None:
    own = FineGaussian(bound, 5.0 * bound, 60, digits=digits)
    table = np.array(rows).reshape(len(rows), 3)
    found = own.clipped(table)
    assert found.shape == table.shape
    for row, made in zip(table, found.tolist(), strict=True):
        assert sum(z * z for z in made) <= own.largest**2
        assert max(map(abs, made)) <= own.largest < 2 ** (digits - 1)
        if not np.isfinite(row).all():
            assert made == [0, 0, 0]
            continue
        exact = [Fraction(x) / Fraction(own.unit_grid) for x in row.tolist()]
        assert all(abs(z) <= abs(x) for z, x in zip(made, exact, strict=True))
        if sum(x * x for x in exact) <= own.largest**2 * (1 - Fraction(1, 2**40)):
            assert made == [math.trunc(x) for x in exact]


@for_each("rows", [[1.0], [[["a"]]], "a", None, [["a"]]])
def test_rows_are_tables_of_numbers(rows: Any) -> None:
    with pytest.raises(InvalidInput, match="rows"):
        of().clipped(rows)


def test_a_sum_is_rounded_once() -> None:
    own = of(multiple=FORTY**3)
    total = [0, 1, -1, 3**200, -(7**150), own.most(10)]
    found = own.units(total)
    assert found.dtype == np.float64
    assert found.tolist() == [float(v * own.step) for v in total]


def test_everything_that_can_come_has_room() -> None:
    """One silo holds everybody, all are clipped in one coordinate, and noise is at its end."""
    own = of(shares=3)
    everybody = int(own.clipped(np.full((10, 1), 1e9)).sum()) * own.multiple
    assert everybody + 3 * own.tail <= own.most(10)
    assert own.most(10) < 1.001 * (everybody + 3 * own.tail)
    assert replace(own, weights=records.Weights("records", 0.5)).most(10) < own.most(10)


def audited(own: FineGaussian, relation: str, sampling: records.Sampling) -> tuple[Any, ev.Event]:
    """Return the intent, and what an audit derives from it for who sees the model."""
    intent = own.intent(RoundDescription(1, "train", sampling, draws=2), relation)
    streams = (records.StreamRange("ab" * 16, 0, 100),)
    release = records.RoundRelease(1, 1, streams, intent.noise.shares, 2, 9)
    facts = RoundFacts.of(SpentIntent(2, 1, intent, ((3, release),)))
    setting = RunSetting("user", relation, 1, 4, "plain", False)  # type: ignore[arg-type]
    return intent, supported(facts, setting, "model")


@for_each("relation", RELATIONS)
@for_each("sampled", [False, True])
@for_each("multiple", [60, TWENTY, FORTY**4])
@for_each("dropouts", [0, 1])
def test_an_audit_of_the_log_derives_the_same_event(
    relation: str, sampled: bool, multiple: int, dropouts: int
) -> None:
    weights = records.Weights("records", 1.0)
    own = of(std=1.7, multiple=multiple, tolerated_dropouts=dropouts, weights=weights)
    sampling = records.Sampling("poisson", "user", 0.3, "shared-secret")
    intent, event = audited(own, relation, sampling if sampled else records.Sampling())
    assert compared(intent.event, event) == "same"
    stated, derived = (
        pp.account(one, delta=1e-5, neighbours=relation).epsilon.upper
        for one in (intent.event, event)
    )
    assert stated <= derived <= stated * (1 + 1e-6)


def test_an_audit_counts_off_the_smoothing_of_a_coarse_grid() -> None:
    """It cannot tell whether the stated noise holds the 64, so it takes them off again."""
    own = of(multiple=1, digits=12, weights=records.Weights("records"))
    intent, event = audited(own, "add-remove", records.Sampling())
    stated, derived = (pp.account(one, delta=1e-5).epsilon.upper for one in (intent.event, event))
    assert stated < derived < stated * (1 + 1e-4)


def epsilon_of_sums(own: FineGaussian, dimensions: int, delta: float) -> tuple[float, float]:
    """Epsilon by Kairouz, Liu and Steinke 2021, arXiv 2102.06387v4, Proposition 14; and its tau.

    n shares of N_Z(t) on a sum that moves by D: with tau = 10 sum_(k < n) e^(-2 pi^2 t^2 k/(k+1)),
    (D / (sqrt(n) t) + tau sqrt(d))^2 / 2-zCDP.
    """
    t = float(Fraction(own.share_std) / own.step)
    tau = 10 * sum(math.exp(-2 * math.pi**2 * t * t * k / (k + 1)) for k in range(1, own.shares))
    moved = float(own.multiple * own.largest / (math.sqrt(own.shares) * t))
    rho = (moved + tau * math.sqrt(dimensions)) ** 2 / 2
    return pp.account(ev.ZCDP(rho), delta=delta).epsilon.upper, tau


@for_each("multiple", [1, 60, FORTY])
@for_each("noise", [0.5, 1.0, 5.0])
def test_the_bound_for_narrow_shares_is_no_better_here(multiple: int, noise: float) -> None:
    own = of(multiple=multiple, std=0.3 * noise)
    theirs, tau = epsilon_of_sums(own, 10**6, 1e-5)
    assert tau == 0.0
    ours = pp.account(own.event("add-remove"), delta=1e-5).epsilon.upper
    assert ours < theirs < 2 * ours
    # And as concentrated differential privacy both say the same, but for what clipping rounds off.
    event = own.event("add-remove")
    assert isinstance(event, ev.Gaussian)
    moved = 1 / event.noise_multiplier
    exact = float(own.largest * own.unit_grid / own.std)
    assert exact == pytest.approx(moved, rel=2e-4)


@for_each("t", [0.6, 0.8, 1.0])
@for_each("shares", [2, 3])
def test_sums_of_narrow_shares_are_off_by_less_than_either_bound(t: float, shares: int) -> None:
    """Exactly: log P(sum = x) / P(N_Z = x) against tau / 2 and against Poisson summation's."""
    with mpmath.workdps(50):
        own = {x: mpmath.exp(-x * x / (2 * mpmath.mpf(t) ** 2)) for x in range(-16, 17)}
        law = {0: mpmath.mpf(1)}
        for _ in range(shares):
            found: dict[int, mpmath.mpf] = {}
            for x, mass in law.items():
                for y, other in own.items():
                    found[x + y] = found.get(x + y, mpmath.mpf(0)) + mass * other
            law = found
        ideal = {x: mpmath.exp(-x * x / (2 * shares * mpmath.mpf(t) ** 2)) for x in law}
        whole, size = mpmath.fsum(law.values()), mpmath.fsum(ideal.values())
        ratio = max(abs(mpmath.log(law[x] / whole / (ideal[x] / size))) for x in law if abs(x) <= 4)
    theirs = 5 * sum(math.exp(-2 * math.pi**2 * t * t * k / (k + 1)) for k in range(1, shares))
    ours = 8 * (shares - 1) * math.exp(-(math.pi**2) * t * t)
    assert 0 < ratio <= theirs
    assert ratio <= ours


def test_examples() -> None:
    found = doctest.testmod(fine_grid_gaussian)
    assert found.attempted > 0
    assert found.failed == 0
