"""A paragraph about a run to paste into a paper, a model card or a privacy notice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...accountant import rounding
from ...accountant.errors import Unsupported
from ...audit.check.headline import protects

if TYPE_CHECKING:
    from ...audit.check.check_result import CheckResult

SAMPLED_AS: Final = {
    "poisson": "Poisson samples at rate {rate}",
    "shuffled": "batches of a loader that shuffles, at rate {rate}",
    "fixed-size": "samples of a fixed size at rate {rate}",
    "with-replacement": "draws with replacement at rate {rate}",
    "weighted": "draws by weights at rate {rate}",
    "full": "all records",
}
"""What noisy sums were of, by the way of drawing."""


def statement(result: CheckResult) -> str:
    """Return what may be said of a checked run: the proven number, and all that it rests on.

    It never states the claim, but the upper end of what is proven, rounded up.  Raises
    `Unsupported` where nothing is proven, or where what was said contradicts itself.
    """
    proven = result.proven
    if proven is None or math.isinf(proven.upper) or result.alternatives:
        needs = ", ".join(fact.key for fact in result.deciding)
        raise Unsupported(
            "There is no guarantee to state.",
            result.lacks or "What is proven depends on what nobody stated.",
            f"State {needs}: --set KEY=VALUE" if needs else "privplan explain check",
        )
    sentences = [_guarantee(result, rounding.up(proven.upper)), _mechanism(result)]
    if proven.lower > 0.0:
        sentences.append(
            f"By any accounting the {result.currency} of such a run is at least "
            f"{rounding.down(proven.lower)}."
        )
    if result.conventions:
        taken = " ".join(each.says for each in result.conventions)
        sentences.append(f"These conventions hold, as nobody said otherwise. {taken}")
    if result.conditions:
        sentences.append(f"It rests on the following. {' '.join(result.conditions)}")
    sentences.append(f"Computed by privplan {_version()}, from both sides, with directed rounding.")
    return " ".join(sentence for sentence in sentences if sentence)


def _guarantee(result: CheckResult, upper: str) -> str:
    delta = "" if result.delta is None else f" at delta {rounding.as_given(result.delta)}"
    if result.currency != "epsilon":
        delta = ""
    observer = "against whoever sees all released models"
    return (
        f"The training is differentially private with {result.currency} {upper}{delta}, for "
        f"{protects(result)}, {observer}."
    )


def _mechanism(result: CheckResult) -> str:
    """Return how noise was added and batches were drawn, as far as that was stated."""
    values = {key: fact.value for key, fact in result.facts.items()}
    noise, steps = values.get("noise.noise_multiplier"), values.get("schedule.steps")
    parts = []
    if noise is not None:
        family = str(values.get("noise.family", "gaussian")).capitalize()
        parts.append(f"{family} noise with multiplier {_number(noise)}")
    drawn = _drawn(values)
    if drawn:
        parts.append(f"added to sums of {drawn}" if parts else f"sums of {drawn}")
    if steps is not None:
        parts.append(f"in {_number(steps)} steps")
    return f"The mechanism: {' '.join(parts)}." if parts else ""


def _drawn(values: Mapping[str, Any]) -> str:
    words = SAMPLED_AS.get(str(values.get("sampling.method", "")))
    rate = values.get("sampling.rate")
    if words is None or (rate is None and "{rate}" in words):
        return ""
    return words.format(rate=_number(rate))


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{getattr(value, 'value', value):.6g}"


def _version() -> str:
    from importlib import metadata

    return metadata.version("privplan")
