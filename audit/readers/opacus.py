"""Opacus: checkpoints of `PrivacyEngine.save_checkpoint`, and accountant states by themselves.

    {"privacy_accountant_state_dict": OrderedDict(history=[(noise multiplier, sample rate, steps),
                                                           ...], mechanism="rdp"),
     "module_state_dict": ..., "optimizer_state_dict": ..., ...}

Read from files of torch.save (zip archives and what came before them), from pickles of any
protocol, and from JSON; the state may lie up to three levels deep, as in checkpoints of Lightning.
Nothing in the file is run, and no tensor is read.

Versions: 1.0 to 1.6 (up to 1.5 the mechanism may be a method in the place of a word), and older
states with `steps` as triples or as one number.  A state never holds delta, unit, relation, clip,
records, or the sampler.  `mechanism` is rdp, prv, gdp, or the word of somebody's accountant.

Source: opacus 0.10 to 1.5.4, `PrivacyEngine.save_checkpoint`, `IAccountant.state_dict` and
`get_optimizer_hook_fn`, and the three accountants of opacus.accountants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from ...accountant import validate
from ...accountant.errors import InvalidInput, kind_of
from ...accountant.events import Event, NoGuarantee
from ..description.reading import Reading
from ..description.run_description import Phase
from .content import NOT_JSON, json_of
from .opacus_states import accountant_states, mechanism_of
from .read_values import read_facts, schedule_values
from .safe_pickle import looks_like_pickle
from .torch_archive import looks_like_archive, looks_like_legacy, read_torch_file

FORMAT: Final = "Opacus accountant state"

LOW_NOISE: Final = 0.1
HIGH_RATE: Final = 0.3
"""A pair (noise, rate) beyond both is seldom meant: swapped, it would be a usual one."""

NEVER_SAID: Final = (
    "An Opacus state never holds delta, the unit, the neighbouring relation, the clipping norm or "
    "the number of records.",
    "Nor does it hold the sampler: a shuffled loader (poisson_sampling=False) leaves the same "
    "history as Poisson sampling.",
    "Its sample rate is 1 / len(loader), times the batches that were accumulated; whether that is "
    "batch / records depends on the loader.",
    "The noisy count of an adaptive clipping norm is not in the history.",
)

CENTRAL_LIMIT: Final = (
    "The accountant `gdp` uses a central limit theorem: its epsilon is an approximation, and may "
    "lie below the true one."
)

CHANGING_CLIP: Final = "The clipping norm was changed by a schedule during training."


def recognises(content: bytes, name: str) -> bool:
    """Return whether a content is a file of torch.save, a pickle, or JSON with such a state."""
    del name
    if looks_like_archive(content):
        return b"data.pkl" in content
    if looks_like_legacy(content) or looks_like_pickle(content):
        return True
    if b'"history"' not in content and b'"steps"' not in content:
        return False
    value = json_of(content)
    return value is not NOT_JSON and bool(accountant_states(value))


def read(content: bytes, name: str) -> Reading:
    """Return what an Opacus checkpoint or accountant state says of its run.

    Raises `InvalidInput` for a file that is damaged or would run something, one without a state or
    with two that differ, an empty history, and numbers outside their ranges.
    """
    value = json_of(content)
    if value is NOT_JSON:
        value = read_torch_file(content, name)
    path, state = _single_state(accountant_states(value), name)
    mechanism = mechanism_of(state.get("mechanism"))
    where = f"{path}." if path else ""
    doubts = list(NEVER_SAID)
    values: dict[str, object] = {"claim.library": "opacus", "claim.accountant": mechanism}
    event: Event | None = None
    history = state.get("history", state.get("steps"))
    if isinstance(history, (list, tuple)):
        phases = _phases(history, f"{where}history", name)
        values |= schedule_values(phases)
        doubts += _doubts_about(phases)
        if any(phase.noise_multiplier == 0.0 for phase in phases):
            event = NoGuarantee("some of its steps had no noise")
    else:
        values |= _old_values(state, doubts)
    if mechanism is None:
        doubts.append("The state does not say which accountant wrote it.")
    elif mechanism.lower() == "gdp":
        doubts.append(CENTRAL_LIMIT)
    elif mechanism.lower() not in ("rdp", "prv"):
        doubts.append(f"`{mechanism:.60}` is an accountant that Opacus does not have.")
    if isinstance(value, dict) and "grad_clip_scheduler_state_dict" in value:
        doubts.append(CHANGING_CLIP)
    return Reading(name, FORMAT, read_facts(name, values), tuple(doubts), event)


def _single_state(
    states: Mapping[str, Mapping[object, object]], name: str
) -> tuple[str, Mapping[object, object]]:
    if not states:
        raise InvalidInput(
            f"`{name}` holds no accountant state.",
            "It is looked for as `history` under `privacy_accountant_state_dict` or another key "
            "that names an accountant, up to three levels deep.",
            "Save it: json.dump(privacy_engine.accountant.state_dict(), file).",
        )
    first, *others = states
    if any(_different(states[first], states[other]) for other in others):
        raise InvalidInput(
            f"`{name}` holds {len(states)} accountant states that differ: "
            f"{', '.join(f'`{path:.60}`' for path in states)}.",
            "Which of them belongs to the run, or whether all do, is not said.",
            "Save the state of each by itself.",
        )
    return first, states[first]


def _different(left: Mapping[object, object], right: Mapping[object, object]) -> bool:
    def comparable(state: Mapping[object, object]) -> object:
        history = state.get("history", state.get("steps"))
        return (
            [tuple(row) if isinstance(row, list) else row for row in history]
            if isinstance(history, (list, tuple))
            else history
        )

    try:
        return bool(comparable(left) != comparable(right))
    except RecursionError:
        return True


def _phases(history: list[object] | tuple[object, ...], where: str, name: str) -> list[Phase]:
    if not history:
        raise InvalidInput(
            f"`{where}` of `{name}` is empty: no step was accounted for.",
            "The file was written before the first step, or by another engine than the one that "
            "trained.",
            "Give the checkpoint that was saved after the last step.",
        )
    return [_phase(row, f"{where}[{index}]") for index, row in enumerate(history)]


def _phase(row: object, where: str) -> Phase:
    if not isinstance(row, (list, tuple)) or len(row) != 3:
        raise InvalidInput(
            f"`{where}` must be (noise multiplier, sample rate, steps); it is {kind_of(row)}.",
            "Opacus writes three numbers for each part of a run.",
            "Check that the file is whole.",
        )
    noise, rate, steps = row
    return Phase(
        validate.non_negative(**{f"{where}, noise multiplier": noise}),
        _rate(rate, where),
        _steps(steps, where),
    )


def _rate(rate: object, where: str) -> float:
    number = validate.non_negative(**{f"{where}, sample rate": rate})
    if not 0.0 < number <= 1.0:
        raise InvalidInput(
            f"`{where}` has the sample rate {number:g}; a rate is above 0, and at most 1.",
            "Opacus writes the noise multiplier first, the sample rate second and the steps "
            "third; in this file the first two may be swapped.",
            "Correct the order where you know it to be wrong; it is not guessed here.",
        )
    return number


def _steps(steps: object, where: str) -> int:
    whole = isinstance(steps, float) and math.isfinite(steps) and steps.is_integer()
    return validate.count(**{f"{where}, steps": int(steps) if whole else steps})  # type: ignore[call-overload]


def _doubts_about(phases: list[Phase]) -> list[str]:
    doubts = []
    for phase in phases:
        if 0.0 < phase.noise_multiplier < LOW_NOISE and phase.rate >= HIGH_RATE:
            doubts.append(
                f"The history has the noise multiplier {phase.noise_multiplier:g} and the sample "
                f"rate {phase.rate:g}; they may be swapped. They are read as they stand."
            )
            break
    if any(phase.noise_multiplier == 0.0 for phase in phases):
        doubts.append("Some steps had no noise: whatever they released is not protected.")
    return doubts


def _old_values(state: Mapping[object, object], doubts: list[str]) -> dict[str, object]:
    """Return what a state without a history says: `steps`, and perhaps noise and rate."""
    values: dict[str, object] = {"schedule.steps": _steps(state.get("steps"), "the state")}
    if "noise_multiplier" in state:
        noise = validate.non_negative(noise_multiplier=state["noise_multiplier"])
        values["noise.noise_multiplier"] = noise
    if "sample_rate" in state:
        values["sampling.rate"] = _rate(state["sample_rate"], "sample_rate")
    doubts.append(
        "The state is of an old version, which counted steps only: that noise and rate stayed the "
        "same in all of them is assumed."
    )
    return values
