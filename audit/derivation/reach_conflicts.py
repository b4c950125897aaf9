"""Why other facts of a log are against a stated reach: each reason is a clause that names both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ...accountant.records import Reach
from ...fl.observers.names import CLIENT, PEER, SILO, SILO_WITH_RECORDS
from ...fl.observers.reaches import Route
from ...fl.observers.stated_assumptions import unenforced_assumption
from ...fl.observers.stated_reaches import inconsistent_fields
from .messages import fills_all
from .round_facts import RoundFacts
from .run_setting import RunSetting

HIDES_NO_MORE: Final[Mapping[str, frozenset[str]]] = {
    "nothing": frozenset({"nothing", "sum", "sum-less-own", "one-share", "each"}),
    "sum": frozenset({"nothing", "sum", "sum-less-own", "one-share", "each"}),
    "sum-less-own": frozenset({"sum-less-own", "each"}),
    "shuffled": frozenset({"shuffled", "each"}),
    "each": frozenset({"each"}),
    "one-share": frozenset({"one-share", "each"}),
}
"""By what the table says, the statements that hide no more.  Who sees the sum sees what is
released, and so does who sees nothing else."""

HOLDS: Final = ("nothing", "weights", "part")
"""What an observer holds of the unit, from the least that it knows."""

_MIX_FIELDS: Final = ("dimensions", "chosen", "padded_to", "granularity", "overflow")
"""What is true of the messages of a round, whomever they reach: all who state it state the same."""


def sends_many(observer: str, facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether an observer sends nobody knows how many of the messages, and their noise.

    A silo sends those of all its users.  A client sends one for each of its records: as many as a
    promised unit has, where the promise is for units of many, and else any number.
    """
    if facts.contribution.terms != "message":
        return False
    inside = facts.contribution.unit in ("entry", "record")
    if observer == CLIENT:
        return inside and setting.group == 1
    return observer in (SILO, SILO_WITH_RECORDS, PEER) and facts.contribution.unit != "silo"


def conflicts(
    stated: Reach, table: Reach, facts: RoundFacts, setting: RunSetting, observer: str, route: Route
) -> Iterator[str]:
    """Yield why other facts are against a stated reach, each in a clause that names both."""
    for key, what in inconsistent_fields(stated):
        yield f"`{key}` {what}"
    for name in ("colluders", "dropouts"):
        stated_value, least = getattr(stated, name), getattr(table, name)
        if stated_value < least:
            yield f"`{name}` is {stated_value:,} where other facts say {least:,}"
    # Each way to claim less knowledge than the structure of the run gives is a conflict.
    if table.knows_sample and not stated.knows_sample:
        yield "it is said not to know the sample, which it draws, trains on or sees"
    if HOLDS.index(stated.holds) < HOLDS.index(table.holds):
        yield f"it is said to hold {stated.holds} of the unit"
    if stated.sees != "each" and sends_many(observer, facts, setting):
        yield f"`{observer}` sends more messages than one, nobody knows how many, and knows them"
    if stated.sees == "shuffled":
        yield from _not_mixed(stated, facts, setting)
    if stated.sees not in HIDES_NO_MORE[table.sees] and not unenforced_assumption(
        stated, observer, setting.aggregation, setting.security
    ):
        yield (
            f"`{stated.sees}` is less than what aggregation `{setting.aggregation}`, as far as its "
            f"protocol counts, shows: `{table.sees}`"
        )
    if "identities" in stated.also and _is_sender_hidden(facts, route, stated):
        yield "`also` names identities, which show who was drawn, and the sample is said to hide"


def _not_mixed(stated: Reach, facts: RoundFacts, setting: RunSetting) -> Iterator[str]:
    """Yield why messages are not mixed as it is stated: other facts count them otherwise."""
    if not facts.messages:
        yield f"terms of kind `{facts.contribution.terms}` share their noise, and are no messages"
    users, security = stated.users or 0, setting.security
    if security is not None and security.protocol == "shuffler" and users > security.parties:
        yield f"{users:,} messages are mixed, and {security.parties:,} parties send one"
    # More messages hide better, so a number of users above any other count is a conflict.
    there = setting.size(facts.contribution.unit)
    if there is not None and users > there:
        yield f"{users:,} messages are mixed, and there are {there:,} {facts.contribution.unit}s"
    if facts.noise.shares > 1 and users > facts.noise.shares:
        yield f"{users:,} messages are mixed, of which {facts.noise.shares:,} have noise"
    dimensions = stated.dimensions
    if dimensions is not None and facts.width is not None and dimensions != facts.width:
        yield f"{dimensions:,} dimensions are mixed, and {facts.width:,} values were released"
    draws, chosen = facts.noise.draws, stated.chosen
    if chosen is not None and draws > 1 and draws != chosen:
        yield f"{chosen:,} messages of a unit are mixed, and {draws:,} are drawn"
    for name in _MIX_FIELDS:
        # Who sees all coordinates sent, decoys among them, states no choice of a few.
        values = {
            getattr(reach, name) for _, reach in facts.reaches or () if not fills_all(facts, reach)
        } - {None}
        if len(values) > 1:
            yield (
                f"`{name}` is {' and '.join(sorted(map(str, values)))}, by whom it is said to reach"
            )


def _is_sender_hidden(facts: RoundFacts, route: Route, stated: Reach) -> bool:
    """Return whether a sample of those who send by themselves is said to be unknown."""
    alone = facts.messages or facts.contribution.unit == "silo"
    return route.sampling.method != "none" and alone and not stated.knows_sample
