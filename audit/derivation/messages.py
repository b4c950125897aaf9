"""Messages: each unit sends one of its own, with noise that no other message shares.

Who sees each of them, and who sent it, sees the local event: a value within the bound C, moved by
2C under replace-one and by C under zero-out, with the noise of one message.  Where a unit may be
absent, its message is, and nothing is hidden from who counts them.  Randomized response and its
like have no common noise: their epsilon stands in the event, which is taken as a fact, and what
stands around it is not.  Each draw of a round is a message of every unit; a log that announces
fewer draws than coordinates that are `chosen` is read as if each of these was one.

A unit may fill the coordinates that its data did not choose with draws from the blanket, and always
send all.  A reach says so by `chosen` as large as `dimensions`, without sets of indices, with a
choice that is said to depend on data.  What it sends then costs as much as the messages of those
that were chosen, if each of them is a number with Laplace noise or a randomized response
(`accountant.amplification.shuffling.overlap`); else as much as all of them.

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
from .noise import SUM_NOISE_FAMILIES, share_variance
from .round_facts import RoundFacts
from .run_setting import NoProof, RunSetting
from .sampling import parts_of, sampled_event
from .sums import contribution_bound, noisy_sum_event, require_unknown_noise, weight_sum_bound

_LOCAL_EVENT_TYPES: Final[Mapping[str, tuple[type[ev.Event], ...]]] = {
    "randomized-response": (ev.RandomizedResponse, ev.Local, ev.Pure),
    "exponential": (ev.Exponential, ev.Local, ev.Pure),
}
"""Families without common noise: their epsilon stands in the event, which is taken as a fact."""


def see_messages(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return the local event of one message, seen with its sender."""
    _require_oblivious(facts, reach)
    return local_event(facts, setting)


