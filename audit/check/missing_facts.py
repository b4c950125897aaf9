"""What to ask for: what the verdict needs, and what could make the number wrong unsaid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..description.keys import KEYS
from .bounds import Proof
from .check_result import MissingFact
from .checked_run import CheckedRun

ALWAYS: Final = (
    "sampling.method",
    "noise.clip_source",
    "claim.neighbours",
    "claim.unit",
)
"""What no artefact of a library says, and every verdict about a trained model rests on."""

OF_FEDERATED_RUNS: Final = (
    "schedule.restarts",
    "aggregation.weights",
    "aggregation.expected_replies",
    "aggregation.replies",
)

OF_TRAINING: Final = (
    "data.records",
    "schedule.accumulation",
    "schedule.microbatches",
    "aggregation.normaliser",
    "schedule.restarts",
    "tuning.runs",
)
"""What changes a number where it is not what everybody assumes, the gravest first."""

RELEASES: Final = "releases"


def missing_facts(
    run: CheckedRun, proof: Proof, deciding: tuple[str, ...] = ()
) -> tuple[MissingFact, ...]:
    """Return the questions about a run: what the verdict waits for first, then by weight.

    `deciding` are keys that it waits for besides those that the proof lacks.
    """
    asked: list[str] = []
    if run.claim is None:
        asked.append("claim.epsilon")
    # The sampler decides most, and which other facts are needed.
    if proof.alternatives:
        asked.append("sampling.method")
    asked += [
        key.split(".noise_multiplier")[0] if key.startswith("releases") else key
        for key in proof.lacking
    ]
    asked += deciding
    waits_for = frozenset(asked)
    if run.settings.renews_every_days is not None and run.settings.horizon_days is None:
        asked.append("schedule.horizon_days")
    unsaid = run.settings.method == "unknown" and run.event is None
    asked += [
        key for key in ALWAYS if key not in run.known or (unsaid and key == "sampling.method")
    ]
    if run.currency == "epsilon" and "claim.delta" not in run.known:
        asked.append("claim.delta")
    if run.federated:
        asked += [key for key in OF_FEDERATED_RUNS if key not in run.known]
    if run.settings.unit == "user" and run.settings.records_per_user is None:
        asked.append("data.records_per_user")
    asked += [key for key in _of_training(run) if key not in run.known]
    return tuple(_question(key, key in waits_for) for key in dict.fromkeys(asked))


def _of_training(run: CheckedRun) -> Iterable[str]:
    units = {"user": "data.users", "silo": "data.silos"}.get(run.settings.unit)
    for key in OF_TRAINING:
        if key == "data.records" and units is not None:
            yield units
        else:
            yield key


def _question(key: str, deciding: bool) -> MissingFact:
    asks = KEYS[key].asks
    if key == RELEASES:
        asks = "What was released besides the sums, with which noise: a count for the clip?"
    return MissingFact(key, asks, deciding)
