"""Features that are normalised by moments which a mechanism released, once, within the plan."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded, InvalidInput
from privplan.accountant.mechanisms import Gate, Gaussian
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import affordable
from privplan.accountant.randomness import Streams
from privplan.accountant.sensitivity.uldp import CLEAR_WEIGHTS
from privplan.audit.budget import audit_budget
from privplan.audit.verify import verify
from privplan.fl.data import normalise
from privplan.fl.datasets import load
from privplan.fl.datasets.breast_cancer import SCALING
from privplan.fl.declarations.declaration import NORMALISE
from privplan.fl.files import atomic
from privplan.fl.frame.model import model_digest
from privplan.fl.frame.private_normalisation import MomentsRelease
from privplan.fl.log import LogWriter, read
from privplan.fl.running.checkpoint import CHECKPOINT, MODEL, Checkpoint
from privplan.fl.running.preparation import Prepared, prepare, randomness
from privplan.fl.running.resumption import require_resumable
from privplan.fl.running.session import RunResult, carry_out
from privplan.fl.settings.schema import (
    DataSettings,
    PrivacySettings,
    RunSettings,
    Settings,
    TrainingSettings,
)
from privplan.fl.training.metrics import measured

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography")),
    reason="runs need the extra `fl`",
)

SMALL = Settings(
    run=RunSettings(system="uldp-avg", rounds=2),
    data=DataSettings(name="breast-cancer", users=6, silos=2, normalisation="private"),
    privacy=PrivacySettings(noise_multiplier=5.0, normalisation_noise=3.0),
    training=TrainingSettings(
        clip=0.1,
        local_rate=0.1,
        global_rate=2.0,
        local_epochs=1,
        batch=64,
        model="logistic",
        weighting="records",
    ),
)

LOST = "cut off while it released the moments"


def changed(own: Settings = SMALL, **tables: Mapping[str, object]) -> Settings:
    """Return settings with some keys changed, by table."""
    new = {name: replace(getattr(own, name), **keys) for name, keys in tables.items()}
    return replace(own, **new)  # type: ignore[arg-type]


def started(settings: Settings, folder: Path, recorder: Any = None) -> RunResult:
    """Make a whole run."""
    prepared = prepare(settings)
    with LogWriter.create(folder) as writer:
        return carry_out(prepared, folder, recorder(writer) if recorder else writer)


def resumed(settings: Settings, folder: Path) -> RunResult:
    """Go on with a run that was cut off, as the command does: what does not belong is refused."""
    prepared = prepare(settings, segment=verify(folder).recoveries + 1)
    require_resumable(prepared, folder, progress_of(folder))
    writer, progress = LogWriter.resume(folder, randomness=randomness(settings))
    with writer:
        return carry_out(prepared, folder, writer, progress=progress)


def progress_of(folder: Path) -> records.Progress:
    from privplan.fl.log.reader import Scan

    scan = Scan(folder)
    for _ in scan:
        pass
    found = scan.course.progress()
    assert found is not None
    return found


def of(folder: Path, kind: type[Any]) -> list[Any]:
    return [line.record for line in read(folder) if isinstance(line.record, kind)]


def epsilon_of(mus: list[float], delta: float) -> float:
    """Return epsilon of Gaussian releases with these mu: closed form, by bisection."""
    mu = math.sqrt(sum(one * one for one in mus))

    def excess(epsilon: float) -> float:
        found = stats.norm.cdf(mu / 2 - epsilon / mu)
        return float(found - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu) - delta)

    return float(brentq(excess, 1e-9, 500.0, xtol=1e-12))


def normalising(federation: Any, *, rule: str = "records", noise: float = 3.0) -> MomentsRelease:
    return MomentsRelease(noise, rule, "add-remove", federation, -1.0, 1.0)


# -- the plan -----------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["uldp-avg", "uldp-sgd", "uldp-naive"])
@pytest.mark.parametrize("weighting", ["uniform", "records"])
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
        assert proven == pytest.approx(epsilon_of(mus, 1e-5), rel=1e-4)
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
    assert epsilon_of([1 / 3.0, *2 * [1 / noise]], 1e-5) == pytest.approx(3.0, rel=1e-3)


def test_a_budget_cuts_what_normalising_leaves() -> None:
    own = changed(run={"rounds": 500}, privacy={"epsilon": 2.0})
    prepared = prepare(own)
    made = prepared.rounds
    assert prepared.cut
    first = [1 / 3.0]
    assert (
        epsilon_of([*first, *made * [0.2]], 1e-5)
        <= 2.0
        < epsilon_of([*first, *(made + 1) * [0.2]], 1e-5)
    )
    whole = affordable(ev.Gaussian(5.0), epsilon=2.0, delta=1e-5, most=500)
    assert made < whole


def test_a_budget_that_normalising_eats_begins_nothing() -> None:
    for privacy in ({"epsilon": 1.0}, {"epsilon": 1.0, "noise_multiplier": None}):
        with pytest.raises(BudgetExceeded, match="'normalise' alone spends epsilon 1"):
            prepare(changed(privacy={**privacy, "normalisation_noise": 3.0}))
    with pytest.raises(BudgetExceeded, match="after the phase 'normalise'"):
        prepare(changed(privacy={"epsilon": 1.3, "noise_multiplier": 2.0}))


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("rule", ["records", "uniform"])
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


@pytest.mark.parametrize("rule", ["records", "uniform"])
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
    from privplan.accountant.plan import given

    plan = given([own.phase], delta=1e-5, unit="user")
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


def test_what_follows_from_the_release_knows_no_record(tiny: Any) -> None:
    whole = tiny(users=5, silos=2)
    sum_ = np.linspace(-4.0, 3.0, 8)
    one, other = (normalising(each).moments(sum_) for each in (whole, whole.without(2)))
    assert one.mean.tolist() == other.mean.tolist()
    assert one.scale.tolist() == other.scale.tolist()


def test_the_plan_pays_for_one_release(tiny: Any, log: Any) -> None:
    from privplan.accountant.plan import given

    own = normalising(tiny())
    gate = Gate(Odometer.for_plan(given([own.phase], delta=1e-5)), kept := log(), Streams.seeded(1))
    own.release(gate, lambda _: None)
    with pytest.raises(BudgetExceeded):
        own.release(gate, lambda _: None)
    assert len(kept.intents) == 1


# -- whole runs ---------------------------------------------------------------------------------


def require_whole(folder: Path, planned: int = 2) -> None:
    """Require a run that came to its end with one release of moments, which its model stands on."""
    found = verify(folder)
    assert found.complete, found.problem
    intents, releases = of(folder, records.RoundIntent), of(folder, records.RoundRelease)
    (close,) = of(folder, records.RunClose)
    assert [(one.phase, one.round) for one in intents] == [
        (NORMALISE, 0),
        *(("train", number) for number in range(1, planned + 1)),
    ]
    assert close.rounds == len(releases)
    assert releases[0].round == 0
    kept = Checkpoint.read(folder / MODEL)
    assert kept.moments is not None
    assert kept.moments.digest == releases[0].aggregate
    assert model_digest(kept.parameters) == close.model
    assert {one.model_out for one in releases[1:]} | {intents[1].model_in} >= {close.model}
    assert not (folder / CHECKPOINT).exists()
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["released"] == len(releases) - 1
    assert metrics["planned"] == planned
    assert metrics["normalisation_noise"] == 3.0
    reading = metrics["rounds"][-1]["epsilon_so_far"]["model"]
    assert reading == pytest.approx(metrics["guarantees"]["model"]["epsilon"])
    require_measured(folder, kept, metrics["rounds"][-1]["metrics"])


def require_measured(folder: Path, kept: Checkpoint, said: Mapping[str, float]) -> None:
    """Require that the model's file, and records as they are read, give what the run measured."""
    prepared = prepare(changed(privacy={"normalisation_noise": 3.0}))
    with np.load(folder / MODEL, allow_pickle=False) as arrays:
        lower, upper, mean, scale = (
            arrays[f"normalisation_{name}"] for name in ("lower", "upper", "mean", "scale")
        )
    raw = prepared.federation.test_features
    features = ((np.clip(raw, lower, upper) - mean) / scale).astype(np.float32)
    found = measured(
        prepared.model.logits(kept.parameters, features), prepared.federation.test_labels
    )
    assert found == pytest.approx(dict(said), rel=1e-4)


