"""Tests of the sealed statistics: is the noise that was drawn the noise that was logged?

Each has the null hypothesis that it is.  With a p-value, so that a sound run may be rejected:

variance   the sum of squares of each share, of all shares, and of the whole sums: over the run, in
           each release by itself, and in each of the sums of a release
parts      the sum of squares of each kind of values, where they have kinds: of each share, of all,
           over the run and in each release
shape      the distribution of each silo's noise over the run, and of the whole sums
over time  correlation of noise with that of the rounds before, or of another step of the round
silos      correlation of the noise of two silos

What is certain, or nearly so, is tested in `exact_tests`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ...fl.parties.network import silo_name
from . import p_values
from .sealed_statistics import Angle, Release, ResidualStatistics, Run


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
    for release, name, residual, stated in standardised(run):
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
    for release, name, residual, _ in standardised(run):
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


def standardised(run: Run) -> Iterator[tuple[Release, str, ResidualStatistics, float]]:
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


def certain(what: str, wrong: bool, proves: str, sample: dict[str, float | int | str]) -> NoiseTest:
    """Return a test whose outcome is no matter of chance."""
    return NoiseTest(what, 0.0 if wrong else 1.0, proves, sample)
