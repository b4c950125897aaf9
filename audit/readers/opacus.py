"""Opacus: checkpoints of `PrivacyEngine.save_checkpoint`, and accountant states by themselves.

    {"privacy_accountant_state_dict": OrderedDict(history=[(noise multiplier, sample rate, steps),
                                                           ...], mechanism="rdp"),
     "module_state_dict": ..., "optimizer_state_dict": ..., ...}

Read from files of torch.save (zip archives and what came before them), from pickles of any
protocol, and from JSON; the state may lie deep in tables and lists, as in checkpoints of Lightning.
Two states in one file are refused, equal ones too: stages that compose look so.  Nothing in the
file is run, and no tensor is read.

Versions: 1.0 to 1.6 (up to 1.5 the mechanism may be a method in the place of a word), and older
states with `steps` as triples or as one number.  A state never holds delta, unit, relation, clip,
records, or the sampler.  `mechanism` is rdp, prv, gdp, or the word of somebody's accountant.

Source: opacus 0.10 to 1.5.4, `PrivacyEngine.save_checkpoint`, `IAccountant.state_dict` and
`get_optimizer_hook_fn`, and the three accountants of opacus.accountants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...accountant import validate
from ...accountant.errors import InvalidInput, counted, kind_of
from ..description.printed_number import in_words
from ..description.run_description import Phase, Reading
from .content import NOT_JSON, json_of, listed_few, read_facts, schedule_values
from .history_rows import MAX_HISTORY_ROWS
from .opacus_states import AccountantState, accountant_states
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

OLD_STATE: Final = (
    "The state is of an old version, which counted steps only: that noise and rate stayed the same "
    "in all of them is assumed."
)

MAX_STATES: Final = 8
"""Most states that are compared."""

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
    state = _single_state(accountant_states(value), name)
    values, doubts = _said(state)
    doubts = [*NEVER_SAID, *doubts]
    if isinstance(value, dict) and "grad_clip_scheduler_state_dict" in value:
        doubts.append(CHANGING_CLIP)
    return Reading(name, FORMAT, read_facts(name, values), tuple(doubts))


def _single_state(states: list[AccountantState], name: str) -> AccountantState:
    if not states:
        raise InvalidInput(
            f"`{name}` holds no accountant state.",
            "It is looked for as `history` under `privacy_accountant_state_dict` or another key "
            "that names an accountant.",
            "Save it: json.dump(privacy_engine.accountant.state_dict(), file).",
        )
    listed = ", ".join(f"`{state.path:.100}`" for state in states[:MAX_STATES])
    if len(states) > 1:
        # What they say is compared, never the values themselves: those may be nested without end.
        few = states[:MAX_STATES]
        differ = " that differ" if any(_said(each) != _said(few[0]) for each in few[1:]) else ""
        raise InvalidInput(
            f"`{name}` holds {len(states):,} accountant states{differ}: {listed}.",
            "Whether one of them is the run's, or all of them are parts of it that add up, is not "
            "said; equal ones may be copies, or stages or clients with equal settings.",
            "Save the state of each by itself, and check the run's.",
        )
    return states[0]


def _said(state: AccountantState) -> tuple[dict[str, object], list[str]]:
    """Return the keys that a state sets, and the doubts about it."""
    mechanism = state.mechanism
    values: dict[str, object] = {"claim.library": "opacus", "claim.accountant": mechanism}
    doubts: list[str] = []
    history = state.history
    if isinstance(history, (list, tuple)):
        phases = _phases(history, f"{state.path}.history" if state.path else "history")
        values |= schedule_values(phases)
        doubts += _doubts_about(phases)
    else:
        values |= _old_values(state.table)
        doubts.append(OLD_STATE)
    others = [in_words(key) for key in state.unread]
    if others:
        doubts.append(
            f"The state has {counted(len(others), 'key')} that no accountant of Opacus writes; "
            f"nothing of it was read: {listed_few(others)}."
        )
    if mechanism is None:
        doubts.append("The state does not say which accountant wrote it.")
    elif mechanism.lower() == "gdp":
        doubts.append(CENTRAL_LIMIT)
    elif mechanism.lower() not in ("rdp", "prv"):
        doubts.append(f"`{mechanism:.60}` is an accountant that Opacus does not have.")
    return values, doubts


def _phases(history: list[object] | tuple[object, ...], where: str) -> list[Phase]:
    if not history:
        raise InvalidInput(
            f"`{where:.100}` is empty: no step was accounted for.",
            "The file was written before the first step, or by another engine than the one that "
            "trained.",
            "Give the checkpoint that was saved after the last step.",
        )
    if len(history) > MAX_HISTORY_ROWS:
        raise InvalidInput(
            f"`{where:.100}` has {len(history):,} rows; at most {MAX_HISTORY_ROWS:,} are read.",
            "Opacus adds steps of equal noise and rate up in one row, so a run has few.",
            "Add up rows that follow one another with equal noise and rate, and save the state.",
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
    return Phase(_noise(noise, f"{where:.100}"), _rate(rate, where), _steps(steps, where))


def _noise(noise: object, where: str) -> float:
    return validate.non_negative(**{f"{where}, noise multiplier": _number(noise, where)})


def _rate(rate: object, where: str) -> float:
    number = validate.non_negative(**{f"{where}, sample rate": _number(rate, where)})
    if not 0.0 < number <= 1.0:
        raise InvalidInput(
            f"`{where:.100}` has the sample rate {number:g}; a rate is above 0, and at most 1.",
            "Opacus writes the noise multiplier first, the sample rate second and the steps "
            "third; in this file the first two may be swapped.",
            "Correct the order where you know it to be wrong; it is not guessed here.",
        )
    return number


def _steps(steps: object, where: str) -> int:
    number = _number(steps, where)
    whole = isinstance(number, float) and number.is_integer()
    return validate.count(**{f"{where}, steps": int(number) if whole else number})


def _number(value: object, where: str) -> int | float:
    """Return a value that is a number; others are not shown, as they may be nested without end."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(
            f"`{where:.100}` must be (noise multiplier, sample rate, steps); one of them is "
            f"{kind_of(value)}.",
            "Opacus writes three numbers for each part of a run.",
            "Check that the file is whole.",
        )
    return value


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


def _old_values(table: Mapping[object, object]) -> dict[str, object]:
    """Return what a state without a history says: `steps`, and perhaps noise and rate."""
    values: dict[str, object] = {"schedule.steps": _steps(table.get("steps"), "the state")}
    if "noise_multiplier" in table:
        values["noise.noise_multiplier"] = _noise(table["noise_multiplier"], "the state")
    if "sample_rate" in table:
        values["sampling.rate"] = _rate(table["sample_rate"], "the state")
    return values
