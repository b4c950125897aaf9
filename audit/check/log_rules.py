"""The hazard rules of privplan's own logs, and what stands for each in another's description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..description.run_description import RunDescription
from ..hazards import RULES

NOT_APPLICABLE: Final = "not applicable: only a log of privplan's own can meet it"

COUNTERPARTS: Final[dict[str, tuple[str, str]]] = {
    "shuffled-as-poisson": ("shuffled-loader", "sampling.method"),
    "rate-mismatch": ("contradiction", "sampling.rate"),
    "sampled-unit": ("sampled-twice", "sampling.clients_rate"),
    "neighbour-mismatch": ("neighbour-mismatch", "claim.neighbours"),
    "unit-mismatch": ("contradiction", "claim.unit"),
    "delta-too-large": ("delta-too-large", "claim.delta"),
    "delta-not-compared": ("delta-too-large", "data.records"),
    "sensitivity-below-facts": ("microbatches", "schedule.microbatches"),
    "weights-above-one": ("unequal-weights", "aggregation.weights"),
    "unweighted-terms": ("unequal-weights", "aggregation.weights"),
    "private-bound": ("private-clip", "noise.clip_source"),
    "adaptive-clip": ("unpaid-clip-count", "noise.clip_source"),
    "clip-not-enforced": ("private-clip", "noise.clip_source"),
    "realised-normaliser": ("realised-normaliser", "aggregation.normaliser"),
    "moving-normaliser": ("realised-normaliser", "aggregation.normaliser"),
    "no-noise": ("release-without-noise", "noise.noise_multiplier"),
    "dropouts": ("fewer-replies", "aggregation.replies"),
    "extra-draws": ("restarted-accountant", "schedule.restarts"),
    "classical-sigma": ("classical-gaussian", "claim.accountant"),
    "more-rounds": ("mid-epoch-value", "schedule.steps"),
    "resumed-without-state": ("restarted-accountant", "schedule.restarts"),
    "tuning-unaccounted": ("tuning-not-counted", "tuning.runs"),
    "private-evaluation": ("release-without-noise", "releases"),
    "close-under-reports": ("other-settings", "claim.epsilon"),
    "event-mismatch": ("other-settings", "claim.epsilon"),
    "engines-disagree": ("other-settings", "claim.epsilon"),
}
"""Hazard rule -> the cause that is its counterpart, and the key that it is fed with."""


@dataclass(frozen=True)
class LogRule:
    """A hazard rule beside a described run: its `cause`, or why it does not apply.

    `fed` says whether the description states the fact that the rule needs.
    """

    id: str
    cause: str | None
    fed: bool
    says: str


def log_rules(description: RunDescription) -> tuple[LogRule, ...]:
    """Return, for every hazard rule, its counterpart among the causes, or that it has none."""
    rules = []
    for name in RULES:
        if name not in COUNTERPARTS:
            rules.append(LogRule(name, None, False, NOT_APPLICABLE))
            continue
        cause, key = COUNTERPARTS[name]
        fed = description.known(key)
        says = f"looked for as `{cause}`" if fed else f"`{key}` is not stated, and asked for"
        rules.append(LogRule(name, cause, fed, says))
    return tuple(rules)
