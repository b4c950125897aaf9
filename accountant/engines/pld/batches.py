"""Shuffled batches: one epoch in random order, cut into batches, one noisy release for each.

**Upper end: no amplification.** Reveal the order, which does not depend on the data.  Then the unit
is in one known batch, all other releases have the same distribution with either data set, and that
one is `event` on a fixed batch; later releases may depend on earlier ones.  So the pair is that of
`event`, once.  This needs the order to be the same for both data sets: the unit is zeroed or
replaced, while one more record would move the boundaries of the batches.

**Lower end** (Gaussian and Laplace noise, equal batches).  In contribution bounds, with others at
-1 and the sum of a batch of others taken off, a unit at c moves the sum of its batch, one of T at
random, by c + 1.  Zero-out: a unit at +1 against 0, the largest sum seen (maximum.py); or others at
0 and a unit at +1 against 0, which is random allocation of one of T steps (allocation.py).
Replace-one: a unit at +1 against -1, which is random allocation with moves of 2.

Source: Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, arXiv 2403.17673 (adaptive
linear queries, the test max > C); as derived here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ... import events as ev
from ...composition import leaves, rewritten
from ...errors import PrivplanError, Unsupported
from ...guarantee import Bounds, Neighbours, Step
from .allocation import additive_noise, lower_ratio_pair, mean_ratio, ratios_in_range
from .maximum import maximum_pair
from .pair import Pair
from .registry import DominatedMechanism, pairs
from .scores import MAX_SCORE_STEPS, strongest_pair


@pairs.register(ev.ShuffledBatches)
def _shuffled(event: ev.ShuffledBatches, neighbours: Neighbours) -> DominatedMechanism:
    if neighbours == "add-remove":
        raise Unsupported(
            "Shuffled batches cannot be accounted under add-remove.",
            "One record more or less moves the boundaries of the batches, so several releases "
            "change.",
            "Account them under zero-out or replace-one, or draw batches by Poisson sampling.",
        )
    release = pairs(event.event, neighbours)
    step = Step(
        "sampling",
        f"An epoch of {event.batches:,} batches: a unit is in one of them, and no amplification is "
        "proven; the pair is that of one release.",
        "derived in engines/pld/batches.py; lower end: Chua et al. 2024, arXiv 2403.17673",
        (
            "the order is independent of the data and the same for both data sets",
            "lower end: batches of equal size, others at -1 or at 0",
            f"neighbours: {neighbours}",
        ),
    )
    steps = (*release.steps, step)
    if event.batches == 1:
        return replace(release, steps=steps)
    lower_pair = _lower_pair(event, neighbours)
    symmetric = release.symmetric and (lower_pair is None or neighbours == "replace-one")
    return replace(release, lower_pair=lower_pair, symmetric=symmetric, steps=steps, lower_power=1)


@lru_cache(maxsize=32)
def _lower_pair(event: ev.ShuffledBatches, neighbours: Neighbours) -> Pair | None:
    noise, batches = additive_noise(event.event), event.batches
    if noise is None:
        return None
    rest = (0.0, batches - 1)
    replaced = neighbours == "replace-one"
    other = (0.0, 1) if replaced else (1.0, 1)
    candidates = [maximum_pair(noise, ((2.0, 1), rest), (other, rest))]
    moved = replace(noise, scale=noise.scale / 2.0) if replaced else noise
    if batches <= MAX_SCORE_STEPS and ratios_in_range(moved):
        candidates.append(lower_ratio_pair(mean_ratio(moved, batches)))
    return strongest_pair(candidates, either_way=replaced)


def batch_warnings(
    event: ev.Event,
    neighbours: Neighbours,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    lower: float = 0.0,
) -> tuple[str, ...]:
    """Return a warning for an event that holds shuffled batches, else nothing.

    Batches in random order are often accounted as Poisson samples at rate 1 / batches.  Given the
    question (`delta` or `epsilon`), the warning says what that would claim; given the `lower` end
    of the answer to it, whether that is false.
    """
    poisson = rewritten(event, _as_poisson)
    if poisson is event:
        return ()
    claimed = _claimed(poisson, neighbours, delta, epsilon)
    opening = "Shuffled batches are not Poisson sampling, and no amplification is proven for them."
    if claimed is None:
        return (opening,)
    name = "epsilon" if delta is not None else "delta"
    verdict = "is not proven"
    if lower > claimed.upper:
        verdict = f"is false: {name} is at least {lower:.4g}"
    return (
        f"{opening} Accounted as if they were, {name} would be {claimed.upper:.4g}; "
        f"that {verdict}.",
    )


def _as_poisson(event: ev.Event) -> ev.Event:
    """Return an epoch of shuffled batches as Poisson samples; any other event as it is."""
    if not isinstance(event, ev.ShuffledBatches):
        return event
    return ev.Repeat(event.batches, ev.Poisson(1.0 / event.batches, event.event))


def _claimed(
    event: ev.Event, neighbours: Neighbours, delta: float | None, epsilon: float | None
) -> Bounds | None:
    from .engine import PldEngine

    engine = PldEngine()
    try:
        if delta is not None:
            return engine.epsilon(leaves(event), delta, neighbours).bounds
        if epsilon is not None:
            return engine.delta(leaves(event), epsilon, neighbours).bounds
    except PrivplanError:
        return None
    return None
