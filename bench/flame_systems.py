"""FLAME's users in memory, and what they are measured against: a run's rounds with nothing kept.

The systems are those that `privplan run` makes, with their plan, gate and odometer; records go
nowhere.  Noise is seeded, so it protects nobody: the records are anybody's to read.  All are under
replace-one, with a user as unit, and each user's update is clipped: by coordinate in FLAME and
without noise, in L2 where the noise is Gaussian.

    topk, double, simple    FLAME's protocols, messages mixed coordinate by coordinate
    central                 sum of updates with one Gaussian (`uldp-avg` with one silo)
    local-gaussian          every user adds Gaussian noise itself (`disco`, a peer for each user)
    local-laplace           every user adds Laplace noise itself (`flame-simple` in tuples)
    none                    means of clipped updates
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.canaries.memory_log import MemoryLog
from privplan.fl.data.federation import Federation
from privplan.fl.datasets import federate, load
from privplan.fl.datasets.dataset import Dataset
from privplan.fl.frame.private_system import PrivateSystem
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.frame.system import build
from privplan.fl.models import model_named
from privplan.fl.running.configuration import Configuration
from privplan.fl.settings.schema import Settings
from privplan.fl.training.local_training import TorchLocalTraining
from privplan.fl.training.metrics import evaluate

Vector = NDArray[np.float64]
Way = Literal["none", "central", "local-gaussian", "local-laplace", "topk", "double", "simple"]

USERS: Final = 1_000
CHOSEN: Final = 65
"""Coordinates that a user sends: a tenth of the model's 650."""

DELTA: Final = 0.01 / USERS**1.1
ROUNDS: Final = 5
ROUNDS_WITHOUT_NOISE: Final = 20

_SYSTEMS: Final = {
    "none": "flame-simple",  # its users train without its noise
    "central": "uldp-avg",
    "local-gaussian": "disco",
    "local-laplace": "flame-simple",
    "topk": "flame-topk",
    "double": "flame-double",
    "simple": "flame-simple",
}


_NOT_DRAWN: Final = 2.0
"""The noise multiplier that is written down where no noise is drawn."""


@dataclass(frozen=True)
class Case:
    """One way with its noise: an `epsilon0` of each message, or an `epsilon` of all rounds.

    `padded_to` is n_p of `topk` and `double`; below the number of users the overflow is capped.
    """

    way: Way
    epsilon0: float = 0.0
    epsilon: float = 0.0
    padded_to: int = 0

    @property
    def rounds(self) -> int:
        """How many rounds are made."""
        return ROUNDS_WITHOUT_NOISE if self.way == "none" else ROUNDS


@dataclass(frozen=True)
class Chosen:
    """What was chosen for a case."""

    clip: float
    global_rate: float
    local_epochs: int
    local_rate: float = 0.1


def configured(case: Case, chosen: Chosen, noise: float = 0.0) -> Settings:
    """Return the settings of a run, all records of a user in each of its steps.

    With a `noise` multiplier, or 0 for the one that the case says.
    """
    multiplier = noise or (2 / case.epsilon0 if case.epsilon0 else _NOT_DRAWN)
    calibrated = case.epsilon and not noise
    return Configuration.of(
        {
            "run": {"system": _SYSTEMS[case.way], "rounds": case.rounds},
            "data": {
                "name": "digits",
                "silos": USERS if case.way == "local-gaussian" else 1,
                "users": USERS,
            },
            "privacy": {
                "delta": DELTA,
                "neighbours": "replace-one",
                **({"epsilon": case.epsilon} if calibrated else {"noise_multiplier": multiplier}),
            },
            "training": {
                "clip": chosen.clip,
                "global_rate": chosen.global_rate,
                "local_rate": chosen.local_rate,
                "local_epochs": chosen.local_epochs,
                "batch": 10_000,
            },
            **_tables(case),
        }
    ).settings


def _tables(case: Case) -> dict[str, dict[str, Any]]:
    if case.way == "central":
        return {"uldp": {}}
    if case.way == "local-gaussian":
        return {"disco": {"noise": "local"}, "security": {"aggregation": "plain"}}
    flame: dict[str, Any] = {"transport": "ideal"}
    if case.way == "local-laplace":
        flame["granularity"] = "tuple"
    if case.way in ("topk", "double"):
        flame |= {"chosen": CHOSEN, "padded_to": case.padded_to}
        flame["overflow"] = "cap" if case.padded_to < USERS else "refuse"
    return {"flame": flame}


@cache
def records_of(split: int) -> Dataset:
    """Return digits as a run with `[data] seed` = `split` splits it."""
    return load("digits", None, normalisation="public", rng=np.random.default_rng([split, 1]))


@cache
def dealt(split: int) -> Federation:
    """Return all training records, dealt to the users, and the test records of a split."""
    return federate(records_of(split), USERS, 1, "uniform", np.random.default_rng([split, 2]))


@cache
def noise_and_epsilon(case: Case) -> tuple[float, float]:
    """Return the noise multiplier of a case, and the epsilon that the plan proves of all rounds.

    Before who sees what the shuffler hands on, and with local noise before who sees each message.
    """
    if case.way == "none":
        return 0.0, 0.0
    promise = _system(configured(case, Chosen(1.0, 1.0, 1)), 0)[0].promise
    return promise.noise_multiplier, promise.claim.epsilon


def trained(case: Case, chosen: Chosen, split: int) -> float:
    """Return the accuracy of the model of one run on the test records of a split."""
    settings = configured(case, chosen, noise_and_epsilon(case)[0])
    system, local = _system(settings, split)
    final = _without_noise(local, chosen) if case.way == "none" else _final(system, split)
    return evaluate(local.model, final, dealt(split))["accuracy"]


def initial_model(split: int) -> Vector:
    """Return the model that a run starts from, which is public and random: (d,)."""
    return _system(configured(Case("none"), Chosen(1.0, 1.0, 1)), split)[1].initial()


def _system(settings: Settings, split: int) -> tuple[PrivateSystem, TorchLocalTraining]:
    federation = dealt(split)
    if settings.data.silos == USERS:
        federation = replace(federation, silo=federation.user, silos=USERS)
    width = int(np.prod(federation.features.shape[1:]))
    model = model_named("softmax", width, federation.classes)
    local = TorchLocalTraining(settings, federation, model)
    system = build(settings, federation, local, Streams.seeded(split))
    assert isinstance(system, PrivateSystem)
    return system, local


def _final(system: PrivateSystem, seed: int) -> Vector:
    gate = Gate(Odometer.for_plan(system.plan()), MemoryLog(), Streams.seeded(seed, 1))
    *_, (_, _, last) = simulated_rounds(system, gate)
    return last.parameters


def _without_noise(local: TorchLocalTraining, chosen: Chosen) -> Vector:
    parameters = local.initial()
    everybody = [np.arange(USERS)]
    for number in range(1, ROUNDS_WITHOUT_NOISE + 1):
        mean = np.zeros_like(parameters)
        for block in local.user_deltas(parameters, everybody, number):
            mean += np.clip(block.rows, -chosen.clip, chosen.clip).sum(axis=0) / USERS
        parameters = parameters + chosen.global_rate * mean
    return parameters
