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
random, by c + 1.  Zero-out: a unit at +1 against 0, the largest sum seen (scores.py); or others at
0 and a unit at +1 against 0, which is random allocation of one of T steps (allocation.py).
Replace-one: a unit at +1 against -1, which is random allocation with moves of 2; the mean ratio is
seen, or the largest sum.  Add-remove: the same moves in all batches but the last, and the last one
by itself (as below).

Source: Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, arXiv 2403.17673 (adaptive
linear queries, the test max > C); as derived here.

Lower-bound pairs of an epoch of shuffled batches under add-remove.

T batches of equal size, in contribution bounds; every other record at -1, the target at +1.
Without it, all full batches sum to minus their size, and the last one holds one record less.  With
it, in coordinates where the sums without it are 0, with N(v) the releases with means v,

    P = 1/T N(e_T) + 1/T sum_{j<T} N(2 e_j - e_T),     Q = N(0),

as the target stands in each batch equally often: in batch j it replaces a -1 and drives that -1
into the last batch; in the last batch it is one more.  Given the last release, the others are those
of one of T - 1 steps moved by 2 at random, or of none.  What is known of those (the lattice of
ratio_sums.py, or the largest of them, scores.py) is an attained pair (P', Q') on outcomes; with
the last release x put into intervals, of masses m_0, m_+1, m_-1 under its three means,

    P(x, o) = m_+1(x) Q'(o) / T + (1 - 1/T) m_-1(x) P'(o),     Q(x, o) = m_0(x) Q'(o).

Outcomes of nearly the same likelihood ratio are then merged.  All of that is post-processing, so
the pair is attained.

