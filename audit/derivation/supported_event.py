"""What the facts of one round support, for each observer: an event, whatever the log states.

What of the round reaches the observer (`believed_reach`) chooses the formula, one for each
`Reach.sees`:

                    terms that are summed (`sums`,     messages (`messages`, `shuffled_messages`)
                    matrices: `matrix_views`)
    sum             all terms, all reliable shares     all messages' noise, if the facts carry it
    each            each silo's update                 the local event, for each message
    sum-less-own    the sum without one's own share    likewise, less one's own
    shuffled                                           messages without senders
    one-share       the sum with one share             the local event
    nothing         what is released                   likewise; each, before who adds dummies
    sum, dummies                                       sums before who mixes (`shuffled_messages`)

What is seen besides that (`also`) is nothing where it depends on no data, and takes the guarantee
away where it does.  A unit draws on a sample only against who does not know it (`sampling`), and
only where the units of the sample are those that are clipped.  Where a round makes several draws,
each counts, unless at most so many of them hold one unit.  What nothing here covers supports no
guarantee.

The lower end of epsilon rests on an event that some data attain, where the facts determine it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import PrivplanError
from ...accountant.records import Reach
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import repeated, root_down
from ...fl.observers.names import MODEL, Coalition
from ...fl.observers.reaches import knows_sample
from ..ledger.gram_facts import gram_of, is_gram, least_attained
from ..ledger.matrix_facts import coarsest_grid, is_matrix
from .believed_reach import believed_reach
from .correlated_rounds import event_in_block
from .counted_reaches import RoundCase, counted_reaches, released_as_seen, with_messages_of_units
from .event_order import weakest
from .matrix_views import MATRIX_VIEWS
from .messages import (
    fills_all,
    is_oblivious,
    is_one_each,
    local_event,
    see_all_messages,
    see_messages,
    see_one_message,
    see_sum_of_messages,
)
from .noise import SMOOTHING_VARIANCE_STEPS, SUM_NOISE_FAMILIES, share_deviation
from .protocol_consistency import (
    is_private,
    largest_weight,
    multiple,
    reliable_facts,
    transfer_rate,
)
from .round_facts import RoundFacts, is_alone
from .run_setting import NoProof, RunSetting
from .sampling import can_hide, event_of_draws, is_hidden, route_of, sampled_event
from .shuffled_messages import see_as_mixer, see_shuffled
from .sums import require_unknown_noise, see_each, see_less_own, see_one_share, see_sum


def require_harmless(facts: RoundFacts, setting: RunSetting, reach: Reach) -> None:
    """Raise `NoProof` where what is seen besides a reach depends on data."""
    # Each channel is harmless only if what it shows is drawn whatever the data are.
    if "index-sets" in reach.also and not is_oblivious(facts):
        raise NoProof("which coordinates a unit sends depends on its data, and is seen")
    stated = any(part.selection is not None for _, part in facts.reaches or ())
    if "index-sets" in reach.also and not stated:
        raise NoProof("which coordinates a unit sends is seen, and not said to be oblivious")
    if "index-sets" in reach.also and facts.messages and setting.neighbours == "add-remove":
        raise NoProof("which coordinates a unit sends is seen, and one that is absent sends none")
    apart = facts.messages or facts.contribution.unit == "silo"
    drawn = facts.sampling.method != "none"
    if "identities" in reach.also and apart:
        if drawn and not reach.knows_sample:
            raise NoProof("who was drawn is seen, and the sample is to hide it")
        if facts.messages and setting.neighbours == "add-remove":
            raise NoProof("who sends is seen, and a unit that is absent sends nothing")
    if "sizes" in reach.also and facts.messages:
        if not is_oblivious(facts) and not fills_all(facts, reach):
            raise NoProof("how long messages are depends on the data of who sends them")
        if setting.neighbours == "add-remove":
            raise NoProof("how many messages there are is seen, and a unit may be absent")


View = Callable[[RoundFacts, RunSetting, Reach], ev.Event]

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


def supported(
    facts: RoundFacts,
    setting: RunSetting,
    observer: str,
    *,
    sampled: bool = True,
    rows: Sequence[RoundFacts] = (),
) -> ev.Event:
    """Return the event of one round that the facts support before an observer.

    `NoGuarantee`, with the reason, where they support none.  The event is valid for the relation
    of the promise, and for one record where the promise is for a group of them.  Without `sampled`
    no sample hides anybody, whatever the facts say of one.  The first round of a block with
    correlated noise is all of it, and the others, its `rows`, are nothing more.
    """
    alone = [_of_round(row, setting, observer, sampled=sampled) for row in (facts, *rows)]
    try:
        return event_in_block(alone[0], facts, alone[1:])
    except NoProof as error:
        return ev.NoGuarantee(str(error))
    except PrivplanError as error:  # a block that no event can hold
        return ev.NoGuarantee(error.what)


def _of_round(facts: RoundFacts, setting: RunSetting, observer: str, *, sampled: bool) -> ev.Event:
    """Return the event of one round as if its noise were its own."""
    try:
        case = RoundCase.of(facts, setting, sampled=sampled)
        if case.facts.voids:
            raise NoProof("; ".join(case.facts.voids))
        seen = believed_reach(facts, setting, observer)
        if seen is None:
            return repeated(case.facts.draws, _before_unknown(case, observer))
        counted = [
            part
            for known in seen.reaches
            for reach in (known, *_of_outsider(known, facts))
            for part in counted_reaches(case, observer, reach)
        ]
        return weakest([_seen(case, reach) for reach in counted])
    except NoProof as error:
        return ev.NoGuarantee(str(error))
    except PrivplanError as error:
        return ev.NoGuarantee(error.what)


def _of_outsider(reach: Reach, facts: RoundFacts) -> tuple[Reach, ...]:
    """Return the reach of an observer whose silos take no part in a scheduled round.

    It added no noise and no data, so there is nothing to take off: of evenly weighted data it is
    told of all that is summed, which may be more than a silo that takes part is told of the rest.
    """
    if facts.roster is None:
        return ()
    sees = "sum" if reach.sees == "sum-less-own" else reach.sees
    apart = replace(reach, sees=sees, holds="nothing", colluders=0)
    return () if apart == reach else (apart,)


def _seen(case: RoundCase, reach: Reach) -> ev.Event:
    """Return the event of one reach, over all draws of a round."""
    facts, setting = _without(case.facts, reach), case.setting
    if facts.noise.family in SUM_NOISE_FAMILIES and facts.shares < 1:
        raise NoProof("no share of the noise can be relied on")
    if reach.holds == "weights" and facts.weights.rule == "records":
        raise NoProof(uldp.CLEAR_WEIGHTS.reason)
    require_harmless(facts, setting, reach)
    # Three ways in which an observer learns who was drawn; then no sample amplifies.
    shown = facts.messages and reach.sees == "each"  # who sends no message was not drawn
    shown |= reach.sees != "shuffled" and _leaves_by_chance(facts)
    shown |= reach.knows_sample or (reach.colluders > 0 and _is_told(facts, setting))
    # Only whole units that are left out, against who does not know it (`can_hide`).
    hidden = case.hides and not shown and can_hide(facts, setting)
    if facts.messages and "dummies" in reach.also:
        # Dummies that are known hide nobody; sums may, as far as the other messages do.
        if reach.sees == "sum":
            return see_as_mixer(case, reach)
        return see_all_messages(facts, setting, reach)
    if reach.sees == "shuffled":
        return see_shuffled(facts, setting, reach, hidden=hidden)
    if reach.sees == "nothing":
        return _released(case, reach)
    if facts.messages and not is_one_each(facts):
        if reach.sees == "one-share":
            require_unknown_noise(reach)
        return see_all_messages(facts, setting, reach)
    # One noisy sum or message; `event_of_draws` composes the draws and adds the sample.
    base = _views_of(facts)[reach.sees](facts, setting, reach)
    return event_of_draws(base, facts, setting, hidden=hidden)


def _views_of(facts: RoundFacts) -> Mapping[str, View]:
    """Return the formulas by what is seen: of messages, of matrices, or of other sums."""
    if facts.messages:
        return _OF_MESSAGES
    return MATRIX_VIEWS if is_matrix(facts.contribution) else _OF_SUMS


def _leaves_by_chance(facts: RoundFacts) -> bool:
    """Return whether noise is missing where a unit is not drawn: its message takes it along.

    A sample hides a unit in the same sum without it, and that one has other noise, or none: if all
    others are out as well, nothing is sent, and who sees a message knows that the unit was drawn.
    """
    by_chance = facts.sampling.method in ("poisson", "truncated-poisson")
    return by_chance and facts.contribution.terms == "message"


def _is_told(facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether one colluder may tell who was drawn, as any in a coalition does."""
    return knows_sample(Coalition(1).name, route_of(facts, setting))


