"""Training for FLAME's headlines: the project's protocols, and a Gaussian on the sum in NumPy.

Rounds of FLAME are those of `privplan run` with nothing kept, transport `ideal`; local noise is
`flame-simple` in tuples, whose noise alone counts.  The baselines train the same users, and clip a
whole update in L2.  All noise is seeded, so it protects nobody: the records are anybody's to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, Final, Literal

import numpy as np
from flame_accounting import DELTA, ROUNDS, USERS, Sent
from numpy.typing import NDArray

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import Gate, LaplaceMessages, RoundDescription
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.canaries.memory_log import MemoryLog
from privplan.fl.data.federation import Federation
from privplan.fl.datasets import federate, load
from privplan.fl.frame.private_system import PrivateSystem
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.frame.system import build
from privplan.fl.models import model_named
from privplan.fl.running.configuration import Configuration
from privplan.fl.settings.schema import Settings
from privplan.fl.shuffling import Terms
from privplan.fl.shuffling.ideal import IdealShuffling
from privplan.fl.training.local_training import TorchLocalTraining
from privplan.fl.training.metrics import evaluate

Vector = NDArray[np.float64]

TESTS: Final = 5
CHOOSING: Final = range(1_000, 1_003)
"""A choice is by these seeds, which no test has, on records that no user then has."""

CLIPS: Final = (0.05, 0.1)
"""By coordinate; that of a whole update is five times it."""

GLOBAL_RATES: Final = (1.0, 4.0, 10.0)

_SYSTEMS: Final = {"local": "flame-simple"}
_HELD_OUT: Final = 0.3
_ROUNDS_WITHOUT_NOISE: Final = 20


@dataclass(frozen=True)
class Records:
    """A data set, and the folder with its files if it is not bundled."""

    name: str = "digits"
    path: str | None = None


@dataclass(frozen=True)
class Baseline:
    """No shuffler: `none`, or `central` noise of so many L2 clips on each sum."""

    way: Literal["none", "central"]
    noise_multiplier: float = 0.0


Case = Sent | Baseline


@dataclass(frozen=True)
class Chosen:
    """What was chosen for a case: a clip by coordinate, and the step of the analyzer."""

    clip: float
    global_rate: float


@cache
def dealt(data: Records, seed: int, *, choosing: bool = False) -> Federation:
    """Return training records dealt to the users, and those that they are judged on."""
    rng = np.random.default_rng([seed, 1])
    records = load(data.name, data.path, normalisation="public", rng=rng)
    federation = federate(records, USERS, 1, "uniform", np.random.default_rng([seed, 2]))
    if not choosing:
        return federation
    order = np.random.default_rng([seed, 3]).permutation(len(federation.labels))
    kept, out = np.split(order, [round(len(order) * (1.0 - _HELD_OUT))])
    judged = {"test_features": federation.features[out], "test_labels": federation.labels[out]}
    return replace(federation.only(kept), **judged)


def configured(data: Records, case: Case, chosen: Chosen) -> Settings:
    """Return the settings of a run, all records of a user in each of its five steps."""
    sent = case if isinstance(case, Sent) else Sent("simple", 1.0)
    flame: dict[str, Any] = {"transport": "ideal"}
    if sent.way == "local":
        flame["granularity"] = "tuple"
    elif sent.way != "simple":
        overflow = "cap" if sent.padded_to < USERS else "refuse"
        flame |= {"chosen": sent.chosen, "padded_to": sent.padded_to, "overflow": overflow}
    path = {} if data.path is None else {"path": data.path}
    return Configuration.of(
        {
            "run": {"system": _SYSTEMS.get(sent.way, f"flame-{sent.way}"), "rounds": ROUNDS},
            "data": {"name": data.name, "users": USERS, **path},
            "privacy": {"delta": DELTA, "noise_multiplier": 2.0 / sent.epsilon0},
            "training": {
                "model": "softmax",
                "clip": chosen.clip,
                "global_rate": chosen.global_rate,
                "local_rate": 0.1,
                "local_epochs": 5,
                "batch": 10_000,
            },
            "flame": flame,
        }
    ).settings


def trained(data: Records, case: Case, chosen: Chosen, federation: Federation, seed: int) -> float:
    """Return the accuracy of the model of one run on what the federation is judged on."""
    settings = configured(data, case, chosen)
    width = int(np.prod(federation.features.shape[1:]))
    local = TorchLocalTraining(
        settings, federation, model_named("softmax", width, federation.classes)
    )
    if isinstance(case, Baseline):
        final = _averaged(case, chosen, local, np.random.default_rng([seed, 4]))
        return evaluate(local.model, final, federation)["accuracy"]
    system = build(settings, federation, local, Streams.seeded(seed))
    assert isinstance(system, PrivateSystem)
    odometer = Odometer.for_plan(system.plan())
    *_, (_, _, last) = simulated_rounds(
        system, Gate(odometer, MemoryLog(), Streams.seeded(seed, 1))
    )
    return evaluate(local.model, last.parameters, federation)["accuracy"]


def _averaged(
    case: Baseline, chosen: Chosen, local: TorchLocalTraining, rng: np.random.Generator
) -> Vector:
    """Return the model after rounds of x + eta (sum of clipped updates + noise) / n."""
    clip, parameters = 5.0 * chosen.clip, local.initial()
    for number in range(1, (_ROUNDS_WITHOUT_NOISE if case.way == "none" else ROUNDS) + 1):
        total = np.zeros_like(parameters)
        for block in local.user_deltas(parameters, [np.arange(USERS)], number):
            norms = np.linalg.norm(block.rows, axis=1, keepdims=True)
            total += (block.rows * np.minimum(1.0, clip / np.maximum(norms, 1e-12))).sum(axis=0)
        total += case.noise_multiplier * clip * rng.normal(size=total.shape)
        parameters = parameters + chosen.global_rate * total / USERS
    return parameters


def choice(data: Records, case: Case) -> Chosen:
    """Return the clip and the step with the largest mean accuracy on what was held out."""

    def held_out(chosen: Chosen) -> float:
        return sum(
            trained(data, case, chosen, dealt(data, seed, choosing=True), seed) for seed in CHOOSING
        )

    return max((Chosen(clip, rate) for clip, rate in product(CLIPS, GLOBAL_RATES)), key=held_out)


def accuracies(data: Records, case: Case) -> tuple[Chosen, list[float]]:
    """Return what was chosen for a case, and the accuracy of a run with each test seed."""
    chosen = choice(data, case)
    values = [trained(data, case, chosen, dealt(data, seed), seed) for seed in range(TESTS)]
    return chosen, values


def measured_deviation(padded_to: int, epsilon0: float, rounds: int = 8) -> float:
    """Return the deviation of the sums of all coordinates in rounds of users who all send 0.

    13 of 650 coordinates of each of 1,000 users, in clips C: 5,200 sums, so a relative standard
    error of 1 %.
    """
    mechanism = LaplaceMessages(1.0, 2.0 / epsilon0)
    terms = Terms(USERS, 650, 13, padded_to=padded_to, overflow="cap")
    rng, shuffling = np.random.default_rng(5), IdealShuffling(terms)
    gate = Gate(None, MemoryLog(), Streams.seeded(padded_to))
    return float(np.std(list(_sums(mechanism, shuffling, gate, rng, rounds))))


def _sums(
    mechanism: LaplaceMessages,
    shuffling: IdealShuffling,
    gate: Gate,
    rng: np.random.Generator,
    rounds: int,
) -> Iterator[Vector]:
    """Yield the sums of every round, in clips: (650,)."""
    chosen = shuffling.terms.chosen
    nothing = ev.NoGuarantee("a measurement of noise, of nobody's data")
    for number in range(1, rounds + 1):
        about = RoundDescription(number, "train", draws=chosen, event_override=nothing)
        ticket = gate.open(mechanism.intent(about, "replace-one"))
        places = np.argsort(rng.random((USERS, shuffling.terms.dimensions)), axis=1)[:, :chosen]
        messages = mechanism.messages(ticket, np.zeros((USERS, chosen)), "messages")
        received = shuffling.round(number, ticket, messages, places=places, mechanism=mechanism)
        ticket.close()
        yield mechanism.units(received.sums[:, 0])
