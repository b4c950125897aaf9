"""How far it is believed what of a round reaches an observer: by other facts, or as an assumption.

A reach is a statement of the run.  What the table of `fl.observers.reaches` makes of aggregation,
protocol and sample is what the facts alone allow; where nothing is stated, it counts.  A stated
reach of more counts beside it: the weaker of the two.  One of less is one of three things:

    accepted         by a protocol whose facts fit (`protocol_consistency`); the table says it too
    assumed          where no protocol can carry it: a shuffler that is trusted, a server that is
                     said to hold ciphertexts; it stands beside the number
    contradicted     by anything else that is stated; then the observer sees each message, with all
                     that the table and the statement allow beside it

One that only other rounds of the phase have counts likewise: as if each message was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...accountant.records import Reach
from ...fl.observers.names import ANALYZER, CLIENT, MODEL
from ...fl.observers.reaches import Route, is_mixer_of_sums, reach_of
from ...fl.observers.stated_assumptions import stated_assumptions, unenforced_assumption
from .noise_removal import REMOVAL_ASSUMPTION, noise_is_removed
from .protocol_consistency import reliable_facts
from .reach_conflicts import HIDES_NO_MORE, HOLDS, conflicts, sends_many
from .round_facts import RoundFacts
from .run_setting import RunSetting
from .sampling import route_of


@dataclass(frozen=True)
class BelievedReach:
    """What counts of a reach: each of `reaches` is derived, and the weakest is counted.

    `assumed` are sentences that stand beside the number, `contradicted` why a statement does not
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
    """Return how far one statement counts beside the table's."""
    merged = _merged(stated, table)
    why = tuple(conflicts(stated, table, facts, setting, observer, route))
    if why:
        # The contradicted statement counts too where it may be the weaker one, beside the table's
        # row and the view of each message.
        weak = (merged,) if merged.sees in ("each", "sum-less-own", "one-share") else ()
        reaches = (*_by_colluders(_all(merged), table), table, *weak)
        return BelievedReach(_told_apart(reaches, facts), stated_assumptions(stated), why)
    assumed = stated_assumptions(stated)
    # No protocol of the log carries it, and nothing excludes it: an assumption, named beside the
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
    is said of the model, that more is released, counts beside it.
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
    """Return the table's reach with what another says beside it, and no part of a number."""
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
