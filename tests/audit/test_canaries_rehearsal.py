"""Canaries go through the project's own path, and an observer sees what reaches it, no more."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gaussian
from privplan.accountant.randomness import Streams
from privplan.audit.canaries import rehearse
from privplan.fl.canaries import (
    CANARY_NORM_IN_CLIPS,
    CanaryLocalTraining,
    Coins,
    RehearsalRequest,
    canary_federation,
    carrier_of,
    flip_coins,
)
from privplan.fl.canaries.rehearsal_settings import silos_of
from privplan.fl.running.preparation import prepare
from privplan.fl.settings import schema

from ..cases import for_each
from .rehearsals import VIEWS

FAR = 4.9
"""Standard errors: a sound mean or variance is further off once in a million tests."""


def settings(
    system="uldp-sgd",
    *,
    rounds=4,
    silos=3,
    rule="records",
    neighbours="add-remove",
    rate=1.0,
    aggregation="plain",
    epsilon=None,
    noise=2.0,
    data="breast-cancer",
    clip=0.5,
):
    """Return settings of a small run."""
    return schema.Settings(
        run=schema.RunSettings(system=system, rounds=rounds),
        data=schema.DataSettings(name=data, users=40, silos=silos, allocation="uniform"),
        privacy=schema.PrivacySettings(
            neighbours=neighbours, epsilon=epsilon, noise_multiplier=noise, sampling_rate=rate
        ),
        training=schema.TrainingSettings(
            weighting=rule,
            clip=clip,
            local_rate=0.3,
            global_rate=2.0,
            local_epochs=1,
            batch=8,
            model="logistic",
        ),
        security=schema.SecuritySettings(aggregation=aggregation),
    )


def before_noise(monkeypatch):
    """Return a list that collects each silo's integers before its noise, in the order of draws."""
    seen, share = [], Gaussian.share_steps

    def watched(self, ticket, total, *rest, **named):
        seen.append(total.copy() * self.grid)
        return share(self, ticket, total, *rest, **named)

    monkeypatch.setattr(Gaussian, "share_steps", watched)
    return seen


@for_each("system", ["uldp-avg", "uldp-sgd"])
@for_each("neighbours", ["add-remove", "replace-one"])
def test_a_unit_moves_the_sum_by_the_clip_and_one_that_is_out_by_its_absence(
    monkeypatch, system, neighbours
):
    totals = before_noise(monkeypatch)
    own = settings(system, neighbours=neighbours)
    rehearsal = rehearse(own, canaries=50, seed=3)
    asked = RehearsalRequest(own, "model", 50, 3, seed=3)
    coins = flip_coins(50, asked.rng())
    assert (rehearsal.coins == coins.into).all()
    out = -1.0 if neighbours == "replace-one" else 0.0
    by_round = np.array(totals).reshape(4, 3, 50)
    for number in range(1, 5):
        moved = by_round[number - 1][:, coins.columns] * coins.sign(number)
        wanted = np.where(coins.into, 1.0, out) * own.training.clip
        # Rounded towards zero and shrunk by a margin, so never above, and not 10^-5 below.
        assert np.abs(moved.sum(axis=0) - wanted).max() < 1e-5
        assert (np.abs(moved.sum(axis=0)) <= own.training.clip).all()
        assert np.ptp(moved, axis=0).max() < 1e-5  # the same in every silo
    assert (coins.sign(1) == -coins.sign(2)).all()


def test_rows_are_ten_times_as_long_as_the_clip():
    coins = Coins(np.array([True, False, True]), np.array([1.0, 1.0, -1.0]), np.array([2, 0, 1]))
    federation = canary_federation(np.array([[1, 1], [0, 0], [1, 1]]))
    local = CanaryLocalTraining(coins, federation, clip=0.25)
    everybody = [np.array([0, 2]), np.array([2])]
    (part,) = local.user_deltas(local.initial(), everybody, 2)
    assert part.user.tolist() == [0, 2, 2]
    assert part.silo.tolist() == [0, 0, 1]
    wanted = CANARY_NORM_IN_CLIPS * 0.25 * np.array([[0, 0, 1.0], [0, -1.0, 0], [0, -1.0, 0]])
    assert part.rows.dense().tolist() == wanted.tolist()
    (part,) = local.user_gradients(local.initial(), everybody, 2)
    assert part.rows.dense().tolist() == (-wanted).tolist()
    assert local.silo_deltas(local.initial(), 2).tolist() == [[0, -2.5, 2.5], [0, -2.5, 2.5]]
    chosen = np.array([0, 3])  # records stand by unit, then by silo
    gradients = local.record_gradients(np.zeros((2, 3)), chosen, 3)
    assert gradients.tolist() == [[0, 0, 2.5], [0, -2.5, 0]]


