"""What a description leaves open, as questions to whoever knows the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .keys import KEYS
from .run_description import RunDescription


@dataclass(frozen=True)
class Question:
    """A dotted `key` that nobody stated and no file holds, and the sentence that asks for it."""

    key: str
    asks: str


ANSWERED_BY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "claim.epsilon": ("claim.rho", "claim.mu"),
        "claim.delta": ("claim.rho", "claim.mu", "claim.delta_rule"),
        "noise.noise_multiplier": ("schedule.phases",),
        "sampling.rate": ("schedule.phases",),
        "schedule.steps": ("schedule.phases",),
    }
)
"""Keys that are not asked for where another one is known."""

NOT_ASKED: Final = frozenset(
    {
        "claim.rho",
        "claim.mu",
        "claim.delta_rule",
        "noise.std",
        "noise.clip",
        "sampling.batch",
        "schedule.epochs",
        "schedule.phases",
        "schedule.records_per_epoch",
        "schedule.horizon_days",
    }
)
"""Keys that another question asks for as well."""

OF_MANY: Final = frozenset(
    {
        "data.users",
        "data.silos",
        "data.records_per_user",
        "sampling.clients_rate",
        "aggregation.weights",
        "aggregation.normaliser",
        "aggregation.expected_replies",
        "aggregation.replies",
    }
)
"""Keys that matter where users or silos take part."""

OF_EVENT: Final = frozenset(
    {"noise.family", "noise.noise_multiplier", "sampling.rate", "schedule.steps"}
)
"""Keys for which the event of a whole run stands."""


def questions(description: RunDescription) -> tuple[Question, ...]:
    """Return a question for every key that is neither stated, read nor derived, in fixed order.

    What does not apply is not asked: counts of users and replies where no users or silos take
    part, noise and schedule where an event says them, and the other ways to say what is known.
    """
    federated = any(description.known(key) for key in OF_MANY) or (
        description.get("claim.unit", str) in ("user", "silo")
    )
    return tuple(
        Question(key.name, key.asks)
        for key in KEYS.values()
        if key.name not in NOT_ASKED
        and not _is_answered(description, key.name)
        and (federated or key.name not in OF_MANY)
    )


def _is_answered(description: RunDescription, name: str) -> bool:
    if name == "sampling.method":
        fact = description.facts.get(name)
        return fact is not None and fact.value != "unknown"
    if description.event is not None and name in OF_EVENT:
        return True
    return any(description.known(key) for key in (name, *ANSWERED_BY.get(name, ())))
