"""The table `[uldp]`: what only Uldp-FL's systems have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import counted
from ...accountant.events.matrices import MAX_STRATEGY_STEPS
from ..declarations.declaration import Complaint, Rule, Table
from ..declarations.given_settings import GivenSettings
from ..declarations.toml_key import at_least, key, rate
from ..declarations.toml_keys import CORRELATED_KEYS
from ..settings.declared_rules import UNPAID_MOMENTS, no_target, unpaid_votes

BANDED: Final = "banded"
"""The word for correlated noise in a configuration."""

NOISE_ALONE: Final = "A round without users releases noise alone."
"""Why there are no more cohorts than users."""


@dataclass(frozen=True, kw_only=True)
class UldpSettings:
    """`[uldp]`: what only Uldp-FL's systems have."""

    as_published: bool = key(
        "run as the paper has it, which proves no guarantee: uldp-naive with sensitivity C, "
        "uldp-avg and uldp-sgd with its private weighting",
        default=False,
    )
    group_records: int | None = key(
        "uldp-group: most records of one user that take part, 2 or more",
        at_least(2),
        default=None,
        shown="required there",
        why="The promise for a user follows from that for one record, so often.",
    )
    record_rate: float | None = key(
        "uldp-group: probability that a record joins one step",
        rate,
        default=None,
        shown="one batch of a silo's nominal records",
        why="It is the probability with which a record joins one step of training.",
    )


TABLE: Final = Table(
    name="uldp",
    about="what only Uldp-FL's systems have",
    settings=UldpSettings,
    group="group_records",
)


_KEYS_NOT_IN_PAPER: Final[Mapping[str, str]] = {
    "slots": "the server draws",
    "records_per_count": "every record counts",
    "processes": "one process does the work",
}
"""Keys of [security] that do not apply to private weighting as published, and why."""


def group_given(given: GivenSettings) -> Complaint | None:
    """Demand the number of records of one user that take part."""
    if given.states(TABLE.name, "group_records"):
        return None
    return (
        "lacks `group_records` in [uldp]",
        "uldp-group lets so many records of one user take part, and protects them together.",
        "Write group_records = 8 under [uldp], for example.",
    )


def rate_or_batch(given: GivenSettings) -> Complaint | None:
    """Refuse two answers to how many records join a step."""
    if not given.states(TABLE.name, "record_rate") or not given.states("training", "batch"):
        return None
    return (
        "gives both `record_rate` in [uldp] and `batch` in [training]",
        "Each says how many records join a local step of uldp-group.",
        "Leave one of them out.",
    )


def no_moments(given: GivenSettings) -> Complaint | None:
    """Refuse private moments for a method as published, whose promise would not cover them."""
    if not given.of(UldpSettings).as_published or given.data.normalisation != "private":
        return None
    return published_moments(given.system.name)


def published_moments(system: str) -> Complaint:
    """Return that a method as published cannot pay for private moments."""
    return (
        f'has normalisation = "private" in [data], and {system} as published cannot pay for it',
        UNPAID_MOMENTS,
        'Write normalisation = "public", or leave as_published out.',
    )


def no_votes(given: GivenSettings) -> Complaint | None:
    """Refuse votes for a method as published, whose promise would not cover them."""
    if not given.of(UldpSettings).as_published or not given.holds_out:
        return None
    return unpaid_votes(given.system.name)


def published_protocol(given: GivenSettings) -> Complaint | None:
    """Refuse `as_published` without the published protocol, and keys that do not apply to it."""
    if not given.of(UldpSettings).as_published:
        return None
    if given.security.aggregation != "private-weighting":
        return (
            f"has as_published = true in [uldp], and {given.system.name} is sound as it is "
            "published",
            "It is the private weighting protocol of the paper that leaks.",
            'Leave it out, or write aggregation = "private-weighting" under [security].',
        )
    if given.of_table:
        return (
            f'has as_published = true in [uldp], and names "{given.dataset}" in [data]',
            "The published protocol cannot weight somebody who has no row, or very many, and who "
            "that is must not be heard of.",
            "Leave it out, or choose a data set that is dealt.",
        )
    for name, reason in _KEYS_NOT_IN_PAPER.items():
        if given.states("security", name):
            return (
                f"gives `{name}` in [security] with as_published = true in [uldp]",
                f"The protocol is run as the paper's code has it, and there {reason}.",
                "Leave one of them out.",
            )
    return None


