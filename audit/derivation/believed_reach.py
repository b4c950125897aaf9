"""How far it is believed what of a round reaches an observer: by other facts, or as an assumption.

A reach is a statement of the run.  What the table of `fl.observers.reaches` makes of aggregation,
protocol and sample is what the facts alone allow; where nothing is stated, it counts.  A stated
reach of more counts as well: the weaker of the two.  One of less is one of three things:

    accepted         by a protocol whose facts fit (`protocol_consistency`); the table says it too
    assumed          where no protocol can carry it: a shuffler that is trusted, a server that is
                     said to hold ciphertexts; it stands next to the number
    contradicted     by anything else that is stated; then the observer sees each message, with all
                     that the table and the statement allow besides it

One that only other rounds of the phase have counts likewise: as if each message was seen.

Why other facts are against a stated reach is a clause each, which names both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...accountant.records import Reach
from ...fl.observers.names import ANALYZER, CLIENT, MODEL, PEER, SILO, SILO_WITH_RECORDS
from ...fl.observers.reaches import Route, is_mixer_of_sums, reach_of
from ...fl.observers.stated_assumptions import stated_assumptions, unenforced_assumption
from ...fl.observers.stated_reaches import inconsistent_fields
from .messages import fills_all
from .protocol_consistency import reliable_facts
from .round_facts import REMOVAL_ASSUMPTION, RoundFacts, noise_is_removed
from .run_setting import RunSetting
from .sampling import route_of

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


@dataclass(frozen=True)
class BelievedReach:
    """What counts of a reach: each of `reaches` is derived, and the weakest is counted.

    `assumed` are sentences that stand next to the number, `contradicted` why a statement does not
    count, and `missing` says that only other rounds have one.
    """

    reaches: tuple[Reach, ...]
    assumed: tuple[str, ...] = ()
    contradicted: tuple[str, ...] = ()
    missing: bool = False


def believed_reach(facts: RoundFacts, setting: RunSetting, observer: str) -> BelievedReach | None:
    """Return how far the reach of an observer counts; None for one that nobody knows."""
    believed = _believed(facts, setting, observer)
    if believed is None or not noise_is_removed(facts, setting):
        return believed
    assumed = tuple(dict.fromkeys((REMOVAL_ASSUMPTION, *believed.assumed)))
    return replace(believed, assumed=assumed)


def _believed(facts: RoundFacts, setting: RunSetting, observer: str) -> BelievedReach | None:
    known, whole = reliable_facts(facts, setting)
    route = route_of(known, whole)
    table = _table(observer, route, facts, setting)
    if table is None:
        return None
    every = _stated(facts, setting, observer)
    if len(every) > 1:
        return _together(
            [_judged(each, table, facts, setting, observer, route) for each in every], facts
        )
    stated = every[0] if every else None
    if stated is None:
        absent = observer in facts.missing and observer != MODEL
        # Other rounds of the phase state a reach and this one is silent: as if each message was
        # seen.
        reaches = (_all(table), table) if absent else (table,)
        return BelievedReach(_told_apart(reaches, facts), missing=absent)
    return _judged(stated, table, facts, setting, observer, route)


def _judged(
    stated: Reach, table: Reach, facts: RoundFacts, setting: RunSetting, observer: str, route: Route
) -> BelievedReach:
    """Return how far one statement counts with the table's."""
    merged = _merged(stated, table)
    why = tuple(conflicts(stated, table, facts, setting, observer, route))
    if why:
        # The contradicted statement counts too where it may be the weaker one, with the table's
        # row and the view of each message.
        weak = (merged,) if merged.sees in ("each", "sum-less-own", "one-share") else ()
        reaches = (*_by_colluders(_all(merged), table), table, *weak)
        return BelievedReach(_told_apart(reaches, facts), stated_assumptions(stated), why)
    assumed = stated_assumptions(stated)
    # No protocol of the log carries it, and nothing excludes it: an assumption, named with the
    # number.
    if stated.sees not in HIDES_NO_MORE[table.sees]:
        if observer == CLIENT:  # it knows its own, whoever mixes
            merged = replace(merged, colluders=max(merged.colluders, 1))
        return BelievedReach(
            (merged,),
            (
                unenforced_assumption(stated, observer, setting.aggregation, setting.security),
                *assumed,
            ),
        )
    if is_mixer_of_sums(observer, stated):
        return BelievedReach((merged,), assumed)  # the sums, and all that the table's row is
    if stated.sees == table.sees == "shuffled" or merged == _plain(table, merged):
        return BelievedReach((merged,), assumed)  # of what is mixed the table knows no dimensions
    return BelievedReach(_told_apart((*_by_colluders(merged, table), table), facts), assumed)


