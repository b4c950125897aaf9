"""What a program holds of a release, as the event that is claimed of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import InvalidInput, kind_of
from ...accountant.nearest_names import require_fields

_DESCRIBED: Final = ("method", "noise_multiplier", "rate", "batch", "records", "steps")
_NO_SAMPLER: Final = (
    "A shuffled loader leaves the same history as Poisson sampling, and loses more.",
    'Give method="poisson" where each record joined a step by a coin of its own '
    "(privplan explain sampling).",
)


def event_of(source: object, *, method: str | None = None) -> ev.Event:
    """Return the event of what a program holds.

    `source` is an event, one of dp_accounting, the JSON of an event, the `state_dict()` of an
    accountant of Opacus, or the facts of a description (`privplan explain check`) with the keys
    method, noise_multiplier, rate (or batch and records) and steps.  The state of an accountant
    does not say how steps were sampled, so `method` must: poisson.

    Raises `InvalidInput` for anything else, and `Unsupported` where dp_accounting's event has no
    counterpart.

    >>> state = {"history": [(1.1, 0.01, 500)], "mechanism": "rdp"}
    >>> event_of(state, method="poisson")
    Repeat(count=500, event=Poisson(rate=0.01, event=Gaussian(noise_multiplier=1.1)))
    """
    if isinstance(source, ev.Event):
        return source
    if isinstance(source, Mapping):
        if "type" in source:
            return ev.from_json(dict(source))
        if "history" in source:
            return _of_state(source, method)
        return _of_description({**source, **({} if method is None else {"method": method})})
    if type(source).__module__.partition(".")[0] == "dp_accounting":
        return ev.from_dp_event(source)
    raise InvalidInput(
        f"Nothing is known of {kind_of(source)} that could be claimed.",
        "A claim is an event: what is released, with how much noise.",
        "Give an event, one of dp_accounting, or the state of an accountant of Opacus.",
    )


def _of_state(state: Mapping[Any, Any], method: str | None) -> ev.Event:
    """Return the event of an accountant's state: its steps, in their order."""
    _require_poisson(method)
    history = state["history"]
    if not isinstance(history, (list, tuple)) or not history:
        raise InvalidInput("The state has no `history` of steps.", next_step="Claim what was run.")
    parts = []
    for row in history:
        if not isinstance(row, (list, tuple)) or len(row) != 3:
            raise InvalidInput(
                "A row of the `history` is no (noise multiplier, sample rate, steps).",
                next_step="Give the `state_dict()` of an accountant of Opacus.",
            )
        noise, rate, steps = row
        parts.append(_steps(noise, rate, steps))
    return parts[0] if len(parts) == 1 else ev.Compose(tuple(parts))


def _of_description(facts: Mapping[str, Any]) -> ev.Event:
    require_fields(
        facts,
        _DESCRIBED,
        "description",
        optional=_DESCRIBED,
        otherwise=f"What is claimed so has {', '.join(_DESCRIBED)}.",
    )
    _require_poisson(facts.get("method"))
    for name in ("noise_multiplier", "steps"):
        if name not in facts:
            raise InvalidInput(f"The description lacks `{name}`.")
    if ("rate" in facts) == ("batch" in facts or "records" in facts):
        raise InvalidInput("The description needs `rate`, or else `batch` and `records`.")
    rate = facts.get("rate")
    if rate is None:
        batch = validate.count(batch=facts.get("batch"))
        rate = batch / validate.count_from(batch, records=facts.get("records"))
    return _steps(facts["noise_multiplier"], rate, facts["steps"])


def _steps(noise: Any, rate: Any, steps: Any) -> ev.Event:
    return ev.Repeat(steps, ev.Poisson(rate, ev.Gaussian(noise)))


def _require_poisson(method: object) -> None:
    if method != "poisson":
        raise InvalidInput("How the steps were sampled is not said.", *_NO_SAMPLER)
