"""How many steps were made at which rate, where a description counts epochs.

A loader of b of n records makes n/b batches an epoch, or that rounded down or up; its accountant is
told b/n, or one over its batches.  These are facts of one loader, so rate and steps are pinned
together, and epochs times the batches of one may be rounded down or up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from ...description.schedule_facts import WHOLE_TOLERANCE
from ..noise_draws import LackingFacts
from ..pinned_run import PinnedRun
from .completion import Alternative, Choice, End
from .designs import passes_are_unsaid

PIECES: Final = 7
"""Pieces into which the digits of a rate are cut, each half as wide as the one before."""


@dataclass(frozen=True)
class Loader:
    """The rate of one draw, and how many draws a loader makes of one epoch.

    One that `stands_for_others` takes its rate and its draws from two ends of printed digits.
    """

    rate: float
    draws: Fraction
    stands_for_others: bool = False


def schedule(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin the rate and the steps that follow from epochs; nothing where steps are counted.

    Passes of a shuffled loader are counted by the sampler itself, which holds for every loader.
    More steps show no less, and neither does a higher rate, so of the pairs of rate and steps only
    those remain at an end that no other exceeds.
    """
    settings, epochs = run.settings, run.settings.epochs
    if run.steps_are_counted or "schedule.epochs" not in run.stated or epochs is None:
        yield run, None
        return
    of_clients = settings.steps is None and settings.clients_rate not in (None, 1.0)
    if of_clients or passes_are_unsaid(run):
        yield run, None
        return
    half = run.half_unit("schedule.epochs")
    passes = max(Fraction(0), Fraction(repr(epochs)) + Fraction(half if end == "most" else -half))
    if settings.method == "shuffled":
        yield _in_passes(run, passes), None
        return
    loaders = tuple(_loaders(run, end))
    if not loaders:
        yield run, None
        return
    # Nothing is open where every loader makes the same whole number of steps.
    exact = len({each.rate for each in loaders}) == 1 and all(
        half == 0.0 and (each.draws * passes).denominator == 1 for each in loaders
    )
    pairs = {(each.rate, _steps(each.draws * passes, end)) for each in loaders}
    pinned = exact and len(pairs) == 1
    for rate, steps in _extreme(pairs, end):
        says = f"{epochs:g} epochs are {steps:,} steps at rate {rate:.6g}"
        # With batch, records and steps the rate is that of the batch.
        cells = any(each.stands_for_others for each in loaders)
        settles = f"schedule.steps={steps}" if rate == settings.rate and not cells else ""
        choice = Choice("schedule.steps", says, settles)
        counted = replace(run, settings=replace(settings, rate=rate, steps=steps))
        yield counted, None if pinned else choice


def _steps(steps: Fraction, end: End) -> int:
    return max(1, math.ceil(steps) if end == "most" else math.floor(steps))


def _in_passes(run: PinnedRun, passes: Fraction) -> PinnedRun:
    """Return a run of a shuffled loader with its epochs at one end of their digits."""
    settings, steps = run.settings, run.settings.steps
    if settings.epochs is None or passes <= 0:
        return run
    if steps is None and settings.rate:  # which only the pinned design has
        steps = math.ceil(passes / Fraction(settings.rate))
    elif steps is not None:
        steps = max(1, math.ceil(steps * passes / Fraction(repr(settings.epochs))))
    return replace(run, settings=replace(settings, epochs=float(passes), steps=steps))


def _extreme(pairs: set[tuple[float, int]], end: End) -> list[tuple[float, int]]:
    """Return the pairs of rate and steps that no other exceeds in both, or falls below.

    >>> _extreme({(0.5, 20), (0.6, 10), (0.6, 20), (1.0, 10)}, "most")
    [(1.0, 10), (0.6, 20)]
    """
    kept: list[tuple[float, int]] = []
    sign = 1 if end == "most" else -1
    for rate, steps in sorted(pairs, key=lambda pair: (-sign * pair[0], -sign * pair[1])):
        if not any(sign * other >= sign * steps for _, other in kept):
            kept.append((rate, steps))
    return kept


