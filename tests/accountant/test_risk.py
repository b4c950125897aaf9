"""Attack risk against closed forms, and the laws that every answer obeys."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.guarantee import NEIGHBOURS, Bounds, Neighbours
from privplan.accountant.risk.attack_power import attack_power
from privplan.accountant.risk.risk import hidden_draws_of

from ..cases import for_each
from ..sweeps import sweep

SAMPLED = ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(1.0)))
EVENTS: tuple[ev.Event, ...] = (
    SAMPLED,
    ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))),
    ev.Gaussian(0.7),
    ev.Laplace(1.0),
    ev.Repeat(3, ev.RandomizedResponse(1.0, 3)),
    ev.Compose([ev.Gaussian(2.0), ev.Laplace(3.0)]),
    ev.Group(3, ev.Poisson(0.1, ev.Gaussian(4.0))),
    ev.FixedSize(10, 1000, ev.Gaussian(1.0)),
    ev.Approximate(0.5, 0.01),
    ev.DiscreteGaussian(2.0, 1),
    ev.ZCDP(0.5),
    ev.NoGuarantee("shown"),
)
NUMBERS = ("advantage", "tpr", "bayes_risk", "reconstruction", "mu", "mu_everywhere")


def holds(bounds: Bounds, truth: float, within: float) -> None:
    """Assert that bounds hold a number and lie within so much of it."""
    assert bounds.lower <= truth <= bounds.upper
    assert bounds.gap <= within


@for_each("sigma", [0.2, 1.0, 30.0])
@for_each("neighbours", NEIGHBOURS)
def test_gaussian_noise(sigma: float, neighbours: Neighbours) -> None:
    mu = (2.0 if neighbours == "replace-one" else 1.0) / sigma
    for fpr, prior in ((1e-6, 0.02), (0.01, 0.5), (0.7, 0.9)):
        found = pp.risk(ev.Gaussian(sigma), fpr=fpr, prior=prior, neighbours=neighbours)
        holds(found.advantage, 2.0 * ndtr(mu / 2.0) - 1.0, 1e-12)
        holds(found.tpr, ndtr(ndtri(fpr) + mu), 1e-10)
        # The best cut weighs both errors by the prior.
        cut = math.log((1.0 - prior) / prior) / mu + mu / 2.0
        holds(found.bayes_risk, prior * ndtr(cut - mu) + (1.0 - prior) * ndtr(-cut), 1e-12)
        holds(found.mu, mu, 1e-9 * mu)
        holds(found.mu_everywhere, mu, 1e-9 * mu)


def test_small_rates_keep_their_digits() -> None:
    found = pp.risk(ev.Gaussian(1.0), fpr=1e-30).tpr
    truth = float(ndtr(ndtri(1e-30) + 1.0))
    assert found.lower <= truth <= found.upper <= found.lower * (1.0 + 1e-8)
    pure = pp.risk(ev.RandomizedResponse(2.0, 2), fpr=1e-20, neighbours="replace-one").tpr
    assert 1e-20 * math.exp(2.0) <= pure.upper <= 1e-20 * math.exp(2.0) * (1.0 + 1e-9)


def laplace_tpr(epsilon: float, fpr: float) -> float:
    """Return the power between Lap(0, 1 / epsilon) and Lap(1, 1 / epsilon)."""
    if fpr < 0.5 * math.exp(-epsilon):
        return math.exp(epsilon) * fpr
    if fpr <= 0.5:
        return 1.0 - math.exp(-epsilon) / (4.0 * fpr)
    return 1.0 - math.exp(-epsilon) * (1.0 - fpr)


@for_each("fpr", [1e-4, 0.1, 0.2, 0.45, 0.8])
@for_each("b", [0.3, 1.0, 5.0])
def test_laplace_noise(fpr: float, b: float) -> None:
    found = pp.risk(ev.Laplace(b), fpr=fpr)
    holds(found.tpr, laplace_tpr(1.0 / b, fpr), 2e-6)
    holds(found.advantage, -math.expm1(-0.5 / b), 1e-5)
    # mu by the least miss rates themselves, on a fine grid of false positive rates.
    rates = np.geomspace(1e-9, 0.5 * math.exp(-0.5 / b), 20_000)
    powers = np.array([laplace_tpr(1.0 / b, float(rate)) for rate in rates])
    holds(found.mu_everywhere, float((ndtri(powers) - ndtri(rates)).max()), 1e-4)


@for_each("epsilon", [0.1, 1.0, 4.0])
def test_randomized_response(epsilon: float) -> None:
    for fpr, prior in ((1e-3, 0.5), (0.2, 0.45), (0.6, 0.7)):
        found = pp.risk(
            ev.RandomizedResponse(epsilon, 2), fpr=fpr, prior=prior, neighbours="replace-one"
        )
        grown = math.exp(epsilon)
        truth, lie = grown / (1.0 + grown), 1.0 / (1.0 + grown)
        holds(found.advantage, truth - lie, 1e-8)
        holds(found.tpr, min(grown * fpr, 1.0 - (1.0 - fpr) / grown), 1e-8)
        # Believe the response, or the prior, whichever errs less.
        holds(found.bayes_risk, min(lie, prior, 1.0 - prior), 1e-8)
        # Its trade-off function has one corner, at which both rates are `lie`.
        holds(found.mu, 2.0 * float(ndtri(truth)), 1e-5)
        holds(found.mu_everywhere, 2.0 * float(ndtri(truth)), 1e-5)


def test_nothing_released() -> None:
    found = pp.risk(ev.Compose([]), fpr=0.03, prior=0.3, guesses=7)
    assert found.advantage == 0.0
    assert found.tpr == 0.03
    assert found.mu == found.mu_everywhere == 0.0
    holds(found.bayes_risk, 0.3, 1e-15)
    holds(found.reconstruction, 1.0 / 7.0, 1e-15)


@for_each("noise", [1e-320, 1e-200, 1e-3])
def test_hardly_any_noise_is_an_answer(noise: float) -> None:
    found = pp.risk(ev.Gaussian(noise))
    for bounds in (found.advantage, found.tpr):
        assert 1.0 - 1e-12 <= bounds.lower <= bounds.upper == 1.0
    assert found.bayes_risk.lower == 0.0
    assert found.bayes_risk.upper < 1e-12
    assert found.reconstruction == Bounds(0.1, 1.0)
    assert found.mu.upper >= 1.0 / noise if noise > 1e-300 else math.isinf(found.mu.upper)


@for_each("neighbours", NEIGHBOURS)
def test_no_guarantee_is_an_answer(neighbours: Neighbours) -> None:
    found = pp.risk(ev.NoGuarantee("shown"), neighbours=neighbours)
    assert found.advantage.upper == found.tpr.upper == found.reconstruction.upper == 1.0
    assert found.bayes_risk.lower == 0.0
    assert math.isinf(found.mu.upper)
    assert math.isinf(found.mu_everywhere.upper)


@for_each("inner", [ev.Gaussian(1e-40), ev.NoGuarantee("shown")])
def test_who_is_not_drawn_is_not_seen(inner: ev.Event) -> None:
    found = pp.risk(ev.Poisson(0.1, inner), fpr=0.01)
    assert found.advantage.upper == pytest.approx(0.1)
    # Who is drawn is known, and of the rest 1 in 100 is accused; or, as coarsely, of all.
    assert 0.1 + 0.9 * 0.01 <= found.tpr.upper <= 0.1 + 0.01 + 1e-9
    assert found.bayes_risk.lower == pytest.approx(0.45)


def test_mu_from_a_rate_on_keeps_what_sampling_hides() -> None:
    event = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
    found = pp.risk(event)
    assert found.mu.upper < 0.5
    holds(found.mu_everywhere, math.sqrt(1000.0), 1e-8)
    later = pp.risk(event, from_fpr=1e-2)
    assert later.mu.upper < found.mu.lower


@for_each("event", [SAMPLED, ev.Laplace(0.7), ev.DiscreteGaussian(2.0, 1)], ids=str)
@for_each("neighbours", ["add-remove", "replace-one"])
def test_mu_is_the_least_that_dominates(event: ev.Event, neighbours: Neighbours) -> None:
    start = 1e-3
    mu = pp.risk(event, from_fpr=start, neighbours=neighbours).mu
    assert mu.gap <= 2e-3 * mu.upper
    needed = []
    for fpr in np.geomspace(start, 0.5, 60):
        tpr = attack_power(event, neighbours).tpr(float(fpr))
        if 1.0 - tpr.upper < fpr:
            break
        assert tpr.upper <= ndtr(ndtri(fpr) + mu.upper) + 1e-9
        needed.append(float(ndtri(tpr.lower) - ndtri(fpr)))
    assert max(needed) == pytest.approx(mu.lower, rel=2e-3)


def test_mu_of_a_pure_guarantee_adds_in_squares() -> None:
    each = 2.0 * float(ndtri(math.e / (1.0 + math.e)))
    found = pp.risk(ev.Repeat(30, ev.Pure(1.0))).mu_everywhere
    assert found.upper <= math.sqrt(30.0) * each * (1.0 + 1e-9)
    mixed = pp.risk(ev.Compose([ev.Pure(1.0), ev.Poisson(0.5, ev.Gaussian(2.0))])).mu_everywhere
    assert mixed.upper == pytest.approx(math.hypot(each, 0.5), rel=1e-9)
    assert mixed.lower >= 0.5 - 1e-9  # the Gaussian's part alone


def test_what_shows_a_unit_for_certain_has_no_mu_everywhere() -> None:
    found = pp.risk(ev.Approximate(0.5, 0.01), from_fpr=0.1)
    assert math.isinf(found.mu_everywhere.upper)
    assert math.isfinite(found.mu.upper)


@for_each("guesses", [2, 10, 100])
@for_each("sigma", [0.3, 1.0])
def test_candidates_across_one_another(guesses: int, sigma: float) -> None:
    # Candidates at orthogonal vectors of norm 1: the best guess is the largest coordinate.
    x = np.linspace(-12.0, 12.0, 40_001)
    density = np.exp(-0.5 * (x - 1.0 / sigma) ** 2) / math.sqrt(2.0 * math.pi)
    named = float((density * ndtr(x) ** (guesses - 1)).sum() * (x[1] - x[0]))
    for neighbours in NEIGHBOURS:
        found = pp.risk(ev.Gaussian(sigma), guesses=guesses, neighbours=neighbours).reconstruction
        assert found.lower == 1.0 / guesses < named < found.upper


@for_each("event", EVENTS[::2], ids=str)
def test_two_candidates_are_told_apart_as_two_data_sets(event: ev.Event) -> None:
    found = pp.risk(event, guesses=2, neighbours="replace-one")
    assert found.reconstruction.upper == pytest.approx(
        0.5 * (1.0 + found.advantage.upper), abs=1e-5
    )


def test_more_candidates_are_harder() -> None:
    for event, neighbours in (
        (SAMPLED, "replace-one"),
        (ev.Gaussian(1.0), "add-remove"),
        (ev.Gaussian(1.0), "zero-out"),
    ):
        named = [
            pp.risk(event, guesses=guesses, neighbours=neighbours).reconstruction.upper
            for guesses in (2, 10, 10**9)
        ]
        assert (np.diff(named) < 0.0).all()
        assert named[-1] < 1e-5


TWO_RELATIONS = [
    (event, NEIGHBOURS[(place + turn) % 3]) for place, event in enumerate(EVENTS) for turn in (0, 1)
]


@for_each(("event", "neighbours"), sweep(TWO_RELATIONS, quick=9), ids=str)
def test_ends_are_ordered_and_no_worse_than_guessing(
    event: ev.Event, neighbours: Neighbours
) -> None:
    found = pp.risk(event, fpr=0.02, prior=0.3, guesses=5, neighbours=neighbours)
    for name in NUMBERS:
        bounds = getattr(found, name)
        assert 0.0 <= bounds.lower <= bounds.upper
    assert found.tpr.lower >= 0.02
    assert found.tpr.upper <= 1.0
    assert found.bayes_risk.upper <= 0.3
    assert found.reconstruction.lower == 0.2
    # A test with FPR 0.02 is one of those that the advantage counts.
    assert found.tpr.lower - 0.02 <= found.advantage.upper
    assert found.mu.upper <= found.mu_everywhere.upper
    assert found.mu.lower <= found.mu_everywhere.lower


@for_each("event", sweep([*EVENTS], quick=4), ids=str)
def test_a_higher_rate_of_false_accusations_finds_more(event: ev.Event) -> None:
    rates = (1e-9, 1e-4, 0.01, 0.2, 0.5, 0.9, 0.999)
    power = attack_power(event, "add-remove")
    found = [power.tpr(fpr) for fpr in rates]
    assert found[2] == pp.risk(event, fpr=0.01).tpr
    assert (np.diff([bounds.upper for bounds in found]) >= 0.0).all()
    assert (np.diff([bounds.lower for bounds in found]) >= 0.0).all()
    # Concave, and whoever accuses more loses at most the rest.
    slopes = np.diff([bounds.upper for bounds in found[:5]]) / np.diff(rates[:5])
    assert (np.diff(slopes) <= 1e-6).all()


@for_each(
    ("make", "neighbours"),
    [
        (lambda s: ev.Gaussian(s), "add-remove"),
        (lambda s: ev.Laplace(s), "zero-out"),
        (lambda s: ev.Repeat(100, ev.Poisson(0.05, ev.Gaussian(s))), "replace-one"),
        (lambda s: ev.FixedSize(10, 100, ev.Gaussian(s)), "zero-out"),
        (lambda s: ev.Repeat(round(1 / s), ev.Poisson(0.1, ev.Gaussian(1.0))), "add-remove"),
    ],
)
def test_more_noise_and_fewer_rounds_are_less_risk(
    make: Callable[[float], ev.Event], neighbours: Neighbours
) -> None:
    """Of the last event by rounds: two, and one."""
    found = [pp.risk(make(noise), prior=0.4, neighbours=neighbours) for noise in (0.6, 1.0)]
    for name in ("advantage", "tpr", "reconstruction", "mu"):
        less, more = (getattr(each, name) for each in reversed(found))
        assert less.upper < more.upper
        assert less.lower <= more.lower
    assert found[0].bayes_risk.lower < found[1].bayes_risk.lower


def test_composition_of_gaussians_is_one_gaussian() -> None:
    apart = pp.risk(ev.Compose([ev.Gaussian(5.0), ev.Repeat(3, ev.Gaussian(2.0))]))
    holds(apart.mu, math.sqrt(1.0 / 25.0 + 3.0 / 4.0), 1e-10)
    group = pp.risk(ev.Group(4, ev.Gaussian(2.0)))
    holds(group.mu, 2.0, 1e-10)


def test_prior_and_its_mirror_err_alike() -> None:
    # Either data set may be the one that is suspected.
    one, other = (pp.risk(SAMPLED, prior=prior).bayes_risk for prior in (0.3, 0.7))
    assert one.lower == pytest.approx(other.lower, rel=1e-9)
    assert one.upper == pytest.approx(other.upper, rel=1e-9)


def test_extreme_priors() -> None:
    for prior in (1e-300, 1.0 - 2.0**-53):
        found = pp.risk(SAMPLED, prior=prior).bayes_risk
        rarer = min(prior, 1.0 - prior)
        assert 0.99 * rarer <= found.lower <= found.upper <= rarer


@for_each("neighbours", NEIGHBOURS)
def test_each_number_says_what_it_assumes(neighbours: Neighbours) -> None:
    found = pp.risk(ev.Group(3, ev.Gaussian(2.0)), fpr=0.02, neighbours=neighbours)
    assert set(found.assumes) == set(NUMBERS)
    for text in found.assumes.values():
        assert text.count(".") - text.count("0.") == 1  # one sentence, but for numbers
        assert text.endswith(".")
        assert "The attacker knows" in text
        assert "group of 3 records" in text
    assert "in at most a share 0.02 of the innocent cases." in found.assumes["tpr"]
    assert found.neighbours == neighbours
    assert found.derivation


@for_each(
    "event",
    [
        ev.ClientSampled(0.1, ev.Gaussian(1.0)),
        ev.Repeat(5, ev.Group(2, ev.ClientSampled(0.1, ev.Poisson(0.2, ev.Gaussian(1.0))))),
    ],
)
def test_whether_a_client_took_part_is_seen(event: ev.Event) -> None:
    for text in pp.risk(event).assumes.values():
        assert "sees all that is released and whether the client took part" in text
        assert "but no other random draw" in text
    assert "and no random draw" in pp.risk(SAMPLED).assumes["tpr"]


def test_a_client_inside_a_composition_inside_of_a_search_is_seen_too() -> None:
    inside = ev.Compose([ev.Gaussian(9.0), ev.ClientSampled(0.1, ev.Gaussian(9.0))])
    drawn = "whether the client took part, but no other random draw"
    assert hidden_draws_of(ev.BestOf("geometric", 2.0, inside)) == drawn
    assert hidden_draws_of(ev.BestOf("geometric", 2.0, ev.Gaussian(9.0))) == "no random draw"
    always = ev.Compose([ev.Gaussian(9.0), ev.ClientSampled(1.0, ev.Gaussian(9.0))])
    assert hidden_draws_of(ev.BestOf("geometric", 2.0, always)) == "no random draw"


@for_each("rate", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf, "0.1", True, None])
@for_each("field", ["fpr", "prior", "from_fpr"])
def test_rates_and_priors_lie_between_0_and_1(field: str, rate: object) -> None:
    with pytest.raises(InvalidInput, match=f"`{field}`"):
        pp.risk(SAMPLED, **{field: rate})  # type: ignore[arg-type]


@for_each("guesses", [1, 0, -3, 2.5, True, "2", 10**19])
def test_guesses_are_two_or_more(guesses: object) -> None:
    with pytest.raises(InvalidInput, match="`guesses`"):
        pp.risk(SAMPLED, guesses=guesses)  # type: ignore[arg-type]


def test_what_is_no_question_is_refused() -> None:
    with pytest.raises(InvalidInput, match="`from_fpr`"):
        pp.risk(SAMPLED, from_fpr=0.6)
    with pytest.raises(InvalidInput, match="`event`"):
        pp.risk("gaussian")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        pp.risk(SAMPLED, neighbours="add")
    with pytest.raises(Unsupported):
        pp.risk(ev.Shuffle(100, ev.Local(1.0)))
