"""What a rehearsal is worth: sound mechanisms pass, and broken ones do not."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

from privplan import account
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.canaries import CanaryRehearsal, claim_tier, rehearse, robust_tier
from privplan.audit.canaries.rehearsal import fisher_weights, likelihood_ratios
from privplan.audit.canaries.robust_tier import AGAINST_ANY, AGAINST_CURVE, _GuessTest
from privplan.audit.canaries.selection import (
    choose_test,
    correct_guesses,
    expected_accuracy,
    guess_count,
)
from privplan.audit.measurement import (
    CALL_ERROR_PROBABILITY,
    STRICT_LEVELS,
    VERDICTS,
    Levels,
    levels_of,
)
from privplan.audit.statistics import claim_rank, steinke
from privplan.fl.settings.schema import PrivacySettings
from privplan.fl.uldp import weighted as product

from ..cases import for_each
from ..chance import limits
from .test_canaries_rehearsal import settings

FULL = {"noise": 4.0, "rounds": 8, "rate": 1.0}  # epsilon 3
SAMPLED = {"noise": 1.0, "rounds": 12, "rate": 0.2}  # epsilon 6


def made(units, seed, *, noise, rounds, rate, times=1.0, groups=None, same=False, clip=1.0):
    """Return a rehearsal of the claimed mechanism, its noise multiplied by `times` for some units.

    `same` uses the noise of the first round in every round, `clip` is how far a unit moves.
    """
    rng = np.random.default_rng(seed)
    coins = rng.random(units) < 0.5
    event = ev.Gaussian(noise)
    whole = ev.Repeat(rounds, event if rate == 1.0 else ev.Poisson(rate, event))
    drawn = rng.standard_normal((rounds, units))
    if same:
        drawn = drawn[0] * np.where(np.arange(rounds) % 2, -1.0, 1.0)[:, None]
    there = rng.random((rounds, units)) < rate
    seen = times * drawn + coins * there * clip / noise
    return CanaryRehearsal(
        system="made-up",
        observer="model",
        unit="user",
        neighbours="add-remove",
        delta=1e-5,
        event=whole,
        claimed=account(whole, delta=1e-5).epsilon.upper,
        coins=coins,
        observations=seen,
        shift=1.0 / noise,
        rate=rate,
        groups=np.full(units, -1) if groups is None else groups,
    )


@for_each(("own", "runs"), [(FULL, 16), (SAMPLED, 2)], ids=["full", "sampled"])
def test_a_sound_mechanism_is_rarely_contradicted(own, runs):
    """More than `most` runs are called unusual once in 10^6, and none is contradicted.

    A contradiction is one in 2,500 of sound runs; the seeds are fixed.
    """
    most = limits(binom(runs, 0.05))[1]
    found = [made(300, seed, **own) for seed in range(runs)]
    claims = [claim_tier(one) for one in found]
    assert not any(one.contradicted for one in claims)
    assert sum(one.unusual for one in claims) <= most
    assert not any(one.value > one.claimed and not one.unusual for one in claims)
    bounds = [robust_tier(one) for one in found[:1]]
    assert not any(one.verdict != "not-contradicted" for one in bounds)
    assert all(one.value < one.claimed for one in bounds)


@for_each("own", [FULL, SAMPLED], ids=["full", "sampled"])
def test_half_the_noise_is_caught(own):
    found = claim_tier(made(2500, 1, **own, times=0.5))
    assert found.contradicted
    assert found.value > found.claimed
    assert "not the claimed mechanism" in found.proves
    assert found.sample["noise factor"] < 1.0


def test_what_is_used_again_cancels_out():
    """The ratio of the claim believes in rounds of fresh noise; their sum does not."""
    for own in (FULL, SAMPLED):
        found = claim_tier(made(2000, 2, **own, same=True))
        assert found.contradicted
        assert found.value > 3.0 * found.claimed


@for_each("times", [0.4, 0.6, 1.0])
def test_what_is_above_the_claim_is_unusual_and_at_the_strict_level_contradicted(times):
    """A sentence, a number and a verdict never disagree, however little is wrong."""
    seen = set()
    for seed in range(12):
        found = claim_tier(made(700, seed, **FULL, times=times), seed=seed)
        seen.add(found.verdict)
        assert (found.value > found.claimed) <= (found.verdict != "not-contradicted")
        assert ("not the claimed mechanism" in found.proves) == found.contradicted
        assert ("may be chance" in found.proves) == found.unusual
        assert "accusation" not in found.proves  # which another tier may make
        assert (found.confidence, found.level) == (0.95, 0.0004)
    expected = {0.4: {"contradicted"}, 0.6: set(VERDICTS), 1.0: {"not-contradicted"}}
    assert seen == expected[times]


@for_each("test", [claim_tier, robust_tier])
def test_a_published_number_is_contradicted_by_the_number_alone(test):
    """The mechanism is that of the event, and its paper claims less of it than it shows."""
    own = made(2000, 6, **FULL)
    found = test(replace(own, claimed=0.25))
    assert (found.verdict, test(own).verdict) == ("contradicted", "not-contradicted")
    assert found.value > found.claimed
    assert "not the claimed mechanism" not in found.proves
    assert "not contradicted" not in found.proves


def test_the_levels_of_a_tier_sum_to_its_alpha():
    """So whatever is said of a sound mechanism is said with probability alpha at most."""
    for tier, strict in STRICT_LEVELS.items():
        assert levels_of(tier, 0.05) == Levels(strict, 0.05 - strict)
        assert levels_of(tier, 1e-6) == Levels(5e-7, 5e-7)
    assert sum(STRICT_LEVELS.values()) == pytest.approx(CALL_ERROR_PROBABILITY)
    assert "membership" not in STRICT_LEVELS  # its estimates accuse nobody


def test_each_level_has_a_threshold_of_its_own_which_the_claim_fixes():
    """The number of false alarms that is allowed, and of guesses, falls with the level."""
    own = made(2000, 6, **FULL)
    ranks = [claim_rank(own.event, "add-remove", 1000, 1000, level) for level in (0.0248, 0.0002)]
    assert ranks[0] != ranks[1]
    other = made(2000, 7, **FULL, times=0.1)
    for level in (0.0248, 0.0002):
        guessed = [
            _GuessTest(one, 1e-5, expected_accuracy(one)).against_curve(level)[1]["guesses"]
            for one in (own, other)
        ]
        assert guessed[0] == guessed[1]


def test_too_few_canaries_to_contradict_say_so():
    own = {**FULL, "noise": 1.0}
    few, enough = (claim_tier(made(units, 3, **own, clip=100.0)) for units in (200, 400))
    assert (few.verdict, enough.verdict) == ("unusual", "contradicted")
    (said,) = (one for one in few.assumes if "contradict nothing at 1 in 2,500" in one)
    assert 200 < int(said.split(": ")[1].split()[0]) <= 400
    assert not any("contradict nothing" in one for one in enough.assumes)


def test_a_silo_with_less_noise_is_found_among_the_others():
    groups = np.arange(3000) % 5
    found = claim_tier(made(3000, 3, **FULL, times=np.where(groups == 2, 0.2, 1.0), groups=groups))
    assert found.contradicted
    assert found.sample["group"] == "silo-2"


def test_rows_that_are_not_clipped_are_seen_by_both_tiers():
    broken = made(1000, 4, **FULL, clip=10.0)
    claim, robust = claim_tier(broken), robust_tier(broken)
    assert claim.contradicted
    assert robust.contradicted
    assert robust.sample["epsilon of any mechanism"] > robust.claimed


def test_what_is_chosen_on_some_units_is_counted_on_others():
    own = made(1000, 5, **FULL)
    choice = choose_test(own, alpha=0.025, rng=np.random.default_rng(7))
    looking = np.random.default_rng(7).random(1000) < 0.3
    assert choice.counts.positives == int((own.coins & ~looking).sum())
    assert choice.counts.negatives == int((~own.coins & ~looking).sum())
    # Whatever happens to the units that are counted, the choice stays what it is.
    seen = own.observations.copy()
    seen[:, ~looking] = 0.0
    other = choose_test(replace(own, observations=seen), alpha=0.025, rng=np.random.default_rng(7))
    assert (other.statistic, other.group, other.threshold) == (
        choice.statistic,
        choice.group,
        choice.threshold,
    )


def test_how_much_is_guessed_depends_on_the_claim_alone():
    one, two = made(2000, 6, **FULL), made(2000, 7, **FULL, times=0.1)
    assert (expected_accuracy(one) == expected_accuracy(two)).all()
    guesses = [
        guess_count(own, expected_accuracy(own), lambda few, right: right - 0.8 * few)
        for own in (one, two)
    ]
    assert guesses[0] == guesses[1]
    assert robust_tier(one).sample["guesses"] == robust_tier(two).sample["guesses"]


def test_the_surest_are_guessed():
    scores = np.array([3.0, -2.5, 0.1, -0.2, 2.0])
    coins = np.array([True, False, False, True, False])
    assert [correct_guesses(scores, coins, guesses) for guesses in (1, 2, 3, 5)] == [1, 2, 2, 2]


@for_each("opposite", [False, True])
@for_each("rate", [1.0, 0.3])
def test_the_ratio_is_that_of_two_densities(rate, opposite):
    seen = np.random.default_rng(1).normal(size=(3, 5)) * 2.0
    shift, away = 0.7, -0.7 if opposite else 0.0

    def density(mean):
        return rate * norm.pdf(seen, mean) + (1.0 - rate) * norm.pdf(seen)

    wanted = np.log(density(shift) / density(away)).sum(axis=0)
    assert likelihood_ratios(seen, shift, rate, opposite=opposite) == pytest.approx(
        wanted, abs=1e-12
    )


def test_a_fit_weighs_rounds_by_their_noise():
    """Fisher's weights are inverse to the variances: 4 to 1, to 20% with 4,000 units."""
    rng = np.random.default_rng(2)
    coins = rng.random(4000) < 0.5
    seen = rng.standard_normal((2, 4000)) * np.array([[1.0], [2.0]]) + coins
    weights = fisher_weights(seen, coins)
    assert weights[0] / weights[1] == pytest.approx(4.0, rel=0.2)
    assert fisher_weights(seen[:, :30], coins[:30]) is None


