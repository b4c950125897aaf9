"""What a run starts from: the first model, and the state that is kept with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...accountant.errors import InvalidInput
from ..data.moments import Moments
from ..declarations.own_code import logged_reference
from ..frame.state import MAX_STATE_ARRAYS, Arrays, State, declared_state
from .checkpoint import Checkpoint
from .prepared_run import PreparedRun


def first_checkpoint(prepared: PreparedRun, run_id: str) -> Checkpoint:
    """Return what a run starts from: the first model, and the state with it."""
    first, parts = prepared.system.initial(), tuple(prepared.parts.items())
    kind = logged_reference(prepared.settings.training.model)
    return Checkpoint(run_id, 0, kind, first, state=first_state(prepared), parts=parts)


def first_state(prepared: PreparedRun) -> Arrays:
    """Return the state that the first round starts from.

    Raises `InvalidInput` where it is not the one stated, where a class inherits a statement that it
    may not keep to, and where two arrays of a run have one name.
    """
    system, stated = prepared.system, declared_state(prepared.system)
    inherited = getattr(system, "state", None)
    if stated is None and inherited:
        kind = type(system).__name__
        raise InvalidInput(
            f"{prepared.whose} keeps what another class states: {', '.join(inherited.shapes)}.",
            f"Its class {kind} may keep more than the one it inherits from, and nobody would know.",
            f"Write `state` into {kind} itself, with the names and shapes of all that it keeps.",
        )
    once = [phase.once.state for phase in system.phases if phase.once is not None]
    results = {name for each in once for name in each.shapes}
    twice = sorted(results & (stated or State()).shapes.keys())
    if twice:
        raise InvalidInput(
            f"The state of {prepared.whose} has an array `{twice[0]}`, and so has a phase of it.",
            "One of them would be lost in the file of the model.",
            "Give it another name.",
        )
    _require_no_half_moments(prepared.whose, (stated or State(), *once))
    _require_few(prepared.whose, (stated or State(), *once))
    return (stated or State()).checked(system.initial_state(), prepared.whose)


def _require_few(whose: str, every: Iterable[State]) -> None:
    """Raise `InvalidInput` for more arrays with a model than an audit reads of its file.

    All of them stand in one file: those of the state, and what each phase releases once.
    """
    names = [name for each in every for name in each.shapes]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidInput(
            f"Two phases of {whose} release an array `{twice[0]}`.",
            "One of them would be lost in the file of the model.",
            "Give it another name.",
        )
    kept = [name for name in names if name not in Moments.names()]
    if len(kept) > MAX_STATE_ARRAYS:
        raise InvalidInput(
            f"The state of {whose} and what its phases release once are {len(kept)} arrays; at "
            f"most {MAX_STATE_ARRAYS} can be kept with a model, and the moments of features.",
            "All of them stand in one file, and an audit reads no more of it.",
            "Put several of them into one array.",
        )


def _require_no_half_moments(whose: str, every: Iterable[State]) -> None:
    """Raise `InvalidInput` for a name of released moments where they are not released together."""
    taken = set(Moments.names())
    for each in every:
        names = sorted(taken & each.shapes.keys())
        if names and len(names) < len(taken):
            raise InvalidInput(
                f"The state of {whose} has an array `{names[0]}`.",
                "In the file of a model it says how features were normalised, with four others.",
                "Give it another name.",
            )