def _loaders(run: PinnedRun, end: End) -> Iterator[Loader]:
    """Yield the loaders that the facts of a run allow."""
    settings = run.settings
    if settings.method == "full":
        yield from _of_full_batches(run)
        return
    size = settings.records_per_epoch or run.population
    if settings.batch is None or size is None:
        yield from _of_rate(run, end)
        return
    if settings.rate is None:
        return
    # The last batch of an epoch may be kept, dropped, or carried over into the next.
    batches = Fraction(size, settings.batch)
    fewest, most = max(1, math.floor(batches)), math.ceil(batches)
    # A draw takes one batch, or as many as are accumulated.
    together = 1
    if settings.accumulation > 1 and {"sampling.rate", "sampling.batch"} <= run.stated:
        drawn = settings.rate * run.own_draws * (run.population or size)
        together = max(1, round(drawn / settings.batch))
    elif settings.accumulation > 1:
        together = round(run.rate_factor * run.own_draws)
    exact = batches / together
    yield Loader(settings.rate, exact)
    yield Loader(settings.rate, Fraction(max(1, fewest // together)))
    yield Loader(settings.rate, Fraction(-(-most // together)))
    told = "sampling.rate" in run.stated or settings.records_per_epoch is not None
    if settings.method == "poisson" and not told:
        # A program computes one over the batches of its loader, and times it as the rate was; a
        # rate that was printed is none that is printed otherwise.
        half = run.half_unit("sampling.rate")
        for count, draws in ((most, -(-most // together)), (fewest, max(1, fewest // together))):
            rate = min(1.0, settings.rate * float(batches) / count)
            if half == 0.0 or abs(rate - settings.rate) <= 2.0 * half:
                yield Loader(rate, Fraction(draws))


def _of_full_batches(run: PinnedRun) -> Iterator[Loader]:
    """Yield the ways to count epochs of steps over all records: one a step, or by its records."""
    yield Loader(1.0, Fraction(1))
    share = _share_of_epoch(run)
    if share != 1:
        for draws in (share, Fraction(max(1, math.floor(share))), Fraction(math.ceil(share))):
            yield Loader(1.0, draws)


def _share_of_epoch(run: PinnedRun) -> Fraction:
    """Return the records of an epoch over all records; 1 where an epoch goes over all.

    Raises `LackingFacts` where an epoch has a stated size and the data has none.
    """
    of_epoch = run.settings.records_per_epoch
    if of_epoch is None:
        return Fraction(1)
    if run.population is None:
        raise LackingFacts("data.records")
    return Fraction(of_epoch, run.population)


def _of_rate(run: PinnedRun, end: End) -> Iterator[Loader]:
    """Yield loaders of a rate without a batch; of one that was rounded, in pieces of its digits.

    At fixed epochs a higher rate makes fewer steps, so neither end of the digits is known to be the
    worst.  Each piece takes the rate of its one end with the steps of the other.  Of an epoch with
    a size of its own, the rate is the batch's share of all records, or of those of an epoch.
    """
    rate, half = run.settings.rate, run.half_unit("sampling.rate")
    if rate is None:
        return
    share = float(_share_of_epoch(run))
    if share != 1.0:
        low, high = max(rate - half, 0.5 * rate), rate + half
        edge, other = (high, low) if end == "most" else (low, high)
        others = half != 0.0
        yield from _counted(min(1.0, edge), other / share * run.own_draws, others=others)
        yield from _counted(min(1.0, edge * share), other * run.own_draws, others=others)
        return
    if half == 0.0:
        yield from _counted(rate, rate * run.own_draws)
        return
    low, high = max(rate - half, 0.5 * rate), min(1.0, rate + half)
    # The narrow pieces lie at the end that counts.
    far, near = (low, high) if end == "most" else (high, low)
    cuts = [far + (near - far) * (1.0 - 0.5**piece) for piece in range(PIECES)]
    for edge, other in zip([*cuts[1:], near], cuts, strict=True):
        yield from _counted(edge, other * run.own_draws, others=True)


def _counted(rate: float, counted_at: float, *, others: bool = False) -> Iterator[Loader]:
    """Yield the loaders whose samples have a rate, and whose draws are one over another."""
    batches = 1.0 / counted_at
    near = round(batches)
    if abs(batches - near) <= WHOLE_TOLERANCE * batches:
        yield Loader(rate, Fraction(near), others)
        return
    for draws in (Fraction(batches), max(1, math.floor(batches)), math.ceil(batches)):
        yield Loader(rate, Fraction(draws), others)
