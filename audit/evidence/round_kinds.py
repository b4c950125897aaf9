"""Kinds of rounds: rounds that are alike in all that their cost depends on are looked at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...accountant import events as ev
from ...fl.observers.names import MODEL
from ..derivation.round_facts import RoundFacts
from ..ledger.entries import Ledger, SpentIntent
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


def kinds_of(ledger: Ledger, doubts: Doubts) -> tuple[RoundKind, ...]:
    """Return the different rounds of a log."""
    kinds: dict[tuple[RoundFacts, tuple[tuple[str, ev.Event], ...]], list[SpentIntent]] = {}
    released = [spent for spent in ledger.spent if spent.releases]
    widths: dict[str, int] = {}
    for spent in released:
        values = max(release.values for _, release in spent.releases)
        widths[spent.intent.phase] = max(widths.get(spent.intent.phase, 0), values)
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