def _without(facts: RoundFacts, reach: Reach) -> RoundFacts:
    """Return the facts without the noise that is missing where a reach says that more may be.

    A message that is missing takes its own noise along, and no other's.
    """
    if facts.messages and facts.noise.shares <= 1:
        return facts
    if reach.dropouts <= facts.noise.tolerated_dropouts:
        return facts
    # Of stated dropouts, those beyond the tolerated ones take shares of the noise along.
    return replace(facts, shares=max(min(facts.shares, facts.noise.shares - reach.dropouts), 0))


def _released(case: RoundCase, reach: Reach) -> ev.Event:
    """Return what is released, as who may know the sample sees it."""
    released = believed_reach(*case.stated, MODEL)
    assert released is not None
    known = [part for part in released.reaches if part.sees != "nothing"]
    seen = [
        part
        for public in known
        for part in released_as_seen(with_messages_of_units(case, public), reach)
    ]
    return weakest([_seen(case, part) for part in seen])


def _before_unknown(case: RoundCase, observer: str) -> ev.Event:
    """Return what messages are before whoever sees them; a strange name sees nothing known else."""
    facts, setting = case.facts, case.setting
    if facts.noise.family in SUM_NOISE_FAMILIES or facts.reaches is not None:
        raise NoProof(f"the log has no facts about what {observer!r} sees")
    base = local_event(facts, setting)
    hidden = case.hides and can_hide(facts, setting)
    hidden &= facts.contribution.terms != "message"  # who sends none was not drawn
    return sampled_event(base, facts, setting, hidden=hidden)


