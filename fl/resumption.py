"""Taking up a run that was cut off: its log, its settings and its kept model belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..accountant.errors import InvalidInput
from ..accountant.records import Progress, RoundIntent, RoundRelease, RunOpen
from .checkpoint import CHECKPOINT, MODEL, Checkpoint
from .frame.declaration import OURS
from .normalising import NORMALISE
from .observers import MODEL as SEES_MODEL
from .observers import NAMED
from .preparation import Prepared, prepare, versions
from .promise import PHASE
from .settings import Settings, idle_tables
from .system import digest

_NEW_RUN: Final = "Restore what was changed, or start a new run in another folder."


ADDED: Final[Mapping[str, object]] = {
    "[privacy] observer": SEES_MODEL,
    "[privacy] observers": list(NAMED),
    "[security] colluders": 0,
}
"""Keys that logs did not always have, and what they were then."""


def taken_up(settings: Settings, progress: Progress) -> Prepared:
    """Return a run that may go on, for the segment after its recoveries.

    A run that an older version began goes on as its log says: under masks that bear as many
    colluding silos, and stating to every observer what was announced.  What is proven of it, its
    plan, is what is known now.  Raises as `prepare` does.
    """
    opened, security = progress.opened, progress.opened.security
    older = "[privacy] observer" not in _flat(opened.configuration)
    if older and security is not None and settings.security.aggregation == "masked":
        bearing = replace(settings.security, colluders=security.colluders)
        settings = replace(settings, security=bearing)
    made = prepare(settings, segment=progress.recoveries + 1)
    if not older or made.opening.plan == opened.plan:
        return made
    made.system.restate(opened.plan)
    return replace(made, opening=made.system.opening())


def require_resumable(prepared: Prepared, folder: Path, progress: Progress) -> Checkpoint:
    """Return the model to go on from; raise `InvalidInput` where something does not belong."""
    require_same_settings(progress.opened, prepared.settings.to_json())
    require_same_package(progress.opened, prepared.settings.system.package)
    require_same_plan(prepared, progress.opened)
    require_moments_released(progress)
    kept = kept_model(prepared, (folder / CHECKPOINT, folder / MODEL), progress)
    require_moments_kept(kept, progress)
    return kept


def require_same_settings(opened: RunOpen, configuration: Mapping[str, object]) -> None:
    """Raise `InvalidInput`, naming the keys, where a log was opened under other settings."""
    idle = idle_tables(opened.configuration)  # which earlier versions wrote for every system
    kept = {name: table for name, table in opened.configuration.items() if name not in idle}
    before, now = _flat(kept), _flat(configuration)
    told = 0 if opened.security is None else opened.security.colluders
    usual = {**ADDED, "[security] colluders": told}
    for key, value in ADDED.items():
        if key not in before and now.get(key) in (value, usual[key]):
            now.pop(key, None)
    changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    if changed:
        raise InvalidInput(
            f"The run was begun with other settings; changed: {', '.join(changed[:5])}.",
            "Its plan was fixed before the first release, and the rest of it must be the same.",
            _NEW_RUN,
        )


def require_same_package(opened: RunOpen, package: str) -> None:
    """Raise `InvalidInput` where the system is of another package, and of another version now.

    What this package promises of its own versions, nobody promises of others.
    """
    if package == OURS:
        return
    before, now = opened.code.get(package, "none"), versions(package).get(package, "none")
    if before != now:
        raise InvalidInput(
            f"The run was begun with version {before} of package {package}; this is {now}.",
            f"{opened.system} is a system of that package, and another version may do otherwise.",
            f"Install {package} {before}, or start a new run in another folder.",
        )


def require_same_plan(prepared: Prepared, opened: RunOpen) -> None:
    """Raise `InvalidInput` where the log announces another plan, promise or system."""
    own = prepared.opening
    same = {
        "system": prepared.system.name == opened.system,
        "promise": own.claim == opened.claim,
        "plan": own.plan == opened.plan,
        "population": own.population == opened.population,
        "aggregation": own.aggregation == opened.aggregation,
        "protocol": own.security == opened.security,
        "as_published": own.as_published == opened.as_published,
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

    The plan pays for one such release, and training cannot do without it.
    """
    found = _moments_of(progress)
    if found is not None and found[1] is None:
        raise InvalidInput(
            "The run was cut off while it released the moments that features are normalised by.",
            "They are spent and lost, and its plan pays for no other release of them.",
            "Start a new run in another folder; what this one has spent counts beside it.",
        )


def require_moments_kept(kept: Checkpoint, progress: Progress) -> None:
    """Raise `InvalidInput` unless the kept moments are exactly those that the log released."""
    found = _moments_of(progress)
    if found is None or found[1] is None:
        if kept.moments is not None:
            raise InvalidInput(
                "The folder holds moments of features that the log never released.",
                "A run goes on from what it released, and from nothing else.",
                _NEW_RUN,
            )
        return
    if kept.moments is None or kept.moments.digest != found[1].aggregate:
        what = "are missing" if kept.moments is None else "are not those that the log released"
        raise InvalidInput(
            f"The moments that features are normalised by {what}.",
            "They were released once; the plan pays for no other release of them.",
            _NEW_RUN,
        )


def _moments_of(progress: Progress) -> tuple[RoundIntent, RoundRelease | None] | None:
    """Return the intent to release moments, and its release if there is one; None before."""
    for seq, intent in progress.intents.items():
        if intent.phase == NORMALISE:
            return intent, progress.releases.get(seq)
    return None


def _last_model(progress: Progress) -> RoundRelease | None:
    """Return the newest release of a model; None where no model was released yet."""
    made = [seq for seq in progress.releases if progress.intents[seq].phase == PHASE]
    return progress.releases[max(made)] if made else None


def kept_model(prepared: Prepared, places: tuple[Path, ...], progress: Progress) -> Checkpoint:
    """Return the model from which the run goes on.

    It is the last released one; or, where the run was cut off between a release and its keeping,
    the one that this release started from.  Raises `InvalidInput` for any other.
    """
    place = next((path for path in places if path.exists()), None)
    if place is None:
        first = prepared.system.initial()
        found = Checkpoint(progress.opened.run_id, 0, prepared.settings.training.model, first)
    else:
        found = Checkpoint.read(place)
    own = digest(found.parameters)
    last = _last_model(progress)
    if found.run_id != progress.opened.run_id:
        raise _foreign(place, "belongs to another run")
    if last is None:
        if found.round == 0:
            return found
        raise _foreign(place, "stands for a release, and the log has none of a model")
    if own == last.model_out or own == progress.intents[last.intent].model_in:
        return found
    raise _foreign(place, "is not the one that the log released last")


def _foreign(place: Path | None, reason: str) -> InvalidInput:
    if place is None:
        return InvalidInput(
            "The last released model is missing.",
            "The log has releases, and the folder no model to go on from.",
            _NEW_RUN,
        )
    return InvalidInput(
        f"The model in {place.name} {reason}.",
        "A run goes on from its last release, and from nothing else.",
        _NEW_RUN,
    )


def _flat(configuration: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for table, content in configuration.items():
        if isinstance(content, Mapping):
            found |= {f"[{table}] {key}": value for key, value in content.items()}
        else:
            found[table] = content
    return found
