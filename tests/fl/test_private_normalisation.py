"""Features that are normalised by moments which a mechanism released, once, within the plan."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded, InvalidInput
from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import affordable
from privplan.accountant.randomness import Streams
from privplan.accountant.sensitivity.uldp import CLEAR_WEIGHTS
from privplan.audit.budget import audit_budget
from privplan.fl.data import normalise
from privplan.fl.datasets.breast_cancer import SCALING
from privplan.fl.declarations.declaration import NORMALISE
from privplan.fl.frame.private_normalisation import MomentsRelease
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint
from privplan.fl.running.preparation import PreparedRun, prepare

from ..accountant.participating import exact
from ..cases import for_each
from .extras import needs
from .normalised_runs import (
    changed,
    normalising,
    of,
    require_whole,
    started,
)

pytestmark = needs("torch", "sklearn", "cryptography")


def epsilon_of(mus: list[float]) -> float:
    """Return epsilon of Gaussian releases with these mu."""
    return exact(math.sqrt(sum(one * one for one in mus)), 1e-5)


# -- the plan -----------------------------------------------------------------------------------


@for_each("system", ["uldp-avg", "uldp-sgd", "uldp-naive"])
@for_each("weighting", ["uniform", "records"])
def test_both_phases_are_planned_and_proven(system: str, weighting: str) -> None:
    own = changed(run={"system": system}, training={"weighting": weighting})
    prepared = prepare(own)
    first, second = prepared.plan.phases
    assert (first.name, first.rounds, first.noise_multiplier) == (NORMALISE, 1, 3.0)
    assert (second.name, second.rounds) == ("train", 2)
    holds = set() if weighting == "uniform" else {"silo-with-records"}
    assert set(first.views) == set(second.views) == {"model", "server", "silo", *holds}
    for who in holds:  # from the weight of a user's moments a silo knows how many it has elsewhere
        assert first.views[who] == CLEAR_WEIGHTS
        assert prepared.plan.guarantees[who].epsilon.upper == math.inf
        clear = second.views[who] == CLEAR_WEIGHTS
        assert clear == (system != "uldp-naive")
    server = 1.0 if weighting == "uniform" else math.sqrt(2.0)
    silo = math.sqrt(0.5) if weighting == "uniform" else math.sqrt(2.0)
    expected = {"model": 1 / 3.0, "server": server / 3.0, "silo": silo / 3.0}
    for who, mu in expected.items():
        event = first.views[who]
        assert isinstance(event, ev.Gaussian)
        assert event.noise_multiplier == pytest.approx(1 / mu)
        rounds = second.views[who]
        assert isinstance(rounds, ev.Gaussian)
        proven = prepared.plan.guarantees[who].epsilon.upper
        mus = [mu, *2 * [1 / rounds.noise_multiplier]]
        assert proven == pytest.approx(epsilon_of(mus), rel=1e-4)
    assert prepared.opening.plan.rounds == 3
    assert prepared.rounds == 2
    assert not prepared.cut


def test_training_gets_what_normalising_leaves_of_a_budget() -> None:
    target = {"epsilon": 3.0, "noise_multiplier": None}
    prepared = prepare(changed(privacy=target))
    proven = prepared.plan.guarantees["model"].epsilon.upper
    assert 2.99 < proven <= 3.0
    noise = prepared.plan.noise["train"]
    alone = {**target, "normalisation_noise": None}
    bare = prepare(changed(privacy=alone, data={"normalisation": "public"})).plan.noise["train"]
    assert noise > bare * 1.01
    assert epsilon_of([1 / 3.0, *2 * [1 / noise]]) == pytest.approx(3.0, rel=1e-3)


def test_a_budget_cuts_what_normalising_leaves() -> None:
    own = changed(run={"rounds": 500}, privacy={"epsilon": 2.0})
    prepared = prepare(own)
    made = prepared.rounds
    assert prepared.cut
    first = [1 / 3.0]
    assert epsilon_of([*first, *made * [0.2]]) <= 2.0 < epsilon_of([*first, *(made + 1) * [0.2]])
    whole = affordable(ev.Gaussian(5.0), epsilon=2.0, delta=1e-5, most=500)
    assert made < whole


def test_a_budget_that_normalising_eats_begins_nothing() -> None:
    for privacy in ({"epsilon": 1.0}, {"epsilon": 1.0, "noise_multiplier": None}):
        with pytest.raises(BudgetExceeded, match="'normalise' alone spends epsilon 1"):
            prepare(changed(privacy={**privacy, "normalisation_noise": 3.0}))
    with pytest.raises(BudgetExceeded, match="after the phase 'normalise'"):
        prepare(changed(privacy={"epsilon": 1.3, "noise_multiplier": 2.0}))


@for_each(
    "tables",
    [
        {"run": {"system": "fedavg"}},
        {"run": {"system": "uldp-group"}, "table": {"group_records": 4}, "privacy": {"group": 4}},
        {"run": {"system": "uldp-naive"}, "table": {"as_published": True}},
        {"privacy": {"normalisation_noise": None}},
        {"data": {"normalisation": "public"}},
        {"data": {"normalisation": "none"}},
    ],
)
def test_what_nothing_pays_for_is_refused(tables: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="normalis"):
        prepare(changed(**tables))


# -- the sum ------------------------------------------------------------------------------------


@for_each("rule", ["records", "uniform"])
def test_a_user_who_goes_moves_the_total_by_at_most_the_bound(rule: str, tiny: Any) -> None:
    whole = tiny(users=5, silos=3, records=60, seed=3)
    loud = whole.features.copy()
    loud[whole.user == 1] = np.where(loud[whole.user == 1] > 0, 1e9, -1e9)
    whole = replace(whole, features=loud)
    own = normalising(whole, rule=rule)
    most = math.floor(own.mechanism.bound / own.mechanism.grid)
    for user in range(5):
        less = normalising(whole.without(user), rule=rule)
        assert less.mechanism == own.mechanism
        moved = [one - other for one, other in zip(own.totals(), less.totals(), strict=True)]
        total = sum(moved)
        square = sum(int(value) ** 2 for value in total)  # exact: Python's integers
        assert 0 < square <= most**2
        held = set(whole.silo[whole.user == user].tolist())
        assert {silo for silo in range(3) if moved[silo].any()} == held


def test_the_bound_is_attained(tiny: Any) -> None:
    """Records at the ends of the range, all alike: the most that a user can add."""
    whole = tiny(users=3, silos=2, records=30, seed=1)
    features = whole.features.copy()
    features[whole.user == 0] = -7.0
    for rule, share in (("records", 1.0), ("uniform", 1.0)):
        own = normalising(replace(whole, features=features), rule=rule)
        less = normalising(replace(whole, features=features).without(0), rule=rule)
        total = np.sum(own.totals(), axis=0) - np.sum(less.totals(), axis=0)
        reached = np.linalg.norm(total * own.mechanism.grid)
        assert reached == pytest.approx(share * own.mechanism.bound, rel=1e-4)


def test_a_user_who_is_exchanged_moves_the_total_by_at_most_twice_the_bound(tiny: Any) -> None:
    whole = tiny(users=3, silos=2, records=30, seed=1)
    sums = []
    for end in (-1.0, 1.0):
        features = whole.features.copy()
        features[whole.user == 0] = end
        sums.append(np.sum(normalising(replace(whole, features=features)).totals(), axis=0))
    own = normalising(whole).mechanism
    moved = np.linalg.norm((sums[0] - sums[1]) * own.grid)
    assert moved <= 2 * own.bound
    assert moved == pytest.approx(2 * own.bound, rel=1e-4)  # and that much is reached


@for_each("rule", ["records", "uniform"])
def test_moments_with_hardly_any_noise_are_those_of_the_users(
    rule: str, tiny: Any, log: Any
) -> None:
    whole = tiny(users=6, silos=3, records=80, seed=5)
    own = normalising(whole, rule=rule, noise=1e-6)
    found = released(own, log())
    z = np.clip(whole.features.astype(float), -1.0, 1.0)
    counts = whole.counts
    weights = np.where(counts > 0, 1 / 3, 0.0) if rule == "uniform" else None
    if weights is None:
        weights = counts / counts.sum(axis=1, keepdims=True)
    share = (weights / np.maximum(counts, 1))[whole.user, whole.silo][:, None]
    mean = (share * z).sum(axis=0) / share.sum()
    variance = (share * z**2).sum(axis=0) / share.sum() - mean**2
    assert found.mean == pytest.approx(mean, abs=1e-4)
    assert found.scale == pytest.approx(np.sqrt(variance), abs=1e-4)
    assert found.released.size == 8 + (rule == "uniform")


def released(own: MomentsRelease, recorder: Any, seed: int = 1) -> Any:
    from privplan.accountant.plan import plan_given_noise

    plan = plan_given_noise([own.phase], delta=1e-5, unit="user")
    gate = Gate(Odometer.for_plan(plan), recorder, Streams.seeded(seed))
    return own.release(gate, lambda _: None)


def test_the_noise_is_there(tiny: Any, log: Any) -> None:
    """The noise of the sum has the deviation that is stated; false alarms: 1e-6."""
    own = normalising(tiny(users=6, silos=3, features=20), noise=2.0)
    exact = np.sum(own.totals(), axis=0) * own.mechanism.grid
    noise = np.concatenate([released(own, log(), seed).released - exact for seed in range(20)])
    square = float((noise**2).sum()) / own.mechanism.std**2
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], noise.size)
    assert low < square < high
    assert own.mechanism.std == pytest.approx(2.0 * math.sqrt(20))


def test_one_intent_says_what_is_released(tiny: Any, log: Any) -> None:
    own, kept = normalising(tiny(users=6, silos=3)), log()
    found = released(own, kept)
    (intent,), (release,) = kept.intents, kept.releases
    assert (intent.phase, intent.round) == (NORMALISE, 0)
    assert intent.contribution == records.Contribution(2.0, "l2", "user", "unit", "public")
    assert intent.weights == records.Weights("records", 1.0)
    assert intent.noise.shares == release.shares == 3
    assert intent.sampling == records.Sampling()
    assert intent.event == ev.Gaussian(3.0)
    assert set(intent.views) == {"server", "silo", "silo-with-records"}
    assert release.aggregate == found.digest
    assert release.values == 8
    assert release.normaliser is None


def test_what_follows_from_the_one_release_knows_no_record(tiny: Any, log: Any) -> None:
    whole = tiny(users=5, silos=2)
    sum_ = np.linspace(-4.0, 3.0, 8)
    one, other = (normalising(each).moments(sum_) for each in (whole, whole.without(2)))
    assert one.mean.tolist() == other.mean.tolist()
    assert one.scale.tolist() == other.scale.tolist()
    from privplan.accountant.plan import plan_given_noise

    own = normalising(tiny())
    gate = Gate(
        Odometer.for_plan(plan_given_noise([own.phase], delta=1e-5)),
        kept := log(),
        Streams.seeded(1),
    )
    own.release(gate, lambda _: None)
    with pytest.raises(BudgetExceeded):
        own.release(gate, lambda _: None)
    assert len(kept.intents) == 1


# -- whole runs ---------------------------------------------------------------------------------


@for_each("system", ["uldp-avg", "uldp-sgd", "uldp-naive"])
def test_a_run_releases_its_moments_once_and_the_audit_agrees(system: str, tmp_path: Path) -> None:
    own = changed(run={"system": system})
    if system == "uldp-naive":
        own = changed(own, training={"weighting": "uniform"})
    result = started(own, tmp_path)
    require_whole(tmp_path)
    assert (result.rounds, result.planned) == (2, 2)
    audit = audit_budget(tmp_path)
    assert audit.ok
    assert not [one.id for one in audit.hazards]
    (close,) = of(tmp_path, records.RunClose)
    for row in audit.rows:
        if row.stated is not None:
            assert row.total.upper == pytest.approx(close.epsilon[row.observer], rel=1e-6)
    assert {row.observer for row in audit.rows} >= {"model", "server", "silo"}
    assert audit.spent == audit.released == audit.planned_rounds == 3


def test_sampled_users_are_all_in_the_moments(tmp_path: Path) -> None:
    own = changed(privacy={"sampling_rate": 0.5, "neighbours": "replace-one"})
    started(own, tmp_path)
    require_whole(tmp_path)
    first, *rest = of(tmp_path, records.RoundIntent)
    assert first.sampling.method == "none"
    assert {one.sampling.method for one in rest} == {"poisson"}
    audit = audit_budget(tmp_path)
    assert audit.ok
    assert not [one.id for one in audit.hazards if one.severity != "note"]


def test_training_sees_features_by_the_released_moments_alone(tmp_path: Path) -> None:
    """A seeded run equals one on a federation that was normalised by hand with what it released."""
    own = changed(run={"seed": 4})
    started(own, tmp_path)
    kept = Checkpoint.read(tmp_path / MODEL_FILE)
    moments = kept.moments
    assert moments is not None
    prepared = prepare(own)
    raw = prepared.federation
    assert raw.features.max() > 100.0  # as read
    scaled = normalise.apply(
        normalise.clip(raw.features, SCALING.lower, SCALING.upper), moments.mean, moments.scale
    )
    parameters = replayed(prepared, scaled)
    assert parameters.tobytes() == kept.parameters.tobytes()


def replayed(prepared: PreparedRun, features: Any) -> Any:
    """Return the model of the same rounds with the same streams, on features given by hand."""

    class Forgets:
        def append(self, _: records.Record) -> int:
            return 1

        def seal(self, items: Mapping[str, object]) -> dict[str, str]:
            return dict.fromkeys(items, "0" * 64)

    gate = Gate(Odometer.for_plan(prepared.plan), Forgets(), Streams.seeded(4, 0))
    step, system = prepared.system.normalisation, prepared.system
    assert step is not None
    step.release(gate, lambda _: None)
    system.normalised(replace(prepared.federation, features=features))
    parameters = system.initial()
    for number in (1, 2):
        parameters = system.round(number, parameters, gate).parameters
    return parameters


def test_public_normalisation_releases_nothing(tmp_path: Path) -> None:
    own = changed(data={"normalisation": "public"}, privacy={"normalisation_noise": None})
    started(own, tmp_path)
    assert {one.phase for one in of(tmp_path, records.RoundIntent)} == {"train"}
    assert Checkpoint.read(tmp_path / MODEL_FILE).moments is None
    assert json.loads((tmp_path / "metrics.json").read_text())["normalisation_noise"] is None