def test_who_is_out_is_listed_and_has_no_records():
    federation = canary_federation(np.array([[2, 1], [0, 0]]))
    assert federation.users == 2
    assert federation.counts.tolist() == [[2, 1], [0, 0]]
    with pytest.raises(InvalidInput, match="table"):
        canary_federation(np.array([[0.5, 1.0]]))


@for_each(("observer", "aggregation", "rule", "relation", "times"), VIEWS)
def test_what_an_observer_sees_has_the_claimed_noise_and_the_claimed_shift(
    observer, aggregation, rule, relation, times
):
    own = settings(rule=rule, aggregation=aggregation, neighbours=relation, rounds=6)
    rehearsal = rehearse(own, canaries=1500, observer=observer, seed=11)
    assert rehearsal.shift == pytest.approx(times / 2.0, rel=1e-6)
    (leaf,) = {rehearsal.event.event}
    assert rehearsal.shift == pytest.approx(1.0 / leaf.noise_multiplier, rel=1e-6)
    assert (rehearsal.unit, rehearsal.neighbours) == ("user", relation)
    into, out = (
        rehearsal.observations[:, rehearsal.coins],
        rehearsal.observations[:, ~rehearsal.coins],
    )
    away = -rehearsal.shift if relation == "replace-one" else 0.0
    for seen, mean in ((into, rehearsal.shift), (out, away)):
        assert abs(seen.mean() - mean) * math.sqrt(seen.size) < FAR
        assert abs(seen.var() - 1.0) * math.sqrt(seen.size / 2.0) < FAR


def test_a_silo_without_the_unit_sees_all_of_what_is_claimed_and_its_weights_are_noted():
    rehearsal = rehearse(settings(), canaries=100, observer="silo", seed=1)
    assert 1.0 / rehearsal.event.event.noise_multiplier == pytest.approx(rehearsal.shift)
    assert any("its own weights" in one for one in rehearsal.note)


@for_each("observer", ["silo-with-records", "server+1", "server+1-with-records"])
def test_who_holds_a_part_or_colludes_is_not_rehearsed(observer):
    own = settings(silos=3)
    told = replace(own, security=replace(own.security, colluders=1))
    with pytest.raises(Unsupported, match="not rehearsed"):
        rehearse(told, canaries=100, observer=observer, seed=1)
    with pytest.raises(InvalidInput, match="observer"):
        rehearse(own, canaries=100, observer="server+1", seed=1)


def test_a_masked_server_sees_what_the_model_shows_bit_for_bit():
    """The noise is the same stream; the model is that sum, and floats round it."""
    seen = [
        rehearse(settings(aggregation=by), canaries=60, observer=who, seed=5).observations
        for by, who in (("masked", "server"), ("masked", "model"), ("plain", "model"))
    ]
    assert np.abs(seen[0] - seen[1]).max() < 1e-9
    assert (seen[1] == seen[2]).all()


@for_each("observer", ["model", "server"])
def test_a_sample_is_hidden_from_who_sees_the_model_and_known_to_the_server(observer):
    own = settings(rate=0.25, rounds=12, noise=0.05)  # so little noise that the sample shows
    rehearsal = rehearse(own, canaries=400, observer=observer, seed=2)
    seen = rehearsal.observations[:, rehearsal.coins]
    if observer == "model":
        assert rehearsal.rate == 0.25
        assert isinstance(rehearsal.event.event, ev.Poisson)
        joined = seen > rehearsal.shift / 2.0
    else:
        assert rehearsal.rate == 1.0
        assert isinstance(rehearsal.event.event, ev.Gaussian)
        assert (rehearsal.scores[rehearsal.coins] > -1e-6).all()
        joined = seen != rehearsal.shift / 2.0
        missed = rehearsal.observations == rehearsal.shift / 2.0
        # Missed rounds are missed by those who are in and those who are out alike.
        assert abs(missed.mean() - 0.75) * math.sqrt(missed.size / (0.25 * 0.75)) < FAR
    assert abs(joined.mean() - 0.25) * math.sqrt(joined.size / (0.25 * 0.75)) < FAR


