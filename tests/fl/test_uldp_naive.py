"""ULDP-NAIVE: the algorithm, its worst case, and what it promises, sound and as published."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.claims.uldp_fl import published_user_epsilon
from privplan.accountant.errors import InvalidInput
from privplan.accountant.sensitivity import uldp
from privplan.fl.uldp.naive import UldpNaive

from ..cases import for_each


def clipped(vector, bound):
    norm = math.sqrt(sum(float(value) ** 2 for value in vector))
    return vector * min(1.0, bound / norm) if norm else vector


def by_hand(setup, models):
    own, after = setup.training, []
    for model in models:
        total = np.zeros_like(model)
        for silo in range(setup.silos):
            here = np.flatnonzero(setup.federation.silo == silo)
            total += clipped(setup.local.delta(model, here), own.clip)
        after.append(model + own.global_rate / setup.silos * total)
    return after


def test_without_noise_it_is_the_printed_algorithm(tiny, made_of, run):
    setup = made_of(
        "uldp-naive", tiny(silos=4), noise_multiplier=1e-7, training={"clip": 0.05}, rounds=5
    )
    models, log = run(UldpNaive(setup))
    assert np.allclose(models[1:], by_hand(setup, models[:-1]), rtol=0, atol=1e-6)
    assert {one["clipped"] for one in log.sealed} == {4}


@for_each(("as_published", "times"), [(False, 2.0), (True, 1.0)])
def test_the_noise_is_twice_the_published_one(as_published, times, tiny, made_of, run):
    federation = tiny(users=2, silos=4, features=500, records=20)
    setup = made_of("uldp-naive", federation, rounds=2, training={"global_rate": 1.0})
    models, log = run(UldpNaive(setup, as_published=as_published))
    noise = (np.array(models[1:]) - by_hand(setup, models[:-1])) * setup.silos
    std = times * 5.0 * 0.25 * 4  # sigma C |S|
    assert log.intents[0].noise.std == std
    assert log.intents[0].noise.share_std == std / 2
    # 1,000 draws: five standard errors are 11%.
    assert noise.std() == pytest.approx(std, rel=0.11)


def test_a_user_swings_every_silo_from_one_end_of_the_ball_to_the_other(
    tiny, made_of, run, totals, training
):
    """The others pull each silo by -M, the user by +2M: the sum moves by 2C in every silo."""
    silos, clip = 3, 0.25
    federation = tiny(users=2, silos=silos, records=6, features=1)
    both = replace(
        federation,
        user=np.array([0, 0, 0, 1, 1, 1]),
        silo=np.array([0, 1, 2, 0, 1, 2]),
        features=np.array([[2e3]] * 3 + [[-1e3]] * 3),
    )

    def sums(one):
        totals.clear()
        system = UldpNaive(made_of("uldp-naive", one, local=training["linear"], rounds=1))
        run(system)
        return np.array(totals[0]), system.mechanism(5.0)

    (with_user, mechanism), (without, _) = sums(both), sums(both.without(0))
    moved = (with_user - without) * mechanism.grid
    assert np.allclose(moved, 2.0 * clip, rtol=1e-4)
    assert np.abs(moved).max() <= 2.0 * clip
    truth = uldp.naive_sensitivity(clip, silos).l2
    assert mechanism.sensitivity("add-remove") == truth == 2.0 * clip * silos
    assert abs(moved.sum()) == pytest.approx(truth, rel=1e-4)
    # With the published noise this is twice the sensitivity that its epsilon is made for.
    assert moved.sum() > 1.99 * uldp.naive_sensitivity_as_published(clip, silos)


def test_an_empty_silo_sends_its_noise(tiny, made_of, run, totals):
    federation = tiny(users=3, silos=2, records=12)
    gone = replace(federation, silo=np.where(federation.user == 0, 1, 0)).without(0)
    models, log = run(UldpNaive(made_of("uldp-naive", gone, rounds=2)))
    assert all(not sums[1].any() and sums[0].any() for sums in totals)
    assert np.isfinite(models).all()
    assert all(one.shares == 2 for one in log.releases)


# What is promised.


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("silos", [2, 3, 5])
def test_the_noise_multiplier_that_is_promised_is_honest(neighbours, silos, tiny, made_of, run):
    setup = made_of("uldp-naive", tiny(silos=silos), neighbours=neighbours, rounds=2)
    system = UldpNaive(setup)
    published = 10.0 if neighbours == "add-remove" else 5.0  # the same noise in units of C |S|
    common = {"rounds": 1, "silos": silos, "neighbours": neighbours}
    views = system.views(5.0)
    assert views["model"] == uldp.naive_release(published, **common).event == ev.Gaussian(5.0)
    assert views["server"] == uldp.naive_release(published, together=False, **common).event
    assert views["silo"] == uldp.naive_release(published, seen=silos - 1, **common).event
    intent = run(system, rounds=1)[1].intents[0]
    assert intent.event == ev.Gaussian(5.0)
    assert intent.noise.std == published * 0.25 * silos
    assert intent.sensitivity == 2 * 0.25 * silos
    assert intent.contribution.terms == "silo-delta"
    # However it is cut, the noise covers the sensitivity that many times.
    reach = 2 if neighbours == "replace-one" else 1
    assert intent.noise.std * reach / intent.sensitivity >= 5.0


def test_sound_and_published_epsilon(tiny, made_of):
    common = {"rounds": 100, "noise_multiplier": 5.0}
    sound = UldpNaive(made_of("uldp-naive", tiny(), **common))
    assert sound.plan().guarantees["model"].epsilon.upper == pytest.approx(10.00, abs=0.005)
    assert not sound.opening().as_published
    published = UldpNaive(made_of("uldp-naive", tiny(), **common), as_published=True)
    opening = published.opening()
    assert opening.as_published
    assert opening.claim.epsilon == pytest.approx(10.73, abs=0.005)
    assert opening.claim.epsilon >= published_user_epsilon(100)
    assert published.plan().guarantees["model"].epsilon.upper == math.inf
    # What its noise does prove: 24.38, more than twice the claim.
    halved = pp.account(ev.Repeat(100, ev.Gaussian(2.5)), delta=1e-5)
    assert halved.epsilon.lower > 2 * opening.claim.epsilon


def test_a_run_as_published_says_no_guarantee_in_every_round(tiny, made_of, run):
    setup = made_of("uldp-naive", tiny(), rounds=3)
    _, log = run(UldpNaive(setup, as_published=True))
    assert all(isinstance(one.event, ev.NoGuarantee) for one in log.intents)
    assert all(
        isinstance(view, ev.NoGuarantee) for one in log.intents for view in one.views.values()
    )
    assert all("half" in one.event.reason for one in log.intents)
    # The facts stay true: the bound and the noise are those that were used.
    assert {one.sensitivity for one in log.intents} == {2 * 0.25 * 3}
    assert {one.noise.std for one in log.intents} == {5.0 * 0.25 * 3}


def test_noise_is_found_for_an_epsilon_and_the_published_formula_follows_delta(tiny, made_of):
    opening = UldpNaive(
        made_of("uldp-naive", tiny(), rounds=100, delta=1e-6), as_published=True
    ).opening()
    assert opening.claim.epsilon > 10.74
    system = UldpNaive(made_of("uldp-naive", tiny(), rounds=50, epsilon=8.0))
    assert 7.99 < system.plan().guarantees["model"].epsilon.upper <= 8.0
    noise = system.plan().noise["train"]
    assert system.mechanism(noise).event("add-remove").noise_multiplier >= noise
    with pytest.raises(InvalidInput, match="does not sample"):
        UldpNaive(made_of("uldp-naive", tiny(), sampling_rate=0.5))


@for_each(
    "wrong",
    [
        {"epsilon": 8.0},
        {"epsilon": 8.0, "noise_multiplier": 5.0},
    ],
)
def test_no_budget_is_kept_by_the_published_formula(wrong, tiny, made_of):
    with pytest.raises(InvalidInput, match="as published"):
        UldpNaive(made_of("uldp-naive", tiny(), **wrong), as_published=True)