_CLIP_SHARE_ATTAINED: Final = Fraction(999_999, 1_000_000)
"""What clipping and truncation, each with its margin, may take from the largest contribution."""

_MIN_GRID_STEPS_PER_SHARE: Final = 2**16
"""Grid steps of a share from which a sum over the grid is its integral, to 1e-6."""


def attained_event(facts: RoundFacts, setting: RunSetting) -> ev.Event | None:
    """Return an event that some data attain before the model; None where the facts do not say.

    Only what was surely released, and is seen, counts: one sum with Gaussian noise in each round,
    of units' own clipped terms whose weights reach 1 by their rule.  The clip's margin and the grid
    are given away.  Of several sums in a round, or one in each silo, a model shows only what they
    come to together.  Of rounds with correlated noise, and of products, nothing is known to be
    attained (`ledger.product_facts`).
    """
    rate = min(facts.sampling.rate, transfer_rate(facts, setting) or 1.0)
    facts, setting = reliable_facts(facts, setting)
    contribution, noise, drawn = facts.contribution, facts.noise, facts.sampling
    plain = (
        contribution.terms in ("unit", "gram")
        and contribution.norm == "l2"
        and noise.family == "gaussian"
    )
    if (
        not plain
        or facts.voids
        or facts.block is not None
        or facts.weights.largest_sum < 1.0 - 1e-9
    ):
        return None
    shown = noise.draws == 1 <= facts.certain_draws and (
        setting.silos <= 1 or not is_alone(facts, setting)
    )
    if not shown:
        return None
    try:
        scope = setting.scope(contribution.unit)
        if scope == "finer" or (setting.group > 1 and scope != "group"):
            return None
        grid = Fraction(noise.grid)
        if is_gram(contribution):
            grid = Fraction(coarsest_grid(noise, contribution))
        reached = _reached(facts, setting, grid)
        # Of stated variances the largest counts here, as more noise attains less.
        share = max(Fraction(noise.share_std) ** 2, Fraction(share_deviation(noise)) ** 2)
        # Noise may have been made with the smoothing on top of what is stated.
        square = max(Fraction(noise.std) ** 2, share * facts.most_shares)
        square += SMOOTHING_VARIANCE_STEPS * grid**2 * facts.most_shares
        if reached <= 0 or share_deviation(noise) < _MIN_GRID_STEPS_PER_SHARE * grid:
            return None
        event: ev.Event = ev.Gaussian(root_down(square / reached**2) * (1.0 + 1e-15))
        if drawn.method == "poisson" and is_hidden(facts, setting, MODEL):
            # A slightly lower rate attains less, whatever the rounding of the rate was.
            event = ev.Poisson(max(rate * float(_CLIP_SHARE_ATTAINED) - 2.0**-40, 0.0), event)
        elif drawn.method != "none":
            return None
        return repeated(facts.certain_draws, event)
    except (NoProof, PrivplanError):
        return None


def _reached(facts: RoundFacts, setting: RunSetting, grid: Fraction) -> Fraction:
    """Return the contribution that some unit surely makes, in contribution bounds of the event.

    Clipping with its margin and rounding to the grid may shorten the largest one; a lower bound
    takes both off.
    """
    contribution = facts.contribution
    if is_gram(contribution):
        gram = gram_of(contribution)
        if setting.neighbours == "zero-out" or is_private(setting):
            return Fraction(0)
        # How a user's rows are dealt to silos is not stated, nor whether a record has several rows,
        # so of several silos, and of a record, one row is sure.
        together = contribution.unit == "silo" or (
            contribution.unit == "user" and setting.silos <= 1
        )
        moved = least_attained(gram, replaced=setting.reach == 2, rows=gram.rows if together else 1)
        return moved / setting.reach
    reached = Fraction(contribution.bound) * _CLIP_SHARE_ATTAINED - 2 * grid * facts.most_shares
    if setting.security is not None and is_private(setting):
        reached -= 2 * grid * multiple(setting.security.count_limit)  # digits are that coarse
        reached *= largest_weight(setting.security)
    return reached