def test_weights_that_are_missing_show_where_a_unit_lies_in_every_silo(monkeypatch):
    """Each silo adds all of a clip then; a unit in one silo has weight 1 in any case."""
    own = settings(rounds=3, noise=4.0)
    sound = rehearse(own, canaries=800, seed=1)
    assert not claim_tier(sound).contradicted
    monkeypatch.setattr(product, "user_weights", lambda _, counts: (counts > 0).astype(float))
    monkeypatch.setattr(product, "checked_weights", lambda weights: weights)
    broken = rehearse(own, canaries=800, seed=1)
    mean = broken.observations[:, broken.coins].mean()
    assert mean == pytest.approx(3.0 * broken.shift, rel=0.2)
    found = claim_tier(broken)
    assert found.contradicted
    in_one = rehearse(own, canaries=800, observer="server", seed=1)
    assert in_one.observations[:, in_one.coins].mean() == pytest.approx(in_one.shift, rel=0.2)


def test_a_rehearsal_becomes_two_measurements_that_say_what_they_prove():
    own = replace(settings(rounds=8), privacy=PrivacySettings(epsilon=4.0))
    rehearsal = rehearse(own, canaries=4000, seed=3)
    claim, robust = claim_tier(rehearsal), robust_tier(rehearsal)
    assert rehearsal.claimed == pytest.approx(4.0, rel=1e-3)
    assert 0.7 * claim.claimed < claim.value < claim.claimed
    assert 0.3 * robust.claimed < robust.value < claim.value
    for one, tier in ((claim, "claim"), (robust, "robust")):
        assert (one.tier, one.kind, one.contradicted) == (tier, "lower-bound", False)
        assert (one.observer, one.unit, one.confidence) == ("model", "user", 0.95)
        assert set(rehearsal.note) <= set(one.assumes)
        assert {"roc", "trade-off"} <= set(one.curves)
        json.dumps(one.to_json())
    assert "not contradicted" in claim.proves
    assert "Whatever ran" in robust.proves
    larger = claim_tier(rehearsal, delta=1e-3)
    assert larger.claimed < claim.claimed
    assert larger.value < larger.claimed


