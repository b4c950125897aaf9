"""How much work it is to account for an event, known before any engine is asked.

A file of a few kilobytes can name releases that take minutes and gigabytes.  The **unit** of work
is one different release of Gaussian noise under Poisson sampling, some 5 to 10 milliseconds.  Equal
releases are one, however often they are made.  What others take in this unit was measured and
rounded up; it is a limit on cost, and no number of a guarantee rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from . import events as ev
from .errors import Unsupported
from .event_tree import check_depth
from .grouping import CLASSES

MOST_WORK: Final = 2_000
"""Most units of an event in a stranger's file: some ten seconds and a gigabyte."""

_SCALED: Final = (ev.Gaussian, ev.Laplace, ev.ZCDP, ev.NoGuarantee)
"""Releases that a group sees as one record does, with less noise."""

_STEEP: Final = 0.06
"""Noise below that has losses of hundreds, and sampled ones are computed on longer grids."""

_OUTCOMES_A_UNIT: Final = 10_000.0
"""Integers that are listed in a unit of work: two million take a second and 90 MB."""

_REACH: Final = 37.0
"""Deviations of discrete Gaussian noise that are listed on each side."""

MOST_LISTED: Final = 4_000_000
"""Integers that no engine lists more of (`engines/pld/pairs/registry.py`)."""

_LARGEST_SIZE: Final = 10**12
"""Sizes beyond that count as that: grids have a limit of their own."""


def work_of(event: ev.Event) -> int:
    """Return the work of an event in units, 0 for an empty one; raise `InvalidInput` if too deep.

    >>> from . import events as ev
    >>> work_of(ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))))
    1
    >>> work_of(ev.Compose([ev.Poisson(0.01, ev.Gaussian(1.0 + i)) for i in range(100)]))
    100
    """
    check_depth(event)
    releases = _releases(event)
    # Atoms of different losses add up to ever more of them.
    different = sum(isinstance(leaf, ev.Laplace) for _, leaf in releases)
    work = sum(_work_of_release(size, leaf) for size, leaf in releases)
    # Grids are as long as all losses together, and each release is convolved on them.
    steep = sum(_steepness(leaf) for _, leaf in releases)
    return math.ceil(work + 0.4 * max(0, different - 1) ** 2 + 0.03 * steep**2)


def require_little_work(event: ev.Event, *, most: int = MOST_WORK) -> None:
    """Raise `Unsupported` for an event of more than `most` units of work.

    It is called where a file comes in that somebody else may have written, with less than
    `MOST_WORK` where that is accounted for often; `account` itself has no such limit.
    """
    work = work_of(event)
    if work <= most:
        return
    raise Unsupported(
        f"The event has {len(_releases(event)):,} different releases, {work:,} units of work; the "
        f"limit for a file is {most:,}.",
        "A unit is one different release of Gaussian noise under Poisson sampling; groups, capped "
        "samples, shuffles and passes count as many of them.",
        "Write nearly equal releases as one `repeat`, with the least noise and the highest rate of "
        "them for an upper bound; or call privplan.account(event) in Python, which has no limit.",
    )


def _releases(event: ev.Event) -> frozenset[tuple[int, ev.Event]]:
    """Return the different releases of an event, each with the size of the group that sees it."""
    distinct: set[tuple[int, ev.Event]] = set()
    seen: set[tuple[int, int]] = set()
    waiting = [(1, event)]
    while waiting:
        size, each = waiting.pop()
        if (size, id(each)) in seen:
            continue
        seen.add((size, id(each)))
        match each:
            case ev.Compose(parts):
                waiting += [(size, part) for part in parts]
            case ev.Repeat(_, inner):
                waiting.append((size, inner))
            case ev.Group(records, inner):
                waiting.append((min(size * records, _LARGEST_SIZE), inner))
            case _:
                distinct.add((size, each))
    return frozenset(distinct)


def _steepness(release: ev.Event) -> float:
    """Return how long the losses of a sampled release are, for noise that is too little to hide."""
    if not isinstance(release, (ev.Poisson, ev.FixedSize)):
        return 0.0
    inside = (leaf for _, leaf in _releases(release.event) if isinstance(leaf, ev.Gaussian))
    least = min((leaf.noise_multiplier for leaf in inside), default=math.inf)
    return min((_STEEP / max(least, _STEEP / 6.0)) ** 2, 36.0) if least < _STEEP else 0.0


