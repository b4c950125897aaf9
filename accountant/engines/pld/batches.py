"""Shuffled batches: one epoch in random order, cut into batches, one noisy release for each.

**Upper end: no amplification.** Zero-out and replace-one: reveal the order, which does not depend
on the data.  Then the unit is in one known batch, all other releases have the same distribution
with either data set, and that one is `event` on a fixed batch; later releases may depend on earlier
ones.  So the pair is that of `event`, once.  Add-remove: one record more or less moves another one
from the end of the epoch into its place, so the pairs of a replaced and of a removed record are
composed (engines/shuffled_epochs.py, with the conditions).  That is more than the release by itself
would cost, and so is the truth: the lower end shows it.

**Lower end** (Gaussian and Laplace noise, equal batches).  In contribution bounds, with others at
-1 and the sum of a batch of others taken off, a unit at c moves the sum of its batch, one of T at
random, by c + 1.  Zero-out: a unit at +1 against 0, the largest sum seen (maximum.py); or others at
0 and a unit at +1 against 0, which is random allocation of one of T steps (allocation.py).
Replace-one: a unit at +1 against -1, which is random allocation with moves of 2; the mean ratio is
seen, or the largest sum.  Add-remove: the same moves in all batches but the last, and the last one
by itself (last_batch.py).

Source: Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, arXiv 2403.17673 (adaptive
linear queries, the test max > C); as derived here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from ... import events as ev
from ... import rounding
from ...composition import leaves
from ...errors import PrivplanError
from ...event_tree import rewritten
from ...guarantee import Bounds, Neighbours, Step
from ..shuffled_epochs import EPOCH_CONDITIONS, EPOCH_SOURCE, joint_release, replaced_release
from .allocation import additive_noise, lower_ratio_pair, mean_ratio, ratios_in_range
from .last_batch import enlarged, with_last_batch
from .maximum import maximum_pair
from .mechanism_algebra import composed, from_above, single_pair
from .noise import AdditiveNoise
from .pair import Pair
from .ratio_sums import COARSE_POINTS
from .registry import DominatedMechanism, pairs
from .scores import MAX_SCORE_STEPS, strongest_pair

MAXIMUM_IS_ENOUGH: Final = 40.0
"""Where log ratios of one batch exceed this (Gaussian noise below .7, moved by 2), the largest sum
shows the epsilon of the mean ratio but for about .1 %."""

OTHERS_AT_ZERO: Final = 10.0
"""Under zero-out, others at -1 show more than others at 0 where log ratios exceed this."""


@pairs.register(ev.ShuffledBatches)
def _shuffled(event: ev.ShuffledBatches, neighbours: Neighbours) -> DominatedMechanism:
    if event.batches == 1:
        release = pairs(event.event, neighbours)
        step = Step("sampling", "An epoch of one batch is that release.", "by definition")
        return replace(release, steps=(*release.steps, step))
    if neighbours == "add-remove":
        return _record_more_or_less(event)
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
    lower_pair = _lower_pair(event, neighbours)
    symmetric = release.symmetric and (lower_pair is None or neighbours == "replace-one")
    return replace(
        from_above(release),  # what one release attains, a hidden batch need not
        lower_pair=lower_pair,
        symmetric=symmetric,
        steps=(*release.steps, step),
        lower_power=1,
    )


def _record_more_or_less(event: ev.ShuffledBatches) -> DominatedMechanism:
    """Return the mechanism under add-remove: a replaced and a removed record, composed."""
    replaced = pairs(*replaced_release(event.event))
    removed = pairs(event.event, "add-remove")
    joint = joint_release(event.event)
    lower_pair = _lower_pair(event, "add-remove")
    how = "their pairs are composed" if joint is None else "together noise / sqrt(5)"
    step = Step(
        "sampling",
        f"An epoch of {event.batches:,} batches: the record at the end of the order fills the "
        f"place of one that goes, so one batch has a record replaced, and the last one a record "
        f"less; {how}.",
        f"{EPOCH_SOURCE}; lower end: derived in engines/pld/last_batch.py",
        (
            *EPOCH_CONDITIONS,
            "lower end: batches of equal size, others at -1",
            "neighbours: add-remove",
        ),
    )
    steps = (*replaced.steps, *removed.steps, step)
    if joint is not None:
        pair = single_pair(pairs(joint, "add-remove"))
        return DominatedMechanism(pair, lower_pair, False, steps, lower_power=1)
    both = composed(replaced, removed)
    symmetric = both.symmetric and lower_pair is None
    return replace(both, lower_pair=lower_pair, symmetric=symmetric, steps=steps, lower_power=1)


@lru_cache(maxsize=32)
def _lower_pair(event: ev.ShuffledBatches, neighbours: Neighbours) -> Pair | None:
    noise = additive_noise(event.event)
    if noise is None:
        return None
    if neighbours == "add-remove":
        return _pair_with_last_batch(event, noise)
    batches, rest = event.batches, (0.0, event.batches - 1)
    replaced = neighbours == "replace-one"
    moved = replace(noise, scale=noise.scale / 2.0) if replaced else noise
    hidden = _mean_of_ratios(moved, batches, MAXIMUM_IS_ENOUGH if replaced else OTHERS_AT_ZERO)
    candidates = [] if hidden is None else [hidden]
    # Under zero-out these are different data sets; under replace-one the mean ratio shows more.
    if hidden is None or not replaced:
        other = (0.0, 1) if replaced else (1.0, 1)
        candidates.append(maximum_pair(noise, ((2.0, 1), rest), (other, rest)))
    return strongest_pair(candidates, either_way=replaced)


def _pair_with_last_batch(event: ev.ShuffledBatches, noise: AdditiveNoise) -> Pair:
    """Return the attained pair of one record more or less."""
    batches, noise = event.batches, enlarged(noise)
    # Of all batches but the last: one of them, at random, is moved by 2.
    moved = replace(noise, scale=noise.scale / 2.0)
    hidden = _mean_of_ratios(moved, batches - 1, MAXIMUM_IS_ENOUGH)
    if hidden is None:
        hidden = maximum_pair(noise, ((2.0, 1), (0.0, batches - 2)), ((0.0, batches - 1),))
    return with_last_batch(noise, hidden, batches)


def _mean_of_ratios(noise: AdditiveNoise, batches: int, most: float) -> Pair | None:
    """Return the attained pair of one of `batches` steps moved by 1; None above `most` log ratios.

    Where likelihood ratios are large the largest sum shows all of it, and many zones are needed.
    """
    if batches > MAX_SCORE_STEPS or not ratios_in_range(noise, most):
        return None
    return lower_ratio_pair(mean_ratio(noise, batches, COARSE_POINTS))


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
    if neighbours == "add-remove":
        opening += (
            " Under add-remove they may cost more than releases on all the data, since another "
            "record moves into the place of one that goes."
        )
    if claimed is None:
        return (opening,)
    name = "epsilon" if delta is not None else "delta"
    verdict = "is not proven"
    if lower > claimed.upper:
        verdict = f"is false: {name} is at least {rounding.down(lower)}"
    return (
        f"{opening} With each batch accounted as a Poisson sample, at rate 1 / batches, {name} "
        f"would be {rounding.up(claimed.upper)}; that {verdict}.",
    )


def _as_poisson(event: ev.Event) -> ev.Event:
    """Return an epoch of shuffled batches as Poisson samples; any other event as it is."""
    if not isinstance(event, ev.ShuffledBatches):
        return event
    return ev.Repeat(event.batches, ev.Poisson(1.0 / event.batches, event.event))


@lru_cache(maxsize=64)
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
