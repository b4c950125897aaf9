"""One shuffled round, whatever the randomizer: its bound, its pair, and tests from below."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ... import events as ev
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..subsampling import drawn_profile
from .attained import LogPair, attained_pairs
from .blanket import blanket_profile
from .clones import clones_profile
from .profile import Profile, atoms
from .randomizers import randomizer_of

CLASS_CATEGORIES: Final = (2, 3, 4)
"""Categories of the randomized responses that are tried for a bare local epsilon."""


@dataclass(frozen=True, eq=False)
class RoundPair:
    """A pair of distributions that dominates a round, given by the logs of its outcomes.

    It is its own reverse; no finite loss exceeds `largest_loss`.
    """

    outcomes: LogPair
    largest_loss: float
    steps: tuple[Step, ...]


def shuffled(event: ev.Event) -> ev.Shuffle | None:
    """Return the shuffle that an event is, or that users are drawn for; None where there is none.

    >>> shuffled(ev.Poisson(0.1, ev.Shuffle(1000, ev.Laplace(2.0))))
    Shuffle(users=1000, event=Laplace(noise_multiplier=2.0))
    """
    inner = event.event if isinstance(event, (ev.FixedSize, ev.Poisson)) else event
    return inner if isinstance(inner, ev.Shuffle) else None


def shuffled_profile(event: ev.Event, neighbours: Neighbours) -> Profile:
    """Return the bound for a shuffled round, or for `FixedSize` or `Poisson` users of one.

    Laplace, Gaussian and k-ary randomized response by their blankets, `Local` by clones.  Under
    zero-out a zeroed value counts as any other that replaces the user's.  Raises `Unsupported`
    under add-remove, and for what is not such a round.

    A zeroed unit of randomized response sends a word, as it does in the event by itself, by a law z
    within e^epsilon of each word's.  That is a mixture of these laws: with p = e^epsilon q for the
    chances of a word that is meant and one that is not, z_j <= e^epsilon q and z_j >= e^-epsilon p
    give q <= z_j <= p, so z = sum_j (z_j - q) / (p - q) R(j), with weights of 0 or above and sum 1.
    Delta is jointly convex, so the bound for each word holds for the mixture.
    """
    inner = shuffled(event)
    if inner is None:
        raise Unsupported(
            f"`{event.type}` is not a shuffled round.",
            next_step="Give one Shuffle event, or FixedSize or Poisson around one.",
        )
    if neighbours == "add-remove":
        raise Unsupported(
            "A shuffled round has no guarantee under add-remove.",
            "The number of messages is visible, so one user more or less is certain to be noticed: "
            "delta would be 1.",
            "Ask under replace-one or zero-out, where the number of users is public.",
        )
    # Drawing users first amplifies what the shuffle of those who were drawn leaves.
    return drawn_profile(event, lambda users: round_profile(inner.event, users))


def round_profile(randomizer: ev.Event, users: int) -> Profile:
    """Return the bound of one round of `users` messages by this randomizer, under replace-one.

    Raises `Unsupported` for an event that is no randomizer with a known blanket or local epsilon.
    """
    law = randomizer_of(randomizer)
    if law is not None:
        return blanket_profile(law, users)
    assert isinstance(randomizer, ev.Local)
    return clones_profile(randomizer.epsilon, users)


@lru_cache(maxsize=64)
def round_pair(event: ev.Event, neighbours: Neighbours) -> RoundPair:
    """Return a pair that dominates a round, or one of `FixedSize` or `Poisson` users."""
    profile = shuffled_profile(event, neighbours)
    hull = Step(
        "shuffling",
        "The lower convex hull of the bound, in e^epsilon, is the pair of one round.",
        "derived in amplification/shuffling/profile.py",
    )
    return RoundPair(atoms(profile), profile.largest_loss, (*profile.steps, hull))


@lru_cache(maxsize=64)
def round_tests(event: ev.Event, neighbours: Neighbours) -> tuple[LogPair, ...]:
    """Return pairs that concrete data sets attain, in both orders, one after the other.

    For a plain `Shuffle` under replace-one; none otherwise.
    """
    # A drawn crowd, or another relation: no concrete pair of data sets is known.
    if neighbours != "replace-one" or not isinstance(event, ev.Shuffle):
        return ()
    return attained_pairs(randomizer_of(event.event), event.users)


@lru_cache(maxsize=64)
def class_tests(event: ev.Event, neighbours: Neighbours) -> tuple[LogPair, ...]:
    """Return pairs, as `round_tests`, that some randomizer of a bare local epsilon attains.

    Randomized response among a few categories is such a randomizer; none for other events.  The
    value 0 of a unit that is zeroed out may be any category, so there the pairs are those of a
    value that is replaced.
    """
    if not isinstance(event, ev.Shuffle) or not isinstance(event.event, ev.Local):
        return ()
    epsilon = event.event.epsilon
    responses = [ev.RandomizedResponse(epsilon, count) for count in CLASS_CATEGORIES]
    relation: Neighbours = "replace-one" if neighbours == "zero-out" else neighbours
    tests = [round_tests(ev.Shuffle(event.users, each), relation) for each in responses]
    return tuple(pair for pairs in tests for pair in pairs)
