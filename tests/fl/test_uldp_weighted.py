"""ULDP-AVG and ULDP-SGD: the algorithm, what a user moves, and what each observer sees."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.accountant.sensitivity import uldp
from privplan.fl.settings.schema import SecuritySettings
from privplan.fl.uldp.averaging import USER_SAMPLING_STREAM
from privplan.fl.uldp.naive import UldpNaive
from privplan.fl.uldp.weighted import UldpAvgKnownWeights

from ..cases import for_each


def clipped(vector, bound):
    norm = math.sqrt(sum(float(value) ** 2 for value in vector))
    return vector * min(1.0, bound / norm) if norm else vector


def by_hand(setup, step, models, joined=None):
    """Return the models that the formulas give from each model, one user after the other."""
    own, federation, local = setup.training, setup.federation, setup.local
    rate = setup.privacy.sampling_rate
    after = []
    for number, model in enumerate(models):
        total = np.zeros_like(model)
        for user in range(setup.users):
            records = np.flatnonzero(federation.user == user)
            if joined is not None and not joined[number][user]:
                continue
            for silo in range(setup.silos):
                here = records[federation.silo[records] == silo]
                weight = 1.0 / setup.silos
                if own.weighting == "records":
                    weight = len(here) / max(len(records), 1)
                if step == "average":
                    moved = local.delta(model, here)
                else:
                    moved = -local.gradient(model, here)
                total += weight * clipped(moved, own.clip)
        after.append(model + own.global_rate / (rate * setup.users * setup.silos) * total)
    return after


# The algorithm.


@for_each("step", ["average", "gradient"])
@for_each("weighting", ["uniform", "records"])
def test_without_noise_it_is_the_printed_algorithm(step, weighting, tiny, made_of, run):
    federation = tiny(users=7, silos=3, seed=2)
    setup = made_of(
        "uldp",
        federation,
        noise_multiplier=1e-7,
        training={"weighting": weighting, "clip": 0.05},
    )
    system = UldpAvgKnownWeights(setup, step=step)
    models, log = run(system)
    expected = by_hand(setup, step, models[:-1])
    assert np.allclose(models[1:], expected, rtol=0, atol=2e-7)
    assert not np.allclose(models[1], models[0], atol=1e-3)
    clipped_terms = [one["clipped"] for one in log.sealed]
    assert min(clipped_terms) > 0  # the clip was at work


def test_the_noise_is_what_the_intent_says(tiny, made_of, run):
    federation = tiny(users=2, silos=3, features=400, records=30)
    setup = made_of("uldp-avg", federation, rounds=3, training={"global_rate": 1.0})
    models, log = run(UldpAvgKnownWeights(setup, step="average"))
    quiet = by_hand(setup, "average", models[:-1])
    noise = (np.array(models[1:]) - quiet) * (setup.users * setup.silos)
    stated = log.intents[0].noise
    assert stated.std == 5.0 * 0.25
    assert stated.share_std == pytest.approx(stated.std / math.sqrt(3))
    # 1,200 draws: the sample deviation is within 10% (nearly five standard errors).
    assert noise.std() == pytest.approx(stated.std, rel=0.10)
    assert abs(noise.mean()) < 5 * stated.std / math.sqrt(noise.size)


def test_rounds_use_fresh_noise_and_the_log_follows_the_models(tiny, made_of, run):
    setup = made_of("uldp-avg", tiny(), rounds=3)
    models, log = run(UldpAvgKnownWeights(setup, step="average"))
    spans = [
        (one.stream, one.first, one.last) for release in log.releases for one in release.streams
    ]
    assert len({name for name, _, _ in spans}) == 3  # one stream for each silo
    for name in {name for name, _, _ in spans}:
        own = [(first, last) for stream, first, last in spans if stream == name]
        assert all(first < last for first, last in own)
        assert [first for first, _ in own[1:]] == [last for _, last in own[:-1]]
    assert all(one.shares == 3 and one.draws == 1 for one in log.releases)
    from privplan.fl.frame.model import model_digest

    assert [one.model_in for one in log.intents] == [model_digest(model) for model in models[:-1]]
    assert [one.model_out for one in log.releases] == [model_digest(model) for model in models[1:]]
    assert [one.round for one in log.intents] == [1, 2, 3]
    assert {one.normaliser.value for one in log.releases} == {6 * 3}
    assert {one.normaliser.kind for one in log.releases} == {"constant"}


def test_nothing_from_before_the_noise_is_in_the_log(tiny, made_of, run):
    federation = tiny()
    setup = made_of("uldp-avg", federation, sampling_rate=0.5)
    one = run(UldpAvgKnownWeights(setup, step="average"))[1]
    # Other records, and one user fewer: all that the log says is the same, but digests of noise.
    rng = np.random.default_rng(8)
    other = replace(
        federation.without(2),
        features=rng.normal(size=federation.without(2).features.shape),
    )
    two = run(UldpAvgKnownWeights(made_of("uldp-avg", other, sampling_rate=0.5), step="average"))[1]
    for left, right in zip(one.records, two.records, strict=True):
        hidden = {"model_in", "model_out", "aggregate"}
        assert {k: v for k, v in left.to_json().items() if k not in hidden} == {
            k: v for k, v in right.to_json().items() if k not in hidden
        }
    assert one.sealed != two.sealed


# What one user moves.


@pytest.mark.parametrize("step", ["average", "gradient"])
@pytest.mark.parametrize("weighting", ["uniform", "records"])
def test_a_user_moves_the_sum_by_its_own_terms_and_no_more(
    step, weighting, tiny, made_of, run, totals
):
    federation = tiny(users=6, silos=3, seed=5)

    def sums(one):
        setup = made_of("uldp", one, rounds=1, training={"weighting": weighting, "clip": 0.02})
        system = UldpAvgKnownWeights(setup, step=step)
        totals.clear()
        run(system)
        return np.array(totals[0]), system.mechanism(5.0)

    everybody, mechanism = sums(federation)
    for user in range(federation.users):
        moved = everybody - sums(federation.without(user))[0]
        only = federation
        for other in range(federation.users):
            if other != user:
                only = only.without(other)
        alone, _ = sums(only)
        assert np.array_equal(moved, alone)  # integers: nobody else's term changed
        square = sum(int(value) ** 2 for value in moved.sum(axis=0))
        assert 0 < square * Fraction(mechanism.grid) ** 2 <= Fraction(mechanism.bound) ** 2


def test_the_bound_is_attained_by_a_user_in_every_silo(tiny, made_of, run, totals, training):
    federation = tiny(users=4, silos=2, seed=1)
    pulling = replace(federation, features=np.full_like(federation.features, 50.0))
    setup = made_of("uldp-avg", pulling, local=training["linear"], rounds=1)
    system = UldpAvgKnownWeights(setup, step="average")
    run(system)
    everywhere = [u for u in range(4) if (pulling.counts[u] > 0).all()]
    assert everywhere
    together = np.array(totals[0]).sum(axis=0)
    totals.clear()
    setup = replace(setup, federation=pulling.without(everywhere[0]))
    setup = replace(setup, local=training["linear"](setup.federation, setup.training))
    run(UldpAvgKnownWeights(setup, step="average"))
    moved = (together - np.array(totals[0]).sum(axis=0)) * system.mechanism(5.0).grid
    assert np.linalg.norm(moved) == pytest.approx(setup.training.clip, rel=1e-4)


def test_a_user_without_records_and_a_silo_without_users_take_part(tiny, made_of, run, totals):
    federation = tiny(users=3, silos=2, records=12)
    alone = replace(federation, silo=np.where(federation.user == 0, 1, 0))
    gone = alone.without(0)  # silo 1 is empty, and user 0 in no silo
    setup = made_of("uldp-avg", gone, rounds=2)
    models, log = run(UldpAvgKnownWeights(setup, step="average"))
    assert all(np.array_equal(sums[1], np.zeros_like(sums[1])) for sums in totals)
    assert any(np.any(sums[0]) for sums in totals)
    assert np.isfinite(models).all()
    assert all(one.shares == 2 for one in log.releases)  # the empty silo adds its noise
    full = run(UldpAvgKnownWeights(made_of("uldp-avg", alone, rounds=2), step="average"))[1]
    assert [one.to_json()["noise"] for one in full.intents] == [
        one.to_json()["noise"] for one in log.intents
    ]


def test_training_that_diverges_counts_as_nothing(tiny, made_of, run, totals, training):
    federation = tiny(users=3, silos=2, records=12)

    class Diverging(training["plain"]):
        def user_deltas(self, parameters, users, number):
            for part in super().user_deltas(parameters, users, number):
                yield replace(part, rows=np.where(part.user[:, None] == 1, np.nan, part.rows))

    def sums(local, one):
        totals.clear()
        run(UldpAvgKnownWeights(made_of("uldp-avg", one, local=local, rounds=1), step="average"))
        return np.array(totals[0])

    without = sums(training["plain"], federation.without(1))
    assert np.array_equal(sums(Diverging, federation), without)


# Sampled users.


def test_users_join_as_often_as_the_rate_says_and_in_all_silos_alike(tiny, made_of, run, training):
    federation = tiny(users=40, silos=3, records=200)
    seen = []

    class Watched(training["plain"]):
        def user_deltas(self, _, users, number):
            seen.extend((number, silo, those.copy()) for silo, those in enumerate(users))
            return iter(())

    rounds, rate = 200, 0.3
    setup = made_of("uldp-avg", federation, local=Watched, rounds=rounds, sampling_rate=rate)
    _, log = run(UldpAvgKnownWeights(setup, step="average"))
    joined = np.zeros((rounds, 40), bool)
    for number, silo, users in seen:
        here = np.flatnonzero(federation.counts[:, silo])
        assert set(users) <= set(here)
        joined[number - 1, users] = True
    for number, silo, users in seen:
        here = federation.counts[:, silo] > 0
        assert np.array_equal(users, np.flatnonzero(joined[number - 1] & here))
    often = joined.sum()
    spread = math.sqrt(rounds * 40 * rate * (1 - rate))
    assert abs(often - rounds * 40 * rate) < 5 * spread
    # Rounds and users are drawn independently: no two rounds alike, and no user always there.
    assert len({row.tobytes() for row in joined}) == rounds
    assert 0 < joined.sum(axis=0).min() <= joined.sum(axis=0).max() < rounds
    assert {one.normaliser.value for one in log.releases} == {rate * 40 * 3}


def test_sampled_rounds_are_the_printed_algorithm(tiny, made_of, run, monkeypatch):
    from privplan.fl.uldp import averaging

    drawn, original = [], averaging.poisson

    def watched(stream, count, rate):
        drawn.append(original(stream, count, rate))
        return drawn[-1]

    monkeypatch.setattr(averaging, "poisson", watched)
    setup = made_of(
        "uldp-avg",
        tiny(users=8, seed=3),
        noise_multiplier=1e-7,
        sampling_rate=0.4,
        training={"weighting": "records"},
    )
    models, _ = run(UldpAvgKnownWeights(setup, step="average"))
    expected = by_hand(setup, "average", models[:-1], drawn)
    assert np.allclose(models[1:], expected, rtol=0, atol=2e-7)


def test_the_sample_comes_from_the_protected_streams(tiny, made_of, run):
    from privplan.accountant.randomness import Streams

    setup = made_of("uldp-avg", tiny(), sampling_rate=0.5, rounds=2)
    _, log = run(UldpAvgKnownWeights(setup, step="average"), seed=6)
    name = Streams.seeded(6).stream(USER_SAMPLING_STREAM).id
    spans = [one for release in log.releases for one in release.streams if one.stream == name]
    assert [(one.first, one.last) for one in spans] == [(0, 48), (48, 96)]  # 6 words of 8 bytes
    assert log.intents[0].sampling.drawn_by == "server"
    assert log.intents[0].sampling.rate == 0.5


# What is promised.


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("weighting", ["uniform", "records"])
@for_each("silos", [2, 5])
@for_each("rate", [1.0, 0.3])
def test_every_view_is_the_formula(neighbours, weighting, silos, rate, tiny, made_of, run):
    setup = made_of(
        "uldp-avg",
        tiny(silos=silos),
        rounds=2,
        neighbours=neighbours,
        sampling_rate=rate,
        training={"weighting": weighting},
    )
    system = UldpAvgKnownWeights(setup, step="average")
    worst = uldp.worst_weights(silos)
    common = {"rounds": 1, "neighbours": neighbours}
    model = uldp.weighted_release(5.0, weights=worst, rate=rate, **common).event
    split = worst if weighting == "records" else np.full((1, silos), 1.0 / silos)
    server = uldp.weighted_release(5.0, weights=split, together=False, **common).event
    inside = {"silos": silos, "weighting": weighting, **common}
    silo = uldp.insider_release(5.0, holds_user=False, **inside).event
    holds = {} if weighting == "uniform" else {"silo-with-records": uldp.CLEAR_WEIGHTS}
    views = system.views(5.0)
    assert views["model"] == model
    assert views["silo"] == silo
    assert views["server"].noise_multiplier <= server.noise_multiplier
    assert views["server"].noise_multiplier == pytest.approx(server.noise_multiplier, rel=1e-15)
    assert model == (ev.Gaussian(5.0) if rate == 1.0 else ev.Poisson(rate, ev.Gaussian(5.0)))
    intent = run(system, rounds=1)[1].intents[0]
    assert intent.event == model
    assert dict(intent.views) == {"server": views["server"], "silo": silo, **holds}
    reach = 2 if neighbours == "replace-one" else 1
    assert intent.sensitivity == reach * 0.25
    assert intent.weights.rule == weighting


def test_the_server_learns_more_from_record_weights(tiny, made_of):
    common = {"silos": 4, "users": 6}
    views = {
        rule: UldpAvgKnownWeights(
            made_of("uldp-avg", tiny(**common), training={"weighting": rule}), step="average"
        ).views(5.0)
        for rule in ("uniform", "records")
    }
    assert views["uniform"]["server"].noise_multiplier == pytest.approx(5.0)
    assert views["records"]["server"].noise_multiplier == pytest.approx(2.5)
    assert views["uniform"]["silo"].noise_multiplier == pytest.approx(5.0 * math.sqrt(4 / 3))
    assert views["records"]["silo"].noise_multiplier == pytest.approx(5.0 * math.sqrt(3 / 4))


@for_each(("rounds", "expected"), [(50, 6.57), (100, 10.00), (200, 15.46)])
def test_epsilon_of_noise_5(rounds, expected, tiny, made_of):
    system = UldpAvgKnownWeights(made_of("uldp-avg", tiny(silos=4), rounds=rounds), step="average")
    epsilon = system.plan().guarantees["model"].epsilon
    assert epsilon.upper == pytest.approx(expected, abs=0.005)
    claim = system.opening().claim
    assert epsilon.upper <= claim.epsilon <= epsilon.upper * (1 + 1e-5)
    assert (claim.unit, claim.observer, claim.neighbours) == ("user", "model", "add-remove")


@for_each(("rate", "expected"), [(0.1, 0.758), (0.3, 2.53), (0.5, 4.49), (0.7, 6.59)])
def test_epsilon_of_sampled_users(rate, expected, tiny, made_of):
    setup = made_of("uldp-avg", tiny(silos=4), rounds=100, sampling_rate=rate)
    plan = UldpAvgKnownWeights(setup, step="average").plan()
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(expected, rel=2e-3)
    # Who draws the sample, or trains on it, is shown no sample to hide in.
    assert plan.guarantees["server"].epsilon.upper == pytest.approx(10.0, abs=0.005)
    assert plan.guarantees["silo"].epsilon.upper > 8.0


def test_noise_is_found_for_an_epsilon_and_for_the_observer_that_is_named(tiny, made_of):
    setup = made_of("uldp-avg", tiny(), rounds=50, epsilon=8.0, sampling_rate=0.5)
    system = UldpAvgKnownWeights(setup, step="average")
    plan = system.plan()
    assert 7.99 < plan.guarantees["model"].epsilon.upper <= 8.0
    assert system.opening().claim.epsilon == 8.0
    assert plan.guarantees["server"].epsilon.upper > 8.0  # said, not hidden
    noise = plan.noise["train"]
    again = pp.account(ev.Repeat(50, ev.Poisson(0.5, ev.Gaussian(noise))), delta=1e-5)
    assert again.epsilon == plan.guarantees["model"].epsilon
    setup = made_of(
        "uldp-avg",
        tiny(),
        rounds=50,
        epsilon=8.0,
        observer="server",
        training={"weighting": "records"},
    )
    system = UldpAvgKnownWeights(setup, step="average")
    assert 7.99 < system.plan().guarantees["server"].epsilon.upper <= 8.0
    assert system.plan().guarantees["model"].epsilon.upper < 5.0
    assert system.opening().claim.observer == "server"
    with pytest.raises(InvalidInput, match="observer"):
        UldpAvgKnownWeights(made_of("uldp-avg", tiny(), observer="moon"), step="average").plan()


def test_a_budget_cuts_the_rounds_before_the_first(tiny, made_of, run):
    setup = made_of("uldp-avg", tiny(), rounds=50, noise_multiplier=5.0, epsilon=4.0)
    system = UldpAvgKnownWeights(setup, step="average")
    rounds = system.opening().plan.rounds
    assert 0 < rounds < 50
    once_more = pp.account(ev.Repeat(rounds + 1, ev.Gaussian(5.0)), delta=1e-5)
    assert system.plan().guarantees["model"].epsilon.upper <= 4.0 < once_more.epsilon.upper
    models, log = run(system)
    assert len(log.releases) == rounds == len(models) - 1
    from privplan.accountant.odometer import Odometer

    odometer = Odometer.for_plan(system.plan())
    odometer.spend(ev.Repeat(rounds, log.intents[0].event))
    assert odometer.would_exceed(log.intents[0].event)


def test_a_claim_stays_within_its_budget_and_a_single_silo_has_nobody_inside(tiny, made_of, run):
    proven = pp.account(ev.Repeat(4, ev.Gaussian(5.0)), delta=1e-5).epsilon.upper
    for budget in (proven, proven * (1 + 1e-9), 8.0):
        setup = made_of("uldp-avg", tiny(), rounds=4, noise_multiplier=5.0, epsilon=budget)
        opening = UldpAvgKnownWeights(setup, step="average").opening()
        assert opening.plan.rounds == 4
        assert proven <= opening.claim.epsilon <= min(budget, proven * (1 + 1e-5))
    system = UldpAvgKnownWeights(made_of("uldp-avg", tiny(silos=1), rounds=1), step="average")
    assert set(system.plan().guarantees) == {"model", "server"}
    run(system)


def test_budgets_aggregations_and_sums_that_cannot_be_are_refused(tiny, made_of):
    setup = made_of("uldp-avg", tiny(), noise_multiplier=5.0, epsilon=0.05)
    with pytest.raises(BudgetExceeded, match="not allow a single round"):
        UldpAvgKnownWeights(setup, step="average").plan()
    security = SecuritySettings(aggregation="private-weighting")
    setup = replace(made_of("uldp-avg", tiny()), security=security)
    with pytest.raises(Unsupported, match="private-weighting"):
        UldpAvgKnownWeights(setup, step="average")
    setup = made_of("uldp-avg", tiny(), noise_multiplier=1e-13)
    with pytest.raises(InvalidInput):
        UldpAvgKnownWeights(setup, step="average").mechanism(1e-13)


@for_each(
    ("wrong", "error"),
    [
        ({"unit": "record"}, InvalidInput),
        ({"neighbours": "zero-out"}, InvalidInput),
    ],
)
def test_what_it_does_not_protect_is_refused(wrong, error, tiny, made_of):
    with pytest.raises(error):
        UldpAvgKnownWeights(made_of("uldp-avg", tiny(), **wrong), step="average")


# What nobody is told.


@for_each("name", ["uldp-avg", "uldp-naive"])
def test_no_warning_tells_that_an_update_was_huge(name, tiny, made_of, run):
    setup = made_of(name, tiny(), rounds=1)
    large = _Large(setup.local)
    object.__setattr__(setup, "local", large)
    system = (
        UldpNaive(setup) if name == "uldp-naive" else UldpAvgKnownWeights(setup, step="average")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, log = run(system)
    assert log.sealed[0]["not_finite"] > 0  # only the sidecar knows


class _Large:
    """Training whose updates are finite, and their squares are not."""

    def __init__(self, local):
        self._local = local

    def __getattr__(self, name):
        return getattr(self._local, name)

    def user_deltas(self, *given):
        for part in self._local.user_deltas(*given):
            yield replace(part, rows=part.rows * 1e300)

    def silo_deltas(self, *given):
        return self._local.silo_deltas(*given) * 1e300
