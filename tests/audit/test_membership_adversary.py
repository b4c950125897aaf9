"""Membership inference under attack: few people, one model, odd input, records in files."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.attack_methods.membership import (
    Trials,
    measurements,
    membership_tier,
    released_tier,
)
from privplan.audit.attack_methods.membership.results import (
    AttackDescription,
    max_auc,
    max_hit_rate,
)
from privplan.audit.attack_methods.membership.trials import area, hits, unsupported
from privplan.audit.shadows import JoblibExecutor, SerialExecutor
from privplan.fl.running.checkpoint import Checkpoint
from privplan.fl.running.preparation import prepare
from privplan.fl.settings.toml_file import parse

from ..cases import for_each


def configured(*, users=20, more=""):
    """Return settings of a small run without privacy."""
    text = (
        '[run]\nsystem = "fedavg"\nrounds = 1\n'
        f'[data]\nname = "breast-cancer"\nusers = {users}\nsilos = 2\n{more}\n'
    )
    return parse(text.encode(), "test.toml")


def untrained(settings):
    """Return the checkpoint of a run's first model."""
    model = prepare(settings).model
    return Checkpoint("run", 0, model.name, model.initial(0))


def drawn(seed, users, targets, *, person=0.0, model=0.0, shift=0.5):
    """Return trials of which some people, or some targets, look like members anyway."""
    rng = np.random.default_rng(seed)
    coins = rng.random((targets, users)) < 0.5
    effects = person * rng.normal(size=users) + model * rng.normal(size=(targets, 1))
    scores = rng.normal(size=(targets, users)) + effects + shift * coins
    return Trials(scores, coins, np.arange(users))


@for_each(
    ("users", "targets", "fpr", "effects"),
    [
        (60, 40, 0.001, {"person": 3.0}),
        (287, 16, 0.001, {"person": 3.0}),
        (20, 16, 0.01, {"person": 3.0}),
        (287, 16, 0.01, {"model": 1.0}),
    ],
)
def test_the_rate_of_false_alarms_is_not_below_what_new_people_and_models_show(
    users, targets, fpr, effects
):
    # One or two false alarms do not show that they are always the same people's.
    spread = np.sqrt(1.0 + sum(effect**2 for effect in effects.values()))
    wrong = 0
    for seed in range(100):
        trials = drawn(seed, users, targets, **effects)
        if unsupported(trials, fpr) is None:
            found = hits(trials, fpr)
            false_alarms = stats.norm.sf(found.threshold / spread)
            rate = stats.norm.sf((found.threshold - 0.5) / spread)
            wrong += not (false_alarms <= found.fpr_upper and found.lower <= rate <= found.upper)
    assert wrong <= 10  # stated 5%: more than 10 of 100 once in 90


def test_trials_of_few_people_are_not_counted_as_strangers():
    trials = drawn(0, 60, 40, person=3.0)
    assert trials.strangers > 1000
    assert "that are worth" in str(unsupported(trials, 0.001))
    with pytest.raises(InvalidInput, match="that are worth"):
        hits(trials, 0.001)
    assert unsupported(drawn(0, 287, 16), 0.001) is None


@for_each("users", [1, 2, 5])
def test_records_of_few_members_are_few_members(users):
    # One model, 90 records of each member, 114 strangers; AUC .5 over people.
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        user = np.repeat(np.arange(users), 90)
        inside = rng.normal(size=len(user)) + rng.normal(size=users)[user]
        scores = np.concatenate([inside, np.sqrt(2.0) * rng.normal(size=114)])
        people = np.concatenate([user, users + np.arange(114)])
        found = area(Trials(scores[None], (np.arange(len(scores)) < len(user))[None], people))
        covered += found.lower <= 0.5 <= found.upper
    assert covered >= 90


