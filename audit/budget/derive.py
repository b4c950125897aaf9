"""What the facts of one round support, for each observer: an event, whatever the log states.

What of the round reaches the observer (`reached`) chooses the formula, one for each `Reach.sees`:

                    terms that are summed (`sums`)     messages (`messages`, `shuffled`)
    sum             all terms, all reliable shares     all messages' noise, if the facts carry it
    each            each silo's update                 the local event, for each message
    sum-less-own    the sum without one's own share    likewise, less one's own
    shuffled                                           messages without senders
    one-share       the sum with one share             the local event
    nothing         what is released                   likewise; each, before who adds dummies

What is seen beside that (`also`) is nothing where it depends on no data, and takes the guarantee
away where it does.  A unit draws on a sample only against who does not know it (`samples`), and
only where the units of the sample are those that are clipped.  Where a round makes several draws,
each counts, unless at most so many of them hold one unit.  What nothing here covers supports no
guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import PrivplanError
from ...accountant.records import Reach
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import repeated
from ...fl.observers.names import CLIENT, COORDINATOR, PEER, SERVER, SHUFFLER, Coalition
from ...fl.observers.sample_knowledge import knows_sample
from .facts import MODEL, SILO, SILO_WITH_RECORDS, SUMS, Facts, Setting, Unproven
from .messages import (
    is_number,
    is_oblivious,
    is_one_each,
    local,
    see_all_messages,
    see_messages,
    see_one_message,
    see_sum_of_messages,
)
from .order import weakest
from .protocol import settled
from .reached import HOLDS, believed
from .samples import can_hide, on_sample, route_of
from .several import several
from .shuffled import see_shuffled
from .sums import require_unknown_noise, see_each, see_less_own, see_one_share, see_sum

_CONTRIBUTORS: Final = (SILO, SILO_WITH_RECORDS, PEER, CLIENT)
"""Observers that take part themselves."""

View = Callable[[Facts, Setting, Reach], ev.Event]

_OF_SUMS: Final[Mapping[str, View]] = {
    "sum": see_sum,
    "each": see_each,
    "sum-less-own": see_less_own,
    "one-share": see_one_share,
}
_OF_MESSAGES: Final[Mapping[str, View]] = {
    "sum": see_sum_of_messages,
    "each": see_messages,
    "sum-less-own": see_sum_of_messages,
    "one-share": see_one_message,
}
"""One noisy sum, or one message, without its sample, by what is seen."""


def supported(facts: Facts, setting: Setting, observer: str, *, sampled: bool = True) -> ev.Event:
    """Return the event of one round that the facts support before an observer.

    `NoGuarantee`, with the reason, where they support none.  The event is valid for the relation
    of the promise, and for one record where the promise is for a group of them.  Without `sampled`
    no sample hides anybody, whatever the facts say of one.
    """
    try:
        case = _Case.of(facts, setting, sampled=sampled)
        if case.facts.voids:
            raise Unproven("; ".join(case.facts.voids))
        seen = believed(facts, setting, observer)
        if seen is None:
            return repeated(case.facts.draws, _before_unknown(case, observer))
        counted = [part for reach in seen.reaches for part in _counted(case, observer, reach)]
        return weakest([_seen(case, reach) for reach in counted])
    except Unproven as error:
        return ev.NoGuarantee(str(error))
    except PrivplanError as error:
        return ev.NoGuarantee(error.what)


@dataclass(frozen=True)
class _Case:
    """One round: its facts as far as they can be relied on, and as they are `stated`.

    `hides`: a sample may hide the units that are promised something.
    """

    facts: Facts
    setting: Setting
    stated: tuple[Facts, Setting]
    hides: bool

    @classmethod
    def of(cls, facts: Facts, setting: Setting, *, sampled: bool) -> _Case:
        known, whole = settled(facts, setting)
        known = replace(known, single=is_number(known))
        whole_unit = known.voids or whole.scope(known.contribution.unit) != "finer"
        return cls(known, whole, (facts, setting), sampled and bool(whole_unit))


def _seen(case: _Case, reach: Reach) -> ev.Event:
    """Return what one reach reveals in all draws of a round."""
    facts, setting = _without(case.facts, reach), case.setting
    if facts.noise.family in SUMS and facts.shares < 1:
        raise Unproven("no share of the noise can be relied on")
    if reach.holds == "weights" and facts.weights.rule == "records":
        raise Unproven(uldp.CLEAR_WEIGHTS.reason)
    _require_harmless(facts, setting, reach)
    shown = facts.messages and reach.sees == "each"  # who sends no message was not drawn
    shown |= reach.sees != "shuffled" and _leaves_by_chance(facts)
    shown |= reach.knows_sample or (reach.colluders > 0 and _is_told(facts, setting))
    hidden = case.hides and not shown and can_hide(facts, setting)
    if reach.sees == "shuffled":
        return see_shuffled(facts, setting, reach, hidden=hidden)
    if reach.sees == "nothing":
        return _released(case, reach)
    if facts.messages and not is_one_each(facts):
        if reach.sees == "one-share":
            require_unknown_noise(reach)
        return see_all_messages(facts, setting, reach)
    views = _OF_MESSAGES if facts.messages else _OF_SUMS
    base = views[reach.sees](facts, setting, reach)
    return several(base, facts, setting, hidden=hidden)


def _leaves_by_chance(facts: Facts) -> bool:
    """Return whether noise is missing where a unit is not drawn: its message takes it along.

    A sample hides a unit in the same sum without it, and that one has other noise, or none: if all
    others are out as well, nothing is sent, and who sees a message knows that the unit was drawn.
    """
    by_chance = facts.sampling.method in ("poisson", "truncated-poisson")
    return by_chance and facts.contribution.terms == "message"


def _is_told(facts: Facts, setting: Setting) -> bool:
    """Return whether one colluder may tell who was drawn, as any in a coalition does."""
    return knows_sample(Coalition(1).name, route_of(facts, setting))


def _counted(case: _Case, observer: str, reach: Reach) -> tuple[Reach, ...]:
    """Return the reaches that are derived for one: of a mixer, and of fewer colluders.

    Who takes part knows its own: the one share of the noise, if that is its own, and its messages
    (`_of_records`).

    What colluders hold themselves is not hidden from them: of even weights the number of who takes
    its own share off may fall as more of them tell.  In between it has no maximum (its square goes
    as (S - c)^2 / (k - c)), so none of them and all are enough.
    """
    facts = case.facts
    reach = _of_records(case, _of_mixer(case, observer, reach))
    if observer in _CONTRIBUTORS and reach.sees == "one-share":
        reach = replace(reach, colluders=reach.colluders + 1)
    if facts.messages or reach.sees != "sum-less-own" or not reach.colluders:
        return (reach,)
    return reach, replace(reach, colluders=0)


def _of_records(case: _Case, reach: Reach) -> Reach:
    """Return a reach with as many messages as its colluders, and who sees less its own, may hold.

    Each is somebody whom the promise is for, so in a promise for units of k records each of them
    may have sent k messages, one for each record; so may each whose noise is missing.
    """
    if not case.facts.messages:
        return reach
    taken_off = 1 if reach.sees == "sum-less-own" else 0  # `see_sum_of_messages` takes one off
    known = (reach.colluders + taken_off) * case.setting.group - taken_off
    missing = reach.dropouts
    if missing > case.facts.noise.tolerated_dropouts:  # which are messages, as shares of noise are
        missing *= case.setting.group
    return replace(reach, colluders=known, dropouts=missing)


def _of_mixer(case: _Case, observer: str, reach: Reach) -> Reach:
    """Return what reaches who mixes messages, or adds dummies to them: each, encrypted or not.

    The shuffler knows the order, so where messages are released it knows whose each is; no fact of
    a log says that only their sum is.  So does a coordinator that passes messages on, to the mix
    and from it: a ciphertext is known again.  Who adds dummies knows them, so they hide nobody from
    it: it routes by coordinate, and how few others sent one is not bounded.
    """
    facts, (_, setting) = case.facts, case.stated
    padded = any(stated.padded_to is not None for _, stated in facts.reaches or ())
    mixes = observer == SHUFFLER or (padded and observer in (COORDINATOR, SERVER))
    mixes |= observer == COORDINATOR and setting.aggregation == "shuffle"
    blind = reach.sees in ("nothing", "sum")
    return replace(reach, sees="each") if mixes and blind and facts.messages else reach


def _without(facts: Facts, reach: Reach) -> Facts:
    """Return the facts without the noise that is missing where a reach says that more may be.

    A message that is missing takes its own noise along, and no other's.
    """
    if facts.messages and facts.noise.shares <= 1:
        return facts
    if reach.dropouts <= facts.noise.tolerated_dropouts:
        return facts
    return replace(facts, shares=max(min(facts.shares, facts.noise.shares - reach.dropouts), 0))


def _released(case: _Case, reach: Reach) -> ev.Event:
    """Return what is released, as who may know the sample sees it."""
    released = believed(*case.stated, MODEL)
    assert released is not None
    known = [part for part in released.reaches if part.sees != "nothing"]
    seen = [part for public in known for part in _beside(_of_records(case, public), reach)]
    return weakest([_seen(case, part) for part in seen])


def _beside(released: Reach, reach: Reach) -> tuple[Reach, ...]:
    """Return what is released as one sees it who knows, and is told, what `reach` says.

    Colluders tell who sees the release what they added, as they tell anybody.  Of sums it counts
    without them as well: see `_counted`.
    """
    beside = replace(
        released,
        holds=max(released.holds, reach.holds, key=HOLDS.index),
        colluders=max(released.colluders, reach.colluders),
        dropouts=max(released.dropouts, reach.dropouts),
        knows_sample=released.knows_sample or reach.knows_sample,
        also=tuple(dict.fromkeys((*released.also, *reach.also))),
    )
    fewer = replace(beside, holds=released.holds, colluders=released.colluders)
    return (beside,) if fewer == beside else (beside, fewer)


def _before_unknown(case: _Case, observer: str) -> ev.Event:
    """Return what messages are before whoever sees them; a strange name sees nothing known else."""
    facts, setting = case.facts, case.setting
    if facts.noise.family in SUMS or facts.reaches is not None:
        raise Unproven(f"the log has no facts about what {observer!r} sees")
    base = local(facts, setting)
    hidden = case.hides and can_hide(facts, setting)
    hidden &= facts.contribution.terms != "message"  # who sends none was not drawn
    return on_sample(base, facts, setting, hidden=hidden)


def _require_harmless(facts: Facts, setting: Setting, reach: Reach) -> None:
    """Raise `Unproven` where what is seen beside a reach depends on data."""
    if "index-sets" in reach.also and not is_oblivious(facts):
        raise Unproven("which coordinates a unit sends depends on its data, and is seen")
    stated = any(part.selection is not None for _, part in facts.reaches or ())
    if "index-sets" in reach.also and not stated:
        raise Unproven("which coordinates a unit sends is seen, and not said to be oblivious")
    if "index-sets" in reach.also and facts.messages and setting.neighbours == "add-remove":
        raise Unproven("which coordinates a unit sends is seen, and one that is absent sends none")
    apart = facts.messages or facts.contribution.unit == "silo"
    drawn = facts.sampling.method != "none"
    if "identities" in reach.also and apart:
        if drawn and not reach.knows_sample:
            raise Unproven("who was drawn is seen, and the sample is to hide it")
        if facts.messages and setting.neighbours == "add-remove":
            raise Unproven("who sends is seen, and a unit that is absent sends nothing")
    if "sizes" in reach.also and facts.messages:
        if not is_oblivious(facts):
            raise Unproven("how long messages are depends on the data of who sends them")
        if setting.neighbours == "add-remove":
            raise Unproven("how many messages there are is seen, and a unit may be absent")
