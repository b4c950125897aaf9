"""Rules between the keys of a configuration with correlated noise."""

from __future__ import annotations

from typing import Final

from ...accountant.errors import counted
from ...accountant.events.matrices import MAX_STRATEGY_STEPS
from ..declarations.declaration import Complaint, Given
from ..declarations.toml_keys import CORRELATED_KEYS

BANDED: Final = "banded"
"""The word for correlated noise in a configuration."""

NOTHING_FOR_EVERYBODY: Final = (
    "Where everybody takes part in every round, correlated noise gains nothing: the sum of all "
    "rounds has as much noise as with independent rounds."
)
"""Why correlated noise needs cohorts."""


_AGGREGATIONS = ("plain", "masked")


def keys_together(given: Given) -> Complaint | None:
    """Refuse keys of correlated noise without it, and correlated noise without cohorts."""
    privacy = given.get("privacy", {})
    if privacy.get("noise") != BANDED:
        for key in CORRELATED_KEYS[1:]:
            if key in privacy:
                return (
                    f"gives `{key}` in [privacy], which has no effect",
                    'It says how noise = "banded" is shared by rounds.',
                    'Leave it out, or write noise = "banded" under [privacy].',
                )
        return None
    if "cohorts" not in privacy:
        return (
            'has noise = "banded" in [privacy], and lacks `cohorts`',
            NOTHING_FOR_EVERYBODY,
            "Write cohorts = 10 under [privacy], for example.",
        )
    cohorts, users = privacy["cohorts"], given.get("data", {}).get("users")
    if users is not None and cohorts > users:
        return (
            f"gives cohorts = {cohorts} in [privacy], and there are {users} users",
            "A round without users releases noise alone.",
            "Write fewer cohorts.",
        )
    return None


def fits_the_run(given: Given) -> Complaint | None:
    """Refuse what correlated noise does not go together with."""
    privacy, security = given.get("privacy", {}), given.get("security", {})
    if privacy.get("noise") != BANDED:
        return None
    aggregation = security.get("aggregation", "plain")
    if aggregation not in _AGGREGATIONS:
        return (
            f'has noise = "banded" in [privacy] and aggregation = "{aggregation}" in [security]',
            "What silos send holds their last rounds too, which this protocol was not made for.",
            'Write aggregation = "masked" or "plain".',
        )
    if security.get("dropouts"):
        return (
            'has noise = "banded" in [privacy], and `dropouts` in [security]',
            "Where a silo is missing from a round, later rounds take off what was not there.",
            "Leave `dropouts` out.",
        )
    if privacy.get("sampling_rate", 1.0) != 1.0:
        return (
            'has noise = "banded" and `sampling_rate` in [privacy]',
            "Users take part in turns, by a public schedule, and not by chance.",
            "Leave `sampling_rate` out.",
        )
    if "epsilon" in privacy and "noise_multiplier" in privacy:
        return (
            'has noise = "banded" in [privacy], with `epsilon` and `noise_multiplier`',
            "Rounds are paid for in blocks, so a limit does not cut single rounds off.",
            "Give one of them.",
        )
    rounds = given.get("run", {}).get("rounds")
    cohorts, bands = privacy["cohorts"], privacy.get("bands", 1)
    return unfit_schedule(rounds, bands, cohorts, privacy.get("blocks", 1))


def unfit_schedule(rounds: int | None, bands: int, cohorts: int, blocks: int) -> Complaint | None:
    """Refuse bands and blocks that these cohorts and rounds do not allow; None: not known yet."""
    counts = {"rounds": rounds, "bands": bands, "cohorts": cohorts, "blocks": blocks}
    for key, value in counts.items():
        if value is not None and value < 1:
            return (
                f"gives {key} = {value}",
                "It is a count.",
                f"Write `{key}` as a whole number from 1 on.",
            )
    if bands > cohorts:
        return (
            f"gives bands = {bands} and cohorts = {cohorts} in [privacy]",
            "A user comes again after so many rounds as there are cohorts; within more bands its "
            "terms would meet, and add up.",
            f"Write bands = {cohorts}, or more cohorts.",
        )
    if rounds is None:
        return None
    if rounds % blocks:
        return (
            f"gives blocks = {blocks} in [privacy] for {counted(rounds, 'round')}",
            "Blocks have equal length, and each is paid for as a whole.",
            "Write a number of blocks that divides the rounds.",
        )
    if rounds // blocks > MAX_STRATEGY_STEPS:
        return (
            f"gives rounds = {rounds} in [run] and blocks = {blocks} in [privacy], so blocks of "
            f"{counted(rounds // blocks, 'round')}",
            f"The noise of a block is computed for {MAX_STRATEGY_STEPS:,} rounds at most.",
            "Write fewer `rounds` in [run], or more `blocks` in [privacy].",
        )
    if bands > rounds // blocks:
        return (
            f"gives bands = {bands} in [privacy], and a block has "
            f"{counted(rounds // blocks, 'round')}",
            "No noise reaches beyond its block.",
            f"Write bands = {rounds // blocks}, or fewer blocks.",
        )
    return None