def test_intervals_of_one_model_do_not_speak_of_others():
    for targets, told in ((1, "for this one model"), (3, "for these shadows")):
        rng = np.random.default_rng(0)
        scores, coins = rng.normal(size=(targets, 20)), rng.random((targets, 20)) < 0.5
        first = measurements(
            Trials(scores, coins, np.arange(20) // 2),
            AttackDescription("a", "record", "add-remove"),
        )[0]
        (said,) = [one for one in first.assumes if one.startswith("intervals")]
        assert said.endswith(told)
        assert ("target model" in said) == (targets > 1)


@for_each("q", [1.0, 0.3, 0.05])
@for_each("sigma", [0.5, 2.0])
@for_each("size", [1, 3])
def test_what_a_sampled_claim_allows_is_not_below_what_the_best_attack_reaches(q, sigma, size):
    # Out: N(0, s^2); in: N(j, s^2) with j of `size` records drawn.  The ratio rises in x.
    step: ev.Event = ev.Gaussian(sigma)
    event = step if q == 1.0 else ev.Poisson(q, step)
    event = event if size == 1 else ev.Group(size, event)
    drawn_records = np.arange(size + 1)
    weights = stats.binom.pmf(drawn_records, size, q)
    best = float(weights @ stats.norm.cdf(drawn_records / (sigma * np.sqrt(2.0))))
    assert best <= max_auc(event, "add-remove") + 1e-12 < 1.0 + 1e-9
    for rate in (0.01, 0.001):
        reached = float(weights @ stats.norm.sf(stats.norm.isf(rate) - drawn_records / sigma))
        assert reached <= max_hit_rate(event, "add-remove", rate) + 1e-12


@for_each("seed", [-1, 1.5, "x", True])
def test_seeds_that_are_none_are_refused_before_data_are_read(seed, monkeypatch):
    def never(*_, **__):
        raise AssertionError

    settings = configured()
    checkpoint = untrained(settings)
    monkeypatch.setattr("privplan.fl.running.preparation.prepare", never)
    with pytest.raises(InvalidInput, match="seed"):
        membership_tier(settings, models=6, targets=2, seed=seed)
    with pytest.raises(InvalidInput, match="seed"):
        released_tier(settings, checkpoint, seed=seed)


def test_coins_that_leave_nobody_out_are_refused_before_anything_is_trained(monkeypatch):
    trained = []

    def never(*_, **__):
        trained.append(1)
        raise RuntimeError

    monkeypatch.setattr("privplan.audit.attack_methods.membership.tier.replicas", never)
    settings, refused = configured(users=2), 0
    for seed in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises((InvalidInput, RuntimeError)) as raised:
                membership_tier(settings, models=5, targets=1, seed=seed, executor=SerialExecutor())
        refused += "no strangers" in str(raised.value)
    assert refused
    assert refused + len(trained) == 20


@for_each("users", [1, 2])
def test_users_larger_than_the_test_set_make_no_pseudo_user(users):
    settings = configured(users=users)
    with pytest.raises(InvalidInput, match="too few test records"):
        released_tier(settings, untrained(settings))


def test_a_released_model_of_another_kind_or_one_that_diverged_is_refused():
    settings = configured()
    first = untrained(settings)
    with pytest.raises(InvalidInput, match="kind 'mlp'"):
        released_tier(settings, replace(first, model="mlp"))
    broken = replace(first, parameters=np.full_like(first.parameters, np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInput, match="NaN"):
            released_tier(settings, broken)


def test_processes_are_given_no_records_in_files():
    # Above 1 MB joblib would put an array into a file, which a crash leaves behind.
    assert (
        JoblibExecutor(2).map(partial(isinstance, np.zeros(2**18)), [np.memmap] * 2) == [False] * 2
    )


def test_scores_with_ties_at_the_top_have_no_hits_to_tell():
    # Above the highest score nobody is: 0 hits of 0 false alarms would look like privacy.
    trials = drawn(1, 60, 40)
    capped = Trials(np.minimum(trials.scores, 1.0), trials.members, trials.user)
    assert "worth" in str(unsupported(capped, 0.001))
