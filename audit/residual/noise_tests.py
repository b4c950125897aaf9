"""Tests of the sealed statistics: is the noise that was drawn the noise that was logged?

Each has the null hypothesis that it is.  With a p-value, so that a sound run may be rejected:

variance   the sum of squares of each share, of all shares, and of the whole sums: over the run, in
           each release by itself, and in each of the sums of a release
parts      the sum of squares of each kind of values, where they have kinds: of each share, of all,
           over the run and in each release
shape      the distribution of each silo's noise over the run, and of the whole sums
over time  correlation of noise with that of the rounds before, or of another step of the round
silos      correlation of the noise of two silos
zeros      values that have no noise at all

With certainty, or nearly so: noise that is equal (but for its order and signs), terms beyond their
norm, sums that are not those of the clipped and weighted terms, weights that sum to too much, units
that join too often, and shares that were not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ...fl.parties.network import silo_name
from ..derivation.correlated_rounds import beyond_schedule
from ..ledger.product_facts import noise_is_taken_off
from . import p_values
from .sealed_statistics import Angle, Release, ResidualStatistics, Run

NORM_ROUNDING_RELATIVE = 1e-9
"""By how much a norm that was computed in floats may be above its bound."""


@dataclass(frozen=True)
class NoiseTest:
    """One test: its subject, its p-value, what a small one proves, and the size of its sample."""

    what: str
    p: float
    proves: str
    sample: dict[str, float | int | str] = field(default_factory=dict)


@dataclass
class _Squares:
    """A sum of squares in units of the stated variance, and the number of values in it."""

    squares: float = 0.0
    n: int = 0

    def add(self, squares: float, n: int) -> None:
        self.squares += squares
        self.n += n

    @property
    def p(self) -> float:
        return p_values.chi_square(self.squares, self.n)

    @property
    def ratio(self) -> float:
        """The deviation that was drawn over the one that was logged."""
        return math.sqrt(self.squares / self.n)


def variance(run: Run) -> NoiseTest | None:
    """Test the variance of the noise: of each silo, of all together, and of the whole sums.

    Over the run, and in each release: a single round without noise hardly shows in the sum of all.
    """
    over_run, single = _Families("sums", "silos"), _Families("releases", "residuals", "steps")
    for release, name, residual, stated in _standardised(run):
        if residual.squares is None:
            continue
        squares, n = residual.squares / stated, residual.squares_n
        where = f"round {release.intent.round}, line {release.number}"
        if residual is release.whole:
            over_run.add("sums", "whole sums", squares, n)
        else:
            over_run.add("sums", "all shares", squares, n)
            over_run.add("silos", name, squares, n)
            single.add("releases", f"all shares of {where}", squares, n)
        single.add("residuals", f"{name} of {where}", squares, n)
        if residual.of_sums is not None:
            # The least likely of all sums is the one with the least or the most, so two stand here.
            for which, size in (("least", residual.of_sums.least), ("most", residual.of_sums.most)):
                of_step = f"{name} of the sum with the {which} noise of {where}"
                single.add("steps", of_step, size / stated, residual.of_sums.n)
            single.tried("steps", residual.sums - 2)
    return _variance_test(
        "variance of the noise",
        "The noise that was drawn has another variance than the log says.",
        over_run,
        single if len(run.releases) > 1 or single.has("steps") else None,
        sum(total.n for name, total in over_run.of("sums").items() if name == "all shares"),
    )


def parts(run: Run) -> NoiseTest | None:
    """Test the variance of each kind of values by itself: of each silo, and of all together."""
    over_run, single = _Families("kinds", "shares"), _Families("kinds", "shares")
    for release in run.releases:
        stated = _stated_variance(release)
        where = f"round {release.intent.round}, line {release.number}"
        for part in release.parts:
            squares, share = part.squares / stated, f"{part.name}, {silo_name(part.silo)}"
            over_run.add("kinds", part.name, squares, part.n)
            over_run.add("shares", share, squares, part.n)
            single.add("kinds", f"{part.name} of {where}", squares, part.n)
            single.add("shares", f"{share} of {where}", squares, part.n)
    return _variance_test(
        "variance of parts of the noise",
        "The noise on one kind of values has another variance than the log says.",
        over_run,
        single if len(run.releases) > 1 else None,
        sum(total.n for total in over_run.of("kinds").values()),
    )


SINGLE_RELEASES_SHARE: Final = 0.25
"""The part of the level of a test of variances for those of single releases."""


class _Families:
    """Sums of squares by name, in families that share the level of a test equally."""

    def __init__(self, *families: str) -> None:
        self._squares: dict[str, dict[str, _Squares]] = {family: {} for family in families}
        self._besides = dict.fromkeys(families, 0)

    def add(self, family: str, name: str, squares: float, n: int) -> None:
        self._squares[family].setdefault(name, _Squares()).add(squares, n)

    def tried(self, family: str, more: int) -> None:
        """Count so many more sums of a family, of which none is less likely than those added."""
        self._besides[family] += more

    def has(self, family: str) -> bool:
        return bool(self._squares[family])

    def of(self, family: str) -> dict[str, _Squares]:
        return self._squares[family]

    def least_likely(self) -> tuple[float, str, _Squares] | None:
        """Return the p-value of all by Bonferroni, and the name and sum that it is of."""
        families = {name: sums for name, sums in self._squares.items() if sums}
        tested = [
            (len(families) * (len(sums) + self._besides[family]) * total.p, name, total)
            for family, sums in families.items()
            for name, total in sums.items()
        ]
        return min(tested, key=lambda test: test[0], default=None)


def _variance_test(
    what: str, proves: str, over_run: _Families, single: _Families | None, values: int
) -> NoiseTest | None:
    tested = over_run.least_likely()
    if tested is None:
        return None
    p, worst, least_likely = tested
    single_worst = None if single is None else single.least_likely()
    if single_worst is not None:
        p /= 1.0 - SINGLE_RELEASES_SHARE
        if single_worst[0] / SINGLE_RELEASES_SHARE < p:
            p, worst, least_likely = single_worst
            p /= SINGLE_RELEASES_SHARE
    ratio = least_likely.ratio
    return NoiseTest(
        what,
        min(1.0, p),
        proves,
        {"values": values, "worst": worst, "drawn over logged": ratio},
    )


def shape(run: Run) -> NoiseTest | None:
    """Test whether the noise is normal: of each silo over the run, and of the whole sums."""
    last: dict[tuple[str, str, str, int], tuple[float, int]] = {}
    for release, name, residual, _ in _standardised(run):
        if residual.squares is not None:
            arrived = len(release.arrived) if residual is release.whole else 1
            key = release.segment, release.intent.phase, name, arrived
            # Statistics accumulate over a segment of the run, so the last one holds all of it.
            grid = p_values.grid_distance(release.intent.noise.share_std, release.intent.noise.grid)
            last[key] = p_values.distance_bound(residual.ks, residual.ks_n, grid), residual.ks_n
    if not last:
        return None
    worst = min(last, key=lambda key: last[key])
    return NoiseTest(
        "shape of the noise",
        p_values.bonferroni([p for p, _ in last.values()]),
        "The noise that was drawn is not normal, as the log says.",
        {"values": sum(n for _, n in last.values()), "worst": worst[2]},
    )


def over_time(run: Run) -> NoiseTest | None:
    """Test whether noise was reused, whole or in part, in a later round or in another step."""
    shares = [share for release in run.releases for share in release.shares]
    near = {
        "rounds": [share.lag for share in shares],
        "steps": [share.within for share in shares],
    }
    far: dict[str, list[Angle | None]] = {}
    for share in shares:
        for ago, angle in enumerate(share.earlier or (), start=2):
            far.setdefault(f"rounds {ago} apart", []).append(angle)
    p_value_of: dict[str, float] = {}
    angles: list[Angle] = []
    groups = [
        {name: kept for name, series in group.items() if (kept := _with_direction(series))}
        for group in (near, far)
    ]
    groups = [group for group in groups if group]
    for group in groups:
        # Half of the level for what is near, half for what is farther off.
        tried = 2 * len(group) * len(groups)
        for name, usable in group.items():
            # Under the null a cosine has a known law whatever the other vector is.  Their sum
            # finds a weak correlation in every round, the least p-value a strong one in one round.
            values = [p_values.cosine_z(angle.cosine, angle.n) for angle in usable]
            p_value_of[f"{name}, all of them"] = tried * p_values.summed_z(values)
            p_value_of[f"{name}, one of them"] = tried * p_values.bonferroni(
                [p_values.cosine_p(a.cosine, a.n) for a in usable]
            )
            angles += usable
    if not p_value_of:
        return None
    worst = min(p_value_of, key=lambda name: p_value_of[name])
    return NoiseTest(
        "noise over time",
        min(1.0, p_value_of[worst]),
        "The noise of one round, or step, depends on that of another: it was not drawn afresh.",
        {
            "pairs": len(angles),
            "worst": worst,
            "largest correlation": max(abs(angle.cosine) for angle in angles),
        },
    )


def _with_direction(angles: list[Angle | None]) -> list[Angle]:
    return [angle for angle in angles if angle is not None and angle.n > 1]


def across_silos(run: Run) -> NoiseTest | None:
    """Test whether two silos had noise in common."""
    pairs = 0
    tried: list[tuple[float, Angle, str]] = []
    for release in run.releases:
        closest = release.alike
        if closest is not None and _has_direction(closest):
            pairs += len(release.shares) * (len(release.shares) - 1) // 2
            names = " and ".join(silo_name(silo) for silo in release.alike_silos)
            tried.append((p_values.cosine_p(closest.cosine, closest.n), closest, names))
    if not tried:
        return None
    p, worst, names = min(tried, key=lambda pair: pair[0])
    return NoiseTest(
        "noise across silos",
        min(1.0, pairs * p),
        "Two silos' noise has something in common: they did not draw independently.",
        {"pairs": pairs, "worst": names, "largest correlation": abs(worst.cosine)},
    )


def zeros(run: Run) -> NoiseTest | None:
    """Test whether values were released without noise."""
    by: dict[tuple[float, bool], tuple[int, int]] = {}
    for release, _, residual, stated in _standardised(run):
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
    return _certain(
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
    return _certain(
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
    return _certain(
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
    return _certain(
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
    return _certain(
        "draws and shares",
        bool(wrong),
        "The noise was not drawn in the shares, for the values or of the width that the log says.",
        {"rounds": len(run.releases), **({"first": wrong[0]} if wrong else {})},
    )


def _lacking(run: Run, release: Release) -> Iterator[str]:
    noise, logged = release.intent.noise, release.release
    parties = noise.shares if noise.shares > 1 else run.opened.population.silos
    silos_present = {share.silo for share in release.shares}
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


def _standardised(run: Run) -> Iterator[tuple[Release, str, ResidualStatistics, float]]:
    """Yield each residual with a name and the variance of its values, as the log states it."""
    for release in run.releases:
        stated = _stated_variance(release)
        for share in release.shares:
            yield release, silo_name(share.silo or 0), share, stated
        if release.whole is not None:
            yield release, "whole sums", release.whole, stated * len(release.arrived)


def _stated_variance(release: Release) -> float:
    """Return the variance of a share's values: the grid's draws have 64 steps^2 more than stated.

    Where values stand on several grids it is that of the coarsest, at most 4e-6 too much of it.
    Laplace noise is shown as normal numbers of deviation `share_std`.
    """
    noise = release.intent.noise
    if noise.family == "laplace":
        return noise.share_std**2
    return noise.share_std**2 + 64.0 * noise.grid**2


def _has_direction(angle: Angle | None) -> bool:
    return angle is not None and angle.n > 1


def _certain(
    what: str, wrong: bool, proves: str, sample: dict[str, float | int | str]
) -> NoiseTest:
    return NoiseTest(what, 0.0 if wrong else 1.0, proves, sample)
