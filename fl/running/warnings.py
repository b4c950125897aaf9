"""What a person must know of a run before it begins."""

from __future__ import annotations

import shlex
from typing import Final

from ...accountant.errors import counted
from .prepared_run import PreparedRun
from .signing_key import OPEN_KEY_WARNING, key_is_open

_SEEDED: Final = (
    "The noise comes from a seed, so whoever knows it can take the noise off: this run protects "
    "nobody. Leave `seed` out of [run] for a run that protects."
)
_PUBLISHED: Final = (
    "The method is run as it was published, which is not sound: there is no guarantee. See: "
    "privplan explain {page}"
)
_PAGES: Final = {"uldp": "uldp-fl"}
"""Pages about the published methods, by the table of their family; others are named like it."""

_NO_NOISE: Final = "No noise is added: the model may give away any record. There is no guarantee."
_LARGE_DELTA: Final = (
    "Delta {delta:g} is not well below 1 / {units}: with that probability the promise may "
    "fail altogether. See: privplan explain delta"
)
_ACCEPTED: Final = (
    "Delta {delta:g} was accepted for {units} (accept_delta): publishing one of them at "
    "random satisfies the promise. {audited}"
)
_AUDITED_AS_ERROR: Final = "The audit of this log calls such a delta an error."
_AUDITED_BY_UNITS: Final = (
    "An audit compares it with the number of protected units, which this log may not state."
)
_TRIED: Final = (
    "The settings were chosen by {trials:,} runs on these records; what that gave away is not in "
    "this run's epsilon."
)
_CUT: Final = (
    "The budget of epsilon {epsilon:g} allows {made:,} of {asked:,} rounds; the rest is not made."
)
_MAX_QUIET_DELTA_RATIO: Final = 10.0
"""Delta times units above 1 / this is worth a warning."""


def _protected(prepared: PreparedRun) -> tuple[int, str]:
    """Return how many units are protected, and their name; users, where that is not public."""
    claim, settings = prepared.opening.claim, prepared.settings
    units = prepared.opening.population.units(claim.unit, most_records=settings.most_records)
    return (settings.data.users, "user") if units is None else (units, claim.unit)


def warnings_of(prepared: PreparedRun) -> tuple[str, ...]:
    """Return the warnings about a run, each a sentence or more."""
    settings = prepared.settings
    units, unit = _protected(prepared)
    said: list[str] = []
    if settings.log.sign_key is not None and key_is_open(settings.log.sign_key):
        said.append(OPEN_KEY_WARNING.format(path=shlex.quote(str(settings.log.sign_key))))
    if settings.run.seed is not None:
        said.append(_SEEDED)
    if prepared.opening.as_published:
        table = settings.system.table
        name = settings.run.system if table is None else table.name
        said.append(_PUBLISHED.format(page=_PAGES.get(name, name)))
    elif not prepared.promises:
        said.append(_NO_NOISE)
    elif settings.privacy.accept_delta and settings.privacy.delta * units >= 1.0:
        # The audit counts the units of the promise, and the first line has users and silos.
        stated = prepared.opening.claim.unit in ("user", "silo")
        audited = _AUDITED_AS_ERROR if stated else _AUDITED_BY_UNITS
        said.append(
            _ACCEPTED.format(
                delta=settings.privacy.delta, units=counted(units, unit), audited=audited
            )
        )
    elif settings.privacy.delta * units * _MAX_QUIET_DELTA_RATIO > 1.0:
        said.append(_LARGE_DELTA.format(delta=settings.privacy.delta, units=counted(units, unit)))
    if settings.run.trials > 1:
        said.append(_TRIED.format(trials=settings.run.trials))
    # Without a target the rounds are those asked for, and none can be cut.
    if prepared.cut and settings.privacy.epsilon is not None:
        said.append(
            _CUT.format(
                epsilon=settings.privacy.epsilon, made=prepared.rounds, asked=prepared.asked
            )
        )
    return tuple(said)
