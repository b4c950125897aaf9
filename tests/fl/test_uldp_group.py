"""ULDP-GROUP: the algorithm, its samples, and what a user of k records is promised."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.fl.uldp import group as module
from privplan.fl.uldp.group import UldpGroup

from ..cases import for_each

EVERYBODY = ("model", "server", "silo", "silo-with-records")


def clipped(vector, bound):
    size = math.sqrt(sum(float(value) ** 2 for value in vector))
    return vector * min(1.0, bound / size) if size else vector


@pytest.fixture
def drawn(monkeypatch):
    """Return a list that collects the samples of records: those of all steps of a silo in one."""
    seen, original = [], module.poisson

    def watched(stream, count, rate):
        seen.append(original(stream, count, rate))
        return seen[-1]

    monkeypatch.setattr(module, "poisson", watched)
    return seen


def small(tiny, made_of, *, group=3, **changes):
    return made_of("uldp-group", tiny(users=6, silos=2, records=36), group=group, **changes)


# The algorithm.


def test_without_noise_it_is_the_printed_algorithm(tiny, made_of, run, drawn):
    setup = small(tiny, made_of, noise_multiplier=1e-7, rounds=2, training={"clip": 0.1})
    system = UldpGroup(setup, seed=4)
    models, _ = run(system)
    own, federation, samples = setup.training, setup.federation, iter(by_step(drawn, system))
    q, nominal = 4 / 9, 3 * 6 / 2
    assert (system.rate, system.steps) == (pytest.approx(q), 2 * 3)
    flags = module.records_taking_part(federation, 3, 4)
    for before, after in itertools.pairwise(models):
        moved = np.zeros_like(before)
        for silo in range(2):
            records = np.flatnonzero(flags & (federation.silo == silo))
            model = before.copy()
            for _ in range(6):
                total = np.zeros_like(model)
                for record, joins in zip(records, next(samples), strict=True):
                    if joins:
                        gradient = setup.local.gradient(model, np.array([record]))
                        total += clipped(gradient, own.clip)
                model -= own.local_rate / (q * nominal) * total
            moved += model - before
        assert np.allclose(after, before + own.global_rate / 2 * moved, rtol=0, atol=1e-6)
    assert next(samples, None) is None


def by_step(drawn, system):
    """Return each sample of records by itself, by round, silo and step."""
    return [one for mask in drawn for one in mask.reshape(system.steps, len(mask) // system.steps)]


def test_every_step_in_every_silo_has_the_noise_that_is_stated(tiny, made_of, run, training):
    class Still(training["plain"]):
        def initial(self):
            return np.zeros(400)

        def record_gradients(self, models, chosen, _):
            return np.zeros((len(chosen), models.shape[1]))

    setup = small(tiny, made_of, local=Still, rounds=2, training={"global_rate": 1.0})
    system = UldpGroup(setup)
    models, log = run(system)
    steps = system.steps
    std = 0.5 / system.constant * 5.0 * 0.25 * math.sqrt(steps * 2) / 2  # mean of two silos
    # 800 draws: five standard errors are 12.5%.
    assert np.diff(models, axis=0).std() == pytest.approx(std, rel=0.125)
    assert [one.noise.draws for one in log.intents] == [steps, steps]
    assert {one.noise.std for one in log.intents} == {1.25}
    assert {one.draws for one in log.releases} == {steps}


def test_samples_are_poisson_and_may_be_empty(tiny, made_of, run, drawn, totals):
    setup = small(tiny, made_of, rounds=20)
    system = UldpGroup(setup, rate=0.1)
    run(system)
    assert system.steps == 2 * 10
    samples = by_step(drawn, system)
    assert len(samples) == 20 * 2 * system.steps
    sizes = np.array([sample.size for sample in samples])
    counts = np.array([sample.sum() for sample in samples])
    expected, spread = 0.1 * sizes.sum(), math.sqrt(0.09 * sizes.sum())
    assert abs(counts.sum() - expected) < 5 * spread
    assert len(set(counts)) > 3  # Poisson, not a fixed size
    assert (counts == 0).any()
    by_silo = np.moveaxis(np.reshape(totals, (20, system.steps, 2, -1)), 1, 2)
    sums = by_silo.reshape(len(samples), -1)
    empty = sums[counts == 0]
    assert empty.size
    assert np.any(sums[counts > 0])
    assert not np.any(empty)  # noise is all that such a step releases


def test_the_sum_is_divided_by_public_constants_and_a_large_sample_summed_in_parts(
    tiny, made_of, run, monkeypatch
):
    setup = small(tiny, made_of, rounds=1, training={"clip": 0.1})
    whole = run(UldpGroup(setup, rate=0.9))[0]
    monkeypatch.setattr(module, "_MAX_NUMBERS_AT_ONCE", 3 * 4)  # three records at once
    assert np.array_equal(run(UldpGroup(setup, rate=0.9))[0], whole)
    setup = small(tiny, made_of, rounds=1)
    fewer = replace(setup, federation=setup.federation.without(0))
    values = {run(UldpGroup(one))[1].releases[0].normaliser for one in (setup, fewer)}
    assert {(one.kind, one.value) for one in values} == {("constant", 4.0)}


def test_nothing_from_before_the_noise_is_in_the_log(tiny, made_of, run):
    """Neither the number of records, nor of those that were drawn, shows in the streams."""
    logs = []
    federation = tiny(users=6, silos=2, records=36)
    for one in (federation, federation.without(1)):
        logs.append(run(UldpGroup(made_of("uldp-group", one, group=3, rounds=2)))[1])
    for left, right in zip(logs[0].records, logs[1].records, strict=True):
        hidden = {"model_in", "model_out", "aggregate"}
        assert {k: v for k, v in left.to_json().items() if k not in hidden} == {
            k: v for k, v in right.to_json().items() if k not in hidden
        }


def test_an_empty_silo_takes_all_its_noisy_steps(tiny, made_of, run, totals):
    federation = tiny(users=3, silos=2, records=12)
    gone = replace(federation, silo=np.where(federation.user == 0, 1, 0)).without(0)
    system = UldpGroup(made_of("uldp-group", gone, group=2, rounds=1))
    models, _ = run(system)
    assert len(totals) == system.steps
    assert np.any([sums[0] for sums in totals])
    assert not np.any([sums[1] for sums in totals])
    assert np.isfinite(models).all()


def test_a_record_moves_a_step_by_its_own_gradient(tiny, made_of, run, totals, monkeypatch):
    monkeypatch.setattr(module, "poisson", lambda _, count, __: np.ones(count, bool))
    federation = tiny(users=6, silos=2, records=36)

    def first_step(one):
        totals.clear()
        system = UldpGroup(made_of("uldp-group", one, group=3, rounds=1, training={"clip": 0.1}))
        run(system)
        return totals[0], system.mechanism(5.0)

    everybody, mechanism = first_step(federation)
    for user in (0, 3, 5):
        own = module.records_taking_part(federation, 3, 0) & (federation.user == user)
        fewer, _ = first_step(federation.without(user))
        size = 0.0
        for silo in range(2):
            moved = (everybody[silo] - fewer[silo]) * mechanism.grid
            records = np.flatnonzero(own & (federation.silo == silo))
            local = made_of("uldp-group", federation).local
            terms = [clipped(local.gradient(local.initial(), np.array([r])), 0.1) for r in records]
            assert np.allclose(moved, np.sum(terms, axis=0) if terms else 0.0, atol=1e-6)
            size += np.linalg.norm(moved)
        assert 0 < size <= 3 * 0.1


# What is promised.


@for_each("size", [2, 5, 8])
def test_every_view_is_the_records_event_and_the_promise_the_groups(size, tiny, made_of, run):
    setup = small(tiny, made_of, group=size, rounds=3)
    system = UldpGroup(setup, rate=0.25)
    step = ev.Poisson(0.25, ev.Gaussian(5.0))
    record = ev.Repeat(8, step)
    assert dict(system.views(5.0)) == dict.fromkeys(EVERYBODY, record)
    intent = run(system, rounds=1)[1].intents[0]
    assert intent.event == record
    assert (intent.contribution.unit, intent.sampling.of) == ("record", "record")
    assert (intent.sampling.rate, intent.sampling.drawn_by) == (0.25, "silos")
    assert intent.sampling.chosen_by == "each-silo"
    plan = system.plan()
    again = pp.account(ev.Group(size, ev.Repeat(24, step)), delta=1e-5)
    for whom in EVERYBODY:
        assert plan.guarantees[whom].epsilon == again.epsilon
    claim = system.opening().claim
    assert (claim.unit, claim.group) == ("user", size)
    assert again.epsilon.upper <= claim.epsilon <= again.epsilon.upper * (1 + 1e-5)


def test_a_group_of_one_record_and_exchanged_records_are_refused(tiny, made_of):
    """Where the one flagged record goes, another of its user is flagged: the sum moves by 2C."""
    with pytest.raises(InvalidInput, match="two records"):
        UldpGroup(small(tiny, made_of, group=1))
    with pytest.raises(Unsupported, match="add-remove only"):
        UldpGroup(small(tiny, made_of, neighbours="replace-one"))


def test_a_silo_at_rate_one_takes_all_records_in_each_step(tiny, made_of, run, drawn):
    setup = small(tiny, made_of, group=2, rounds=1, training={"batch": 64})
    system = UldpGroup(setup)
    assert (system.rate, system.steps) == (1.0, 2)
    (intent,) = run(system)[1].intents
    assert (intent.sampling.method, intent.sampling.chosen_by) == ("none", "each-silo")
    assert all(sample.all() for sample in drawn)
    assert dict(system.views(5.0))["model"] == ev.Repeat(2, ev.Gaussian(5.0))


def hockey_stick(log_ratio, weight, epsilon):
    """Return the sum of weight (1 - e^(epsilon - loss))_+ over a grid."""
    with np.errstate(over="ignore"):
        return float((weight * np.maximum(0.0, 1.0 - np.exp(epsilon - log_ratio))).sum())


@for_each("sigma", [0.8, 2.0])
@for_each("q", [0.1, 0.5, 0.9])
def test_two_records_in_two_silos_lose_no_more_than_two_in_one(sigma, q):
    """The pair of Bin(2, q) in one sum dominates that of two sums, in both directions."""
    x = np.linspace(-9 * sigma - 2, 9 * sigma + 3, 801)
    width = x[1] - x[0]
    quiet = norm.pdf(x, 0, sigma)
    one = (1 - q) * quiet + q * norm.pdf(x, 1, sigma)
    two = (1 - q) ** 2 * quiet + 2 * q * (1 - q) * norm.pdf(x, 1, sigma)
    two = two + q**2 * norm.pdf(x, 2, sigma)
    apart_with, apart_without = np.outer(one, one) * width**2, np.outer(quiet, quiet) * width**2
    for p, base, both_p, both_base in (
        (two * width, quiet * width, apart_with, apart_without),
        (quiet * width, two * width, apart_without, apart_with),
    ):
        together, apart = np.log(p / base), np.log(both_p / both_base)
        for epsilon in (0.0, 0.1, 0.3, 1.0, 2.0, 4.0):
            assert hockey_stick(apart, both_p, epsilon) <= hockey_stick(together, p, epsilon) + 1e-9


# What is refused.


@for_each("wrong", [{"sampling_rate": 0.5}, {"unit": "record"}])
def test_what_it_has_no_place_for_is_refused(wrong, tiny, made_of):
    with pytest.raises(InvalidInput):
        UldpGroup(small(tiny, made_of, **wrong))


@for_each("rate", [0.0, 1.5, -0.1])
def test_a_rate_out_of_range_is_refused(rate, tiny, made_of):
    with pytest.raises(InvalidInput, match="record_rate"):
        UldpGroup(small(tiny, made_of), rate=rate)
