"""Every bound that is known for one shuffled round, side by side, and which of them do not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from ... import events as ev
from ... import validate
from ...errors import Unsupported
from . import closed_forms
from .blanket import blanket_profile
from .clones import fmt21_profile, fmt23_profile
from .profile import Profile, smallest_epsilon
from .randomizers import GaussianRandomizer, Randomizer, ResponseRandomizer, randomizer_of

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
