"""What a log supports, before anything is judged: kinds of rounds, observers, totals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ...accountant import events as ev
from ...accountant.errors import PrivplanError
from ...accountant.validate import LARGEST_COUNT
from ...fl.observers import ANALYZER, PEER, SHUFFLER, Circumstances, Coalition, rests_on
from ..edits.contradiction import History
from .attained import attained
from .derive import supported
from .doubts import Doubts
from .facts import MODEL, SERVER, SILO, SILO_WITH_RECORDS, Facts, Setting
from .ledger import Ledger, Spent
from .order import Verdict, compared, covers, weaker_of
from .phases import NORMALISING
from .planned import Counts, Planned, beside, near, tally
from .protocol import contradictions
from .reached import believed
from .samples import is_sampled
from .total import Total, total

if TYPE_CHECKING:
    from ..first_line import Comparison

_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "shares": (PEER,),
    "shuffle": (ANALYZER, SHUFFLER),
}
"""Who sees something of a run without a server, or whose messages are mixed, beside the model."""


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
    unsaid = unstated(ledger)
    for spent in ledger.spent:
        single = spent.intent.phase in known
        facts = Facts.of(
            spent, doubts.of_intent(spent), single=single, missing=unsaid.get(spent.seq, ())
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


@dataclass(frozen=True)
class Seen:
    """One round of a kind before one observer: what the facts support, and what the log states.

    `event` is the weaker one, which is counted; `verdict` compares the stated event.
    """

    event: ev.Event
    supported: ev.Event
    stated: ev.Event | None
    verdict: Verdict


@dataclass(eq=False)
class Evidence:
    """A log, and what its facts support for each observer of a run.

    `configuration` is how the facts compare with the configuration, once that was asked.
    """

    ledger: Ledger
    setting: Setting
    doubts: Doubts
    kinds: tuple[Kind, ...]
    configuration: Comparison | None = None
    _totals: dict[object, Total] = field(default_factory=dict)
    _seen: dict[tuple[int, str], Seen] = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: Ledger) -> Evidence:
        """Return what a ledger supports for what its run promises."""
        doubts = Doubts.of(ledger)
        return cls(ledger, Setting.of(ledger.opened), doubts, kinds_of(ledger, doubts))

    def for_units(self, setting: Setting) -> Evidence:
        """Return the same log, read for another unit."""
        return Evidence(self.ledger, setting, self.doubts, self.kinds)

    @cached_property
    def history(self) -> History:
        """The log as `audit.edits` reads it."""
        return History(self.ledger)

    @property
    def delta(self) -> float:
        """The delta of the promise."""
        return self.ledger.opened.claim.delta

    @cached_property
    def observers(self) -> tuple[str, ...]:
        """Who sees something of the run: by its structure, and whoever the log names."""
        opened, closed = self.ledger.opened, self.ledger.closed
        found = [MODEL]
        shared = any(kind.facts.noise.shares >= 2 for kind in self.kinds)  # by whom, if not silos?
        found += _OTHERS.get(self.setting.aggregation, ())
        if self._has_server and (self.setting.silos >= 2 or shared):
            found += [SERVER, SILO]
            if any(self._differs(kind) for kind in self.kinds):
                found.append(SILO_WITH_RECORDS)
            found += self._coalitions()
        found += [opened.claim.observer, *opened.plan.events]
        found += [name for kind in self.kinds for name in kind.stated]
        found += [name for kind in self.kinds for name, _ in kind.facts.reaches or ()]
        found += [] if closed is None else [*closed.epsilon, *closed.events]
        return tuple(dict.fromkeys(found))

    @property
    def _has_server(self) -> bool:
        """Whether a server may see silos' updates: where no other protocol is shown to sum them."""
        if self.setting.aggregation not in _OTHERS:
            return True
        return any(
            contradictions(kind.facts, self.setting) and not kind.facts.messages
            for kind in self.kinds
        )

    def _coalitions(self) -> list[str]:
        """Return the coalitions that the protocol is stated for; private weighting admits none."""
        own = self.setting.security
        if own is None or own.protocol not in ("pairwise-masks", "private-weighting"):
            return []
        told = 1 if own.protocol == "private-weighting" else own.colluders
        return [Coalition(told, holds).name for holds in (False, True)] if told else []

    def _differs(self, kind: Kind) -> bool:
        return self.seen(kind, SILO).supported != self.seen(kind, SILO_WITH_RECORDS).supported

    @property
    def circumstances(self) -> Circumstances:
        """What the numbers' assumptions depend on, as the log states it."""
        kinds = [kind.facts for kind in self.kinds]
        records = any(one.weights.rule == "records" for one in kinds)
        return Circumstances(
            self.setting.aggregation,
            "records" if records else "uniform",
            self.setting.silos,
            self.dropouts,
            honest_server=self._trusts_server,
            moments=any(spent.intent.phase == NORMALISING for spent in self.ledger.spent),
        )

    @property
    def _trusts_server(self) -> bool:
        """Whether masks are made for a server that follows the protocol."""
        security = self.setting.security
        masked = security is not None and security.protocol == "pairwise-masks"
        return security is not None and masked and security.server == "honest-but-curious"

    @property
    def dropouts(self) -> int:
        """How many silos' noise may be missing from a round."""
        return max((kind.facts.noise.tolerated_dropouts for kind in self.kinds), default=0)

    def rests_on(self, observer: str) -> tuple[str, ...]:
        """Return what the number before an observer rests on; nothing where there is none."""
        if math.isinf(self.settled(observer).upper):
            return ()
        found = rests_on(observer, self.circumstances)
        return tuple(dict.fromkeys((*found, *self.assumed(observer))))

    def assumed(self, observer: str) -> tuple[str, ...]:
        """Return what is supposed of what reaches an observer, as no protocol can carry it."""
        seen = [believed(kind.facts, self.setting, observer) for kind in self.kinds]
        beside = list(seen)
        for kind, one in zip(self.kinds, seen, strict=True):
            if one is not None and any(reach.sees == "nothing" for reach in one.reaches):
                beside.append(believed(kind.facts, self.setting, MODEL))  # it is what they see
        return tuple(
            dict.fromkeys(text for one in beside if one is not None for text in one.assumed)
        )

    # --- rounds -----------------------------------------------------------------------------------

    def seen(self, kind: Kind, observer: str) -> Seen:
        """Return one round of a kind as an observer sees it."""
        key = id(kind), observer
        if key not in self._seen:
            self._seen[key] = self._looked(kind, observer)
        return self._seen[key]

    def _looked(self, kind: Kind, observer: str) -> Seen:
        true = supported(kind.facts, self.setting, observer)
        stated = self._ungrouped(kind.stated.get(observer))
        if stated is None:
            return Seen(true, true, None, "same")
        if isinstance(stated, ev.NoGuarantee) and self.setting.as_published:
            return Seen(true, true, stated, "weaker")
        if observer == SILO and self._of_any_silo(kind) and compared(stated, true) == "weaker":
            return Seen(true, true, stated, "weaker")
        return Seen(
            weaker_of(stated, self._without_sample(kind, observer, stated, true)),
            true,
            stated,
            compared(stated, true),
        )

    def _without_sample(
        self, kind: Kind, observer: str, stated: ev.Event, true: ev.Event
    ) -> ev.Event:
        """Return what the facts support, without their sample where the stated event has none.

        Facts about a sample, beside an event that counts on none, are not those of what was run:
        no sample is the weaker part of the one, and the noise may be that of the other.
        """
        if kind.facts.sampling.method == "none" or is_sampled(stated) or not is_sampled(true):
            return true
        return supported(kind.facts, self.setting, observer, sampled=False)

    def _of_any_silo(self, kind: Kind) -> bool:
        """Return whether what a round states for `silo` is for silos with records of the unit too.

        Earlier versions stated one number for both where weights are by records.
        """
        weighted = kind.facts.weights.rule == "records" and kind.facts.contribution.unit == "user"
        return weighted and SILO_WITH_RECORDS not in kind.stated

    def _ungrouped(self, event: ev.Event | None) -> ev.Event | None:
        """Return a stated event for one record, where it is stated for the group of the promise."""
        claimed = self.ledger.opened.claim.group
        if isinstance(event, ev.Group) and event.size == claimed and claimed > 1:
            return event.event
        return event

    # --- totals -----------------------------------------------------------------------------------

    def total(
        self,
        observer: str,
        *,
        group: int | None = None,
        whole: bool = False,
        ignoring: frozenset[str] = frozenset(),
        tuned: bool = False,
    ) -> Total:
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
    ) -> Total:
        own = self if group is None else self._for_groups(group)
        times = self.ledger.opened.tuning.trials if tuned else 1
        below = own._below if observer in (MODEL, SERVER) and not tuned else {}
        found = own._summed(observer, ignoring, times, whole=whole, below=below)
        if not self.sees_released(observer):
            return found
        # Who sees more of a round sees the model too, so its number is never the smaller one.
        model = self.total(MODEL, group=group, whole=whole, ignoring=ignoring, tuned=tuned)
        return model if model.upper > found.upper else found

    def sees_released(self, observer: str) -> bool:
        """Return whether an observer's number counts what is released beside what reaches it.

        A server's always did.  Others' does where the log states what reaches them: the number of
        a silo, for a unit of which it holds nothing, was given by itself before.
        """
        if observer in (MODEL, SERVER):
            return observer == SERVER
        return any(
            kind.facts.reach_to(observer) is not None or observer in kind.facts.missing
            for kind in self.kinds
        )

    def alone(self, observer: str, *, whole: bool | None = None) -> Total:
        """Return the total by what reaches an observer, without what is released beside it.

        A claim, and a last line, before a silo are about what lies in the others, and that is what
        they are held against.  `whole` as in `total`; as in `settled` where it is left out.
        """
        left = self.ledger.closed is not None if whole is None else whole
        if observer in (MODEL, SERVER) or not self.sees_released(observer):
            return self.total(observer, whole=left)
        key = observer, None, left, frozenset[str](), "alone"
        if key not in self._totals:
            self._totals[key] = self._summed(observer, whole=left)
        return self._totals[key]

    def _for_groups(self, size: int) -> Evidence:
        """Return the same log for units of so many records, or of so many of what is promised."""
        clipped = {kind.facts.contribution.unit for kind in self.kinds}
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
        below: Mapping[ev.Event, int] | None = None,
    ) -> Total:
        """Return the total; where a stated event has another shape, of the worse reading.

        `whole` adds what is left of the plan, `more` so many rounds like the last one.
        """

        def reading(*, stated: bool) -> Total:
            counts = self._counts(observer, ignoring, times, stated=stated)
            extra = self._left(observer, stated=stated) if whole else {}
            if more:
                newest = max(self.kinds, key=lambda kind: max(kind.lines))
                extra[self._counted(newest, observer, stated=stated)] = more
            for event, count in extra.items():
                wrapped = self._grouped(event)
                counts[wrapped] = counts.get(wrapped, 0) + count
            relation = self.setting.neighbours
            lower = None if stated else below
            return total(counts, delta=self.delta, neighbours=relation, lower=lower)

        found = reading(stated=False)
        if not any(self.seen(kind, observer).verdict == "different" for kind in self.kinds):
            return found
        other = reading(stated=True)
        return other if found.upper < other.upper < math.inf else found

    def composed(self, observer: str) -> ev.Event:
        """Return all that was spent as an observer sees it, as one event: what `total` counts."""
        counts = self._counts(observer, frozenset(), 1, stated=False)
        if self.ledger.closed is not None:
            for event, count in self._left(observer, stated=False).items():
                wrapped = self._grouped(event)
                counts[wrapped] = counts.get(wrapped, 0) + count
        return ev.Compose(tuple(ev.Repeat(count, event) for event, count in counts.items()))

    def with_more(self, observer: str, count: int) -> Total:
        """Return the total with so many more rounds like the last one."""
        found = self._summed(observer, more=count)
        if not self.sees_released(observer):
            return found
        model = self._summed(MODEL, more=count)
        return model if model.upper > found.upper else found

    def _counts(
        self, observer: str, ignoring: frozenset[str], times: int, *, stated: bool
    ) -> Counts:
        counts: Counts = {}
        for kind in self.kinds:
            event = self._grouped(self._counted(kind, observer, stated=stated))
            counts[event] = counts.get(event, 0) + len(kind.spent) * times
        for cause, event in self.doubts.extras:
            if cause not in ignoring:
                wrapped = self._grouped(event)
                counts[wrapped] = counts.get(wrapped, 0) + 1
        return counts

    def _counted(self, kind: Kind, observer: str, *, stated: bool) -> ev.Event:
        """Return what one round of a kind is counted as; `stated`: as stated, in another shape."""
        seen = self.seen(kind, observer)
        other = seen.stated if stated and seen.verdict == "different" else None
        return other or seen.event

    def _left(self, observer: str, *, stated: bool) -> Counts:
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
        if silent and len(self.ledger.spent) == self.ledger.rounds >= plan.rounds:
            return {}
        left = self.planned(known).left
        held = self._held(known) if left else {}
        found: Counts = {}
        for event, count in left.items():
            cost, times = None if silent else event, count
            same = event if event in held else near(event, held)
            for kind, parts in held[same] if same is not None else ():
                own = self._counted(kind, observer, stated=stated)
                if cost is None or not covers(cost, own, 0.0):
                    cost, times = own, -(-count // parts)
            if cost is None and known != observer:
                cost = ev.NoGuarantee(f"the plan does not say what {observer!r} sees of the rest")
            cost = cost or event
            found[cost] = found.get(cost, 0) + times
        return found

    def _held(self, observer: str) -> dict[ev.Event, list[tuple[Kind, int]]]:
        """Return which kinds of rounds may stand for an event, and how often each states it."""
        held: dict[ev.Event, list[tuple[Kind, int]]] = {}
        for kind in self.kinds:
            stated = self._ungrouped(kind.stated.get(observer))
            try:
                parts = {} if stated is None else tally([(stated, 1)])
            except PrivplanError:
                continue
            if len(parts) > 1 and self.seen(kind, observer).verdict in ("same", "weaker"):
                continue  # a round is more than each of its events, which are known to hold
            for event, count in parts.items():
                held.setdefault(event, []).append((kind, count))
        return held

    def _grouped(self, event: ev.Event) -> ev.Event:
        size = self.setting.group
        if size == 1 or isinstance(event, ev.NoGuarantee):
            return event
        if not 1 < size <= LARGEST_COUNT:
            return ev.NoGuarantee(f"a unit of {size} records cannot be accounted")
        return ev.Group(size, event)

    @cached_property
    def _below(self) -> Counts:
        """Events that data attain before the model, and so before a server that sees it too."""
        counts: Counts = {}
        for kind in self.kinds:
            event = attained(kind.facts, self.setting)
            if event is not None:
                wrapped = self._grouped(event)
                counts[wrapped] = counts.get(wrapped, 0) + len(kind.spent)
        return counts

    def settled(self, observer: str, *, group: int | None = None) -> Total:
        """Return what the log says was spent: where a run was ended early, all that was planned.

        Whoever ends a run by its results has the whole plan's guarantee, and no better one.  A run
        that is not closed may go on, so its rounds are counted as far as they are.
        """
        return self.total(observer, group=group, whole=self.ledger.closed is not None)

    # --- the plan ---------------------------------------------------------------------------------

    def unplanned_views(self, observer: str) -> tuple[int, ...]:
        """Return the lines of rounds that say nothing of an observer whom the plan knows."""
        if observer not in self.ledger.opened.plan.events:
            return ()
        silent = [kind for kind in self.kinds if observer not in kind.stated]
        return tuple(sorted(line for kind in silent for line in kind.lines))

    def missing(self, observer: str, event: ev.Event) -> bool:
        """Return whether an event that is said to hold all rounds holds fewer, or weaker ones."""
        made = [
            (own, len(kind.spent))
            for kind in self.kinds
            if (own := self._ungrouped(kind.stated.get(observer))) is not None
        ]
        said = self._ungrouped(event)
        try:
            told = tally([(said, 1)]) if said is not None else {}
            found = beside(told, tally(made))
        except PrivplanError:
            return False
        if any(isinstance(one, ev.NoGuarantee) for one in told):
            return False
        return bool(found.beyond or found.foreign)

    def planned(self, observer: str) -> Planned:
        """Return the plan for an observer beside what was made; both empty where it has none."""
        plan = self._ungrouped(self.ledger.opened.plan.events.get(observer))
        if plan is None:
            return Planned({}, {}, {})
        made = [
            (event, len(kind.spent))
            for kind in self.kinds
            if (event := self._ungrouped(kind.stated.get(observer))) is not None
        ]
        try:
            return beside(tally([(plan, 1)]), tally(made))
        except PrivplanError as error:
            return Planned({ev.NoGuarantee(f"the plan has no number: {error.what}"): 1}, {}, {})
