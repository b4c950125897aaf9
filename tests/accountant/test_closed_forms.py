"""Closed forms: published numbers, their exact meaning recomputed, and the ranges they keep to."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

from privplan import events as ev
from privplan.accountant.amplification.shuffling import closed_forms as forms
from privplan.accountant.amplification.shuffling.blanket import blanket_profile
from privplan.accountant.amplification.shuffling.clones import fmt21_profile, fmt23_profile
from privplan.accountant.amplification.shuffling.profile import smallest_epsilon
from privplan.accountant.amplification.shuffling.randomizers import (
    GaussianRandomizer,
    LaplaceRandomizer,
    ResponseRandomizer,
)
from privplan.accountant.amplification.shuffling.rounds import shuffle_routes
from privplan.accountant.errors import InvalidInput, Unsupported

from ..cases import for_each

LAPLACE, RESPONSE = LaplaceRandomizer, ResponseRandomizer
SETTINGS = ((1.0, 10**4, 1e-6), (4.0, 10**5, 1e-7), (8.0, 10**6, 1e-8))


@for_each(
    ("form", "published"),
    [
        (forms.fmt21_epsilon, (0.2140, 0.5643, 1.0874)),
        (forms.fmt23_epsilon, (0.1800, 0.4319, 0.8695)),
        (lambda e, n, d: forms.bbgn19_response_epsilon(e, 2, n, d), (0.2748, 0.3617, 0.8933)),
        (lambda e, n, d: forms.bbgn19_response_epsilon(e, 10, n, d), (0.4879, 0.3869, 0.8945)),
        (lambda e, n, d: forms.hoeffding_epsilon(LAPLACE(e), n, d), (0.0540, 0.3069, 8.0)),
        (lambda e, n, d: forms.bennett_epsilon(LAPLACE(e), n, d), (0.0450, 0.1258, 0.3570)),
        (lambda e, n, d: forms.bennett_epsilon(RESPONSE(e, 2), n, d), (0.0512, 0.1551, 0.4462)),
        (lambda e, n, d: forms.bennett_epsilon(RESPONSE(e, 10), n, d), (0.0280, 0.1445, 0.4434)),
    ],
)
def test_table_of_an_independent_prototype(form, published) -> None:  # type: ignore[no-untyped-def]
    """Rounded to four digits, as printed there."""
    for (epsilon0, users, delta), expected in zip(SETTINGS, published, strict=True):
        assert form(epsilon0, users, delta) == pytest.approx(expected, abs=6e-5)


def master(values: list[float], masses: list[float], rest: float, users: int) -> mpmath.mpf:
    """(1/n) E(sum of n copies)+ by convolution over counts of two or three values, 30 digits."""
    with mpmath.workdps(30):
        total = mpmath.mpf(0)
        gains = [mpmath.mpf(v) for v in values]
        for i in range(users + 1):
            for j in range(users + 1 - i):
                chance = mpmath.binomial(users, i) * mpmath.binomial(users - i, j)
                chance *= mpmath.mpf(masses[0]) ** i * mpmath.mpf(masses[1]) ** j
                chance *= mpmath.mpf(rest) ** (users - i - j)
                total += chance * max(i * gains[0] + j * gains[1], 0)
        return total / users


@for_each("epsilon", [0.05, 0.4, 0.9])
@for_each("adaptive", [False, True])
def test_forms_lie_above_the_exact_sum(epsilon: float, adaptive: bool) -> None:
    """L has two values for a stated epsilon0; its sum is exact, both formulas are recomputed."""
    p, users = math.e, 40
    mass = 1 / p if adaptive else 2 / (p + 1)
    values = [2 * (p - math.exp(epsilon)) / (p + 1), 2 * (1 - p * math.exp(epsilon)) / (p + 1)]
    scaled = [value / mass for value in values]
    exact = master(scaled, [mass / 2, mass / 2], 1 - mass, users)
    a, width = math.expm1(epsilon), values[0] - values[1]
    rate = 2 * a * a / width**2
    hoeffding = width**2 / (4 * a) * (1 - mass * (1 - math.exp(-rate))) ** users / (mass * users)
    square = (values[0] ** 2 + values[1] ** 2) / 2
    u = a * values[0] / square
    rate = square / values[0] ** 2 * ((1 + u) * math.log(1 + u) - u)
    bennett = values[0] / math.log(1 + u) * (1 - mass * (1 - math.exp(-rate))) ** users
    bennett /= mass * users
    for form, expected in (
        (forms.hoeffding_log_delta, hoeffding),
        (forms.bennett_log_delta, bennett),
    ):
        result = math.exp(form(1.0, users, epsilon, adaptive=adaptive))
        assert exact <= result
        assert result == pytest.approx(min(expected, 1.0), rel=1e-9)


def laplace_moments(epsilon0: float, epsilon: float) -> tuple[float, float, float]:
    """Quadrature over the blanket: mean of L, mean of L^2, and L's largest value."""

    def excess(y: float) -> float:
        r = [math.exp(-epsilon0 * (abs(y - x) - abs(y - 0.5))) for x in (0.0, 1.0)]
        return r[0] - math.exp(epsilon) * r[1]

    def mean(power: int) -> float:
        inside = quad(
            lambda y: excess(y) ** power * 0.5 * epsilon0 * math.exp(-epsilon0 * abs(y - 0.5)),
            0.0,
            1.0,
            points=[0.5],
            epsabs=1e-13,
        )[0]
        tail = 0.5 * math.exp(-0.5 * epsilon0)
        return inside + tail * (excess(-1.0) ** power + excess(2.0) ** power)

    return mean(1), mean(2), excess(-1.0)