def test_without_a_claim_there_is_a_bound_and_no_contradiction():
    own = replace(settings("fedavg"), privacy=PrivacySettings(unit=None))
    rehearsal = rehearse(own, canaries=200, seed=1)
    with pytest.raises(InvalidInput, match="Nothing is claimed"):
        claim_tier(rehearsal)
    found = robust_tier(rehearsal)
    assert (found.claimed, found.contradicted) == (None, False)
    # Every guess is right: 100 of them, each with probability e^epsilon / (1 + e^epsilon).
    assert found.sample["right"] == 100
    assert found.value == pytest.approx(-math.log(0.05 ** (-1 / 100) - 1.0), rel=0.1)


def test_too_few_canaries_are_refused_with_how_many_are_needed():
    own = made(20, 1, **{**FULL, "noise": 1.0})
    with pytest.raises(InvalidInput, match="too few for this claim") as error:
        claim_tier(own)
    needed = int("".join(filter(str.isdigit, error.value.next_step)))
    assert 20 < needed < 1000
    claim_tier(made(needed, 1, **{**FULL, "noise": 1.0}))
    with pytest.raises(InvalidInput, match="40 canaries"):
        robust_tier(own)
    with pytest.raises(InvalidInput, match="alpha"):
        claim_tier(made(300, 1, **FULL), alpha=1.0)


def test_noise_that_cannot_be_scaled_leaves_the_bound_of_any_mechanism():
    own = made(400, 1, noise=1.0, rounds=1, rate=1.0)
    small = ev.DiscreteGaussian(1.0, 1)
    found = robust_tier(replace(own, event=small))
    assert found.what == AGAINST_ANY
    assert "Whatever ran" in found.proves
    assert "epsilon of any mechanism" not in found.sample
    assert robust_tier(own).what == AGAINST_CURVE
    guesses, right = found.sample["guesses"], found.sample["right"]
    assert found.value == steinke(400, guesses, right, delta=1e-5, alpha=(0.05 - 0.0002) / 2.0)


def test_which_of_tied_scores_are_guessed_does_not_depend_on_the_coins() -> None:
    """Else ties could be broken in favour of right guesses, and the bound would be too large."""
    rng = np.random.default_rng(5)
    scores = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    coins = rng.random(400) < 0.5
    for guesses in (1, 40, 200, 400):
        right = correct_guesses(scores, coins, guesses)
        assert correct_guesses(scores, ~coins, guesses) == guesses - right
