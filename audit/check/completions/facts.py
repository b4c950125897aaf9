"""Subjects that are one fact each: starts, renewals, releases, delta, norms, weighted draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Final

from ....accountant.errors import Unsupported, counted, enumerated
from ...description.key import RELEASE_FAMILIES
from ..checked_run import CheckedRun
from ..kept_records import ROUNDING
from ..pinned_run import PinnedRun
from ..release_readings import followed_release
from .completion import Alternative, Choice, End, in_option
from .passes import steps_agree

NOT_GAUSSIAN: Final = ("laplace", "pure")
"""Families of noise with which nobody knows the noise of a further release."""

MOST_OPEN_NOISES: Final = 6
"""How many releases may leave their noise open: each doubles the runs."""

NORMS: Final = ("l1", "l2", "linf")
"""Clipped norms, from the least to the most that Laplace noise must hide."""


def starts(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin whether the described steps are those of each start, or of all together.

    More releases show no less.
    """
    restarts = run.settings.restarts
    if restarts == 1:
        yield run, None
        return
    several = (1, run.settings.accumulation)
    alike = any(steps_agree(run, each) for each in several)
    of_each = any(steps_agree(run, each, Fraction(restarts)) for each in several)
    of_all = any(steps_agree(run, each, Fraction(1, restarts)) for each in several)
    of_every_start = f"the described steps are those of all {restarts:,} starts"
    # Epochs of each start tell nothing of the rate, once all steps are counted together.
    together = replace(run.settings, restarts=1)
    together = replace(together, epochs=None) if of_all or of_each else together
    if of_all and not alike and not of_each and run.settings.method != "shuffled":
        # The steps are those of all starts, and the epochs those of each.
        yield replace(run, settings=together), None
        return
    if end == "most":
        says, settles = f"each of {restarts:,} starts made the described steps", ""
        alone = not run.settings.releases and run.settings.renews_every_days is None
        # Each start of a shuffled loader begins a pass, which steps in one go do not.
        alone &= run.settings.method != "shuffled"
        alone &= "schedule.epochs" not in run.stated  # which are those of the described steps
        if alone and run.settings.steps is not None and "schedule.steps" in run.stated:
            steps = run.settings.steps * restarts
            settles = f"schedule.steps={steps} schedule.restarts=1"
        yield run, Choice("schedule.restarts", says, settles)
        if of_all and run.settings.accumulation > 1 and run.settings.method != "shuffled":
            # Fewer steps of more batches each are not less for certain.
            yield replace(run, settings=together), Choice("schedule.restarts", of_every_start)
        return
    says = of_every_start
    if of_each and not alike and not of_all:
        # The epochs are those of all starts, and the steps those of each.
        yield _with_releases_once(run), None
        return
    if run.settings.method == "shuffled":
        yield _of_one_start(run), Choice("schedule.restarts", says)
        return
    once = replace(run, settings=together)
    yield once, Choice("schedule.restarts", says, "schedule.restarts=1")


def _with_releases_once(run: PinnedRun) -> PinnedRun:
    """Return all steps of all starts, with what is released besides as often as it is stated.

    Nobody says whether each start released it.
    """
    settings = run.settings
    if not settings.releases:
        return run
    if settings.steps is None or settings.method == "shuffled":
        return replace(run, settings=replace(settings, releases=()), stands_for="least")
    every = replace(settings, restarts=1, steps=settings.steps * settings.restarts, epochs=None)
    return replace(run, settings=every)