def see_one_message(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return what the sum reveals with the noise of one message, whoever sent that."""
    require_unknown_noise(reach)
    return see_messages(facts, setting, reach)


def see_all_messages(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return what all messages that a unit sends in a round reveal, with its name.

    No sample hides any of them.
    """
    base = sampled_event(see_messages(facts, setting, reach), facts, setting, hidden=False)
    return repeated(messages_per_unit(facts) * round_repetitions(facts), base)


def see_sum_of_messages(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return what the sum of all messages reveals; each of them, where their noise is not known."""
    contribution, noise = facts.contribution, facts.noise
    # Only noise that the observer does not know itself hides anything.
    known = reach.colluders + (reach.sees == "sum-less-own")
    shares = facts.shares - known
    apart = setting.neighbours == "add-remove" or setting.scope(contribution.unit) == "finer"
    apart |= facts.sampling.method != "none"  # then how many send is left to chance
    apart |= not _is_sent_by_all(facts)
    apart |= facts.weights.rule == "records"  # a light message brings less noise than a heavy one
    gone = reach.colluders > 0 or reach.dropouts > noise.tolerated_dropouts
    apart |= gone and setting.silos > 1 and contribution.unit != "silo"  # with all of its users
    if noise.family != "gaussian" or noise.shares < 2 or shares < 1 or apart:
        return see_messages(facts, setting, reach)
    # A sum of k messages: variance k share_std^2 at sensitivity C w; sqrt is rounded down.
    moved = contribution_bound(facts, setting) * weight_sum_bound(facts, setting)
    return ev.Gaussian(root_down(share_variance(noise) * shares / moved**2))


def local_event(facts: RoundFacts, setting: RunSetting) -> ev.Event:
    """Return the local event of one message; `NoProof` where its absence would show."""
    shown = facts.contribution.terms == "message" or facts.noise.family in SUM_NOISE_FAMILIES
    if shown and setting.neighbours == "add-remove":
        raise NoProof("a unit that is absent sends no message, which shows whoever counts them")
    return randomizer_event(facts, setting)


def randomizer_event(facts: RoundFacts, setting: RunSetting) -> ev.Event:
    """Return the local event of the value in a message, not of whether it was sent."""
    if facts.noise.family not in SUM_NOISE_FAMILIES:
        return _stated(facts)[0]
    moved = contribution_bound(facts, setting) * weight_sum_bound(facts, setting)
    return noisy_sum_event(replace(facts, shares=1), setting, moved)


def messages_per_unit(facts: RoundFacts) -> int:
    """Return how many messages a unit sends in a round with the draws that were announced.

    As many as anything in the intent says: each draw is a message, of each as many as the stated
    event has of it, and what is sampled is `chosen` of some coordinates.
    """
    # The largest number that anything states: more messages of a unit cost more.
    stated_reaches = [reach for _, reach in facts.reaches or ()]
    if _decoys_are_free(facts):
        stated_reaches = [reach for reach in stated_reaches if not fills_all(facts, reach)]
    chosen_counts = [reach.chosen or 1 for reach in stated_reaches]
    stated = _stated(facts)[1] if facts.noise.family not in SUM_NOISE_FAMILIES else 1
    return max([_announced(facts) * stated, *chosen_counts])


def round_repetitions(facts: RoundFacts) -> int:
    """Return how often a round was made: once, where no more was drawn than was announced."""
    # Rounded up: draws beyond the announced ones are a whole round more.
    return -(-facts.draws // _announced(facts))


def is_one_each(facts: RoundFacts) -> bool:
    """Return whether each draw is one message; fewer draws than `chosen` coordinates are not."""
    return messages_per_unit(facts) == _announced(facts)


def _is_sent_by_all(facts: RoundFacts) -> bool:
    """Return whether every unit surely sends a message to each sum: none chooses among them.

    Several draws may be messages of a few coordinates each, unless all coordinates are sent.
    """
    stated = [reach for _, reach in facts.reaches or () if reach.chosen is not None]
    if any(reach.chosen != reach.dimensions for reach in stated):
        return False
    if not stated:
        return messages_per_unit(facts) == 1
    return is_one_each(facts) and facts.width in (None, messages_per_unit(facts))


def _announced(facts: RoundFacts) -> int:
    return max(facts.noise.draws, 1)


def is_oblivious(facts: RoundFacts) -> bool:
    """Return whether every reach that says how coordinates are chosen says: whatever the data."""
    selections = {reach.selection for _, reach in facts.reaches or ()} - {None}
    inside = {
        part.selection for part in parts_of(facts.event) if isinstance(part, ev.SampledShuffle)
    }
    return selections | inside <= {"oblivious"}


def fills_all(facts: RoundFacts, reach: Reach) -> bool:
    """Return whether a reach says that units send all coordinates, though data choose some.

    All who say how messages are mixed must mix as many coordinates, each by itself.
    """
    if reach.sees != "each" or "index-sets" in reach.also or reach.selection != "oblivious":
        return False
    mixed = [other for _, other in facts.reaches or () if other.sees == "shuffled"]
    alike = all(
        other.granularity == "coordinate" and other.dimensions == reach.dimensions
        for other in mixed
    )
    fits = facts.width in (None, reach.dimensions) and bool(mixed) and alike
    return fits and reach.dimensions is not None and reach.chosen == reach.dimensions


def _decoys_are_free(facts: RoundFacts) -> bool:
    """Return whether a draw from the blanket with a message costs nothing: see the module."""
    if facts.noise.family == "randomized-response":
        return isinstance(_stated(facts)[0], ev.RandomizedResponse)
    return facts.noise.family == "laplace"


def _require_oblivious(facts: RoundFacts, reach: Reach) -> None:
    """Raise `NoProof` where who sees messages sees which coordinates the data chose."""
    if fills_all(facts, reach):
        return
    if not is_oblivious(facts):
        raise NoProof("which coordinates a unit sends depends on its data, and is seen")
    if "index-sets" in reach.also and not _says_selection(facts):
        raise NoProof("which coordinates a unit sends is seen, and not said to be oblivious")


def _says_selection(facts: RoundFacts) -> bool:
    return any(reach.selection is not None for _, reach in facts.reaches or ())


def _stated(facts: RoundFacts) -> tuple[ev.Event, int]:
    """Return the local randomizer in the stated event, and how often a unit uses it in one draw.

    Shuffles and samples around it are conclusions of the log, and are taken off.
    """
    event, uses = facts.event, 1
    while (inner := getattr(event, "event", None)) is not None:
        uses *= getattr(event, "count", 1) * getattr(event, "chosen", 1)
        event = inner
    if not isinstance(event, _LOCAL_EVENT_TYPES[facts.noise.family]):
        raise NoProof(f"`{event.type}` is not an event of {facts.noise.family} noise")
    return event, max(1, -(-uses // max(facts.noise.draws, 1)))


def is_number(facts: RoundFacts) -> bool:
    """Return whether a message, or a sum, surely is one number and no vector.

    What is released says nothing of a message: of vectors a norm may be released, or a count.  A
    message is a number where all who state how messages are mixed say by coordinate, and no more
    numbers were released than were drawn.
    """
    if facts.contribution.terms != "message":
        return facts.single
    mixed = [reach.granularity for _, reach in facts.reaches or () if reach.sees == "shuffled"]
    by_draw = facts.width is not None and facts.width <= _announced(facts)
    return bool(mixed) and all(kind == "coordinate" for kind in mixed) and by_draw


def mixable(facts: RoundFacts, inner: ev.Event, *, each_coordinate: bool) -> ev.Event | None:
    """Return a randomizer of which a shuffle bound is known, as whoever sees a mix sees it.

    A number has the blanket of its noise.  Of a vector only the local epsilon counts: Laplace noise
    on a vector within an l1 ball is as private as on a number, but other messages look less like
    it.  Gaussian noise on a vector has no such epsilon, and no bound: None.  A message is a number
    where `each_coordinate` is one, or `facts.single` is set so (`is_number`).
    """
    if isinstance(inner, (ev.RandomizedResponse, ev.Local)) or each_coordinate or facts.single:
        return inner
    if isinstance(inner, ev.Laplace):
        # Laplace noise of scale b = m C within an l1 ball of radius C: epsilon = 2 C / b = 2 / m,
        # rounded up by 1e-15.
        epsilon = Fraction(2) / Fraction(inner.noise_multiplier)
        return ev.Local(float(epsilon) * (1.0 + 1e-15))
    return None
