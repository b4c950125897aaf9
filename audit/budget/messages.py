"""Messages: each unit sends one of its own, with noise that no other message shares.

Who sees each of them, and who sent it, sees the local event: a value within the bound C, moved by
2C under replace-one and by C under zero-out, with the noise of one message.  Where a unit may be
absent, its message is, and nothing is hidden from who counts them.  Randomized response and its
like have no common noise: their epsilon stands in the event, which is taken as a fact, and what
stands around it is not.  Where a unit sends some coordinates (`chosen`), each is a message.

Who sees the sum of messages sees the noise of all that can be relied on, if it is Gaussian and the
facts say how many shares there are; a unit is replaced and not taken away, so their number stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from ...accountant import events as ev
from ...accountant.records import Reach
from ...accountant.sensitivity.release import repeated, root_down
from .bounds import bound, weight
from .facts import SUMS, Facts, Setting, Unproven, share_variance
from .samples import parts_of
from .sums import noisy

_LOCAL: Final[Mapping[str, tuple[type[ev.Event], ...]]] = {
    "randomized-response": (ev.RandomizedResponse, ev.Local, ev.Pure),
    "exponential": (ev.Exponential, ev.Local, ev.Pure),
}
"""Families without common noise: their epsilon stands in the event, which is taken as a fact."""


def see_messages(facts: Facts, setting: Setting, reach: Reach) -> ev.Event:
    """Return what all messages of one unit reveal, with its name."""
    _require_oblivious(facts, reach)
    return repeated(copies(facts), local(facts, setting))


def see_sum_of_messages(facts: Facts, setting: Setting, reach: Reach) -> ev.Event:
    """Return what the sum of all messages reveals; each of them, where their noise is not known."""
    own, noise = facts.contribution, facts.noise
    known = reach.colluders + (reach.sees == "sum-less-own")
    shares = facts.shares - known
    apart = setting.neighbours == "add-remove" or setting.scope(own.unit) == "finer"
    apart |= facts.sampling.method != "none"  # then how many send is left to chance
    if noise.family != "gaussian" or noise.shares < 2 or shares < 1 or apart or copies(facts) > 1:
        return see_messages(facts, setting, reach)
    moved = bound(facts, setting) * weight(facts, setting)
    return ev.Gaussian(root_down(share_variance(noise) * shares / moved**2))


def local(facts: Facts, setting: Setting) -> ev.Event:
    """Return what one message reveals of its sender, from the facts of its noise."""
    if facts.noise.family not in SUMS:
        return _stated(facts)[0]
    if setting.neighbours == "add-remove":
        raise Unproven("a unit that is absent sends no message, which shows whoever counts them")
    return randomizer(facts, setting)


def randomizer(facts: Facts, setting: Setting) -> ev.Event:
    """Return what one message reveals of the value in it; nothing of whether there is one."""
    if facts.noise.family not in SUMS:
        return _stated(facts)[0]
    moved = bound(facts, setting) * weight(facts, setting)
    return noisy(replace(facts, shares=1), setting, moved)


def copies(facts: Facts) -> int:
    """Return how many messages one unit sends: as many as anything in the intent says."""
    said = [reach.chosen or 1 for _, reach in facts.reaches or ()]
    stated = _stated(facts)[1] if facts.noise.family not in SUMS else 1
    return max([1, *said, stated])


def is_oblivious(facts: Facts) -> bool:
    """Return whether every reach that says how coordinates are chosen says: whatever the data."""
    said = {reach.selection for _, reach in facts.reaches or ()} - {None}
    inside = {
        part.selection for part in parts_of(facts.event) if isinstance(part, ev.SampledShuffle)
    }
    return said | inside <= {"oblivious"}


def _require_oblivious(facts: Facts, reach: Reach) -> None:
    """Raise `Unproven` where who sees messages sees which coordinates the data chose."""
    if not is_oblivious(facts):
        raise Unproven("which coordinates a unit sends depends on its data, and is seen")
    if "index-sets" in reach.also and not _says_selection(facts):
        raise Unproven("which coordinates a unit sends is seen, and not said to be oblivious")


def _says_selection(facts: Facts) -> bool:
    return any(reach.selection is not None for _, reach in facts.reaches or ())


def _stated(facts: Facts) -> tuple[ev.Event, int]:
    """Return the local randomizer in the stated event, and how often a unit uses it in one draw.

    Shuffles and samples around it are conclusions of the log, and are taken off.
    """
    event, times = facts.event, 1
    while (inner := getattr(event, "event", None)) is not None:
        times *= getattr(event, "count", 1) * getattr(event, "chosen", 1)
        event = inner
    if not isinstance(event, _LOCAL[facts.noise.family]):
        raise Unproven(f"`{event.type}` is not an event of {facts.noise.family} noise")
    return event, max(1, -(-times // max(facts.noise.draws, 1)))


def in_one_dimension(facts: Facts, inner: ev.Event, *, each_coordinate: bool) -> ev.Event:
    """Return a randomizer whose blanket is known: of one value, or by its local epsilon alone.

    Laplace noise on a vector within an l1 ball is as private as on a value, but other messages look
    less like it, so only its epsilon counts; Gaussian noise on a vector has none.
    """
    if isinstance(inner, (ev.RandomizedResponse, ev.Local)) or facts.single or each_coordinate:
        return inner
    if isinstance(inner, ev.Laplace):
        epsilon = Fraction(2) / Fraction(inner.noise_multiplier)
        return ev.Local(float(epsilon) * (1.0 + 1e-15))
    raise Unproven(f"no shuffle bound is known for vectors with `{inner.type}` noise")