def renewals(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin how often a budget that renews is spent over a horizon that is not whole periods.

    More releases show no less.
    """
    settings, count = run.settings, periods(run, upper=end == "most")
    if periods(run, upper=True) == periods(run, upper=False):
        yield run, None
        return
    days = count * (settings.renews_every_days or 0.0)
    says = f"the budget is spent {counted(count, 'time')} over the horizon"
    choice = Choice("schedule.horizon_days", says, f"schedule.horizon_days={days!r}")
    yield replace(run, settings=replace(settings, horizon_days=days)), choice


def periods(run: CheckedRun, *, upper: bool) -> int:
    """Return how often a budget that renews is spent over the horizon; 1 where none is stated."""
    settings = run.settings
    if not settings.horizon_days or not settings.renews_every_days:
        return 1
    ratio = settings.horizon_days / settings.renews_every_days
    whole = math.ceil(ratio * (1.0 - ROUNDING)) if upper else math.floor(ratio * (1.0 + ROUNDING))
    return max(1, whole)


def _of_one_start(run: PinnedRun) -> PinnedRun:
    """Return the start that made most of the described steps: an even share of them at least."""
    settings, restarts = run.settings, run.settings.restarts
    share = replace(
        settings,
        restarts=1,
        steps=None if settings.steps is None else -(-settings.steps // restarts),
        epochs=None if settings.epochs is None else settings.epochs / restarts,
        phases=(),
    )
    if settings.phases:
        # Nothing says how phases are dealt to starts, so that one step of the first is certain.
        share = replace(share, phases=(replace(settings.phases[0], steps=1),))
    return replace(run, settings=share, stands_for="least")


def releases(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin whether a release moves where a unit is replaced, or set to zero.

    The number of records does not move there; a sum over them does.  Under add-remove a release
    moves.  One more release shows no less.
    """
    settings = run.settings
    names = [each.what for each in settings.releases if each.moves is None]
    still = any(each.moves is False for each in settings.releases)
    if settings.neighbours == "add-remove" or not (names or still):
        yield run, None
        return
    kept = tuple(
        each for each in settings.releases if each.moves or (each.moves is None and end == "most")
    )
    moves = "moves" if end == "most" else "does not move"
    says = f"{settings.neighbours} {moves} {', '.join(names)}"
    choice = Choice("releases", says) if names else None
    yield replace(run, settings=replace(settings, releases=kept)), choice


def release_noise(run: PinnedRun, _end: End) -> Iterator[Alternative]:
    """Pin the noise of each release with the sums of a run whose own noise is not Gaussian.

    Neither of Gaussian and Laplace noise of one multiplier shows less than the other.
    """
    settings = run.settings
    open_to = [each for each in settings.releases if each.family is None and each.noise_multiplier]
    if settings.family not in NOT_GAUSSIAN or not open_to:
        yield run, None
        return
    if len(open_to) > MOST_OPEN_NOISES:
        raise Unsupported(
            f"The noise of {len(open_to)} releases is Gaussian or Laplace, and at most "
            f"{MOST_OPEN_NOISES} are left open.",
            next_step="Give each of `releases` its `family`.",
        )
    for families in product(RELEASE_FAMILIES, repeat=len(open_to)):
        family_of = dict(zip(map(id, open_to), families, strict=True))
        pinned = tuple(
            replace(each, family=family_of.get(id(each), each.family)) for each in settings.releases
        )
        of_each = (
            f"{each.what} has {family}" for each, family in zip(open_to, families, strict=True)
        )
        says = f"{', '.join(of_each)} noise"
        yield replace(run, settings=replace(settings, releases=pinned)), Choice("releases", says)


def taken_from(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin whether releases that come several times are of the batch of a step, or of all data.

    Of several, some may be of either: that run holds at its end, and lists nothing.
    """
    settings = run.settings
    followed = followed_release(settings.releases) if run.clip_source == "adaptive" else None
    unsure = [
        index
        for index, each in enumerate(settings.releases)
        if each.of_batch is None and each.count > 1 and each is not followed
    ]
    if not unsure or run.event is not None:
        yield run, None
        return
    names = enumerated([settings.releases[index].what for index in unsure], "and")
    are = "is" if len(unsure) == 1 else "are"
    for of_batch, source in ((True, "the batch of each step"), (False, "all data")):
        pinned = tuple(
            replace(each, of_batch=of_batch) if index in unsure else each
            for index, each in enumerate(settings.releases)
        )
        choice = Choice("releases", f"{names} {are} of {source}")
        yield replace(run, settings=replace(settings, releases=pinned)), choice
    if len(unsure) > 1:
        either = Choice("releases", f"some of {names} are of the batch, and others of all data")
        yield replace(run, stands_for=end), either


def replies(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin how many replied: the least of all rounds did in one of them, and more in the others.

    More replies bring more shares of noise, so one round is all that is certain.
    """
    settings = run.settings
    several = bool(settings.phases) or settings.steps is None or settings.steps > 1
    if run.replies is None or run.expected_replies is None or not several:
        yield run, None
        return
    if end == "most":
        yield run, Choice("aggregation.replies", "as few replied in every round")
        return
    phases = settings.phases
    if phases:
        # It may be a round of any phase.
        noise = max(phase.noise_multiplier for phase in phases)
        rate = min(phase.rate for phase in phases)
        phases = (replace(phases[0], noise_multiplier=noise, rate=rate, steps=1),)
    once = replace(
        settings,
        steps=None if settings.steps is None else 1,
        epochs=None,
        phases=phases,
        restarts=1,
        releases=(),
    )
    choice = Choice("aggregation.replies", "more replied in all rounds but one")
    yield replace(run, settings=once, stands_for="least"), choice


def delta(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin delta within its printed digits: at a smaller one epsilon is no smaller."""
    half, value = run.half_unit("claim.delta"), run.settings.delta
    if run.delta_rule == "1/batches" and "claim.delta" not in run.stated:
        yield from _of_batches(run, end)
        return
    if not half or value is None or run.currency != "epsilon":
        yield run, None
        return
    pinned = max(value - half, 0.0) if end == "most" else min(value + half, 1.0)
    choice = Choice(
        "claim.delta",
        f"the printed delta {value:g} is {pinned:.6g}",
        f"claim.delta={in_option(pinned)}",
    )
    yield replace(run, settings=replace(run.settings, delta=pinned)), choice


def _of_batches(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin a delta of one over the batches of a loader, which may keep the last one or drop it."""
    counts = _batches_of_epochs(run)
    if not counts or run.currency != "epsilon":
        yield run, None
        return
    fewest, most = min(counts), max(counts)
    if fewest == most:
        yield run, None
        return
    pinned = 1.0 / (most if end == "most" else fewest)
    says = f"delta is one over {most if end == 'most' else fewest:,} batches"
    choice = Choice("claim.delta", says, f"claim.delta={in_option(pinned)}")
    yield replace(run, settings=replace(run.settings, delta=pinned)), choice


def _batches_of_epochs(run: PinnedRun) -> tuple[int, ...]:
    """Return how many batches an epoch may have, with the last one kept or dropped."""
    settings, half = run.settings, run.half_unit("sampling.rate")
    sizes = {run.population, settings.records_per_epoch} - {None}
    if settings.method == "full":
        quotients = [1.0]
    elif settings.batch is not None:
        quotients = [size / settings.batch for size in sizes if size is not None]
    elif settings.rate is None:
        return ()
    else:
        quotients = [1.0 / (settings.rate + half), 1.0 / max(settings.rate - half, half)]
        if None not in (run.population, settings.records_per_epoch):
            share = (settings.records_per_epoch or 1) / (run.population or 1)
            quotients += [share * each for each in quotients]
    return tuple(
        max(1, rounded)
        for each in quotients
        for rounded in (
            math.floor(each * (1.0 + ROUNDING)),
            math.ceil(each * (1.0 - ROUNDING)),
        )
    )


def noise(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin a noise multiplier within its printed digits: more noise is post-processing.

    Whoever writes a description states the noise that was used, so above what is printed only a
    lower end looks; a log prints what was computed, which may be less as well.
    """
    value, half = run.settings.noise_multiplier, run.half_unit("noise.noise_multiplier")
    if value is None or half == 0.0:
        yield run, None
        return
    if end == "most" and not run.noise_was_logged:
        yield run, Choice("noise.noise_multiplier", f"the noise is {value:g}, as it is printed")
        return
    pinned = max(value - half, 0.0) if end == "most" else value + half
    says = f"the printed noise {value:g} is {pinned:.6g}"
    choice = Choice("noise.noise_multiplier", says, f"noise.noise_multiplier={in_option(pinned)}")
    yield replace(run, settings=replace(run.settings, noise_multiplier=pinned)), choice


def norms(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin the norm that is clipped, once a clip or a scale is stated with Laplace noise.

    A stated noise multiplier is relative to the l1 norm.  In d coordinates a vector of l2 norm 1
    has an l1 norm up to sqrt(d), one of linf norm 1 up to d: each ball holds the one before.
    """
    settings = run.settings
    if settings.family != "laplace" or settings.clip_norm is not None or run.event is not None:
        yield run, None
        return
    if not {"noise.clip", "noise.std"} & run.stated:
        yield run, None
        return
    norm = NORMS[-1] if end == "most" else NORMS[0]
    choice = Choice(
        "noise.clip_norm", f"the clip is one of the {norm} norm", f"noise.clip_norm={norm}"
    )
    yield replace(run, settings=replace(settings, clip_norm=norm)), choice


def weighted_draws(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin whether a weighted sampler draws with replacement: more occurrences show no less."""
    settings = run.settings
    if settings.method != "weighted" or settings.weighted_draws is not None:
        yield run, None
        return
    word = "with-replacement" if end == "most" else "at-most-once"
    says = f"the weighted sampler draws {word.replace('-', ' ')}"
    choice = Choice("sampling.weighted_draws", says, f"sampling.weighted_draws={word}")
    yield replace(run, settings=replace(settings, weighted_draws=word)), choice
