"""The tier as a whole: digits with and without noise, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, PrivplanError, Unsupported
from privplan.audit.attack_methods.membership import (
    Trials,
    evidence_of,
    measurements,
    membership_tier,
    released_tier,
    trials_of,
)
from privplan.audit.attack_methods.membership.evidence import (
    confidence,
    shared_records,
    unseen_test_records,
)
from privplan.audit.attack_methods.membership.results import (
    AttackDescription,
    max_auc,
    max_hit_rate,
)
from privplan.audit.attack_methods.membership.trials import area
from privplan.audit.measurement import NOT_PROOF
from privplan.audit.shadows import Replica, SerialExecutor, design, train_batched
from privplan.audit.shadows.batched import BatchedRecipe
from privplan.fl.models import model_named
from privplan.fl.running.checkpoint import Checkpoint
from privplan.fl.running.preparation import prepare
from privplan.fl.settings.toml_file import parse

from ..cases import for_each


def configured(system, *, name="digits", users=60, rounds=2, privacy="", more=""):
    """Return settings of a small run."""
    text = (
        f'[run]\nsystem = "{system}"\nrounds = {rounds}\nseed = 5\n'
        f'[data]\nname = "{name}"\nusers = {users}\nsilos = 3\nallocation = "uniform"\n'
        f"[privacy]\n{privacy}\n{more}"
    )
    return parse(text.encode(), "test.toml")


def test_without_privacy_users_are_told_and_told_better_than_records():
    # 24 models of the digits classifier in a batch, over-fitted; 8 targets, users of 5 records.
    settings = configured("fedavg", users=287)
    own = prepare(settings)
    federation = own.federation
    coins = design(287, models=24, targets=8, rng=np.random.default_rng(1))
    trained = train_batched(
        own.model,
        federation.features,
        federation.labels,
        coins.inside_records(federation.user),
        BatchedRecipe(epochs=40),
    )
    seen = evidence_of(
        own.model, federation, coins, federation.user, [Replica(one) for one in trained]
    )
    for attack in ("rmia", "ratio", "lira"):
        user, record = (area(trials_of(seen, attack, level)) for level in ("user", "record"))
        assert record.lower > 0.5
        assert user.lower > record.upper
    made = measurements(
        trials_of(seen, "ratio", "user"), AttackDescription("ratio", "user", "add-remove")
    )
    assert [one.quantity for one in made] == ["AUC", "TPR at 1% FPR"]
    assert "that are worth" in made[0].sample["TPR at 0.1% FPR"]  # 8 targets have the same users
    assert made[1].sample["lower"] > 0.01
    assert made[0].sample["users"] == 287
    assert made[0].sample["members"] + made[0].sample["non-members"] == 8 * 287
    assert all(one.sample["lower"] <= one.value <= one.sample["upper"] for one in made)


@pytest.fixture(scope="module")
def private():
    """Return what the tier says of a run with much noise, few models and few users."""
    settings = configured("uldp-avg", privacy="noise_multiplier = 20.0")
    return membership_tier(settings, models=8, targets=2, seed=3, executor=SerialExecutor())


def areas(system, privacy=""):
    """Return the areas, with intervals of 99.99%, for 12 targets of a run of 60 users."""
    settings = configured(system, privacy=privacy)
    found = membership_tier(
        settings, models=24, targets=12, seed=3, alpha=1e-4, executor=SerialExecutor()
    )
    return {one.sample["attack"]: one for one in found if one.quantity == "AUC"}


def test_under_much_noise_nobody_is_told():
    # Over seeds, intervals are .13 long to each side of .5, and an end's standard deviation .026.
    private = areas("uldp-avg", "noise_multiplier = 20.0")
    assert len(private) == 4
    assert all(one.sample["lower"] < 0.5 < one.sample["upper"] for one in private.values())
    assert all(0.5 < one.claimed < 0.6 for one in private.values())
    # Of as many people without noise or clip it is told: the lower end is .67, with .04.
    assert areas("fedavg")["ratio"].sample["lower"] > 0.5


def test_what_the_tier_says_of_itself(private):
    for one in private:
        told = one.to_json()
        assert told["note"] == NOT_PROOF
        assert (one.tier, one.kind, one.contradicted) == ("membership", "estimate", False)
        assert (one.unit, one.neighbours, one.observer) == ("user", "add-remove", "model")
        assert one.sample["users"] == 60
        assert one.sample["shadows"] == 6
        assert any("replicas" in text for text in one.assumes)
        assert any("clustered by user" in text for text in one.assumes)
    first = private[0]
    curve = np.array(first.curves["roc"])
    assert ((curve >= 0) & (curve <= 1)).all()
    assert curve[0].tolist() == [0.0, 0.0]
    assert curve[-1].tolist() == [1.0, 1.0]


def test_hits_that_so_few_strangers_do_not_support_are_not_told(private):
    # AttackDescription 60 of the 120 trials are of strangers: neither 1% nor 0.1% can be seen.
    assert {one.quantity for one in private} == {"AUC"}
    for rate, needed in (("1%", 100), ("0.1%", 1000)):
        said = private[0].sample[f"TPR at {rate} FPR"]
        assert said.startswith(f"not printed: it takes {needed} non-members, and there are ")


def test_the_tier_can_be_repeated_and_knows_records():
    settings = configured("fedavg", rounds=1)
    one, two = (
        membership_tier(
            settings,
            models=6,
            targets=2,
            seed=4,
            level="record",
            attacks=("ratio",),
            executor=SerialExecutor(),
        )
        for _ in range(2)
    )
    assert [each.to_json() for each in one] == [each.to_json() for each in two]
    assert one[0].unit == "record"
    assert one[0].claimed is None
    assert one[0].sample["users"] == 60
    # What so many trials are worth differs between seeds fivefold; each rate is told or refused.
    told = {each.quantity for each in one} - {"AUC"}
    refused = {name: why for name, why in one[0].sample.items() if name.startswith("TPR")}
    assert sorted([*told, *refused]) == ["TPR at 0.1% FPR", "TPR at 1% FPR"]
    assert all("that are worth" in why for why in refused.values())


@for_each(
    "privacy",
    ['noise_multiplier = 20.0\nneighbours = "replace-one"', "noise_multiplier = 20.0"],
)
def test_what_is_claimed_for_replaced_users_bounds_nobody_s_presence(privacy):
    (one,) = membership_tier(
        configured("uldp-avg", privacy=privacy, rounds=1),
        models=6,
        targets=2,
        seed=1,
        attacks=("loss",),
        executor=SerialExecutor(),
    )
    assert (one.claimed is None) == ("replace-one" in privacy)


@for_each(
    ("given", "match"),
    [
        ({"models": 7, "targets": 2}, "shadows"),
        ({"models": 4, "targets": 2}, "shadows"),
        ({"level": "silo"}, "level"),
        ({"attacks": ()}, "attacks"),
        ({"attacks": "lira"}, "attacks"),
        ({"attacks": ("lyra",)}, "attack"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_trained(given, match, monkeypatch):
    def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr("privplan.audit.attack_methods.membership.tier.replicas", never)
    with pytest.raises(InvalidInput, match=match):
        membership_tier(configured("fedavg"), **given)


def test_a_replica_that_diverged_is_refused(monkeypatch):
    def diverged(settings, _, inside, **__):
        width = prepare(settings).model.parameters
        return [Replica(np.full(width, np.nan)) for _ in inside]

    monkeypatch.setattr("privplan.audit.attack_methods.membership.tier.replicas", diverged)
    with pytest.raises(InvalidInput, match="diverged"):
        membership_tier(configured("fedavg"), models=6, targets=2)


def test_a_model_whose_loss_couples_records_is_refused():
    cox = model_named("cox", 3, 1)
    with pytest.raises(Unsupported, match="no loss of its own"):
        confidence(cox, cox.initial(0), np.zeros((2, 3)), np.zeros(2, int))


def test_private_weighting_is_refused():
    hidden = configured(
        "uldp-avg",
        privacy="noise_multiplier = 2.0",
        more='[security]\naggregation = "private-weighting"\n',
    )
    with pytest.raises(Unsupported, match="private weighting"):
        membership_tier(hidden)


@for_each(("name", "classes"), [("logistic", 2), ("softmax", 4)])
def test_phi_is_the_logit_of_the_label_s_probability(name, classes):
    model, rng = model_named(name, 5, classes), np.random.default_rng(0)
    x, y = rng.normal(size=(9, 5)), rng.integers(0, classes, 9)
    logits = model.logits(model.initial(1), x)
    table = np.hstack([np.zeros_like(logits), logits]) if classes == 2 else logits
    odds = np.exp(table)
    p = odds[np.arange(9), y] / odds.sum(1)
    assert confidence(model, model.initial(1), x, y) == pytest.approx(np.log(p / (1 - p)))


def test_copies_are_found_between_users_and_in_the_population():
    federation = prepare(configured("fedavg")).federation
    assert unseen_test_records(federation).all()
    assert shared_records(federation) == 0
    features, labels = federation.features.copy(), federation.labels.copy()
    other = int(np.flatnonzero(federation.user != federation.user[0])[0])
    features[other], labels[other] = features[0], labels[0]
    test_features, test_labels = federation.test_features.copy(), federation.test_labels.copy()
    test_features[3], test_labels[3] = features[1], labels[1]
    copied = replace(
        federation,
        features=features,
        labels=labels,
        test_features=test_features,
        test_labels=test_labels,
    )
    assert shared_records(copied) == 2
    assert np.flatnonzero(~unseen_test_records(copied)).tolist() == [3]


def test_what_a_claim_allows_is_what_gaussian_noise_does():
    from scipy import stats

    event = ev.Repeat(4, ev.Gaussian(2.0))  # mu = 1
    for rate in (0.01, 0.001):
        ideal = stats.norm.sf(stats.norm.isf(rate) - 1.0)
        assert ideal <= max_hit_rate(event, "add-remove", rate) <= 1.1 * ideal
    ideal = stats.norm.cdf(1 / np.sqrt(2))
    assert ideal <= max_auc(event, "add-remove") <= ideal + 0.005


@pytest.fixture
def memory(monkeypatch):
    """Return settings, and the checkpoint of a model that learned 72 users' labels by heart.

    Labels are drawn at random, so there is nothing to learn but whose they are.  The model is
    linear: how surely it remembers hangs on no last bit, as a deep one's would.
    """
    settings = configured("fedavg", users=287)
    own, rng = prepare(settings), np.random.default_rng(0)
    federation = own.federation.only(own.federation.user < 72)
    federation = replace(
        federation,
        users=72,
        labels=rng.integers(0, 10, federation.records),
        test_labels=rng.integers(0, 10, len(federation.test_labels)),
    )
    monkeypatch.setattr(
        "privplan.fl.running.preparation.prepare", lambda _: replace(own, federation=federation)
    )
    everybody = np.ones((1, federation.records), bool)
    recipe = BatchedRecipe(epochs=40)
    trained = train_batched(own.model, federation.features, federation.labels, everybody, recipe)
    return settings, Checkpoint("run", 1, own.model.name, trained[0]), federation


def test_a_released_model_is_surer_of_its_users(memory):
    # Over seeds of labels and training the lower end is .86, and the user's area .18 above the
    # record's, with standard deviations of .01 and .005.
    settings, checkpoint, federation = memory
    user = released_tier(settings, checkpoint)[0]
    record = released_tier(settings, checkpoint, level="record")[0]
    assert user.sample["lower"] > 0.7
    assert user.value > record.value + 0.1
    assert 70 <= user.sample["members"] == user.sample["non-members"] <= 359 // 5 + 1
    assert record.sample["members"] == federation.records
    assert any("no coin" in text for text in user.assumes)
    assert any("this one model" in text for text in user.assumes)


def test_a_model_that_saw_nothing_is_surer_of_nobody():
    settings = configured("fedavg", users=287)
    own = prepare(settings)
    first = Checkpoint("run", 0, own.model.name, own.model.initial(0))
    found = released_tier(settings, first)[0]
    assert found.sample["lower"] < 0.5 < found.sample["upper"]
    with pytest.raises(PrivplanError, match="parameters"):
        released_tier(settings, replace(first, parameters=np.zeros(3)))


def test_trials_are_one_for_each_user_under_each_target():
    trials = Trials(np.zeros((3, 4)), np.eye(3, 4, dtype=bool), np.arange(4))
    assert (trials.users, trials.targets, trials.strangers) == (4, 3, 9)
