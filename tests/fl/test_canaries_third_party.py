"""A system of another package brings its carrier with what `fl.canaries` offers, and is rehearsed.

Two toys: one sums rows of its users, which nobody trains on, and one what training gives.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gaussian, RoundDescription
from privplan.accountant.sensitivity.release import up
from privplan.audit.attack.tiers import DEFAULT_CANARIES, canary_count
from privplan.audit.canaries import claim_tier, rehearse
from privplan.fl.aggregation.sums import noisy_sum
from privplan.fl.canaries import (
    CanaryHarness,
    CanaryObservations,
    RecordingAggregator,
    View,
    canary_rows,
    canary_training,
    records_federation,
)
from privplan.fl.declarations.declaration import Declaration
from privplan.fl.declarations.packages import built_in
from privplan.fl.frame.model import Round, model_digest
from privplan.fl.frame.private_system import PrivateSystem
from privplan.fl.frame.promise import TRAINING_PHASE
from privplan.fl.frame.setup import setup
from privplan.fl.settings.schema import DataSettings, PrivacySettings, RunSettings, Settings
from privplan.fl.settings.schema import TrainingSettings as Training

from ..chance import limits


class Summed(PrivateSystem):
    """The running sum of clipped rows, one for each user, with noise from every silo."""

    rule: Any = "none"

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        clip = self.setup.training.clip
        std = up(Fraction(noise_multiplier) * Fraction(clip))
        return Gaussian(
            clip, std, self.setup.silos, weights=records.Weights(self.rule), unit="user"
        )

    def views(self, noise_multiplier: float) -> dict[str, ev.Event]:
        event, silos = ev.Gaussian(noise_multiplier), self.setup.silos
        left = ev.Gaussian(noise_multiplier * math.sqrt((silos - 1) / silos))
        return {"model": event, "server": event, "silo": left}

    def round(self, number: int, parameters: Any, gate: Any, _: Any = None) -> Round:
        mechanism, silos = self.mechanism(self.promise.noise_multiplier), self.setup.silos
        about = RoundDescription(
            number, TRAINING_PHASE, views=self.promise.views, model_in=model_digest(parameters)
        )
        stated = replace(about, event_override=self.promise.event)
        with gate.open(mechanism.intent(stated, self.setup.privacy.neighbours)) as ticket:
            totals = mechanism.totals(*self.entering(parameters, number))
            arrived = noisy_sum(self.aggregator, number, mechanism, ticket, list(totals))
            total = mechanism.units(arrived.total)
            moved = parameters + total
            released = ticket.close(
                normaliser=records.Normaliser("constant", 1.0),
                aggregate=total.tobytes(),
                model_out=model_digest(moved),
                sealed={},
                values=total.size,
                shares=silos,
            )
        return Round(moved, released)

    def entering(self, parameters: Any, number: int) -> tuple[Any, ...]:
        """Return rows, the silo of each, how many silos there are, and weights."""
        own = self.setup.federation
        return own.features.astype(np.float64), own.silo, own.silos


class Trained(Summed):
    rule = "uniform"

    def entering(self, parameters: Any, number: int) -> tuple[Any, ...]:
        own = self.setup.federation
        users = [np.flatnonzero(own.counts[:, silo]) for silo in range(own.silos)]
        (part,) = self.setup.local.user_deltas(parameters, users, number)
        return part.rows, part.silo, own.silos, np.full(len(part.silo), 1 / own.silos)


class Twice(Summed):
    def entering(self, parameters: Any, number: int) -> tuple[Any, ...]:
        rows, silo, silos = super().entering(parameters, number)
        return np.concatenate((rows, rows)), np.concatenate((silo, silo)), silos


def view(system: Any, columns: Any) -> View:
    """The sum of a round, as the model and the server see it."""
    std = system.promise.noise_multiplier * system.setup.training.clip

    def look(before: Any, after: Any) -> Any:
        return (after - before)[columns] / std

    return View(system.setup.training.clip / std, look)


def beyond(system: Any, columns: Any) -> View:
    """What silo 0 sees: the sum, less what it sent itself."""
    whole, silos = view(system, columns), system.setup.silos
    watching = system.aggregator = RecordingAggregator(system.aggregator)
    mechanism = system.mechanism(system.promise.noise_multiplier)
    left = math.sqrt((silos - 1) / silos)

    def look(before: Any, after: Any) -> Any:
        mine = mechanism.units(watching.sent[0])[columns]
        return ((after - before)[columns] - mine) / (mechanism.std * left)

    return View(whole.shift / left, look)


class InRuns(CanaryHarness[Any]):
    """Seven units in each run: one that is in has ten clips along two columns of its own."""

    room = 7
    looks = 2
    shift = math.sqrt(0.5) / 1.5

    def rows(self, units: Any) -> Any:
        rows = np.repeat(np.eye(self.room), 2, axis=1)[units] * 5.0 * math.sqrt(0.5)
        return records_federation(rows, user=units, silo=units % 3, users=self.room, silos=3)

    @functools.cached_property
    def system(self) -> Any:
        everybody = self.rows(np.arange(self.room))
        local = SimpleNamespace(initial=lambda: np.zeros(2 * self.room))
        return rows(self.request.settings, everybody, local, None)

    def place(self, run: int, units: Any) -> Any:
        present = self.rows(np.flatnonzero(self.coins.into[units]))
        self.system.setup = replace(self.system.setup, federation=present)
        return self.rounds_of(self.system, self.request.streams(run))

    def observe(self, number: int, before: Any, after: Any) -> Any:
        del number
        return after - before

    def score(self, number: int, seen: Any) -> Any:
        del number
        return seen.reshape(self.room, 2).T[:, : len(self.here)] / (1.5 * 0.5)


def simulate(asked: Any) -> Any:
    if asked.settings.run.system == "toy-runs":
        return InRuns(asked).simulated()
    clip = asked.settings.training.clip
    seen = beyond if asked.observer == "silo" else view
    entering = canary_training if asked.settings.run.system == "toy-training" else canary_rows
    return entering(asked, clip=clip, view=seen)


def work(_: Settings, silos: int, canaries: int) -> int:
    return canaries**2 * silos


def rows(settings: Any, federation: Any, local: Any, _: Any) -> Summed:
    return Summed(setup(settings, federation, local))


def trained(settings: Any, federation: Any, local: Any, _: Any) -> Summed:
    return Trained(setup(settings, federation, local))


def twice(settings: Any, federation: Any, local: Any, _: Any) -> Summed:
    return Twice(setup(settings, federation, local))


MAKERS = {"toy-rows": "rows", "toy-runs": "rows", "toy-training": "trained", "toy-twice": "twice"}


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        name: Declaration(
            name=name,
            make=f"{__name__}:{maker}",
            summary="a toy",
            package="toys",
            aggregations=("plain",),
            carrier=f"{__name__}:simulate",
            canaries=2_000,
            canary_work=f"{__name__}:work",
        )
        for name, maker in MAKERS.items()
    }
    known["toy-alone"] = Declaration(
        name="toy-alone", make=f"{__name__}:rows", summary="a toy", package="toys"
    )
    for name, own in known.items():
        monkeypatch.setitem(built_in(), name, own)


def settings(system: str, neighbours: Any = "add-remove") -> Settings:
    return Settings(
        run=RunSettings(system=system, rounds=3),
        data=DataSettings(name="breast-cancer", users=40, silos=3),
        privacy=PrivacySettings(neighbours=neighbours, noise_multiplier=1.5),
        training=Training(
            clip=0.5, local_rate=0.1, global_rate=1.0, local_epochs=1, batch=8, model="logistic"
        ),
    )


@pytest.mark.parametrize("observer", ["model", "server", "silo"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("system", ["toy-rows", "toy-training"])
def test_a_unit_is_seen_as_far_as_is_claimed(system: str, neighbours: Any, observer: str) -> None:
    """Mean and variance of those in and out, at 1 in 10^6 for all 48 looks of all cases."""
    seen = rehearse(settings(system, neighbours), canaries=400, observer=observer, seed=1)
    into, out = seen.observations[:, seen.coins], seen.observations[:, ~seen.coins]
    noise = 1.5 * (math.sqrt(2 / 3) if observer == "silo" else 1.0)
    assert seen.shift == pytest.approx(1 / noise)
    share = 2 / 3 if observer == "silo" and system == "toy-training" else 1.0
    out_at = -1 / noise if neighbours == "replace-one" else 0.0
    _, most = limits(stats.norm(), looks=48)
    for row, at in ((into, share / noise), (out, share * out_at)):
        assert abs(row.mean() - at) < most / math.sqrt(row.size)
        assert abs(row.var() - 1.0) < most * math.sqrt(2 / row.size)
    assert seen.system == system
    assert not claim_tier(seen).contradicted


def test_units_lie_in_as_many_runs_as_they_need_and_each_has_noise_of_its_own() -> None:
    """60 units of which seven lie in a run, in 3 rounds with two looks each."""
    seen = rehearse(settings("toy-runs"), canaries=60, seed=1)
    assert (seen.observations.shape, seen.looks, seen.rounds) == ((6, 60), 2, 3)
    noise = seen.observations - seen.coins * seen.shift
    _, most = limits(stats.norm(), looks=4)
    for part in (noise[:, seen.coins], noise[:, ~seen.coins]):
        assert abs(part.mean()) < most / math.sqrt(part.size)
        assert abs(part.var() - 1.0) < most * math.sqrt(2 / part.size)
    assert len(np.unique(noise)) == noise.size
    with pytest.raises(InvalidInput, match="observer"):
        rehearse(settings("toy-runs"), canaries=10, observer="shuffler")


def test_a_system_that_counts_everybody_twice_is_contradicted() -> None:
    found = claim_tier(rehearse(settings("toy-twice"), canaries=1_000, seed=1))
    assert found.contradicted


SAID = {"coins": np.ones(4, bool), "observations": np.zeros((2, 4)), "shift": 1.0, "rate": 1.0}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("coins", np.ones(4)),
        ("coins", np.ones((4, 1), bool)),
        ("observations", np.zeros((3, 4))),
        ("observations", np.zeros((2, 5))),
        ("groups", np.zeros(3, np.int64)),
        ("looks", 0),
        ("rate", 0.0),
        ("rate", 1.5),
        ("share", 0.0),
        ("share", 1.5),
        ("shift", -1.0),
        ("shift", math.inf),
    ],
)
def test_what_a_carrier_returns_is_checked(field: str, value: Any) -> None:
    whole: dict[str, Any] = {**SAID, "plan": None, "opening": None, "rounds": 2}
    CanaryObservations(**whole)
    with pytest.raises(InvalidInput, match=f"`{field}`"):
        CanaryObservations(**{**whole, field: value})


def test_looks_at_one_round_are_rows_of_their_own() -> None:
    once: dict[str, Any] = {**SAID, "plan": None, "opening": None, "rounds": 1}
    CanaryObservations(**once, looks=2)
    for rounds, looks in ((2, 2), (1, 1), (1, 3)):
        with pytest.raises(InvalidInput, match="`observations`"):
            CanaryObservations(**{**once, "rounds": rounds, "looks": looks})


def test_every_system_here_has_a_carrier() -> None:
    for own in built_in().values():
        assert own.package != "privplan" or callable(own.load(own.carrier or ""))


def test_a_seeded_rehearsal_repeats() -> None:
    first, second = (rehearse(settings("toy-rows"), canaries=60, seed=4) for _ in range(2))
    assert (first.observations == second.observations).all()


def test_how_many_canaries_suit_is_built_in() -> None:
    assert canary_count(settings("toy-rows"), 3, rounds=None, requested=None) == 2_000
    assert canary_count(settings("uldp-avg"), 3, rounds=None, requested=None) == DEFAULT_CANARIES
    with pytest.raises(InvalidInput, match="hours"):
        canary_count(settings("toy-rows"), 3, rounds=None, requested=100_000)


def test_a_system_without_a_carrier_is_refused_with_what_to_do() -> None:
    with pytest.raises(Unsupported, match="toy-alone cannot be rehearsed") as caught:
        rehearse(settings("toy-alone"), canaries=10)
    assert "toy-rows" in caught.value.next_step
    assert "`carrier`" in caught.value.next_step


def test_bad_requests_are_refused() -> None:
    with pytest.raises(InvalidInput, match="too many rows"):
        rehearse(settings("toy-rows"), canaries=10_001)
    with pytest.raises(InvalidInput, match="Nobody trains with the canaries of toy-rows"):
        rehearse(settings("toy-rows"), canaries=10, real=True)
    with pytest.raises(InvalidInput, match="observer"):
        rehearse(settings("toy-rows"), canaries=10, observer="shuffler")