@pytest.mark.parametrize("system", ["uldp-avg", "uldp-sgd", "uldp-naive"])
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
    kept = Checkpoint.read(tmp_path / MODEL)
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


def replayed(prepared: Prepared, features: Any) -> Any:
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


def test_local_training_forgets_the_features_as_they_were_read() -> None:
    from privplan.fl.training.local_training import TorchLocalTraining

    prepared = prepare(SMALL)
    raw = prepared.federation
    scaled = normalising_by_hand(prepared).applied(raw)
    own, fresh = (TorchLocalTraining(SMALL, one, prepared.model) for one in (raw, scaled))

    def answers(local: TorchLocalTraining) -> list[Any]:
        first, everybody = local.initial(), 2 * [np.arange(6)]
        return [
            *(part.rows for part in local.user_deltas(first, everybody, 1)),
            *(part.rows for part in local.user_gradients(first, everybody, 1)),
            local.silo_deltas(first, 1),
            local.record_gradients(np.tile(first, (2, 1)), np.arange(5), 0),
        ]

    before, expected = answers(own), answers(fresh)
    own.use(scaled)
    after = answers(own)
    assert len(after) == len(expected) == len(before) >= 4
    for one, other, old in zip(after, expected, before, strict=True):
        assert one.tobytes() == other.tobytes() != old.tobytes()


