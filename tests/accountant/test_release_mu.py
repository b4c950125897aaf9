"""The mu of one release: tails summed directly, and the two questions that report it."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import Unsupported
from privplan.accountant.guarantee import Bounds
from privplan.accountant.risk.release_mu import release_mu

from ..cases import for_each
from .event_examples import EXAMPLES

RELATIONS = ("add-remove", "replace-one", "zero-out")


def quantile(rate: mp.mpf) -> mp.mpf:
    """Return Phi^-1 of 1 - rate, for the rates of tails far out."""
    guess = mp.sqrt(-2 * mp.log(rate))
    return mp.findroot(lambda x: mp.log(mp.ncdf(-x)) - mp.log(rate), guess)


def mu_of_tail(shifts: dict[float, float], cut: float) -> float:
    """Return mu at the FPR of the test "above `cut`", of N(0, 1) against N(shift, 1) mixed."""
    with mp.workdps(40):
        found = mp.fsum(weight * mp.ncdf(shift - mp.mpf(cut)) for shift, weight in shifts.items())
        return float(mp.mpf(cut) - quantile(found))


def draws(batch: int, population: int) -> dict[float, float]:
    """Return the law of how often a unit is drawn, as the shift of a sum whose others are -1."""
    rate = 1.0 / population
    return {
        2.0 * k: math.comb(batch, k) * rate**k * (1 - rate) ** (batch - k) for k in range(batch + 1)
    }


TAILS = [
    (ev.Poisson(0.1, ev.Gaussian(1.0)), {1.0: 0.1, 0.0: 0.9}),
    (ev.GaussianMixture(1.0, [1.0, 2.5], [0.25, 0.01]), {1.0: 0.25, 2.5: 0.01, 0.0: 0.74}),
    (ev.GaussianMixture(2.0, [1.0, 3.0], [1.0, 0.0]), {0.5: 1.0}),
    (ev.FixedSize(10, 100, ev.Gaussian(1.0)), {2.0: 0.1, 0.0: 0.9}),
    (ev.WithReplacement(2, 10, ev.Gaussian(1.0)), draws(2, 10)),
    # Along the one step that is looked at the unit is there in a quarter of all cases.
    (ev.RandomAllocation(4, 1, ev.Gaussian(0.5)), {2.0: 0.25, 0.0: 0.75}),
    (ev.RandomAllocation(4, 4, ev.Gaussian(1.0)), {2.0: 1.0}),
]


@for_each(("event", "shifts"), TAILS, ids=lambda value: getattr(value, "type", ""))
def test_the_tail_of_a_sum_tends_to_mu(event: ev.Event, shifts: dict[float, float]) -> None:
    mu = release_mu(event, "add-remove")
    for cut in (0.0, 1.0, 5.0, 20.0):
        assert mu_of_tail(shifts, cut) <= mu.upper * (1 + 1e-12)
    assert mu_of_tail(shifts, 1000.0) == pytest.approx(mu.lower, abs=0.01)
    assert mu_of_tail(shifts, 1000.0) <= mu.lower * (1 + 1e-12)
    assert mu.upper == pytest.approx(mu.lower)


def test_a_client_that_is_seen_has_the_mu_of_what_it_releases() -> None:
    inner = ev.Compose([ev.Repeat(4, ev.Gaussian(1.0)), ev.Poisson(0.1, ev.Gaussian(0.5))])
    assert release_mu(ev.ClientSampled(0.1, inner), "zero-out").upper == pytest.approx(math.sqrt(8))
    assert release_mu(ev.ClientSampled(0.1, inner), "zero-out").lower == pytest.approx(math.sqrt(8))
    assert release_mu(ev.ClientSampled(0.0, inner), "zero-out") == Bounds.exactly(0.0)


def test_a_group_adds_up_and_what_is_never_drawn_shows_nothing() -> None:
    for event in (ev.Poisson(0.1, ev.Gaussian(2.0)), ev.Poisson(0.0, ev.Gaussian(2.0))):
        alone, three = (release_mu(each, "replace-one") for each in (event, ev.Group(3, event)))
        assert three.upper == pytest.approx(3 * alone.upper)
        assert three.lower == pytest.approx(3 * alone.lower)
    assert alone == Bounds.exactly(0.0)


def asked(question, event: ev.Event, neighbours: str) -> Bounds | None:
    """Return bounds on mu, None where none is known."""
    try:
        mu = question(event, neighbours)
    except Unsupported:
        return None
    return mu if math.isfinite(mu.upper) else None


QUICK = (ev.Gaussian, ev.Laplace, ev.Pure, ev.Poisson, ev.FixedSize, ev.GaussianMixture, ev.Compose)
ASKED = [
    pytest.param(
        event,
        neighbours,
        marks=() if isinstance(event, QUICK) else pytest.mark.slow,
        id=f"{event.type}-{neighbours}",
    )
    for (event, _), neighbours in zip(EXAMPLES, itertools.cycle(RELATIONS), strict=False)
]


@for_each(("event", "neighbours"), ASKED)
def test_both_questions_about_mu_agree(event: ev.Event, neighbours: str) -> None:
    by_gdp = asked(lambda e, n: pp.gdp(e, neighbours=n).mu, event, neighbours)
    by_risk = asked(lambda e, n: pp.risk(e, neighbours=n).mu_everywhere, event, neighbours)
    assert (by_gdp is None) == (by_risk is None)
    if by_gdp is not None and by_risk is not None:
        assert by_gdp.lower <= by_risk.upper
        assert by_risk.lower <= by_gdp.upper <= by_risk.upper * (1 + 1e-9)