Two other data sets show less: all others at +1, where one more record only makes the last batch
larger, which is the unsampled release, once, and about what the last batch shows here; and others
at 0, which is random allocation with moves of 1 (allocation.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from .... import events as ev
from ....arrays import FloatArray
from ....guarantee import Neighbours, Step
from ...shuffled_epochs import EPOCH_CONDITIONS, EPOCH_SOURCE, joint_release, replaced_release
from ..grid.noise import UNIT_ROUNDOFF, AdditiveNoise, GaussianNoise, LaplaceNoise
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair
from .allocation import additive_noise, lower_ratio_pair, mean_ratio, ratios_in_range
from .ratio_sums import COARSE_POINTS
from .registry import DominatedMechanism, composed, each_alone, from_above, pairs, single_pair
from .scores import MAX_SCORE_STEPS, maximum_pair, strongest_pair

LAST_BATCH_INTERVALS: Final = 256
"""How many intervals the release of the last batch is put into."""

MERGED_OUTCOMES: Final = 1 << 14
"""How many likelihood ratios are told apart."""

LAST_BATCH_TAIL_MASS: Final = 1e-30
"""Mass beyond the outermost intervals of the last batch."""

LEAST_OUTCOME_MASS: Final = 1e-200
"""Outcomes with less mass under P or Q are left out."""


LEAST_SCALES: Final = {GaussianNoise: 0.05, LaplaceNoise: 0.005}
"""Noise below these leaves hardly an outcome that has mass under P and under Q."""


def enlarged(noise: AdditiveNoise) -> AdditiveNoise:
    """Return the noise, at least as large as `LEAST_SCALES` says, for a lower pair.

    More noise is a post-processing of less: of Gaussian noise by adding the rest, of Laplace noise
    of scale b by adding, with probability 1 - (b/c)^2, Laplace noise of the larger scale c.
    """
    return replace(noise, scale=max(noise.scale, LEAST_SCALES[type(noise)]))


def with_last_batch(noise: AdditiveNoise, hidden: Pair, batches: int) -> Pair:
    """Return the pair of all `batches` releases from `hidden`, that of all but the last one.

    `hidden` is a pair on outcomes, of one of `batches` - 1 steps moved by 2 against none.
    """
    assert hidden.atoms is not None
    known = hidden.atoms
    both = np.isfinite(known.log_p) & np.isfinite(known.log_q)
    moved, plain = np.exp(known.log_p[both]), np.exp(known.log_q[both])
    reach = 1.0 + noise.radius(LAST_BATCH_TAIL_MASS)
    # Laplace noise has kinks, which few intervals miss.
    count = LAST_BATCH_INTERVALS * (2 if isinstance(noise, LaplaceNoise) else 1)
    edges = np.concatenate(([-np.inf], np.linspace(-reach, reach, count - 1), [np.inf]))
    # Masses of each interval with means 0, +1 and -1, shape (intervals,) each.
    still, more, less = (np.exp(noise.log_interval_masses(edges - c)) for c in (0.0, 1.0, -1.0))
    p, q = _merged(moved, plain, (still, more, less), 1.0 / batches)
    kept = (p > LEAST_OUTCOME_MASS) & (q > LEAST_OUTCOME_MASS)
    # Products of two masses each, and sums of at most so many of them.
    summed = 8.0 + count + moved.size
    rounding = 2.0 * (known.rounding + noise.mass_error(reach + 1.0) + UNIT_ROUNDOFF * summed)
    return Pair.of_outcomes(
        AtomPair(np.log(p[kept]), np.log(q[kept]), has_heavy_atoms=False, rounding=rounding)
    )


def _merged(
    moved: FloatArray,
    plain: FloatArray,
    last: tuple[FloatArray, FloatArray, FloatArray],
    share: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the P and Q masses of all releases, merged by likelihood ratio, ascending.

    `moved` and `plain` are P' and Q'; `last` the masses m_0, m_+1, m_-1; `share` is 1 / T.
    """
    intervals = [row for row in np.stack(last, axis=1).tolist() if row[0] > LEAST_OUTCOME_MASS]
    low, high = _log_ratio_range(moved, plain, intervals, share)
    masses = np.zeros((2, MERGED_OUTCOMES))
    for still, more, less in intervals:
        p = share * more * plain + (1.0 - share) * less * moved
        q = still * plain
        positive = (p > 0.0) & (q > 0.0)
        ratio = np.log(p[positive]) - np.log(q[positive])
        position = (ratio - low) * ((MERGED_OUTCOMES - 1) / (high - low))
        where = np.clip(position, 0, MERGED_OUTCOMES - 1).astype(np.intp)
        for row, mass in zip(masses, (p, q), strict=True):
            row += np.bincount(where, mass[positive], MERGED_OUTCOMES)
    return masses[0], masses[1]


def _log_ratio_range(
    moved: FloatArray, plain: FloatArray, intervals: list[list[float]], share: float
) -> tuple[float, float]:
    """Return about the least and the largest log likelihood ratio; any two numbers would do."""
    positive = (moved > 0.0) & (plain > 0.0)
    still, more, less = np.array(intervals).T
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = moved[positive] / plain[positive]
        ends = [
            (share * more + (1.0 - share) * less * end) / still
            for end in (ratio.min(), ratio.max())
        ]
    edges = np.concatenate(ends)
    edges = edges[(edges > 0.0) & np.isfinite(edges)]
    return float(np.log(edges.min())), float(np.log(edges.max())) + 1e-9


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
        "derived in engines/pld/pairs/batches.py; lower end: Chua et al. 2024, arXiv 2403.17673",
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
        attained=each_alone([lower_pair]),
        symmetric=symmetric,
        steps=(*release.steps, step),
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
        f"{EPOCH_SOURCE}; lower end: derived in engines/pld/pairs/batches.py",
        (
            *EPOCH_CONDITIONS,
            "lower end: batches of equal size, others at -1",
            "neighbours: add-remove",
        ),
    )
    steps = (*replaced.steps, *removed.steps, step)
    if joint is not None:
        pair = single_pair(pairs(joint, "add-remove"))
        return DominatedMechanism.of(pair, [lower_pair], False, steps)
    both = composed(replaced, removed)
    symmetric = both.symmetric and lower_pair is None
    attained = each_alone([lower_pair])
    return replace(both, attained=attained, symmetric=symmetric, steps=steps)


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