def normalising_by_hand(prepared: Prepared) -> Any:
    """Return moments that nothing released: of a sum of zeros."""
    step = prepared.system.normalisation
    assert step is not None
    return step.moments(np.zeros(60))


def test_public_normalisation_releases_nothing(tmp_path: Path) -> None:
    own = changed(data={"normalisation": "public"}, privacy={"normalisation_noise": None})
    started(own, tmp_path)
    assert {one.phase for one in of(tmp_path, records.RoundIntent)} == {"train"}
    assert Checkpoint.read(tmp_path / MODEL).moments is None
    assert json.loads((tmp_path / "metrics.json").read_text())["normalisation_noise"] is None


# -- whatever stops a run -----------------------------------------------------------------------


class Stop(Exception):
    """What a test raises."""


class Failing:
    """The real log, which fails at the record with number `at`: before it is written, or after."""

    def __init__(self, writer: LogWriter, at: int, *, written: bool) -> None:
        self.writer, self.at, self.written, self.count = writer, at, written, 0

    def append(self, record: records.Record) -> int:
        self.count += 1
        if self.count == self.at and not self.written:
            raise Stop
        seq = self.writer.append(record)
        if self.count == self.at:
            raise Stop
        return seq

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        return self.writer.seal(items)

    def settle(self) -> None:
        self.writer.settle()


APPENDS = 10
"""How many records a run of two rounds has: open, 2 for the moments, 3 for each round, close."""


def require_goes_on_or_is_lost(folder: Path) -> None:
    """Require that a run that was cut off comes to its end, or lost its moments and says so."""
    intents = of(folder, records.RoundIntent)
    releases = of(folder, records.RoundRelease)
    if intents and not any(one.round == 0 for one in releases):
        before = (folder / "log.jsonl").read_bytes()
        with pytest.raises(InvalidInput, match=LOST) as caught:
            resumed(SMALL, folder)
        assert "another folder" in caught.value.next_step
        assert (folder / "log.jsonl").read_bytes() == before
        assert len(intents) == 1  # nothing was trained without them
        assert audit_budget(folder).spent == 1
        return
    resumed(SMALL, folder)
    require_whole(folder)
    audit = audit_budget(folder)
    assert audit.ok
    assert audit.spent == 3


@pytest.mark.quick(9)
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("at", range(2, APPENDS + 1))
def test_a_run_that_is_cut_at_any_record_never_releases_moments_twice(
    at: int, written: bool, tmp_path: Path
) -> None:
    with pytest.raises(Stop):
        started(SMALL, tmp_path, lambda writer: Failing(writer, at, written=written))
    if at == APPENDS and written:
        assert verify(tmp_path).complete
        return
    require_goes_on_or_is_lost(tmp_path)


def test_a_full_disk_at_each_file_never_releases_moments_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, outcomes = atomic.write, []
    for at in range(1, 6):
        count = 0

        def full(path: Path, content: bytes, at: int = at) -> None:
            nonlocal count
            count += 1
            if count == at:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(path, content)

        folder = tmp_path / str(at)
        monkeypatch.setattr(atomic, "write", full)
        with pytest.raises(OSError, match="No space"):
            started(SMALL, folder)
        monkeypatch.undo()
        require_goes_on_or_is_lost(folder)
        outcomes.append(verify(folder).complete)
    assert outcomes == [False, True, True, True, True]  # the first file holds the moments