def keys_together(given: GivenSettings) -> Complaint | None:
    """Refuse keys of correlated noise without it, and correlated noise without cohorts."""
    if given.privacy.noise != BANDED:
        for name in CORRELATED_KEYS[1:]:
            if given.states("privacy", name):
                return (
                    f"gives `{name}` in [privacy], which has no effect",
                    'It says how noise = "banded" is shared by rounds.',
                    'Leave it out, or write noise = "banded" under [privacy].',
                )
        return None
    cohorts, users = given.privacy.cohorts, given.stated("data", "users")
    if cohorts is None:
        return (
            'has noise = "banded" in [privacy], and lacks `cohorts`',
            "Where everybody takes part in every round, correlated noise gains nothing: the sum of "
            "all rounds has as much noise as with independent rounds.",
            "Write cohorts = 10 under [privacy], for example.",
        )
    if users is not None and cohorts > users:
        return (
            f"gives cohorts = {cohorts} in [privacy], and there are {users} users",
            NOISE_ALONE,
            "Write fewer cohorts.",
        )
    return None


def fits_the_run(given: GivenSettings) -> Complaint | None:
    """Refuse what correlated noise does not go together with."""
    privacy, aggregation = given.privacy, given.security.aggregation
    if privacy.noise != BANDED or privacy.cohorts is None:
        return None
    unfit = correlated_complaint(aggregation, given.security.dropouts, privacy.sampling_rate)
    if unfit is not None:
        return unfit
    if given.states("privacy", "epsilon", "noise_multiplier"):
        return (
            'has noise = "banded" in [privacy], with `epsilon` and `noise_multiplier`',
            "Rounds are paid for in blocks, so a limit does not cut single rounds off.",
            "Give one of them.",
        )
    rounds, bands, blocks = given.stated("run", "rounds"), privacy.bands or 1, privacy.blocks or 1
    return unfit_schedule(rounds, bands, privacy.cohorts, blocks)


def correlated_complaint(aggregation: str, dropouts: int, rate: float) -> Complaint | None:
    """Refuse a protocol, silos that may be missing, and sampled users with correlated noise."""
    if aggregation not in ("plain", "masked"):
        return (
            f'has noise = "banded" in [privacy] and aggregation = "{aggregation}" in [security]',
            "What silos send holds their last rounds too, which this protocol was not made for.",
            'Write aggregation = "masked" or "plain".',
        )
    if dropouts:
        return (
            'has noise = "banded" in [privacy], and `dropouts` in [security]',
            "Where a silo is missing from a round, later rounds take off what was not there.",
            "Leave `dropouts` out.",
        )
    if rate != 1.0:
        return (
            'has noise = "banded" and `sampling_rate` in [privacy]',
            "Users take part in turns, by a public schedule, and not by chance.",
            "Leave `sampling_rate` out.",
        )
    return None


def unfit_schedule(rounds: int | None, bands: int, cohorts: int, blocks: int) -> Complaint | None:
    """Refuse bands and blocks that these cohorts and rounds do not allow; None: not known yet."""
    counts = {"rounds": rounds, "bands": bands, "cohorts": cohorts, "blocks": blocks}
    for name, value in counts.items():
        if value is not None and value < 1:
            return (
                f"gives {name} = {value}",
                "It is a count.",
                f"Write `{name}` as a whole number from 1 on.",
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


NAIVE_RULES: Final[tuple[Rule, ...]] = (no_moments, no_votes, no_target)
GROUP_RULES: Final[tuple[Rule, ...]] = (group_given, rate_or_batch)
WEIGHTED_RULES: Final[tuple[Rule, ...]] = (
    no_moments,
    published_protocol,
    no_target,
    keys_together,
    fits_the_run,
)
"""Rules of each system, in the order in which they are asked."""
