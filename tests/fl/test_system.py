"""Systems by name, with real training: built from settings, and blind to who else takes part."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest

pytest.importorskip("torch")

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.randomness import Streams
from privplan.fl.declarations.registry import declared
from privplan.fl.delm.settings import DelmSettings
from privplan.fl.fedavg.averaging import FedAvg
from privplan.fl.flame.settings import FlameSettings
from privplan.fl.frame.privacy import PrivacyTarget
from privplan.fl.frame.promise import rounded_up
from privplan.fl.frame.system import build
from privplan.fl.models import model_named
from privplan.fl.settings import schema
from privplan.fl.training.local_training import TorchLocalTraining
from privplan.fl.uldp.sealed_items import of_weighted
from privplan.fl.uldp.settings import UldpSettings

from ..cases import for_each

SYSTEMS = tuple(name for name, declaration in declared().items() if declaration.trains)

PRIVATE = tuple(name for name in SYSTEMS if name != "fedavg")

SHUFFLED = tuple(name for name in SYSTEMS if "shuffle" in declared()[name].aggregations)
"""Systems whose users send for themselves: in one silo, which sends nothing."""


def silos_of(system):
    """Return in how many silos a small run of a system has its records."""
    return 1 if system in SHUFFLED else 3


def settings(system, *, rounds=2, model="logistic", privacy=None, training=None, **tables):
    own = {"noise_multiplier": 5.0, "group": 3 if system == "uldp-group" else 1, **(privacy or {})}
    if system == "fedavg":
        own = {"unit": None}
    if system == "disco":
        own = {**own, "unit": "silo", "neighbours": "replace-one", "observer": "peer"}
        tables = {"security": schema.SecuritySettings(aggregation="shares"), **tables}
    declaration = declared().get(system)
    if declaration is not None and declaration.noise_given is not None:
        noise = own.pop("noise_multiplier")
        target = {} if noise is None else {"epsilon": noise}
        own = {**own, "unit": "record", "observer": "server", **target}
        tables = {"table": DelmSettings(row_norm=3.0, pca="none", sensitivity="proven"), **tables}
    if system in SHUFFLED:
        own = {**own, "unit": "user", "neighbours": "replace-one", "observer": "analyzer"}
        chosen = None if system == "flame-simple" else 2
        shuffled = {"security": schema.SecuritySettings(aggregation="shuffle")}
        tables = {"table": FlameSettings(chosen=chosen), **shuffled, **tables}
    return schema.Settings(
        run=schema.RunSettings(system=system, rounds=rounds),
        data=schema.DataSettings(name="digits", users=6, silos=silos_of(system)),
        privacy=schema.PrivacySettings(**own),
        training=schema.TrainingSettings(
            **{
                "clip": 0.1,
                "local_rate": 0.2,
                "global_rate": 2.0,
                "local_epochs": 2,
                "batch": 4,
                "model": model,
                **(training or {}),
            }
        ),
        **tables,
    )


def built(system, federation, *, model="logistic", **changes):
    made = model_named(model, federation.features.shape[1], federation.classes)
    own = settings(system, model=model, **changes)
    return build(own, federation, TorchLocalTraining(own, federation, made), Streams.seeded(3))


@for_each("name", SYSTEMS)
def test_every_system_is_built_planned_and_run(name, tiny, run):
    silos = silos_of(name)
    system = built(name, tiny(silos=silos))
    assert system.name == name
    opening = system.opening()
    assert opening.plan.rounds == 2
    assert (opening.population.users, opening.population.silos) == (6, silos)
    assert opening.population.records is None  # how many records there are is private
    models, log = run(system)
    assert len(models) == 3
    assert np.isfinite(models).all()
    assert not np.array_equal(models[1], models[2])
    assert [one.round for one in log.intents] == [one.round for one in log.releases] == [1, 2]
    assert [one.event for one in log.intents] == [system.plan().phases[0].event] * 2


@for_each("name", SYSTEMS)
def test_a_seeded_run_is_reproducible(name, tiny, run):
    federation = tiny(silos=silos_of(name))
    one, two = (run(built(name, federation), seed=1, rounds=1)[0] for _ in range(2))
    assert all(np.array_equal(left, right) for left, right in zip(one, two, strict=True))
    other = run(built(name, federation), seed=2, rounds=1)[0]
    assert np.array_equal(one[0], other[0])  # the first model is public
    assert np.array_equal(one[1], other[1]) == (name == "fedavg")


@pytest.mark.parametrize("model", ["logistic", "mlp"])
@pytest.mark.parametrize("name", ["uldp-avg", "uldp-sgd"])
def test_a_user_who_goes_moves_nobody_elses_term_by_a_bit(name, model, tiny, run, totals):
    """With real, batched training: the integer sums differ by this user's terms alone."""
    federation = tiny(users=9, silos=2, records=120, features=6, seed=3)

    def sums(one):
        totals.clear()
        system = built(name, one, model=model, rounds=1, training={"weighting": "records"})
        run(system)
        return np.array(totals[0]), system.mechanism(5.0)

    everybody, mechanism = sums(federation)
    for user in (0, 4, 8):
        only = federation
        for other in range(9):
            only = only if other == user else only.without(other)
        moved = everybody - sums(federation.without(user))[0]
        assert np.array_equal(moved, sums(only)[0])
        together = moved.sum(axis=0) * mechanism.grid
        assert 0 < np.linalg.norm(together) <= mechanism.bound


