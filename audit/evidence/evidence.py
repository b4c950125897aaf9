"""What a log supports, before anything is judged: who sees it, and what that comes to in all."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ...accountant import events as ev
from ...accountant.guarantee import Bounds
from ...fl.observers.assumptions import Circumstances, assumptions_of
from ...fl.observers.names import MODEL, SERVER
from ..derivation.event_order import covers
from ..derivation.run_setting import RunSetting
from ..derivation.supported_event import attained_event
from ..ledger.entries import Ledger
from ..ledger.phases import votes_of
from . import observers
from .doubts import Doubts
from .epsilon_total import EpsilonTotal, total, worst_total
from .observed_rounds import Counts, Rounds, nearly_equal_event
from .round_kinds import RoundKind, RoundsOfUnit, is_of_some_silos, kinds_of

if TYPE_CHECKING:
    from ..configuration.first_line import Comparison

__all__ = ["Evidence", "RoundKind"]


@dataclass(eq=False)
class Evidence(Rounds):
    """A log, and what its facts support for each observer of a run.

    `configuration` is how the facts compare with the configuration, once that was asked.
    """

    configuration: Comparison | None = None
    _totals: dict[object, EpsilonTotal] = field(default_factory=dict, init=False)
    _attained: dict[RoundsOfUnit, Counts] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, ledger: Ledger) -> Evidence:
        """Return what a ledger supports for what its run promises."""
        doubts = Doubts.of(ledger)
        return cls(ledger, RunSetting.of(ledger.opened), doubts, kinds_of(ledger, doubts))

    def for_units(self, setting: RunSetting) -> Evidence:
        """Return the same log, read for another unit."""
        return Evidence(self.ledger, setting, self.doubts, self.kinds)

    @property
    def delta(self) -> float:
        """The delta of the promise."""
        return self.ledger.opened.claim.delta

    @cached_property
    def observers(self) -> tuple[str, ...]:
        """Who sees something of the run: by its structure, and whoever the log names."""
        return observers.observers_of(self)

    @property
    def circumstances(self) -> Circumstances:
        """What the numbers' assumptions depend on, as the log states it."""
        return observers.circumstances_of(self)

    @property
    def dropouts(self) -> int:
        """How many silos' noise may be missing from a round."""
        return observers.dropouts_of(self)

    def rests_on(self, observer: str) -> tuple[str, ...]:
        """Return what the number before an observer rests on; nothing where there is none."""
        if math.isinf(self.spent_total(observer).upper):
            return ()
        assumptions = assumptions_of(observer, self.circumstances)
        return tuple(dict.fromkeys((*assumptions, *self.assumed(observer))))

    def assumed(self, observer: str) -> tuple[str, ...]:
        """Return what is supposed of what reaches an observer, as no protocol can carry it."""
        return observers.assumed(self, observer)

    def sees_released(self, observer: str) -> bool:
        """Return whether an observer's number is never below the model's; see `observers`."""
        return observers.sees_released(self, observer)

    # --- totals -----------------------------------------------------------------------------------

    def total(
        self,
        observer: str,
        *,
        group: int | None = None,
        whole: bool = False,
        ignoring: frozenset[str] = frozenset(),
        tuned: bool = False,
    ) -> EpsilonTotal:
        """Return what an observer's view comes to, at the promise's delta.

        `group` replaces the size of a unit; `whole` adds what is left of the plan; `ignoring` names
        causes that are not counted; `tuned` counts each run of the search as if it was like this.
        """
        key = observer, group, whole, ignoring, tuned
        if key not in self._totals:
            self._totals[key] = self._computed(observer, group, whole, ignoring, tuned)
        return self._totals[key]

    def _computed(
        self, observer: str, group: int | None, whole: bool, ignoring: frozenset[str], tuned: bool
    ) -> EpsilonTotal:
        for_group = self if group is None else self._for_groups(group)
        # Every run of a private search saw the same data, so each is composed once.
        times = self.ledger.opened.tuning.trials if tuned else 1
        attained = observer in (MODEL, SERVER) and not tuned
        composed = for_group._summed(observer, ignoring, times, whole=whole, attained=attained)
        if not self.sees_released(observer):
            return composed
        # Post-processing: the larger of both numbers is the guarantee.
        # Who sees more of a round sees the model too, so its number is never the smaller one.
        model = self.total(MODEL, group=group, whole=whole, ignoring=ignoring, tuned=tuned)
        return model if model.upper > composed.upper else composed

    def _for_groups(self, size: int) -> Evidence:
        """Return the same log for units of so many records, or of so many of what is promised."""
        clipped = {kind.facts.contribution.unit for kind in self.kinds}
        # Group sizes count records where records are clipped, else the promised units.
        unit = clipped.pop() if clipped in ({"record"}, {"entry"}) else self.setting.unit
        return self.for_units(replace(self.setting, group=size, unit=unit))

    def _summed(
        self,
        observer: str,
        ignoring: frozenset[str] = frozenset(),
        times: int = 1,
        *,
        whole: bool = False,
        more: int = 0,
        attained: bool = False,
    ) -> EpsilonTotal:
        """Return the total of the worst unit; each different set of rounds is composed once.

        `whole` adds what is left of the plan, `more` so many rounds, or blocks, like the last.
        """
        return worst_total(
            [
                self._of_unit(
                    unit, observer, ignoring, times, whole=whole, more=more, attained=attained
                )
                for unit in self._units(observer, whole=whole)
            ]
        )

    def _units(self, observer: str, *, whole: bool) -> tuple[RoundsOfUnit, ...]:
        """Return the rounds of the units that may be the worst; `whole` as for `total`."""
        units = self.of_units_to_come if whole else ()
        left = any(
            self._left(unit, observer, stated=stated) for unit in units for stated in (False, True)
        )
        return units if left else self.of_units

    def _of_unit(
        self,
        unit: RoundsOfUnit,
        observer: str,
        ignoring: frozenset[str] = frozenset(),
        times: int = 1,
        *,
        whole: bool = False,
        more: int = 0,
        attained: bool = False,
    ) -> EpsilonTotal:
        """Return one unit's total; where a stated event has another shape, of the worse reading."""
        below = self._below(unit) if attained else {}

        def reading(*, stated: bool) -> EpsilonTotal:
            counts = self._counts(unit, observer, ignoring, times, stated=stated)
            extra = self._left(unit, observer, stated=stated) if whole else {}
            if more:
                # A round that a block covers costs nothing more, and the next block costs it all.
                paying = [kind for kind in self.kinds if not kind.facts.covered]
                newest = max(paying or self.kinds, key=lambda kind: max(kind.lines))
                extra[self._counted(newest, observer, stated=stated)] = more
            for event, count in extra.items():
                wrapped = self.grouped(event)
                counts[wrapped] = counts.get(wrapped, 0) + count
            relation = self.setting.neighbours
            lower = None if stated else below
            return total(counts, delta=self.delta, neighbours=relation, lower=lower)

        from_facts = reading(stated=False)
        if not any(self.seen(kind, observer).verdict == "different" for kind in self.kinds):
            return from_facts
        # Shapes that do not compare leave open which event is weaker, so the larger total counts;
        # an infinite one says nothing that the facts do not.
        from_stated = reading(stated=True)
        return from_stated if from_facts.upper < from_stated.upper < math.inf else from_facts

    def composed(self, observer: str) -> ev.Event:
        """Return all that was spent as an observer sees it, as one event: what `total` counts."""
        whole = self.ledger.closed is not None
        units = self._units(observer, whole=whole)
        worst = (
            max(units, key=lambda unit: self._of_unit(unit, observer, whole=whole).upper)
            if len(units) > 1
            else units[0]
        )
        counts = self._counts(worst, observer, frozenset(), 1, stated=False)
        if whole:
            for event, count in self._left(worst, observer, stated=False).items():
                wrapped = self.grouped(event)
                counts[wrapped] = counts.get(wrapped, 0) + count
        return ev.Compose(tuple(ev.Repeat(count, event) for event, count in counts.items()))

    def with_more(self, observer: str, count: int) -> EpsilonTotal:
        """Return the total with so many more rounds like the last one; of blocks, whole ones."""
        composed = self._summed(observer, more=count)
        if not self.sees_released(observer):
            return composed
        model = self._summed(MODEL, more=count)
        return model if model.upper > composed.upper else composed

    def _counts(
        self,
        unit: RoundsOfUnit,
        observer: str,
        ignoring: frozenset[str],
        times: int,
        *,
        stated: bool,
    ) -> Counts:
        counts: Counts = {}
        for kind, rounds in zip(self.kinds, unit.counts, strict=True):
            if rounds:
                event = self.grouped(self._counted(kind, observer, stated=stated))
                counts[event] = counts.get(event, 0) + rounds * times
        for cause, event in self.doubts.extras:
            if cause not in ignoring:
                wrapped = self.grouped(event)
                counts[wrapped] = counts.get(wrapped, 0) + 1
        return counts

    def _counted(self, kind: RoundKind, observer: str, *, stated: bool) -> ev.Event:
        """Return what one round of a kind is counted as; `stated`: as stated, in another shape."""
        seen = self.seen(kind, observer)
        other = seen.stated if stated and seen.verdict == "different" else None
        return other or seen.event

    def _left(self, unit: RoundsOfUnit, observer: str, *, stated: bool) -> Counts:
        """Return what is left of the plan, as the rounds that were made of it are counted.

        The same code would have made them, so facts that are weaker than the plan's event hold for
        what is left too.  For an observer of whom the plan is silent, the model's is read, unless
        as many rounds as planned were made; likewise where events say nothing (`as_published`).
        """
        plan = self.ledger.opened.plan
        stated_to = (
            {name for kind in self.kinds for name in kind.stated} if self.kinds else {observer}
        )
        known = observer if observer in plan.events and observer in stated_to else MODEL
        silent = known != observer or self.setting.as_published
        # As many rounds as planned were made, and no event says which: nothing is left.
        if silent and len(self.ledger.spent) == self.ledger.rounds >= plan.rounds:
            return {}
        lacking = unit if unit.fewest is None else RoundsOfUnit(unit.fewest)
        left = self.planned(known, [lacking]).left
        held = self.held(known) if left else {}
        left_counts: Counts = {}
        for event, count in left.items():
            cost, times = None if silent else event, count
            same = event if event in held else nearly_equal_event(event, held)
            for kind, parts in held[same] if same is not None else ():
                counted, needed = self._counted(kind, observer, stated=stated), -(-count // parts)
                # Of a round that is one event so many times, each of them is counted by itself.
                if isinstance(counted, ev.Repeat) and counted.count == parts:
                    counted, needed = counted.event, count
                # The weakest of the kinds that may stand for a planned event; a round of several
                # events is counted once for each `parts` of them, rounded up.
                if cost is None or not covers(cost, counted, 0.0):
                    cost, times = counted, needed
            if cost is None and known != observer:
                cost = ev.NoGuarantee(f"the plan does not say what {observer!r} sees of the rest")
            cost = cost or event
            left_counts[cost] = left_counts.get(cost, 0) + times
        return left_counts

    def _below(self, unit: RoundsOfUnit) -> Counts:
        """Events that data attain before the model, and so before a server that sees it too."""
        if unit not in self._attained:
            self._attained[unit] = self._attained_by(unit) if unit.exact else {}
        return self._attained[unit]

    def _attained_by(self, unit: RoundsOfUnit) -> Counts:
        counts: Counts = {}
        votes = votes_of(self.ledger) if len(self.ledger.spent) > 1 else None
        for kind, of_unit in zip(self.kinds, unit.counts, strict=True):
            # No unit is both trained on and held out, so none attains the votes with the rounds.
            voted = votes is not None and votes.number in kind.lines
            facts, rounds = kind.facts, of_unit - (voted and of_unit > 0)
            # A unit of several silos may have nothing in those of a schedule: no data are sure.
            sure = facts.roster is None or is_of_some_silos(facts, self.setting)
            event = attained_event(facts, self.setting) if rounds and sure else None
            if event is not None:
                wrapped = self.grouped(event)
                counts[wrapped] = counts.get(wrapped, 0) + rounds
        return counts

    def spent_total(self, observer: str, *, group: int | None = None) -> EpsilonTotal:
        """Return what the log says was spent: where a run was ended early, all that was planned.

        Whoever ends a run by its results has the whole plan's guarantee, and no better one.  A run
        that is not closed may go on, so its rounds are counted as far as they are.
        """
        return self.total(observer, group=group, whole=self.ledger.closed is not None)

    def left(self, observer: str | None = None) -> Bounds | None:
        """Return what the log supports before an observer, or the claim's; None if infinite."""
        spent = self.spent_total(observer or self.ledger.opened.claim.observer)
        return spent.epsilon if math.isfinite(spent.upper) else None
