"""The questions that statistics of noise answer, each with the p-value of its answer.

By chance, so that a sound run is accused now and then:

variance   the sum of squares of each share, of all shares, and of the whole sums
shape      the distribution of each silo's noise over the run, and of the whole sums
over time  whether noise looks like that of the round before, or of another step of the round
silos      whether the noise of two silos looks alike
zeros      values that have no noise at all

Not by chance, or hardly: equal noise, terms beyond their norm, sums that are not those of the
clipped and weighted terms, weights that sum to too much, and shares that were not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...fl.parties.network import silo_name
from . import p_values
from .sealed_statistics import Angle, Release, ResidualStatistics, Run

NORM_ROUNDING_RELATIVE = 1e-9
"""By how much a norm that was computed in floats may be above its bound."""


@dataclass(frozen=True)
class NoiseTest:
    """What was asked, the p-value, what it proves if it is small, and what it was made of."""

    what: str
    p: float
    proves: str
    sample: dict[str, float | int | str] = field(default_factory=dict)


@dataclass
class _Squares:
    """Sums of squares over their variance, and of how many values."""

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
    """Ask whether the noise was as wide as the log says: in each silo, in all, and in the sums."""
    shares, sums = _Squares(), _Squares()
    silos: dict[str, _Squares] = {}
    for release, name, one, square in _standardised(run):
        if one.squares is None:
            continue
        squares = one.squares / square
        if one is release.whole:
            sums.add(squares, one.squares_n)
        else:
            shares.add(squares, one.squares_n)
            silos.setdefault(name, _Squares()).add(squares, one.squares_n)
    wide = {name: one for name, one in (("all shares", shares), ("whole sums", sums)) if one.n}
    if not wide:
        return None
    # Half of the room for the sums over all, half for the silos, however many these are.
    tested = [(2.0 * len(wide) * one.p, name, one) for name, one in wide.items()]
    tested += [(2.0 * len(silos) * one.p, name, one) for name, one in silos.items()]
    p, worst, found = min(tested, key=lambda one: one[0])
    return NoiseTest(
        "variance of the noise",
        min(1.0, p),
        "The noise that was drawn has another variance than the log says.",
        {"values": shares.n, "worst": worst, "drawn over logged": found.ratio},
    )


def shape(run: Run) -> NoiseTest | None:
    """Ask whether the noise is normal: of each silo over the run, and of the whole sums."""
    last: dict[tuple[str, str, str, int], tuple[float, int]] = {}
    for release, name, one, _ in _standardised(run):
        if one.squares is not None:
            arrived = len(release.arrived) if one is release.whole else 1
            key = release.segment, release.intent.phase, name, arrived
            last[key] = p_values.distance_bound(one.ks, one.ks_n), one.ks_n
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
    """Ask whether noise was used again, whole or in part, in the next round or in another step."""
    shares = [one for release in run.releases for one in release.shares]
    series = {
        "rounds": [one.lag for one in shares if _has_direction(one.lag)],
        "steps": [one.within for one in shares if _has_direction(one.within)],
    }
    found: dict[str, float] = {}
    largest = 0.0
    for name, angles in series.items():
        own = [angle for angle in angles if angle is not None]
        if own:
            values = [p_values.cosine_z(one.cosine, one.n) for one in own]
            found[f"{name}, all of them"] = p_values.summed_z(values)
            found[f"{name}, one of them"] = p_values.bonferroni(
                [p_values.cosine_p(a.cosine, a.n) for a in own]
            )
            largest = max(largest, *(abs(one.cosine) for one in own))
    if not found:
        return None
    return NoiseTest(
        "noise over time",
        p_values.bonferroni(list(found.values())),
        "The noise of one round, or step, depends on that of another: it was not drawn afresh.",
        {
            "pairs": sum(map(len, series.values())),
            "worst": min(found, key=lambda name: found[name]),
            "largest correlation": largest,
        },
    )


def across_silos(run: Run) -> NoiseTest | None:
    """Ask whether two silos had noise in common."""
    pairs = 0
    tried: list[tuple[float, Angle, str]] = []
    for release in run.releases:
        one = release.alike
        if one is not None and _has_direction(one):
            pairs += len(release.shares) * (len(release.shares) - 1) // 2
            names = " and ".join(silo_name(silo) for silo in release.alike_silos)
            tried.append((p_values.cosine_p(one.cosine, one.n), one, names))
    if not tried:
        return None
    p, worst, names = min(tried, key=lambda one: one[0])
    return NoiseTest(
        "noise across silos",
        min(1.0, pairs * p),
        "Two silos' noise has something in common: they did not draw independently.",
        {"pairs": pairs, "worst": names, "largest correlation": abs(worst.cosine)},
    )


def zeros(run: Run) -> NoiseTest | None:
    """Ask whether values were released without noise."""
    by: dict[tuple[float, bool], tuple[int, int]] = {}
    for release, _, one, square in _standardised(run):
        if one.squares is not None:
            chance = p_values.zero_probability(math.sqrt(square), release.intent.noise.grid)
            key = chance, one is release.whole  # a sum of one silo's noise is that noise again
            count, values = by.get(key, (0, 0))
            by[key] = count + one.zeros, values + one.values
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
    """Ask whether the same noise was added twice, anywhere in a run."""
    seen: dict[tuple[str, str], int] = {}
    number, again, fewest, chance = 0, 0, 0, 0.0
    for release in run.releases:
        noise = release.intent.noise
        chance = max(chance, p_values.zero_probability(noise.share_std, noise.grid))
        for one in release.shares:
            key = release.segment, one.fingerprint
            again += one.equal_sums + (key in seen)
            seen[key] = 1
            number += one.sums
            width = max(1, one.n // one.sums)
            fewest = min(fewest, width) if fewest else width
    pairs = number * (number - 1) / 2.0
    bound = p_values.collision_bound(pairs, max(1, fewest), chance)
    return NoiseTest(
        "equal noise",
        bound if again else 1.0,
        "The same noise was added to two sums, so it can be taken off their difference.",
        {"residuals": number, "equal to another": again},
    )


def norms(run: Run) -> NoiseTest:
    """Ask whether the largest term of a round was within its bound."""
    largest = max(release.limits.term_largest for release in run.releases)
    return _certain(
        "norms after clipping",
        largest > 1.0 + NORM_ROUNDING_RELATIVE,
        "A term was larger than the bound that the noise is made for.",
        {"rounds": len(run.releases), "largest over bound": largest},
    )


def sums(run: Run) -> NoiseTest | None:
    """Ask whether the noise stands on the sums of the clipped and weighted terms."""
    found = [one.limits.sum_off for one in run.releases if one.limits.sum_off is not None]
    if not found:
        return None
    return _certain(
        "sums made again",
        max(found) > 1.0,
        "What noise was added to is not the sum of the clipped and weighted terms.",
        {"rounds": len(found), "off over rounding": max(found)},
    )


def weights(run: Run) -> NoiseTest | None:
    """Ask whether the weights of one user summed to no more than the log says."""
    found = [
        one.limits.weight_largest / one.intent.weights.largest_sum
        for one in run.releases
        if one.limits.weight_largest is not None
    ]
    if not found:
        return None
    return _certain(
        "weights of a unit",
        max(found) > 1.0 + NORM_ROUNDING_RELATIVE,
        "The weights of a user sum to more than the log says, so it moves the sum by more.",
        {"rounds": len(found), "largest over stated": max(found)},
    )


def drawn(run: Run) -> NoiseTest:
    """Ask whether every share of noise that the log speaks of was drawn, and arrived."""
    wrong = [f"line {one.number}: {why}" for one in run.releases for why in _lacking(run, one)]
    return _certain(
        "draws and shares",
        bool(wrong),
        "The noise was not drawn in the shares, for the values or of the width that the log says.",
        {"rounds": len(run.releases), **({"first": wrong[0]} if wrong else {})},
    )


def _lacking(run: Run, one: Release) -> Iterator[str]:
    noise, release = one.intent.noise, one.release
    parties = noise.shares if noise.shares > 1 else run.opened.population.silos
    there = {share.silo for share in one.shares}
    if len(there) != len(one.shares) or len(there) > parties:
        yield f"{len(one.shares)} shares of {parties} silos"
    if len(there) < parties - noise.tolerated_dropouts:
        yield f"{len(there)} of {parties} silos drew noise"
    if one.whole is not None and not set(one.arrived) <= there:
        yield "a share arrived that was not drawn"
    if one.whole is not None and len(set(one.arrived)) != release.shares:
        yield f"{len(set(one.arrived))} shares arrived, not {release.shares}"
    residuals = [*one.shares, *([one.whole] if one.whole is not None else [])]
    if any(share.values != release.values * share.sums for share in residuals):
        yield f"noise was not drawn for {release.values:,} values"
    if any(not 1 <= share.sums <= noise.draws for share in one.shares):
        yield f"noise was not drawn for up to {noise.draws:,} sums"
    if one.std != noise.share_std:
        yield "noise of another width was expected"


def _standardised(run: Run) -> Iterator[tuple[Release, str, ResidualStatistics, float]]:
    """Yield each residual with a name and the variance of its values, as the log states it."""
    for release in run.releases:
        noise = release.intent.noise
        square = noise.share_std**2 + 64.0 * noise.grid**2
        for share in release.shares:
            yield release, silo_name(share.silo or 0), share, square
        if release.whole is not None:
            yield release, "whole sums", release.whole, square * len(release.arrived)


def _has_direction(angle: Angle | None) -> bool:
    return angle is not None and angle.n > 1


def _certain(
    what: str, wrong: bool, proves: str, sample: dict[str, float | int | str]
) -> NoiseTest:
    return NoiseTest(what, 0.0 if wrong else 1.0, proves, sample)
