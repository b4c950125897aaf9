"""What a run's sealed numbers are or are not, whatever its noise is.

Values without noise, equal shares, clipped terms above the norm, sums that are not those of the
clipped and weighted terms, weights that sum to too much, units that join too often, and shares that
were not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..derivation.correlated_rounds import beyond_schedule
from ..ledger.product_facts import noise_is_taken_off
from . import p_values
from .noise_tests import NoiseTest, certain, standardised
from .sealed_statistics import Release, Run

NORM_ROUNDING_RELATIVE = 1e-9
"""By how much a norm that was computed in floats may be above its bound."""


def zeros(run: Run) -> NoiseTest | None:
    """Test whether values were released without noise."""
    by: dict[tuple[float, bool], tuple[int, int]] = {}
    for release, _, residual, stated in standardised(run):
        if residual.squares is not None:
            noise = release.intent.noise
            chance = p_values.zero_probability(math.sqrt(stated), noise.grid, noise.family)
            key = chance, residual is release.whole  # a sum of one silo's noise is that noise again
            count, values = by.get(key, (0, 0))
            by[key] = count + residual.zeros, values + residual.values
    if not by:
        return None
    count = sum(count for count, _ in by.values())
    return NoiseTest(
        "values without noise",
        p_values.bonferroni(
            [p_values.binomial_tail(hits, values, key[0]) for key, (hits, values) in by.items()]
        ),
        "Values were released with no noise on them.",
        {"values": sum(values for _, values in by.values()), "without noise": count},
    )


def equal(run: Run) -> NoiseTest:
    """Test whether the same noise was added twice, anywhere in a run, in any order and sign."""
    seen: set[tuple[str, str]] = set()
    sizes: set[tuple[str, str]] = set()
    number, again, rearranged, fewest, fewest_values, chance = 0, 0, 0, 0, 0, 0.0
    for release in run.releases:
        noise = release.intent.noise
        chance = max(chance, p_values.zero_probability(noise.share_std, noise.grid, noise.family))
        for share in release.shares:
            key = release.segment, share.fingerprint
            again += share.equal_sums + (key in seen)
            if share.unordered is not None:
                of_sizes = release.segment, share.unordered
                rearranged += of_sizes in sizes and key not in seen
                sizes.add(of_sizes)
                fewest_values = min(fewest_values or share.values, share.values)
            seen.add(key)
            number += share.sums
            width = max(1, share.n // share.sums)
            fewest = min(fewest, width) if fewest else width
    # The smallest width and the likeliest value: the bound on a chance collision errs upwards.
    pairs = number * (number - 1) / 2.0
    p = 1.0
    if again:
        p = 2.0 * p_values.collision_bound(pairs, max(1, fewest), chance)
    if rearranged:
        p = min(p, 2.0 * p_values.rearranged_bound(pairs, fewest_values, chance))
    return NoiseTest(
        "equal noise",
        min(1.0, p),
        "The same noise was added to two sums, so it can be taken off their difference.",
        {"residuals": number, "equal to another": again + rearranged},
    )


def norms(run: Run) -> NoiseTest:
    """Check that the largest term of every round was within its clipping bound."""
    largest = max(release.limits.term_largest for release in run.releases)
    return certain(
        "norms after clipping",
        largest > 1.0 + NORM_ROUNDING_RELATIVE,
        "A term was larger than the bound that the noise is made for.",
        {"rounds": len(run.releases), "largest over bound": largest},
    )


def sums(run: Run) -> NoiseTest | None:
    """Check that noise was added to the sums of the clipped and weighted terms."""
    errors = [
        release.limits.sum_off for release in run.releases if release.limits.sum_off is not None
    ]
    if not errors:
        return None
    return certain(
        "sums made again",
        max(errors) > 1.0,
        "What noise was added to is not the sum of the clipped and weighted terms.",
        {"rounds": len(errors), "off over rounding": max(errors)},
    )


def weights(run: Run) -> NoiseTest | None:
    """Check that the weights of one unit summed to no more than the log states."""
    ratios = [
        release.limits.weight_largest / release.intent.weights.largest_sum
        for release in run.releases
        if release.limits.weight_largest is not None
    ]
    if not ratios:
        return None
    return certain(
        "weights of a unit",
        max(ratios) > 1.0 + NORM_ROUNDING_RELATIVE,
        "The weights of a user sum to more than the log says, so it moves the sum by more.",
        {"rounds": len(ratios), "largest over stated": max(ratios)},
    )


def schedule(run: Run) -> NoiseTest | None:
    """Check that no more units took part than the schedule of correlated noise allows."""
    joined = [
        (release.intent, release.number, release.joined)
        for release in run.releases
        if release.joined is not None
    ]
    if not joined:
        return None
    beyond = beyond_schedule(joined, run.opened.population.users)
    return certain(
        "units of a block",
        bool(beyond),
        "Units took part more often than the log says, so one moves the sums of a block by more.",
        {"rounds": len(joined), **({"first": f"line {beyond[0]}"} if beyond else {})},
    )


def drawn(run: Run) -> NoiseTest:
    """Check that every share of noise that the log states was drawn, and arrived."""
    wrong = [
        f"line {release.number}: {why}"
        for release in run.releases
        for why in _lacking(run, release)
    ]
    return certain(
        "draws and shares",
        bool(wrong),
        "The noise was not drawn in the shares, for the values or of the width that the log says.",
        {"rounds": len(run.releases), **({"first": wrong[0]} if wrong else {})},
    )


def _lacking(run: Run, release: Release) -> Iterator[str]:
    noise, logged = release.intent.noise, release.release
    parties = noise.shares if noise.shares > 1 else run.opened.population.silos
    silos_present = {share.silo for share in release.shares}
    party = run.opened.party
    if party is not None:  # the log of one party, which has no residual but its own
        due = set() if party.silo is None else {party.silo}
        if silos_present != due or logged.drawn_here != len(due):
            yield f"noise was drawn by {len(silos_present)} silos in the log of {party.name}"
        parties = len(due)
    if len(silos_present) != len(release.shares) or len(silos_present) > parties:
        yield f"{len(release.shares)} shares of {parties} silos"
    if len(silos_present) < parties - noise.tolerated_dropouts:
        yield f"{len(silos_present)} of {parties} silos drew noise"
    if release.whole is not None and not set(release.arrived) <= silos_present:
        yield "a share arrived that was not drawn"
    staying = logged.shares
    if noise_is_taken_off(
        release.intent.contribution,
        (release.intent.reaches or {}).values(),
        run.opened.security,
    ):
        staying = 1  # of those that were added, all others are taken off the sum again
    if release.whole is not None and len(set(release.arrived)) != staying:
        yield f"{len(set(release.arrived))} shares arrived, not {staying}"
    residuals = [*release.shares, *([release.whole] if release.whole is not None else [])]
    if any(share.values != logged.values * share.sums for share in residuals):
        yield f"noise was not drawn for {logged.values:,} values"
    if any(not 1 <= share.sums <= noise.draws for share in release.shares):
        yield f"noise was not drawn for up to {noise.draws:,} sums"
    if release.std != noise.share_std:
        yield "noise of another width was expected"
