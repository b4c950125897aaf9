"""Kinds of rounds: rounds that are alike in all that their cost depends on are looked at once.

**Participation.**  Where silos take part by a public schedule, the worst silo counts.  A unit that
lies in one silo is touched by the rounds in which that silo takes part
(`accountant.records.participation`).  Every other unit is touched by all of them, and so is every
unit by a round whose terms, weights or sample depend on what several silos hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...accountant import events as ev
from ...accountant.records.participation import counts_by_silo, lies_in_one_silo
from ...fl.frame.held_out_messages import VOTE_NUMBERS
from ...fl.observers.names import MODEL
from ..derivation.round_facts import RoundFacts
from ..derivation.run_setting import RunSetting
from ..ledger.entries import Ledger, SpentIntent
from ..ledger.phases import votes_of
from .doubts import Doubts


@dataclass(frozen=True, eq=False)
class RoundKind:
    """Rounds that are alike in all that their cost depends on.

    `stated` is what the log says that each observer sees of one such round.
    """

    facts: RoundFacts
    stated: Mapping[str, ev.Event]
    spent: tuple[SpentIntent, ...]

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the intents."""
        return tuple(spent.number for spent in self.spent)


def lines_of(kinds: Iterable[RoundKind]) -> tuple[int, ...]:
    """Return the lines of the intents of some kinds of rounds, in order."""
    return tuple(sorted(line for kind in kinds for line in kind.lines))


def kinds_of(ledger: Ledger, doubts: Doubts) -> tuple[RoundKind, ...]:
    """Return the different rounds of a log."""
    kinds: dict[tuple[RoundFacts, tuple[tuple[str, ev.Event], ...]], list[SpentIntent]] = {}
    released = [spent for spent in ledger.spent if spent.releases]
    widths: dict[str, int] = {}
    for spent in released:
        values = max(release.values for _, release in spent.releases)
        widths[spent.intent.phase] = max(widths.get(spent.intent.phase, 0), values)
    # Votes that were lost have no other round to say how many numbers they were.
    votes = votes_of(ledger)
    if votes is not None:
        widths.setdefault(votes.intent.phase, VOTE_NUMBERS)
    for phase, width in _configured_widths(ledger, widths.keys()):
        widths[phase] = max(widths.get(phase, 0), width)
    # A phase releases single numbers if no release of it ever held more values.
    known = {phase for phase, width in widths.items() if width <= 1}
    unsaid = unstated(ledger)
    for spent in ledger.spent:
        single = spent.intent.phase in known
        facts = RoundFacts.of(
            spent,
            doubts.of_intent(spent),
            single=single,
            missing=unsaid.get(spent.seq, ()),
            width=widths.get(spent.intent.phase) or None,
        )
        views = tuple(sorted(spent.intent.views.items(), key=lambda pair: pair[0]))
        kinds.setdefault((facts, views), []).append(spent)
    return tuple(
        RoundKind(facts, {**dict(views), MODEL: facts.event}, tuple(same))
        for (facts, views), same in kinds.items()
    )


def _configured_widths(ledger: Ledger, known: Collection[str]) -> list[tuple[str, int]]:
    """Return how many numbers each round would have released of whose phase all were lost."""
    lost = [spent.intent for spent in ledger.spent if spent.intent.phase not in known]
    if not lost:
        return []
    from ..configuration.logged_configuration import values_of  # few logs need what it imports

    widths = zip(lost, values_of(ledger.opened, lost), strict=True)
    return [(intent.phase, width) for intent, width in widths if width is not None]


def unstated(ledger: Ledger) -> dict[int, tuple[str, ...]]:
    """Return, by `seq`, the observers of whom other rounds of a phase say what reaches them.

    An earlier version stated nothing of that, so rounds without any statement, of which the last
    lies before a recovery and the first with one behind it, lack nothing.
    """
    silences: dict[int, tuple[str, ...]] = {}
    for phase in {spent.intent.phase for spent in ledger.spent}:
        rounds = [spent for spent in ledger.spent if spent.intent.phase == phase]
        observers = {name for spent in rounds for name in spent.intent.reaches or ()}
        if not observers:
            continue
        first = min(spent.number for spent in rounds if spent.intent.reaches is not None)
        resumed = max(
            (recovery.number for recovery in ledger.recoveries if recovery.number < first),
            default=0,
        )
        for spent in rounds:
            # Rounds before a recovery may be of a version that stated no reaches.
            silent = spent.intent.reaches is None and spent.number < resumed
            lacking = observers - set(spent.intent.reaches or ())
            if lacking and not silent:
                silences[spent.seq] = tuple(sorted(lacking))
    return silences


_MAX_COMPOSED: Final = 64
"""Most different sets of rounds that are composed one by one."""


@dataclass(frozen=True)
class RoundsOfUnit:
    """How many rounds of each kind touch one unit, in the order of the kinds.

    `exact`: some unit is touched by just these; else no unit is touched by more, and `fewest` are
    rounds of which every unit has as many: what is left of a plan is read from those.
    """

    counts: tuple[int, ...]
    exact: bool = True
    fewest: tuple[int, ...] | None = None


def is_of_some_silos(facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether a round touches only the units of the silos that its schedule names."""
    if facts.roster is None or not counts_by_silo(setting.unit, setting.neighbours, setting.group):
        return False
    sampling, weights = facts.sampling, facts.weights
    # What others hold must move neither the weight of a unit nor whether it is drawn.
    drawn_alone = sampling.method == "none" or (
        sampling.method == "poisson"
        and lies_in_one_silo(sampling.of)
        and not sampling.moves_others
        and sampling.chosen_by != "all-silos"
    )
    return drawn_alone and weights.rule != "records" and lies_in_one_silo(facts.contribution.unit)


def rounds_of_units(
    kinds: Sequence[RoundKind], setting: RunSetting, *, to_come: bool = False
) -> tuple[RoundsOfUnit, ...]:
    """Return by how many rounds of each kind units are touched: the most, for some silo each.

    Sets of rounds of which another holds as many of every kind are left out: a further round never
    lowers the number.  Of very many different sets, one is returned that holds them all.

    With `to_come`, what a unit lacks of the plan is to be added.  Rounds to come may cost more than
    those that were made, so no set is left out, nor that of a silo that has yet to take part.
    """
    shared = [0] * len(kinds)
    by_silo: dict[int, list[int]] = {}
    for index, kind in enumerate(kinds):
        if not is_of_some_silos(kind.facts, setting):
            shared[index] = len(kind.spent)
            continue
        for spent in kind.spent:
            for silo in spent.intent.silos or ():
                by_silo.setdefault(silo, [0] * len(kinds))[index] += 1
    # A silo that no schedule names is touched by the shared rounds alone, as every other is.
    distinct = {
        tuple(map(sum, zip(shared, counts, strict=True))) for counts in by_silo.values()
    } or {tuple(shared)}
    if to_come:
        distinct.add(tuple(shared))
    if len(distinct) > _MAX_COMPOSED:
        most = tuple(map(max, zip(*distinct, strict=True)))
        return (RoundsOfUnit(most, exact=most in distinct, fewest=tuple(shared)),)
    return tuple(
        RoundsOfUnit(counts)
        for counts in sorted(distinct, reverse=True)
        if to_come or not any(other != counts and _holds(other, counts) for other in distinct)
    )


def _holds(larger: tuple[int, ...], smaller: tuple[int, ...]) -> bool:
    return all(most >= count for most, count in zip(larger, smaller, strict=True))
