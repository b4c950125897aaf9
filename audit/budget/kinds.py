"""Kinds of rounds: rounds that are alike in all that their cost depends on are looked at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...accountant import events as ev
from .doubts import Doubts
from .facts import MODEL, Facts
from .ledger import Ledger, Spent


@dataclass(frozen=True, eq=False)
class Kind:
    """Rounds that are alike in all that their cost depends on.

    `stated` is what the log says that each observer sees of one such round.
    """

    facts: Facts
    stated: Mapping[str, ev.Event]
    spent: tuple[Spent, ...]

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the intents."""
        return tuple(one.number for one in self.spent)


def kinds_of(ledger: Ledger, doubts: Doubts) -> tuple[Kind, ...]:
    """Return the different rounds of a log."""
    found: dict[tuple[Facts, tuple[tuple[str, ev.Event], ...]], list[Spent]] = {}
    vectors = {one.intent.phase for one in ledger.spent for _, r in one.releases if r.values > 1}
    known = {one.intent.phase for one in ledger.spent if one.releases} - vectors
    widths: dict[str, int] = {}
    for one in ledger.spent:
        said = (release.values for _, release in one.releases)
        widths[one.intent.phase] = max(widths.get(one.intent.phase, 0), *said, 0)
    unsaid = unstated(ledger)
    for spent in ledger.spent:
        single = spent.intent.phase in known
        facts = Facts.of(
            spent,
            doubts.of_intent(spent),
            single=single,
            missing=unsaid.get(spent.seq, ()),
            width=widths[spent.intent.phase] or None,
        )
        views = tuple(sorted(spent.intent.views.items(), key=lambda pair: pair[0]))
        found.setdefault((facts, views), []).append(spent)
    return tuple(
        Kind(facts, {**dict(views), MODEL: facts.event}, tuple(same))
        for (facts, views), same in found.items()
    )


def unstated(ledger: Ledger) -> dict[int, tuple[str, ...]]:
    """Return, by `seq`, the observers of whom other rounds of a phase say what reaches them.

    An earlier version stated nothing of that, so rounds without any statement, of which the last
    lies before a recovery and the first with one behind it, lack nothing.
    """
    found: dict[int, tuple[str, ...]] = {}
    for phase in {one.intent.phase for one in ledger.spent}:
        rounds = [one for one in ledger.spent if one.intent.phase == phase]
        said = {name for one in rounds for name in one.intent.reaches or ()}
        if not said:
            continue
        first = min(one.number for one in rounds if one.intent.reaches is not None)
        resumed = max((one.number for one in ledger.recoveries if one.number < first), default=0)
        for one in rounds:
            silent = one.intent.reaches is None and one.number < resumed
            lacking = said - set(one.intent.reaches or ())
            if lacking and not silent:
                found[one.seq] = tuple(sorted(lacking))
    return found