def _work_of_release(size: int, release: ev.Event) -> float:
    """Return the work of one release, as a group of `size` records sees it."""
    work = _WORK.get(type(release), _of_mechanism)(release)
    work += _outcomes(size, release) / _OUTCOMES_A_UNIT
    if size == 1 or isinstance(release, _SCALED):
        return work
    if isinstance(release, CLASSES):
        return work + math.sqrt(size) / 20.0
    # The number of records in a sample is binomial, and each number has a term.
    return work + 20.0 + 2.5 * math.sqrt(size)


def _outcomes(size: int, release: ev.Event) -> float:
    """Return how many integers an engine lists for noise on them that a group moves; else 0."""
    match release:
        case ev.TruncatedDiscreteGaussian(_, sensitivity, bound):
            listed = 2.0 * (bound + size * sensitivity)
        case ev.DiscreteGaussian(noise, sensitivity):
            listed = 2.0 * (_REACH * noise * sensitivity + size * sensitivity)
        case ev.DiscreteLaplace(_, sensitivity):
            listed = 2.0 * size * sensitivity
        case _:
            return 0.0
    return listed if listed <= MOST_LISTED else 0.0  # which is refused, or bounded by its rho


def _inside(release: ev.Event) -> float:
    """Return the work of what a sampler is around."""
    inner: ev.Event = release.event  # type: ignore[attr-defined]
    return sum(_work_of_release(size, leaf) for size, leaf in _releases(inner))


def _of_mechanism(release: ev.Event) -> float:
    return _MECHANISMS.get(type(release), 1.0)


def _mixture(release: ev.Event) -> float:
    return 8.0 + len(release.contributions) / 4.0  # type: ignore[attr-defined]


def _matrix(release: ev.Event) -> float:
    assert isinstance(release, ev.MatrixGaussian)
    bins = release.participation
    return 60.0 + math.sqrt(bins.bins) * 4.0 if isinstance(bins, ev.BallsInBins) else 2.0


def _truncated(release: ev.Event) -> float:
    """Return the work of capped samples: cells for the others in a sample, by its deviation."""
    assert isinstance(release, ev.TruncatedPoisson)
    population = min(release.population, _LARGEST_SIZE)
    deviation = math.sqrt(population * release.rate * (1.0 - release.rate))
    return 10.0 + min(3.0 * deviation, 300.0) + _inside(release)


def _shuffle(release: ev.Event) -> float:
    users: int = release.users  # type: ignore[attr-defined]
    return 100.0 + min(math.sqrt(users) / 2.0, 1_000.0)


def _passes(release: ev.Event) -> float:
    assert isinstance(release, ev.ShuffledBatches)
    return 15.0 + min(1.4 * math.sqrt(release.batches), 400.0) + _inside(release)


def _sampler(own: float, times: float = 1.0) -> Callable[[ev.Event], float]:
    return lambda release: own + times * _inside(release)


_MECHANISMS: Final[dict[type[ev.Event], float]] = {
    ev.Laplace: 2.0,
    ev.DiscreteGaussian: 5.0,
    ev.DiscreteLaplace: 8.0,
    ev.TruncatedDiscreteGaussian: 15.0,
    ev.TruncatedGeometricSelection: 15.0,
    ev.ThresholdSelection: 15.0,
}
"""Work of a mechanism; 1 where it is not listed."""

_WORK: Final[dict[type[ev.Event], Callable[[ev.Event], float]]] = {
    ev.GaussianMixture: _mixture,
    ev.MatrixGaussian: _matrix,
    ev.Poisson: _sampler(0.0),
    ev.TruncatedPoisson: _truncated,
    ev.FixedSize: _sampler(1.0),
    ev.WithReplacement: _sampler(80.0),
    ev.ClientSampled: _sampler(70.0, 2.0),
    ev.RandomAllocation: _sampler(60.0),
    ev.BestOf: _sampler(60.0, 2.0),
    ev.ShuffledBatches: _passes,
    ev.Shuffle: _shuffle,
    ev.SampledShuffle: _shuffle,
}
"""Work of what is no plain mechanism."""