def test_fewer_rounds_claim_less():
    whole = rehearse(settings(rounds=4), canaries=20, seed=1)
    part = rehearse(settings(rounds=4), canaries=20, seed=1, rounds=2)
    assert part.rounds == 2
    assert part.event == ev.Repeat(2, whole.event.event)
    assert part.claimed < whole.claimed
    assert (part.observations == whole.observations[:2]).all()


def test_a_seed_repeats_and_without_one_nothing_does():
    one, two = (rehearse(settings(), canaries=64, seed=9) for _ in range(2))
    assert (one.observations == two.observations).all()
    assert (one.coins == two.coins).all()
    assert one.seeded
    three, four = (rehearse(settings(), canaries=64) for _ in range(2))
    assert (three.observations != four.observations).any()
    assert (three.coins != four.coins).any()
    assert not three.seeded


def test_public_records_train_beside_the_canaries_as_they_would_without_them(monkeypatch):
    pytest.importorskip("sklearn")
    own = settings(silos=2, rounds=1)
    totals = before_noise(monkeypatch)
    rehearsal = rehearse(own, canaries=30, seed=4, real=True)
    ready = prepare(own)
    parameters = ready.model.parameters
    beside = np.array(totals)[:, :parameters]
    assert np.array(totals).shape == (2, parameters + 30)
    totals.clear()
    ready.plan  # noqa: B018
    from privplan.fl.canaries import simulate_rounds

    simulate_rounds(ready.system, Streams.seeded(1), rounds=1, each=lambda *_: None)
    assert np.array_equal(beside, np.array(totals))
    assert rehearsal.canaries == 30
    assert any("public records" in one for one in rehearsal.note)


def test_private_moments_are_left_out_and_the_noise_of_training_stays():
    pytest.importorskip("sklearn")
    own = settings(epsilon=6.0, noise=None, rounds=5)
    private = replace(
        own,
        data=replace(own.data, normalisation="private"),
        privacy=replace(own.privacy, normalisation_noise=6.0),
    )
    rehearsal = rehearse(private, canaries=40, seed=1)
    plan = prepare(private).plan
    assert 1.0 / rehearsal.shift == pytest.approx(plan.phases[-1].noise_multiplier, rel=1e-9)
    assert 1.0 / rehearsal.shift > 1.0 / rehearse(own, canaries=40, seed=1).shift
    assert rehearsal.claimed < plan.guarantees["model"].epsilon.upper
    assert any("moments" in one for one in rehearsal.note)


def test_fedavg_claims_nothing_and_shows_everything():
    own = replace(settings("fedavg"), privacy=schema.PrivacySettings(unit=None))
    rehearsal = rehearse(own, canaries=80, seed=1)
    assert rehearsal.event is None
    assert rehearsal.claimed is None
    assert rehearsal.observations[:, rehearsal.coins] == pytest.approx(1.0)
    assert rehearsal.observations[:, ~rehearsal.coins] == pytest.approx(0.0)


def test_bad_requests_are_refused_with_the_field_and_its_range():
    with pytest.raises(InvalidInput, match="observer"):
        rehearse(settings(), canaries=10, observer="shuffler")
    with pytest.raises(InvalidInput, match="observer"):
        rehearse(settings(silos=1), canaries=10, observer="silo")
    with pytest.raises(InvalidInput, match="2 canaries or more"):
        rehearse(settings(), canaries=1)
    with pytest.raises(InvalidInput, match="not public"):
        rehearse(settings(data="heart-disease"), canaries=10, real=True)
    with pytest.raises(InvalidInput, match="settings have 3"):
        rehearse(settings(), canaries=10, silos=4)
    with pytest.raises(InvalidInput, match="rounds"):
        rehearse(settings(), canaries=10, rounds=0)
    with pytest.raises(InvalidInput, match="`system` must be one of"):
        carrier_of(settings("zebra"))


@for_each(("name", "silos"), [("heart-disease", 4), ("tcga-brca", 6), ("mnist", 5)])
def test_silos_of_a_data_set_are_known_without_its_records(name, silos):
    assert silos_of(settings(data=name, silos=None)) == silos


def test_fedavg_clips_nothing_and_shows_every_unit():
    own = settings("fedavg", clip=math.inf)
    seen = rehearse(replace(own, privacy=schema.PrivacySettings(unit=None)), canaries=60, seed=1)
    assert seen.event is None
    mean = seen.observations.mean(axis=0)
    assert np.isfinite(seen.observations).all()
    assert mean[seen.coins].min() > mean[~seen.coins].max()
