"""The hazard rules of privplan's own logs, and the cause that stands for each elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_APPLICABLE: Final = "not applicable"
"""What is said of a rule that only a log of privplan's own can meet."""

COUNTERPARTS: Final[Mapping[str, str]] = {
    "shuffled-as-poisson": "shuffled-loader",
    "rate-mismatch": "contradiction",
    "sampled-unit": "sampled-twice",
    "neighbour-mismatch": "neighbour-mismatch",
    "unit-mismatch": "contradiction",
    "delta-too-large": "delta-too-large",
    "delta-not-compared": "delta-too-large",
    "sensitivity-below-facts": "microbatches",
    "weights-above-one": "unequal-weights",
    "unweighted-terms": "unequal-weights",
    "private-bound": "private-clip",
    "adaptive-clip": "unpaid-clip-count",
    "clip-not-enforced": "private-clip",
    "realised-normaliser": "realised-normaliser",
    "moving-normaliser": "realised-normaliser",
    "no-noise": "release-without-noise",
    "dropouts": "fewer-replies",
    "extra-draws": "restarted-accountant",
    "classical-sigma": "classical-gaussian",
    "more-rounds": "mid-epoch-value",
    "resumed-without-state": "restarted-accountant",
    "tuning-unaccounted": "tuning-not-counted",
    "private-evaluation": "release-without-noise",
    "close-under-reports": "other-settings",
    "event-mismatch": "other-settings",
    "engines-disagree": "other-settings",
}
"""Hazard rule -> the cause that is its counterpart where other people's runs are described."""


def rules_of_descriptions() -> Mapping[str, str]:
    """Return, for every hazard rule, the cause that is looked for in its stead, if there is one.

    >>> rules = rules_of_descriptions()
    >>> rules["shuffled-as-poisson"], rules["weak-key"]
    ('shuffled-loader', 'not applicable')
    """
    from ..hazards import RULES

    return {name: COUNTERPARTS.get(name, NOT_APPLICABLE) for name in RULES}


def rules_of_logs() -> Mapping[str, str]:
    """Return, for every hazard rule, its own id, by which an audit of a log names what it found."""
    from ..hazards import RULES

    return {name: name for name in RULES}
