"""Taking up a run that was cut off: its log, its settings and its kept model belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.records import Progress, RoundIntent, RoundRelease, RunOpen
from ..declarations.declaration import PRIVPLAN_PACKAGE
from ..declarations.toml_keys import CODE_DIGESTS
from ..frame.model import model_digest
from ..frame.phases import Phase, SingleRelease, training_phase
from ..frame.private_normalisation import MOMENTS_DESCRIPTION, NORMALISE
from ..frame.state import Arrays, State, declared_state, state_digest
from ..observers.names import DEFAULT_OBSERVERS, MODEL
from ..settings.logged_tables import idle_tables
from ..settings.schema import Settings
from .checkpoint import CHECKPOINT_FILE, EARLY_FILE, MODEL_FILE, Checkpoint
from .first_state import first_checkpoint, first_state
from .preparation import prepare
from .prepared_run import PreparedRun
from .run_records import versions
from .seat import Seat

_RESTORE_OR_RESTART: Final = "Restore what was changed, or start a new run in another folder."


NEW_RUN_OF_MORE_BLOCKS: Final = (
    "Start a new run in another folder, with more `blocks` in [privacy]; what this one has spent "
    "counts as well."
)
"""What is left to do where a run was cut off in the last block of its plan."""

KEYS_ADDED_LATER: Final[Mapping[str, object]] = {
    "[privacy] observer": MODEL,
    "[privacy] observers": list(DEFAULT_OBSERVERS),
    "[security] colluders": 0,
}
"""Keys that logs did not always have, and what they were then."""


def prepare_resumption(
    settings: Settings, progress: Progress, seat: Seat | None = None
) -> PreparedRun:
    """Return a run that may go on, for the segment after its recoveries.

    A run that an older version began goes on as its log says: under masks that bear as many
    colluding silos, and stating to every observer what was announced.  What is proven of it, its
    plan, is what is known now.  Raises as `prepare` does.
    """
    opened, security = progress.opened, progress.opened.security
    # Logs before observers could be named lack the key; their masks bore what they stated.
    older = "[privacy] observer" not in _values_by_key(opened.configuration)
    if older and security is not None and settings.security.aggregation == "masked":
        bearing = replace(settings.security, colluders=security.colluders)
        settings = replace(settings, security=bearing)
    prepared = prepare(settings, segment=progress.recoveries + 1, seat=seat)
    if not older or prepared.opening.plan == opened.plan:
        return prepared
    prepared.system.restate(opened.plan)
    return replace(prepared, opening=prepared.system.opening())


def require_resumable(prepared: PreparedRun, folder: Path, progress: Progress) -> Checkpoint:
    """Return the model to go on from; raise `InvalidInput` where something does not belong."""
    phases = [phase for phase in prepared.system.phases if phase.once is not None]
    require_same_settings(progress.opened, prepared.settings.to_json())
    require_same_package(progress.opened, prepared.settings.system.package)
    require_same_plan(prepared, progress.opened)
    require_state_stated(prepared, progress)
    require_block_left(progress)
    for phase in phases:
        assert phase.once is not None
        if phase.once.needed:
            _require_released(phase.name, phase.once.what, progress)
    paths = (folder / CHECKPOINT_FILE, folder / MODEL_FILE)
    kept = without_lost(
        phases, kept_model(prepared, paths, progress, folder / EARLY_FILE), progress
    )
    require_results_kept(phases, kept, progress)
    return require_released_state(prepared, kept, progress)


def is_lost(phase: Phase, progress: Progress) -> bool:
    """Return whether what a phase releases once was begun, and no release of it is in the log."""
    return any(
        intent.phase == phase.name and seq not in progress.releases
        for seq, intent in progress.intents.items()
    )


def without_lost(phases: Sequence[Phase], kept: Checkpoint, progress: Progress) -> Checkpoint:
    """Return what was kept, without what was kept of a release that never stood in the log.

    The run goes on without it, where no later round needs it.
    """
    lost = {
        name
        for phase in phases
        if phase.once is not None and not phase.once.needed and is_lost(phase, progress)
        for name in phase.once.state.shapes
    }
    return replace(kept, state={name: kept.state[name] for name in kept.state if name not in lost})


def require_same_package(opened: RunOpen, package: str) -> None:
    """Raise `InvalidInput` where another version of the package that brings a system goes on.

    Systems of privplan itself are held against the plan, and against what was released.
    """
    if package == PRIVPLAN_PACKAGE:
        return
    unstated = "of no stated version"
    before, now = (code.get(package, unstated) for code in (opened.code, versions(package)))
    if before != now:
        raise InvalidInput(
            f"The run of {opened.system} was begun with {package} {before}; here is {package} "
            f"{now}.",
            "Another version of a system may make other rounds of the same plan.",
            f"Install the version of {package} that the first line names under `code`.",
        )


def require_state_stated(prepared: PreparedRun, progress: Progress) -> None:
    """Raise `InvalidInput` where a system does not say what it keeps between rounds."""
    if declared_state(prepared.system) is not None or not progress.intents:
        return
    secret = getattr(prepared.system, "unsaved", None)
    if secret is not None:
        raise InvalidInput(
            f"{prepared.whose} cannot be resumed.",
            secret,
            "Begin it anew in another folder; what this run has spent counts as well.",
        )
    kind = type(prepared.system).__name__
    raise InvalidInput(
        f"{prepared.whose} cannot be resumed: it keeps values between rounds that nobody saved.",
        f"Its class {kind} does not state what it keeps with its model; what another class "
        "states is not taken for it.",
        f"Write `state` into {kind}: State() where it keeps nothing, or names and shapes. "
        "This run is to be begun anew.",
    )


def require_same_settings(opened: RunOpen, configuration: Mapping[str, object]) -> None:
    """Raise `InvalidInput`, naming the keys, where a log was opened under other settings."""
    idle = idle_tables(opened.configuration)  # which earlier versions wrote for every system
    kept = {name: table for name, table in opened.configuration.items() if name not in idle}
    before, now = _values_by_key(kept), _values_by_key(configuration)
    for key in (f"[training] {digest}" for digest in CODE_DIGESTS):
        if key not in now:  # a configuration names code, and who runs it digests that
            before.pop(key, None)
    told = 0 if opened.security is None else opened.security.colluders
    usual = {**KEYS_ADDED_LATER, "[security] colluders": told}
    for key, value in KEYS_ADDED_LATER.items():
        if key not in before and now.get(key) in (value, usual[key]):
            now.pop(key, None)
    changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    if changed:
        raise InvalidInput(
            f"The run was begun with other settings; changed: {', '.join(changed[:5])}.",
            "Its plan was fixed before the first release, and the rest of it must be the same.",
            _RESTORE_OR_RESTART,
        )


def require_same_plan(prepared: PreparedRun, opened: RunOpen) -> None:
    """Raise `InvalidInput` where the log announces another plan, promise or system."""
    planned = prepared.opening
    same = {
        "system": prepared.system.name == opened.system,
        "promise": planned.claim == opened.claim,
        "plan": planned.plan == opened.plan,
        "population": planned.population == opened.population,
        "aggregation": planned.aggregation == opened.aggregation,
        "protocol": planned.security == opened.security,
        "as_published": planned.as_published == opened.as_published,
    }
    other = [name for name, agrees in same.items() if not agrees]
    if other:
        raise InvalidInput(
            f"The log announces another {' and another '.join(other)} than these settings make.",
            "The run may have been begun with another version of privplan.",
            "Resume it with the version that its first line names under `code`.",
        )


def require_moments_released(progress: Progress) -> None:
    """Raise `InvalidInput` where moments to normalise by were begun to be released, and are lost.

    The log alone says so.
    """
    _require_released(NORMALISE, MOMENTS_DESCRIPTION, progress)


def _require_released(phase: str, what: str, progress: Progress) -> None:
    """Raise `InvalidInput` where what a phase releases once was begun, and is lost.

    The plan pays for one such release, and no later round can be made without it.
    """
    for seq, intent in progress.intents.items():
        if intent.phase == phase and seq not in progress.releases:
            raise InvalidInput(
                f"The run was cut off while it released {what}.",
                "They are spent and lost, and its plan pays for no other release of them.",
                "Start a new run in another folder; what this one has spent counts as well.",
            )


def require_results_kept(phases: Sequence[Phase], kept: Checkpoint, progress: Progress) -> None:
    """Raise `InvalidInput` unless what phases released once is kept exactly as the log has it."""
    for phase in phases:
        assert phase.once is not None
        releases = progress.releases.items()
        released = (each for seq, each in releases if progress.intents[seq].phase == phase.name)
        _require_result(phase.once, kept.state, next(released, None))


def _require_result(once: SingleRelease, state: Arrays, released: RoundRelease | None) -> None:
    held = {name: state[name] for name in once.state.shapes if name in state}
    what = once.what[:1].upper() + once.what[1:]
    if released is None:
        if held:
            raise InvalidInput(
                f"The folder holds {once.what} that the log never released.",
                "A run goes on from what it released, and from nothing else.",
                _RESTORE_OR_RESTART,
            )
        return
    whole = held.keys() == once.state.shapes.keys()
    if not whole or once.digest(once.state.checked(held, what)) != released.aggregate:
        missing = "are not those that the log released" if whole else "are missing"
        raise InvalidInput(
            f"{what} {missing}.",
            "They were released once; the plan pays for no other release of them.",
            _RESTORE_OR_RESTART,
        )


def require_released_state(
    prepared: PreparedRun, kept: Checkpoint, progress: Progress
) -> Checkpoint:
    """Return the kept model with its state, checked; raise `InvalidInput` for another state.

    The state belongs to the model: both are of the last release, or both are what it started from.
    """
    stated = declared_state(prepared.system) or State()
    results = {
        name
        for phase in prepared.system.phases
        if phase.once is not None
        for name in phase.once.state.shapes
    }
    # What phases released once lies in the same file and has digests of its own.
    state_arrays = {name: array for name, array in kept.state.items() if name not in results}
    state = stated.checked(state_arrays, prepared.whose)
    if state_digest(state) not in _states_of_model(
        prepared, model_digest(kept.parameters), progress
    ):
        names = ", ".join(f"`{name}`" for name in state)
        raise InvalidInput(
            f"The state of {prepared.whose} that is kept with the model ({names}) is not the one "
            "that the log released with it.",
            "A run goes on from its last release, and from nothing else.",
            _RESTORE_OR_RESTART,
        )
    once = {name: kept.state[name] for name in kept.state if name in results}
    return replace(kept, state={**once, **state}, parts=tuple(prepared.parts.items()))


def _states_of_model(prepared: PreparedRun, model: str, progress: Progress) -> set[str | None]:
    """Return the digests of the states with which a model was released, or began the run."""
    models = released_models(progress)
    states_out = {each.state_out for each in models if each.model_out == model}
    first = models[0].intent if models else None
    begun = None if first is None else progress.intents[first].model_in
    if begun in (None, model):
        states_out.add(state_digest(first_state(prepared)))
    last = models[-1] if models else None
    if last is not None and last.model_out == model:
        # Only where a round left the model as it was may the state before it be meant.
        still = progress.intents[last.intent].model_in == model
        return states_out if still else {last.state_out}
    return states_out


def last_payable_round(prepared: PreparedRun, progress: Progress) -> int | None:
    """Return the last round that a run may make which goes on; None where no blocks limit it.

    Of a block that was cut off nothing is left: the silos' last sums were in memory.  Another block
    begins with the next round, as long as the plan pays for one.
    """
    planned = training_phase(prepared.plan.phases)
    if planned.blocks is None:
        return None
    begun = [
        intent
        for intent in progress.intents.values()
        if intent.block is not None and not intent.is_covered
    ]
    left = planned.blocks - len(begun)
    return progress.last_round + left * (planned.rounds // planned.blocks)


def is_last_block_open(planned_rounds: int, intents: Iterable[RoundIntent]) -> bool:
    """Return whether the last round lies within the last block that a plan pays for.

    A run that is cut off there does not go on.  `intents` are all of its rounds, in their order.
    """
    of_blocks = [(intent, intent.block) for intent in intents if intent.block is not None]
    if not of_blocks:
        return False
    last, block = of_blocks[-1]
    begun = sum(not intent.is_covered for intent, _ in of_blocks)
    # A plan may hold a release with its blocks, which have two rounds or more.
    return (begun + 1) * block.rounds > planned_rounds and last.round < block.last


def require_block_left(progress: Progress) -> None:
    """Raise `InvalidInput` where a run was cut off within the last block that its plan pays for.

    The log alone says so.
    """
    intents = [intent for _, intent in sorted(progress.intents.items())]
    if is_last_block_open(progress.opened.plan.rounds, intents):
        raise InvalidInput(
            "The run was cut off in the last block of rounds that its plan pays for.",
            "What silos remember within a block is stored nowhere, so the rest of it is spent and "
            "lost.",
            NEW_RUN_OF_MORE_BLOCKS,
        )


def released_models(progress: Progress) -> list[RoundRelease]:
    """Return the releases of models, in the order of their lines."""
    order = sorted(progress.releases)
    return [progress.releases[seq] for seq in order if progress.releases[seq].model_out is not None]


def kept_model(
    prepared: PreparedRun, paths: tuple[Path, ...], progress: Progress, early: Path | None = None
) -> Checkpoint:
    """Return the model from which the run goes on.

    It is the last released one; or, where the run was cut off between a release and its keeping,
    the one that this release started from.  `early` is where a model lies that was kept before its
    release; it counts where the log has that.  Raises `InvalidInput` for any other.
    """
    last = next(reversed(released_models(progress)), None)
    if early is not None and last is not None and early.exists():
        kept = Checkpoint.read(early)
        known = (kept.run_id, model_digest(kept.parameters))
        if known == (progress.opened.run_id, last.model_out):
            return kept
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        kept = first_checkpoint(prepared, progress.opened.run_id)
    else:
        kept = Checkpoint.read(path)
    model = model_digest(kept.parameters)
    if kept.run_id != progress.opened.run_id:
        raise _foreign(path, "belongs to another run")
    if last is None:
        if kept.round == 0:
            return kept
        raise _foreign(path, "stands for a release, and the log has none of a model")
    if model == last.model_out or model == progress.intents[last.intent].model_in:
        return kept
    raise _foreign(path, "is not the one that the log released last")


def _foreign(path: Path | None, reason: str) -> InvalidInput:
    if path is None:
        return InvalidInput(
            "The last released model is missing.",
            "The log has releases, and the folder no model to go on from.",
            _RESTORE_OR_RESTART,
        )
    return InvalidInput(
        f"The model in {path.name} {reason}.",
        "A run goes on from its last release, and from nothing else.",
        _RESTORE_OR_RESTART,
    )


def _values_by_key(configuration: Mapping[str, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    for table, content in configuration.items():
        if isinstance(content, Mapping):
            values |= {f"[{table}] {key}": value for key, value in content.items()}
        else:
            values[table] = content
    return values