@for_each(("epsilon0", "epsilon"), [(1.0, 0.1), (4.0, 1.0), (0.01, 0.001)])
def test_bennett_for_laplace_is_its_formula(epsilon0: float, epsilon: float) -> None:
    """Recomputed with 30 digits from moments by quadrature."""
    mean, square, largest = laplace_moments(epsilon0, epsilon)
    assert mean == pytest.approx(-math.expm1(epsilon), rel=1e-9)
    users = 1000
    with mpmath.workdps(30):
        a, b, v = mpmath.expm1(epsilon), mpmath.mpf(largest), mpmath.mpf(square)
        u = a * b / v
        c = v / b**2 * ((1 + u) * mpmath.log(1 + u) - u)
        g = mpmath.exp(-mpmath.mpf(epsilon0) / 2)
        expected = b / mpmath.log(1 + u) / (g * users) * (1 - g * (1 - mpmath.exp(-c))) ** users
    result = forms.bennett_log_delta(LaplaceRandomizer(epsilon0), users, epsilon)
    assert result == pytest.approx(float(mpmath.log(min(expected, 1))), abs=1e-6)


def test_phi_keeps_its_digits() -> None:
    for u in (1e-9, 1e-4, 0.0999, 0.1001, 3.0):
        with mpmath.workdps(40):
            exact = (1 + mpmath.mpf(u)) * mpmath.log(1 + mpmath.mpf(u)) - mpmath.mpf(u)
        assert exact * (1 - 1e-12) <= forms._phi(u) <= exact


def test_forms_are_above_the_numerical_bounds() -> None:
    """On 20 random settings, wherever the form holds."""
    rng = np.random.default_rng(3)
    seen = dict.fromkeys(("fmt21", "fmt23", "efmrtt", "bbgn", "bennett", "hoeffding"), 0)
    for _ in range(20):
        epsilon0, users = float(rng.uniform(0.02, 6.0)), int(10 ** rng.uniform(1.5, 6.0))
        delta = float(10 ** rng.uniform(-12, -2))
        k = int(rng.choice([2, 3, 20]))
        older = smallest_epsilon(fmt21_profile(epsilon0, users), delta)
        newer = smallest_epsilon(fmt23_profile(epsilon0, users), delta)
        response = ResponseRandomizer(epsilon0, k)
        tight = smallest_epsilon(blanket_profile(response, users), delta)
        for name, least, form, known in (
            ("fmt21", older, forms.fmt21_epsilon, (epsilon0,)),
            ("fmt23", newer, forms.fmt23_epsilon, (epsilon0,)),
            ("efmrtt", older, forms.efmrtt19_epsilon, (epsilon0,)),
            ("bbgn", tight, forms.bbgn19_response_epsilon, (epsilon0, k)),
            ("bennett", tight, forms.bennett_epsilon, (response,)),
            ("hoeffding", tight, forms.hoeffding_epsilon, (response,)),
        ):
            try:
                result = form(*known, users, delta)
            except Unsupported:
                continue
            seen[name] += 1
            assert least * (1.0 - 1e-3) <= result <= epsilon0
    assert min(seen.values()) >= 1


