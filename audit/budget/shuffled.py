"""Messages without their senders: the event of a shuffle, built from facts.

The randomizer is that of the noise facts, the number of messages that of the reach, less those who
tell what they sent and those who may be missing, and at most what the protocol lets through.  What
the log concludes (`Shuffle` in an event) is not looked at.  Where mixing is not proven, what each
message reveals by itself holds all the same: who sees them without their senders sees no more.
"""

from __future__ import annotations

from ...accountant import events as ev
from ...accountant.records import Reach
from ...accountant.sensitivity.release import repeated
from .facts import Facts, Setting, Unproven
from .messages import (
    copies,
    in_one_dimension,
    is_oblivious,
    local,
    randomizer,
    see_messages,
)
from .samples import require_population


def see_shuffled(facts: Facts, setting: Setting, reach: Reach, *, hidden: bool) -> ev.Event:
    """Return what messages without senders reveal; `hidden`: the observer does not know the sample.

    Already on its sample, where there is one.
    """
    users = _messages(facts, setting, reach)
    if reach.dimensions is not None:
        return _coordinates(facts, setting, reach, users)
    if copies(facts) > 1 or users < 2:
        return see_messages(facts, setting, reach)
    inner = in_one_dimension(facts, local(facts, setting), each_coordinate=False)
    return _on_sample(facts, setting, ev.Shuffle(users, inner), hidden=hidden)


def _messages(facts: Facts, setting: Setting, reach: Reach) -> int:
    """Return among how many messages a unit's own surely lies, that one counted."""
    if reach.users is None:
        raise Unproven("the log does not say how many messages are mixed")
    bounds = [reach.users]
    if setting.security is not None:
        bounds.append(setting.security.fewest)
    there = setting.size(facts.contribution.unit)
    if there is not None:
        bounds.append(there)
    if facts.noise.shares > 1:
        bounds.append(facts.shares)
    return max(min(bounds) - reach.colluders - reach.dropouts, 0)


def _coordinates(facts: Facts, setting: Setting, reach: Reach, users: int) -> ev.Event:
    """Return the event of users who send some coordinates, each mixed with its own kind."""
    dimensions, chosen = reach.dimensions or 0, copies(facts)
    by_itself = facts.sampling.method != "none" or users < 2 or chosen > dimensions
    if by_itself or reach.granularity != "coordinate":
        return see_messages(facts, setting, reach)  # users who join by chance: no bound is known
    if reach.padded_to is None and chosen == dimensions:
        inner = in_one_dimension(facts, local(facts, setting), each_coordinate=True)
        return repeated(dimensions, ev.Shuffle(users, inner))
    if reach.padded_to is None or reach.overflow is None or reach.selection is None:
        raise Unproven("the log does not say to how many messages a dimension is padded")
    # Dummies stand in for who is absent, so only the value is hidden.
    inner = in_one_dimension(facts, randomizer(facts, setting), each_coordinate=True)
    selection = reach.selection if is_oblivious(facts) else "data-dependent"
    return ev.SampledShuffle(
        _senders(facts, setting, reach),
        dimensions,
        chosen,
        max(reach.padded_to - reach.colluders, 1),
        "coordinate",
        selection,
        reach.overflow,
        inner,
    )


def _senders(facts: Facts, setting: Setting, reach: Reach) -> int:
    """Return how many users may send: the more, the fewer places of a dimension hold dummies.

    Those who tell what they sent take up to one place of every dimension, and are taken off both.
    """
    known = [reach.users or 0]
    if setting.security is not None:
        known.append(setting.security.parties)
    else:
        known.append(setting.size(facts.contribution.unit) or 0)
    return max(max(known) - reach.colluders, 1)


def _on_sample(facts: Facts, setting: Setting, event: ev.Shuffle, *, hidden: bool) -> ev.Event:
    """Return a shuffle of those who were drawn; without one where their number is not known."""
    drawn = facts.sampling
    require_population(facts, setting)
    if drawn.method == "none" or (drawn.method == "poisson" and facts.rate == 1.0):
        return event
    if drawn.method == "poisson" and hidden:
        return ev.Poisson(facts.rate, event)
    if drawn.method == "fixed-size" and drawn.batch and drawn.population:
        if hidden and event.users == drawn.batch < drawn.population:
            return ev.FixedSize(drawn.batch, drawn.population, event)
        return ev.Shuffle(min(event.users, drawn.batch), event.event)
    if drawn.method == "poisson" and setting.security is not None:
        return event  # at least `fewest` of those who were drawn send a message
    return event.event