@for_each(("name", "dropout"), [("logistic", 0.0), ("mlp", 0.0), ("mlp", 0.5)])
def test_a_record_that_goes_moves_no_other_gradient_by_a_bit(name, dropout, tiny):
    from privplan.fl.training.deltas import per_example_gradients

    federation = tiny(users=5, silos=2, records=60, features=6)
    model = model_named(name, 6, 2, dropout=dropout)
    start = model.initial(0)

    def gradients(one, chosen):
        local = TorchLocalTraining(settings("uldp-group", model="mlp"), one, model)
        return local.record_gradients(np.tile(start, (2, 1)), chosen, 3)

    everybody = gradients(federation, np.arange(60))
    for user in range(5):
        fewer = federation.without(user)
        assert np.array_equal(
            gradients(fewer, np.arange(fewer.records)), everybody[federation.user != user]
        )
    some = np.array([3, 17, 40])
    assert np.array_equal(gradients(federation, some), everybody[some])
    if not dropout:
        slow = per_example_gradients(model, start, federation.features, federation.labels)
        assert np.allclose(everybody, slow, rtol=1e-12, atol=1e-15)
        assert np.linalg.norm(everybody, axis=1).min() > 0.0


@for_each("name", ["logistic", "mlp"])
def test_local_training_is_on_the_features_in_use(name, tiny):
    """Whatever it has kept from before."""
    federation = tiny(users=4, silos=2)
    other = replace(federation, features=federation.features * np.float32(0.5))
    model = model_named(name, 4, 2)
    local, fresh = (
        TorchLocalTraining(settings("fedavg"), one, model) for one in (federation, other)
    )
    start, users = local.initial(), [np.arange(4)] * 2

    def answers(one):
        yield from (part.rows for part in one.user_deltas(start, users, 1))
        yield from (part.rows for part in one.user_gradients(start, users, 1))
        yield one.silo_deltas(start, 1)
        yield one.record_gradients(np.tile(start, (2, 1)), np.arange(40), 1)

    before = list(answers(local))
    local.use(other)
    for old, new, expected in zip(before, answers(local), answers(fresh), strict=True):
        assert np.array_equal(new, expected)
        assert not np.array_equal(old, new)


def test_local_training_answers_for_the_users_that_are_asked(tiny):
    from privplan.fl.training.deltas import gradients, local_deltas
    from privplan.fl.training.units import Recipe, Units

    federation = tiny(users=6, silos=3)
    model = model_named("logistic", 4, 2)
    local = TorchLocalTraining(settings("uldp-avg"), federation, model)
    start, recipe = local.initial(), Recipe(0.2, 2, 4)
    asked = [np.array([0, 2, 5]), np.array([1]), np.array([2, 3, 4])]
    answers = {
        "deltas": local.user_deltas(start, asked, 7),
        "gradients": local.user_gradients(start, asked, 7),
    }
    found = {
        kind: {
            (int(user), int(silo)): row
            for part in parts
            for user, silo, row in zip(part.user, part.silo, part.rows, strict=True)
        }
        for kind, parts in answers.items()
    }
    here = {
        (int(user), silo)
        for silo, users in enumerate(asked)
        for user in users
        if federation.counts[user, silo]
    }
    assert set(found["deltas"]) == set(found["gradients"]) == here
    for user, silo in here:
        own = np.flatnonzero((federation.user == user) & (federation.silo == silo))
        unit = Units(
            federation.features,
            federation.labels,
            own,
            np.array([0, len(own)]),
            np.array([user]),
            np.array([silo]),
        )
        delta = local_deltas(model, start, unit, recipe, number=7)[0]
        assert np.array_equal(found["deltas"][user, silo], delta)
        assert np.array_equal(found["gradients"][user, silo], gradients(model, start, unit)[0])
    assert list(local.user_deltas(start, [np.array([], np.int64)] * 3, 1)) == []


