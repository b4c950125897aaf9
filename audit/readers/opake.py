"""opake's accountant state, as JSON: a process that is nested, and an optional budget.

    {"process": {"type": "Repeated", "inner": {"type": "Poisson", "sample_rate": 0.01,
     "truncated_batch_size": null, "dataset_size": null,
     "inner": {"type": "Gaussian", "noise_multiplier": 1.1}}, "count": 1000},
     "budget": {"type": "EpsilonBudget", "epsilon": 3.0, "delta": 1e-05}}

Types that are read: `Composed` (left, right), `Repeated` (inner, count), `CachedProcess` (inner),
`Identity`, `NonPrivate`, `EpsDelta` (epsilon, delta), `Gaussian` (noise_multiplier), `Poisson`
(inner, sample_rate, truncated_batch_size, dataset_size), `ParallelPoisson` for one worker,
`KOutOfT` (inner, k, n_steps, allocation), `AdaClip` (inner, fraction_noise_std,
expected_batch_size, num_groups).  opake leaves out values that it cannot store, so any other type
or field is refused.  `AdaClip` of noise z and count noise s = fraction_noise_std x
expected_batch_size stands for Gaussian noise (z^-2 + groups / (2 s)^2)^(-1/2), as opake has it:
the bit of a record is centred, and present or absent records move it by 1/2.

A process of Poisson samples of Gaussian noise becomes facts; any other becomes the event.
Versions: opake 0.16.  Source: JetBrains-Research/opake, `opake-accounting` (process codec,
budgets) and `opake-dpsgd` (amplification, mechanisms), read 2026.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.events import (
    Approximate,
    Compose,
    Event,
    Gaussian,
    NoGuarantee,
    Poisson,
    Pure,
    RandomAllocation,
    Repeat,
    TruncatedPoisson,
)
from ..description.run_description import Phase, Reading
from .content import (
    checked_field,
    dotted,
    exact_delta,
    field_of,
    known_fields,
    object_of,
    read_facts,
    schedule_values,
    table_of,
)

FORMAT: Final = "opake accountant state"
MAX_LEVELS: Final = 60
"""Most levels of processes that are not a mere chain of `Composed`."""

ALWAYS: Final = (
    "The state has no neighbouring relation, unit, clipping norm or number of records; opake "
    "computes for one record present or absent.",
    "The state says which sampling its accountant was told, not which one ran.",
    "On grids finer than its default, opake's epsilon lies below the exact one.",
)

Parts = list[tuple[int, Event]]
"""Events in order, each with how often it is repeated in a row."""


def recognises(content: bytes, name: str) -> bool:
    """Return whether a content is a JSON object with a process that has a type."""
    del name
    state = object_of(content)
    process = state.get("process") if state else None
    return isinstance(process, dict) and isinstance(process.get("type"), str)


def read(content: bytes, name: str) -> Reading:
    """Return the settings of the process, or its event where no keys can express it."""
    state = object_of(content) or {}
    known_fields(state, ("process", "budget"), "", "opake's state")
    parts = _parts(field_of(state, "process", ""), "process", 0)
    if not parts:
        raise InvalidInput(
            "`process` is the Identity: nothing was released.",
            "A history without entries says nothing of a run.",
            "Give the state as it is after the last step.",
        )
    values: dict[str, object] = {"claim.library": "opake", "claim.accountant": "pld"}
    doubts = list(ALWAYS)
    _read_budget(state.get("budget"), values, doubts)
    phases = _phases(parts)
    if b'"AdaClip"' in content:
        phases = None  # its noise multiplier is not that of the sum
        doubts.append(
            "The clipping norm is adaptive; its noised count is paid for as opake has it, which "
            "holds for a centred bit."
        )
    if phases is None:
        return Reading(name, FORMAT, read_facts(name, values), tuple(doubts), _composed(parts))
    method = "full" if all(phase.rate == 1 for phase in phases) else "poisson"
    values |= {"noise.family": "gaussian", "sampling.method": method, **schedule_values(phases)}
    return Reading(name, FORMAT, read_facts(name, values), tuple(doubts))


def _phases(parts: Parts) -> list[Phase] | None:
    phases = []
    for count, event in parts:
        rate, inner = (event.rate, event.event) if isinstance(event, Poisson) else (1.0, event)
        if not isinstance(inner, Gaussian):
            return None
        phases.append(Phase(inner.noise_multiplier, rate, count))
    return phases


def _composed(parts: Parts) -> Event:
    events = tuple(event if count == 1 else Repeat(count, event) for count, event in parts)
    return events[0] if len(events) == 1 else Compose(events)


def _parts(source: object, where: str, level: int) -> Parts:
    """Return what a process releases; long chains of `Composed` need no deep recursion."""
    _check_level(level, where)
    parts: Parts = []
    waiting = [(source, where)]
    while waiting:
        value, path = waiting.pop()
        table = table_of(value, path)
        kind = table.get("type")
        if kind == "Composed":
            known_fields(table, ("type", "left", "right"), path, "opake's state")
            # The last is taken first.  A path names only where its chain began, or it would grow.
            waiting.append((field_of(table, "right", path), f"{where}...right"))
            waiting.append((field_of(table, "left", path), f"{where}...left"))
        elif kind == "CachedProcess":
            known_fields(table, ("type", "inner"), path, "opake's state")
            waiting.append((field_of(table, "inner", path), f"{where}...inner"))
        elif kind == "Repeated":
            known_fields(table, ("type", "inner", "count"), path, "opake's state")
            count = checked_field(validate.count, table, "count", path)
            inner = _parts(field_of(table, "inner", path), f"{path}.inner", level + 1)
            if len(inner) == 1:
                times, event = inner[0]
                parts.append((validate.count(**{dotted(path, "count"): count * times}), event))
            elif inner:
                parts.append((count, _composed(inner)))
        elif kind != "Identity":
            parts.append((1, _released(table, path, level)))
    return parts


def _check_level(level: int, where: str) -> None:
    if level > MAX_LEVELS:
        raise InvalidInput(
            f"`{where[:60]}...` is nested more than {MAX_LEVELS} levels deep.",
            "A process of that depth is no schedule that somebody planned.",
            "Describe the run in a TOML file (privplan explain check).",
        )


def _released(table: Mapping[str, Any], where: str, level: int) -> Event:
    """Return the event of a process that is no composition."""
    _check_level(level, where)
    kind = table.get("type")
    if not isinstance(kind, str) or kind not in _LEAVES:
        raise InvalidInput(
            f"`{dotted(where, 'type')}` is {kind!r:.60}, which is not known.",
            "Known are Composed, Repeated, CachedProcess, Identity, " + ", ".join(_LEAVES) + ".",
            "Describe the run in a TOML file (privplan explain check).",
        )
    fields, make = _LEAVES[kind]
    known_fields(table, ("type", *fields), where, "opake's state")
    return make(table, where, level)


def _inner(table: Mapping[str, Any], where: str, level: int) -> Event:
    path = dotted(where, "inner")
    inner = table_of(field_of(table, "inner", where), path)
    return _released(inner, path, level + 1)


def _gaussian(table: Mapping[str, Any], where: str, level: int) -> Event:
    del level
    noise = checked_field(validate.non_negative, table, "noise_multiplier", where)
    return Gaussian(noise) if noise else NoGuarantee("the noise multiplier is 0")


def _eps_delta(table: Mapping[str, Any], where: str, level: int) -> Event:
    del level
    epsilon = checked_field(validate.non_negative, table, "epsilon", where)
    delta = checked_field(validate.probability, table, "delta", where)
    return Approximate(epsilon, delta) if delta else Pure(epsilon)


def _non_private(table: Mapping[str, Any], where: str, level: int) -> Event:
    del table, where, level
    return NoGuarantee("opake counts this release as not private")


def _poisson(table: Mapping[str, Any], where: str, level: int) -> Event:
    inner = _inner(table, where, level)
    path = dotted(where, "sample_rate")
    rate = validate.positive(
        **{path: checked_field(validate.probability, table, "sample_rate", where)}
    )
    if isinstance(inner, NoGuarantee):
        return inner
    batch, records = table.get("truncated_batch_size"), table.get("dataset_size")
    if batch is None and records is None:
        return Poisson(rate, inner) if rate < 1 else inner
    batch = validate.count(**{dotted(where, "truncated_batch_size"): batch})
    records = validate.count(**{dotted(where, "dataset_size"): records})
    return TruncatedPoisson(rate, batch, records, inner)


def _parallel_poisson(table: Mapping[str, Any], where: str, level: int) -> Event:
    workers = checked_field(validate.count, table, "num_workers", where)
    if workers > 1:
        raise InvalidInput(
            f"`{dotted(where, 'num_workers')}` is {workers:,}.",
            "Whether one record can reach several workers in one step is not in the state, and "
            "decides what a step costs.",
            "Describe the run in a TOML file (privplan explain check).",
        )
    return _inner(table, where, level)


def _k_out_of_t(table: Mapping[str, Any], where: str, level: int) -> Event:
    inner = _inner(table, where, level)
    steps = checked_field(validate.count, table, "n_steps", where)
    chosen = checked_field(validate.count, table, "k", where)
    either = partial(validate.choice, ("block", "total"))
    allocation = checked_field(either, table, "allocation", where)
    total = RandomAllocation(steps, chosen, inner)  # refuses k > n_steps
    if isinstance(inner, NoGuarantee):
        return inner
    if allocation == "total" or chosen == 1:
        return total
    # Nearly equal blocks: `longer` of them have a step more than the others.
    size, longer = divmod(steps, chosen)
    blocks = [(chosen - longer, size), (longer, size + 1)]
    return Compose(
        tuple(
            Repeat(count, RandomAllocation(length, 1, inner)) for count, length in blocks if count
        )
    )


def _ada_clip(table: Mapping[str, Any], where: str, level: int) -> Event:
    inner = _inner(table, where, level)
    std, batch = (
        checked_field(validate.positive, table, field, where)
        for field in ("fraction_noise_std", "expected_batch_size")
    )
    groups = validate.count(**{dotted(where, "num_groups"): table.get("num_groups", 1)})
    if isinstance(inner, NoGuarantee):
        return inner
    if not isinstance(inner, Gaussian):
        raise InvalidInput(
            f"`{dotted(where, 'inner')}` must be Gaussian or NonPrivate.",
            "opake clips adaptively only there.",
            "Check that nobody edited the file.",
        )
    count_noise = validate.positive(**{f"count noise of {where}": std * batch})
    ratio = math.sqrt(groups) * inner.noise_multiplier / (2 * count_noise)
    return Gaussian(inner.noise_multiplier / math.hypot(1, ratio))


_LEAVES: Final[
    Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any], str, int], Event]]]
] = {
    "Gaussian": (("noise_multiplier",), _gaussian),
    "EpsDelta": (("epsilon", "delta"), _eps_delta),
    "NonPrivate": ((), _non_private),
    "Poisson": (("inner", "sample_rate", "truncated_batch_size", "dataset_size"), _poisson),
    "ParallelPoisson": (("inner", "num_workers"), _parallel_poisson),
    "KOutOfT": (("inner", "k", "n_steps", "allocation"), _k_out_of_t),
    "AdaClip": (
        ("inner", "fraction_noise_std", "expected_batch_size", "num_groups"),
        _ada_clip,
    ),
}
"""Processes that are no compositions: their fields, and what makes the event."""


def _read_budget(source: object, values: dict[str, object], doubts: list[str]) -> None:
    if source is None:
        return
    budget = table_of(source, "budget")
    if budget.get("type") != "EpsilonBudget":
        doubts.append(f"The budget of type {budget.get('type')!r:.40} is no claim of an epsilon.")
        return
    known_fields(budget, ("type", "epsilon", "delta"), "budget", "opake's state")
    epsilon = checked_field(validate.positive, budget, "epsilon", "budget")
    delta = checked_field(exact_delta, budget, "delta", "budget")
    values["claim.delta"] = delta
    doubts.append(
        f"The budget of {epsilon:g} is a limit, not what the accountant reports; it is no claim."
    )
