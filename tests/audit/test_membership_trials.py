"""Intervals of what an attack measured: they cover, and count people."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.audit.attack_methods.membership import Trials
from privplan.audit.attack_methods.membership.trials import area, hits, unsupported

from ..cases import for_each

USERS, TARGETS = 60, 10


def drawn(rng, *, users=USERS, targets=TARGETS, each=1, person=0.0, model=0.0, shift=1.0):
    """Return trials N(shift in + person's effect + model's effect, 1), `each` units a user."""
    user = np.repeat(np.arange(users), each)
    coins = rng.random((targets, users)) < 0.5
    effects = person * rng.normal(size=users)[user] + model * rng.normal(size=(targets, 1))
    scores = rng.normal(size=(targets, len(user))) + effects + shift * coins[:, user]
    return Trials(scores, coins[:, user], user)


def truth(*, person=0.0, model=0.0, shift=1.0, targets=TARGETS):
    """Return the AUC over pairs of different users, of one target or of two."""
    spread = {
        True: np.sqrt(2 * (1 + person**2)),
        False: np.sqrt(2 * (1 + person**2 + model**2)),
    }
    within = 1.0 / targets
    return within * stats.norm.cdf(shift / spread[True]) + (1 - within) * stats.norm.cdf(
        shift / spread[False]
    )


def delong_error(trials):
    """Return the AUC's standard error as if all trials were independent (DeLong et al. 1988)."""
    inside, outside = trials.scores[trials.members], trials.scores[~trials.members]
    wins = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    by_member, by_stranger = wins.mean(axis=1), wins.mean(axis=0)
    return np.sqrt(by_member.var(ddof=1) / len(inside) + by_stranger.var(ddof=1) / len(outside))


def covered(seeds, **effects):
    """Return how often the 95% interval covers, and how often one of independent trials would."""
    ideal = truth(**{name: value for name, value in effects.items() if name != "each"})
    ours = naive = 0
    for seed in range(seeds):
        trials = drawn(np.random.default_rng(seed), **effects)
        found = area(trials)
        ours += found.lower <= ideal <= found.upper
        width = 1.96 * delong_error(trials)
        naive += abs(found.value - ideal) <= width
    return ours / seeds, naive / seeds


@for_each("effects", [{}, {"person": 2.0}, {"model": 1.0}])
def test_the_interval_of_the_area_covers(effects):
    # At a true coverage of .95, 200 draws give below .90 once in 400.
    assert covered(200, **effects)[0] >= 0.90


@pytest.mark.slow
def test_records_of_one_person_taken_as_independent_would_not():
    ours, naive = covered(200, each=8, person=1.0)
    assert ours >= 0.90
    assert naive < 0.85


def test_records_of_one_user_are_no_more_than_one_user():
    rng = np.random.default_rng(0)
    coins = rng.random((1, 100)) < 0.5
    scores = rng.normal(size=(1, 100)) + coins
    one = Trials(scores, coins, np.arange(100))
    copied = Trials(
        np.repeat(scores, 20, 1), np.repeat(coins, 20, 1), np.repeat(np.arange(100), 20)
    )
    assert copied.users == one.users == 100
    narrow, wide = area(copied), area(one)
    assert narrow.value == pytest.approx(wide.value)
    assert narrow.upper - narrow.lower > 0.12  # 2,000 independent records would give .05
    effective = hits(copied, 0.1).effective
    assert effective <= 1.3 * coins.sum()


@for_each("effects", [{}, {"person": 1.0}])
def test_the_interval_of_the_hits_covers_the_rate_at_its_threshold(effects):
    spread = np.sqrt(1 + effects.get("person", 0.0) ** 2)
    inside = false_alarms = 0
    for seed in range(200):
        found = hits(drawn(np.random.default_rng(seed), targets=20, **effects), 0.05)
        rate = stats.norm.sf(found.threshold, 1.0, spread)
        inside += found.lower <= rate <= found.upper
        false_alarms += stats.norm.sf(found.threshold, 0.0, spread) <= found.fpr_upper
    assert inside >= 0.90 * 200
    assert false_alarms >= 0.93 * 200  # stated 98.3%


def test_with_one_trial_a_user_it_is_clopper_and_pearson():
    rng = np.random.default_rng(3)
    members = np.arange(400) < 200
    trials = Trials((rng.normal(size=400) + members)[None], members[None], np.arange(400))
    assert trials.independent
    found = hits(trials, 0.01)
    outside = np.sort(trials.scores[~trials.members])
    assert found.threshold == outside[-3]  # two of 200 are above it
    said = int((trials.scores[trials.members] > found.threshold).sum())
    exact = stats.binomtest(said, 200).proportion_ci(1 - 2 * 0.05 / 3, "exact")
    assert (found.lower, found.upper) == pytest.approx((exact.low, exact.high))
    assert found.fpr_upper == pytest.approx(stats.beta.ppf(1 - 0.05 / 3, 3, 198))


@for_each(("strangers", "fpr"), [(99, 0.01), (999, 0.001)])
def test_hits_at_fewer_false_alarms_than_can_be_seen_are_refused(strangers, fpr):
    scores = np.arange(float(strangers + 11))
    few = np.arange(strangers + 11) >= strangers
    trials = Trials(scores[None], few[None], np.arange(len(scores)))
    with pytest.raises(InvalidInput, match=f"takes {strangers + 1} non-members"):
        hits(trials, fpr)
    enough = np.arange(strangers + 11) > strangers
    assert unsupported(Trials(scores[None], enough[None], np.arange(len(scores))), fpr) is None


def test_ties_at_the_threshold_are_no_hits():
    members = np.array([[True] * 50 + [False] * 200])
    scores = np.zeros((1, 250))
    found = hits(Trials(scores, members, np.arange(250)), 0.01)
    assert found.value == 0.0
    assert area(Trials(scores, members, np.arange(250))).value == pytest.approx(0.5)


@for_each("targets", [1, 3])
def test_a_perfect_score_has_no_perfect_interval(targets):
    members = np.tile(np.arange(40) < 20, (targets, 1))
    trials = Trials(members.astype(float), members, np.arange(40))
    found = area(trials)
    assert found.value == 1.0
    assert 0.5 < found.lower < 0.95
    reverse = area(Trials(-members.astype(float), members, np.arange(40)))
    assert reverse.value == 0.0
    assert 0.05 < reverse.upper < 0.5


@for_each(
    ("scores", "members", "match"),
    [
        ([[1.0, np.nan]], [[True, False]], "NaN"),
        ([[1.0, 2.0]], [[True, True]], "no strangers"),
        ([[1.0, 2.0]], [[False, False]], "no members"),
        ([[1.0, 2.0]], [[True], [False]], "one shape"),
        ([[1.0, 2.0]], [[1, 0]], "one shape"),
    ],
)
def test_scores_that_tell_nothing_are_refused(scores, members, match):
    with pytest.raises(InvalidInput, match=match):
        Trials(np.array(scores), np.array(members), np.arange(2))