def test_fedavg_averages_the_silos_and_promises_nothing(tiny, run):
    federation = tiny()
    system = built("fedavg", federation)
    opening = system.opening()
    assert opening.claim.epsilon is None
    assert system.plan().guarantees["model"].epsilon.upper == math.inf
    models, log = run(system)
    local = TorchLocalTraining(settings("fedavg"), federation, model_named("logistic", 4, 2))
    deltas = local.silo_deltas(models[0], 1)
    assert deltas.shape == (3, 5)
    assert np.allclose(models[1], models[0] + 2.0 * np.mean(deltas, axis=0))
    assert all(one.event == ev.NoGuarantee("no noise") for one in log.intents)
    assert {one.noise.family for one in log.intents} == {"none"}
    assert all(one.streams == () and not one.clip_enforced for one in log.releases)


def test_a_loss_that_couples_records_has_no_group(tiny, run):
    federation = tiny()
    survival = replace(
        federation,
        task="survival",
        classes=1,
        labels=np.stack([np.arange(40.0), np.ones(40)], axis=1),
        test_labels=np.stack([np.arange(5.0), np.ones(5)], axis=1),
    )
    with pytest.raises(Unsupported, match="gradient per record"):
        built("uldp-group", survival, model="cox")
    run(built("uldp-avg", survival, model="cox"))


def test_settings_reach_the_systems(tiny):
    federation = tiny()
    published = built("uldp-naive", federation, table=UldpSettings(as_published=True))
    assert published.opening().as_published
    group = built(
        "uldp-group",
        federation,
        table=UldpSettings(group_records=3, record_rate=0.2),
        training={"seed": 5},
    )
    assert (group.rate, group.setup.privacy.group) == (0.2, 3)
    sampled = built("uldp-sgd", federation, privacy={"sampling_rate": 0.3})
    assert sampled.views(5.0)["model"] == ev.Poisson(0.3, ev.Gaussian(5.0))
    with pytest.raises(Unsupported, match="private-weighting"):
        built(
            "uldp-naive",
            federation,
            security=schema.SecuritySettings(aggregation="private-weighting"),
        )
    with pytest.raises(InvalidInput, match="system"):
        built("uldp-maybe", federation)


def test_public_draws_do_not_follow_the_run_seed_and_systems_have_their_methods(tiny):
    """Flags, first model and batches come from the training seed, which is public."""
    one = built("uldp-group", tiny(), training={"seed": 5})
    two = built("uldp-group", tiny(), training={"seed": 5})
    three = built("uldp-group", tiny(), training={"seed": 6})
    assert np.array_equal(one.initial(), two.initial())
    assert not np.array_equal(one.initial(), three.initial())
    for name in SYSTEMS:
        system = built(name, tiny(silos=silos_of(name)))
        for method in ("plan", "opening", "initial", "round"):
            assert callable(getattr(system, method))
    assert isinstance(built("fedavg", tiny()), FedAvg)


@for_each(
    "wrong",
    [
        *({"delta": 0.0}, {"delta": 1.0}, {"epsilon": 0.0}, {"noise_multiplier": -1.0}),
        *({"sampling_rate": 0.0}, {"sampling_rate": 1.1}, {"group": 0}),
        *({"unit": "person"}, {"neighbours": "close"}),
    ],
)
def test_privacy_out_of_range_is_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        PrivacyTarget(**wrong)


@for_each("name", PRIVATE)
def test_noise_or_epsilon_is_needed(name, tiny):
    federation = tiny(silos=silos_of(name))
    needed = r"Neither a noise multiplier nor an epsilon|takes `epsilon`"
    with pytest.raises(InvalidInput, match=needed):
        built(name, federation, privacy={"noise_multiplier": None}).plan()


@for_each("value", [6.5712345, 9.9999999, 1e-7, 123456789.1, 0.1 + 0.2, 10.0])
def test_claims_are_rounded_up(value):
    rounded = rounded_up(value)
    assert value <= rounded <= value * (1 + 1e-5)
    assert float(f"{rounded:.6g}") == rounded
    assert rounded_up(math.inf) == math.inf


@for_each(
    ("system", "aggregation"),
    [
        ("uldp-group", "shares"),
        *((one, "plain" if one in SHUFFLED else "shuffle") for one in SYSTEMS),
    ],
)
def test_no_system_sums_otherwise_than_it_can_say(system, aggregation, tiny) -> None:
    """What its observers see of such a round nobody has stated yet."""
    security = schema.SecuritySettings(aggregation=aggregation)
    with pytest.raises(Unsupported, match=f'"{aggregation}" in .* and {system} cannot sum by it'):
        built(system, tiny(silos=silos_of(system)), security=security)


def test_packages_of_others_learn_what_weighted_rounds_seal() -> None:
    given = settings("uldp-avg")
    tables = asdict(given)
    sealed = of_weighted(lambda table, key: tables[table][key])
    assert set(sealed["train"]) == set(given.sealed_items()["train"])