@for_each("epsilon0", [0.3, 2.0])
@for_each("delta", [1e-3, 1e-9])
def test_clones_forms_hold_at_the_very_edge_of_their_ranges(epsilon0: float, delta: float) -> None:
    tail, p = math.log(4 / delta), math.exp(epsilon0)
    for form, profile, least in (
        (forms.fmt21_epsilon, fmt21_profile, p * (16 * tail + 4) + 1),
        (forms.fmt23_epsilon, fmt23_profile, (p + 1) * (8 * tail + 2) + 1),
    ):
        users = math.ceil(least * (1 + 1e-12))
        assert smallest_epsilon(profile(epsilon0, users), delta) <= form(epsilon0, users, delta)
        with pytest.raises(Unsupported, match="epsilon0 <="):
            form(epsilon0, math.floor(least * (1 - 1e-9)) - 1, delta)


@for_each(
    ("ask", "condition"),
    [
        (lambda: forms.efmrtt19_epsilon(0.5, 10**4, 1e-6), "epsilon0 < 1/2"),
        (lambda: forms.efmrtt19_epsilon(0.4, 999, 1e-6), "1,000 users"),
        (lambda: forms.efmrtt19_epsilon(0.4, 10**4, 0.01), "delta < 1/100"),
        (lambda: forms.bbgn19_response_epsilon(1.0, 10, 500, 1e-6), "at most 1"),
        (lambda: forms.bbgn19_response_epsilon(1e-3, 2, 100, 0.9), "at least 27"),
        (lambda: forms.bbgn19_response_epsilon(0.5, 2, 1, 1e-6), "2 users"),
        (lambda: forms.fmt21_epsilon(1.0, 10, 1e-6), "more users"),
        (lambda: forms.fmt23_epsilon(1.0, 10, 1e-6), "more users"),
        (lambda: forms.fmt23_epsilon(1.0, 10**4, 1e-6, adaptive=True), "no other message"),
        (lambda: forms.fmt23_epsilon(1.0, 10**4, 1e-6, shared=False), "all users share"),
        (lambda: forms.bennett_epsilon(GaussianRandomizer(1.0), 10**4, 1e-6), "unbounded"),
        (lambda: forms.hoeffding_epsilon(GaussianRandomizer(1.0), 10**4, 1e-6), "unbounded"),
        (
            lambda: forms.bennett_epsilon(LAPLACE(1.0), 10**4, 1e-6, adaptive=True),
            "all users share",
        ),
    ],
)
def test_outside_its_range_a_form_names_the_condition(ask, condition: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Unsupported) as refusal:
        ask()
    assert condition in refusal.value.why
    assert refusal.value.next_step


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="delta"):
        forms.fmt21_epsilon(1.0, 10**4, 0.0)
    with pytest.raises(InvalidInput, match="epsilon"):
        forms.bennett_log_delta(1.0, 100, 0.0)
    with pytest.raises(InvalidInput, match="categories"):
        forms.bbgn19_response_epsilon(1.0, 1, 100, 1e-6)


def test_edges() -> None:
    laplace = LaplaceRandomizer(1.0)
    assert forms.bennett_log_delta(laplace, 100, 1.0) == -math.inf
    assert forms.bennett_log_delta(LaplaceRandomizer(500.0), 100, 1.0) == 0.0
    assert forms.hoeffding_epsilon(0.0, 100, 1e-6) == 0.0
    assert forms.bennett_epsilon(LaplaceRandomizer(1e-6), 10, 1e-12) <= 1e-6


@for_each(
    ("inner", "forms_that_hold", "refused"),
    [
        (ev.Laplace(2.0), 7, 1),
        (ev.RandomizedResponse(0.4, 5), 9, 0),
        (ev.Local(1.0), 6, 1),
        (ev.Gaussian(2.0), 1, 7),
    ],
)
def test_routes_list_every_bound_and_why_some_do_not_hold(
    inner: ev.Event, forms_that_hold: int, refused: int
) -> None:
    result = shuffle_routes(ev.Shuffle(10_000, inner), 1e-6)
    known = {name: epsilon for name, epsilon, _, _ in result if epsilon is not None}
    why = [reason for _, epsilon, _, reason in result if epsilon is None]
    assert (len(known) - ("no shuffler" in known), len(why)) == (forms_that_hold, refused)
    assert all(reason for reason in why)
    assert all(source for _, _, source, _ in result)
    best = "clones 2023" if isinstance(inner, ev.Local) else "blanket"
    assert min(known, key=lambda name: known[name]) == f"{best}, numerical"


def test_routes_of_other_events() -> None:
    assert shuffle_routes(ev.Gaussian(1.0), 1e-6) == ()
    ((name, epsilon, _, why),) = shuffle_routes(ev.Shuffle(10, ev.Pure(1.0)), 1e-6)
    assert (name, epsilon) == ("shuffling", None)
    assert "pure" in why
