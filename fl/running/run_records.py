"""The first and the last line of a run's log, and the head of its metrics."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Final, Literal

from ...accountant import events as ev
from ...accountant.guarantee import Guarantee
from ...accountant.odometer import Odometer
from ...accountant.plan import Plan
from ...accountant.records import RunClose, RunOpen, Tuning
from ..declarations.data_table import study_words
from ..frame.held_out_score import HeldOutScore
from ..frame.model import Parameters
from ..settings.public_test_data import EvaluationData
from .checkpoint import Checkpoint, RoundMeasurement
from .preparation import randomness
from .prepared_run import PreparedRun

PACKAGES: Final = ("privplan", "numpy", "scipy", "torch", "cryptography")
"""What the result of a run depends on; their versions stand in its log."""


def versions(package: str = "privplan") -> dict[str, str]:
    """Return the versions of what the result depends on; `package` is that of the system."""
    known = {"python": platform.python_version()}
    for name in dict.fromkeys((*PACKAGES, package)):
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return known


def open_record(prepared: PreparedRun, run_id: str, dataset: str) -> RunOpen:
    """Return the first line of a log; `dataset` is the commitment to the digests of the data."""
    opening, settings = prepared.opening, prepared.settings
    return RunOpen(
        run_id=run_id,
        system=prepared.system.name,
        claim=opening.claim,
        plan=opening.plan,
        population=opening.population,
        randomness=randomness(settings),
        aggregation=opening.aggregation,
        security=opening.security,
        as_published=opening.as_published,
        tuning=Tuning(settings.run.trials, public_only=settings.run.trials == 1),
        dataset=dataset,
        configuration=settings.to_json(),
        code=versions(settings.system.package),
        opened=datetime.now(UTC).isoformat(timespec="seconds"),
        sealed=settings.sealed_items(),
        study=study_words(settings.data.name, opening.claim.unit) or None,
        party=None if prepared.seat is None else prepared.seat.party,
    )


def close_record(
    prepared: PreparedRun, releases: int, reason: Literal["finished", "budget"], model: str
) -> RunClose:
    """Return the last line of a log: the number of releases, and what the whole plan proves.

    `model` is the digest of the last model.
    """
    guarantees, claim = prepared.plan.guarantees, prepared.opening.claim
    return RunClose(
        rounds=releases,
        reason=reason,
        events=prepared.opening.plan.events,
        epsilon={who: proven.epsilon.upper for who, proven in guarantees.items()},
        delta=claim.delta,
        engine=guarantees[claim.observer].engine,
        model=model,
    )


def readings(odometer: Odometer, plan: Plan) -> dict[str, float]:
    """Return the reading of every observer; those who see the same have the same."""
    # Observers with equal views have equal readings: each composition is evaluated once.
    known: dict[tuple[ev.Event | None, ...], float] = {}
    by_observer = {}
    for who in odometer.observers:
        seen = tuple(phase.views.get(who) for phase in plan.phases)
        if seen not in known:
            known[seen] = odometer.reading(who).epsilon
        by_observer[who] = known[seen]
    return by_observer


def metrics_header(
    prepared: PreparedRun,
    checkpoint: Checkpoint,
    released: int,
    held_out: HeldOutScore | None = None,
) -> dict[str, object]:
    """Return what `metrics.json` says of the run with its measurements."""
    votes = {} if held_out is None else {"held_out": held_out.to_json()}
    return {
        "run_id": checkpoint.run_id,
        "system": prepared.system.name,
        "data": prepared.settings.data.name,
        "model": checkpoint.model,
        "planned": prepared.rounds,
        "released": released,
        "normalisation_noise": prepared.settings.privacy.normalisation_noise,
        **votes,
    }


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run has left.

    `rounds` is the number of released models, `planned` how many were planned; a difference was
    spent and lost where the run was cut off.  `guarantees` are those of the whole plan, by
    observer; `measured` is what was spent by round and, where `test` data are public, what they
    said; `model` the digest of `parameters`; `held_out` how users who were held out voted on it.
    """

    run_id: str
    rounds: int
    planned: int
    reason: Literal["finished", "budget"]
    guarantees: Mapping[str, Guarantee]
    measured: tuple[RoundMeasurement, ...]
    parameters: Parameters
    model: str
    test: EvaluationData
    held_out: HeldOutScore | None = None
