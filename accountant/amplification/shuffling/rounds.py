"""One shuffled round, whatever the randomizer: its bound, its pair, and tests from below.

All bounds that are known for it stand side by side, also those that do not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, TypeAlias

from ... import events as ev
from ... import validate
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..subsampling import drawn_profile
from . import closed_forms
from .attained import LogPair, attained_pairs
from .blanket import blanket_profile
from .clones import clones_profile, fmt21_profile, fmt23_profile
from .profile import Profile, atoms, smallest_epsilon
from .randomizers import GaussianRandomizer, Randomizer, ResponseRandomizer, randomizer_of

CLASS_CATEGORIES: Final = (2, 3, 4)
"""Categories of the randomized responses that are tried for a stated local epsilon."""


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
    # Drawn users, or another relation: no concrete pair of data sets is known.
    if neighbours != "replace-one" or not isinstance(event, ev.Shuffle):
        return ()
    return attained_pairs(randomizer_of(event.event), event.users)


@lru_cache(maxsize=64)
def class_tests(event: ev.Event, neighbours: Neighbours) -> tuple[LogPair, ...]:
    """Return pairs, as `round_tests`, that some randomizer of a stated local epsilon attains.

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


ShuffleRoute: TypeAlias = tuple[str, float | None, str, str]
"""Name, epsilon (None where refused), where the argument stands, and why it was refused."""

_FMT21 = "Feldman, McMillan, Talwar 2021, arXiv 2012.12803"
_FMT23 = "Feldman, McMillan, Talwar 2023, arXiv 2208.04591, where proven: shuffling/clones.py"
_BBGN = "Balle, Bell, Gascon, Nissim 2019, arXiv 1903.02837"
_EFMRTT = "Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta 2019, arXiv 1811.12469"


def shuffle_routes(event: ev.Event, delta: float) -> tuple[ShuffleRoute, ...]:
    """Return every bound on epsilon at `delta` in (0, 1) for a `Shuffle`, under replace-one.

    Each is (name, epsilon or None, source, why it was refused or ""); no bound is above the local
    epsilon, which is the last of them.  Other events have no routes here.

    >>> routes = shuffle_routes(ev.Shuffle(10_000, ev.Local(1.0)), 1e-6)
    >>> [(name, round(epsilon, 4)) for name, epsilon, _, _ in routes if epsilon][:2]
    [('clones 2023, numerical', 0.0432), ('clones 2021, numerical', 0.053)]
    """
    delta = validate.open_probability(delta=delta)
    if not isinstance(event, ev.Shuffle):
        return ()
    try:
        randomizer = randomizer_of(event.event)
    except Unsupported as refusal:
        return (("shuffling", None, "", str(refusal)),)
    return tuple(_routes(event, randomizer, delta))


def _routes(
    event: ev.Shuffle, randomizer: Randomizer | None, delta: float
) -> Iterator[ShuffleRoute]:
    users = event.users
    local = event.event.epsilon if isinstance(event.event, ev.Local) else _local(randomizer)
    if randomizer is not None:
        profile = blanket_profile(randomizer, users)
        yield _numerical("blanket, numerical", _BBGN, profile, delta)
    # Gaussian noise: only the numerical blanket has a bound.
    if local is None:
        assert randomizer is not None
        yield from _unbounded(randomizer)
        return
    yield _numerical("clones 2023, numerical", _FMT23, fmt23_profile(local, users), delta)
    yield _numerical("clones 2021, numerical", _FMT21, fmt21_profile(local, users), delta)
    # Every closed form holds for the local epsilon; some take the randomizer's own constants.
    mechanism = local if randomizer is None else randomizer
    for name, source, find in (
        ("Bennett form", f"{_BBGN}, corrected", partial(closed_forms.bennett_epsilon, mechanism)),
        ("Hoeffding form", _BBGN, partial(closed_forms.hoeffding_epsilon, mechanism)),
        ("clones 2023, closed form", _FMT23, partial(closed_forms.fmt23_epsilon, local)),
        ("clones 2021, closed form", _FMT21, partial(closed_forms.fmt21_epsilon, local)),
        ("EFMRTT 2019, closed form", _EFMRTT, partial(closed_forms.efmrtt19_epsilon, local)),
    ):
        yield _route_or_refusal(name, source, partial(find, users, delta))
    if isinstance(randomizer, ResponseRandomizer):
        form = partial(closed_forms.bbgn19_response_epsilon, local, randomizer.categories)
        yield _route_or_refusal(
            "randomized response 2019, closed form", _BBGN, partial(form, users, delta)
        )
    yield "no shuffler", local, "the local epsilon holds for every observer", ""


def _local(randomizer: Randomizer | None) -> float | None:
    """Return the local epsilon, None where there is none."""
    if randomizer is None or isinstance(randomizer, GaussianRandomizer):
        return None
    return randomizer.largest_loss


def _unbounded(randomizer: Randomizer) -> Iterator[ShuffleRoute]:
    why = f"It needs a local epsilon at delta 0, and {randomizer.description} has none."
    for name, source in (
        ("clones 2023, numerical", _FMT23),
        ("clones 2021, numerical", _FMT21),
        ("Bennett form", f"{_BBGN}, corrected"),
        ("Hoeffding form", _BBGN),
        ("clones 2023, closed form", _FMT23),
        ("clones 2021, closed form", _FMT21),
        ("EFMRTT 2019, closed form", _EFMRTT),
    ):
        yield name, None, source, why


def _numerical(name: str, source: str, profile: Profile, delta: float) -> ShuffleRoute:
    return name, smallest_epsilon(profile, delta), source, ""


def _route_or_refusal(name: str, source: str, find: Callable[[], float]) -> ShuffleRoute:
    """Return the route of what `find` returns, or of its refusal."""
    try:
        return name, find(), source, ""
    except Unsupported as refusal:
        return name, None, source, str(refusal)