HONEST = MomentsRelease.release


def keeps_nothing(own: MomentsRelease, gate: Gate, _: Any) -> Any:
    return HONEST(own, gate, lambda _: None)


def keeps_late(own: MomentsRelease, gate: Gate, keep: Any) -> Any:
    made = HONEST(own, gate, lambda _: None)
    keep(made)
    return made


def keeps_others(own: MomentsRelease, gate: Gate, keep: Any) -> Any:
    return HONEST(own, gate, lambda one: keep(replace(one, released=one.released + 1.0)))


def keeps_what_it_never_released(own: MomentsRelease, gate: Gate, keep: Any) -> Any:  # noqa: ARG001
    """Without noise, and without a line in the log."""
    made = own.moments(own.mechanism.units(np.sum(own.totals(), axis=0)))
    keep(made)
    return made


@pytest.mark.parametrize(
    ("release", "what"),
    [
        (keeps_nothing, "kept nothing"),
        (keeps_late, "after their release"),
        (keeps_others, "not those of one release"),
        (keeps_what_it_never_released, "not those of one release"),
    ],
)
def test_what_a_phase_keeps_is_what_it_released_once(
    release: Any, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a system of another package, too: a run would go on from what is in no log."""
    monkeypatch.setattr(MomentsRelease, "release", release)
    with pytest.raises(InvalidInput, match=rf"uldp-avg \(package privplan\).* {what}"):
        started(SMALL, tmp_path)
    assert not (tmp_path / MODEL).exists()
    monkeypatch.undo()
    with pytest.raises(InvalidInput):
        resumed(SMALL, tmp_path)


def test_an_interruption_waits_until_the_moments_are_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = Gaussian.share_steps

    def interrupted(*given: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return share(*given, **named)

    monkeypatch.setattr(Gaussian, "share_steps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        started(SMALL, tmp_path)
    monkeypatch.undo()
    assert [one.round for one in of(tmp_path, records.RoundRelease)] == [0]
    assert not of(tmp_path, records.RoundAbort)
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)


def test_a_run_goes_on_from_the_moments_that_it_released_and_no_others(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        started(SMALL, tmp_path, lambda writer: Failing(writer, 4, written=False))
    place = tmp_path / CHECKPOINT
    kept = Checkpoint.read(place)
    assert kept.moments is not None
    moved = kept.moments.released.copy()
    moved[3] = np.nextafter(moved[3], np.inf)
    for wrong, what in (
        (replace(kept, state=replace(kept.moments, released=moved).to_arrays()), "are not those"),
        (replace(kept, state={}), "are missing"),
    ):
        wrong.write(place)
        with pytest.raises(InvalidInput, match=what):
            resumed(SMALL, tmp_path)
    place.unlink()
    with pytest.raises(InvalidInput, match="are missing"):
        resumed(SMALL, tmp_path)
    altered = replace(kept.moments, scale=kept.moments.scale * 2.0)  # follows from the release
    replace(kept, state=altered.to_arrays()).write(place)
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)


def test_moments_that_no_release_stands_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        started(SMALL, tmp_path / "other", lambda writer: Failing(writer, 4, written=False))
    with pytest.raises(Stop):
        started(SMALL, tmp_path / "own", lambda writer: Failing(writer, 2, written=False))
    (opened,) = of(tmp_path / "own", records.RunOpen)
    kept = Checkpoint.read(tmp_path / "other" / CHECKPOINT)
    replace(kept, run_id=opened.run_id).write(tmp_path / "own" / CHECKPOINT)
    with pytest.raises(InvalidInput, match="the log never released"):
        resumed(SMALL, tmp_path / "own")


def test_files_that_hold_no_moments_are_no_models(tmp_path: Path) -> None:
    started(SMALL, tmp_path)
    with np.load(tmp_path / MODEL) as arrays:
        content = dict(arrays)
    del content["normalisation_mean"]
    with (tmp_path / "broken.npz").open("wb") as file:
        np.savez(file, **content)
    with pytest.raises(InvalidInput, match="no model of a run"):
        Checkpoint.read(tmp_path / "broken.npz")


def test_loading_alone_normalises_by_no_private_moments() -> None:
    with pytest.raises(InvalidInput, match="accounted mechanism"):
        load("breast-cancer", normalisation="private")