def _by_colluders(reach: Reach, table: Reach) -> tuple[Reach, ...]:
    """Return a reach, and the same with as few colluders as the table says.

    What colluders hold themselves is not hidden from them, so of even weights a number may fall as
    there are more; the larger is the one to state for up to so many.
    """
    if reach.colluders <= table.colluders:
        return (reach,)
    return reach, replace(reach, colluders=table.colluders)


def _told_apart(reaches: tuple[Reach, ...], facts: RoundFacts) -> tuple[Reach, ...]:
    """Return reaches without those that follow from another: whoever sees each message sees all.

    Values with the noise of one contributor do not follow from messages with their own.
    """
    if not facts.messages or all(reach.sees != "each" for reach in reaches):
        return reaches
    return tuple(reach for reach in reaches if reach.sees in ("each", "one-share"))


def _together(every: list[BelievedReach], facts: RoundFacts) -> BelievedReach:
    """Return what counts of several statements: the weakest of all that each of them leaves."""
    return BelievedReach(
        _told_apart(tuple(dict.fromkeys(reach for each in every for reach in each.reaches)), facts),
        tuple(dict.fromkeys(text for each in every for text in each.assumed)),
        tuple(dict.fromkeys(why for each in every for why in each.contradicted)),
    )


def _table(observer: str, route: Route, facts: RoundFacts, setting: RunSetting) -> Reach | None:
    """Return the row of the table, for messages as they are seen; None for an unknown observer.

    Where messages are said to be shuffled, and the protocol does not count, nothing says that only
    their sum is released.  A silo sends its users' messages, however many these are, and knows
    their noise: what is left of a sum or a mix may be a single one.
    """
    table = reach_of(observer, route)
    if table is not None and table.sees != "each" and noise_is_removed(facts, setting):
        return replace(table, sees="one-share")
    if table is None or not facts.messages:
        return table
    # Shuffling that no protocol carries hides no sender.
    unmixed = setting.aggregation == "shuffle" and not route.shuffled
    if not unmixed and not sends_many(observer, facts, setting):
        return table
    return Reach(
        "each",
        holds=table.holds,
        colluders=table.colluders,
        dropouts=table.dropouts,
        knows_sample=table.knows_sample,
        also=table.also,
    )


def _stated(facts: RoundFacts, setting: RunSetting, observer: str) -> tuple[Reach, ...]:
    """Return what is stated to reach an observer; the model is made of what the analyzer sees.

    What is released hides no less than what the analyzer sees, if it is a sum of that; what else
    is said of the model, that more is released, counts as well.
    """
    stated = facts.reach_to(observer)
    seen = facts.reach_to(ANALYZER)
    if observer != MODEL or setting.aggregation != "shuffle" or seen is None:
        return () if stated is None else (stated,)
    if stated is None:
        return (seen,)
    if stated.sees in ("sum", "nothing"):
        return (_merged(seen, stated),)
    return tuple(dict.fromkeys((seen, stated)))


def _merged(stated: Reach, table: Reach) -> Reach:
    """Return a stated reach with no less of what helps the observer than the table says."""
    return replace(
        stated,
        holds=max(stated.holds, table.holds, key=HOLDS.index),
        colluders=max(stated.colluders, table.colluders),
        dropouts=max(stated.dropouts, table.dropouts),
        knows_sample=stated.knows_sample or table.knows_sample,
        also=tuple(dict.fromkeys((*stated.also, *table.also))),
    )


def _plain(table: Reach, other: Reach) -> Reach:
    """Return the table's reach with what another says with it, and no part of a number."""
    return replace(
        table,
        also=other.also,
        rests_on=other.rests_on,
        dimensions=other.dimensions,
        chosen=other.chosen,
        selection=other.selection,
    )


def _all(reach: Reach) -> Reach:
    """Return the reach of who sees each message, and knows whatever this one does, and who sent."""
    return Reach(
        "each",
        holds=reach.holds,
        colluders=reach.colluders,
        dropouts=reach.dropouts,
        knows_sample=True,
        also=reach.also,
    )
