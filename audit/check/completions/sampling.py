"""Rates that two facts tell differently or that were rounded, and batches that are accumulated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Final

from ...description.printed_number import half_unit_of
from ...description.run_description import Phase
from ...description.sampling_facts import RATE_TOLERANCE
from ..checked_run import PASSES_TOLERANCE
from ..pinned_run import PinnedRun
from ..printed_facts import CHOSEN_NOISE_UNIT, half_unit_at, was_chosen
from .completion import Alternative, Choice, End, in_option
from .passes import rates_of_steps, steps_agree

INDEPENDENT: Final = ("poisson", "fixed-size", "full", "weighted")
"""Ways of drawing in which the batches of one noise draw may each be a sample of all records."""


def rate(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin the rate: that of the batch or of its loader, and within its printed digits.

    A sample at a lower rate is a mixture with what does not show the unit, so by joint convexity a
    higher rate shows no less.
    """
    settings = run.settings
    if settings.phases:
        yield _with_rounded_phases(run, end), None
        return
    share = _share_of_loader(run)
    if share is not None and settings.rate is not None:
        half = run.half_unit("sampling.rate")
        chosen = max(share, settings.rate + half)
        if end == "least":
            chosen = min(share, settings.rate - half)
        picked = Choice("sampling.rate", f"the rate is {chosen:.6g}", _stating(run, chosen))
        yield replace(run, settings=replace(settings, rate=chosen)), picked
        return
    pinned, says, settles, changed = settings, [], [], []
    for key in ("rate", "clients_rate"):
        value, half = getattr(settings, key), run.half_unit(f"sampling.{key}")
        # Steps that follow from a rate are pinned with it.
        if value is None or half == 0.0 or (key == "rate" and _counts_steps(run)):
            continue
        if key == "rate" and (rates := _printed_alike(run, value, half)):
            chosen = max(rates) if end == "most" else min(rates)
            pinned = replace(pinned, rate=chosen)
            if len(rates) > 1:
                changed.append("sampling.rate")
                says.append(f"the printed rate {value:g} is {chosen:.6g}")
                settles.append(_stating(run, chosen))
            continue
        low, high = max(value - half, 0.5 * value), min(1.0, value + half)
        if key == "rate":
            low, high = rates_of_steps(run, low, high)
        chosen = high if end == "most" else low
        pinned = replace(pinned, **{key: chosen})
        changed.append(f"sampling.{key}")
        says.append(f"the printed rate {value:g} is {chosen:.6g}")
        settles.append(f"sampling.{key}={in_option(chosen)}")
    options = " ".join(settles) if all(settles) else ""
    choice = Choice(changed[0], "; ".join(says), options) if says else None
    yield replace(run, settings=pinned), choice


def _printed_alike(run: PinnedRun, rate: float, half: float) -> set[float]:
    """Return the batch's share of all, if a rate is printed as it is, and what else may be meant.

    A program may have printed one over the batches of its loader; a person means the share.
    """
    share = _share(run)
    if share is None or abs(share - rate) > half:
        return set()
    if "sampling.rate" not in run.read:
        return {share}
    batches = 1.0 / share
    loaders = {1.0 / math.ceil(batches), 1.0 / max(1, math.floor(batches))}
    return {share} | {each for each in loaders if abs(each - rate) <= half}


def _share(run: PinnedRun) -> float | None:
    """Return the batch's share of all; None where it is not known."""
    batch, size = run.settings.batch, run.population
    return None if batch is None or size is None else batch / size


def _stating(run: PinnedRun, rate: float) -> str:
    """Return the option that states a rate with a batch: the rate, or the batch that has it."""
    if rate == _share(run):
        return f"sampling.rate={in_option(rate)}"
    batch = rate * (run.population or 0)
    # Another batch makes other steps of the stated epochs.
    whole = batch == round(batch) and "schedule.epochs" not in run.stated
    return f"sampling.batch={round(batch)}" if whole else ""


def _counts_steps(run: PinnedRun) -> bool:
    """Return whether the steps follow from epochs and the rate."""
    settings = run.settings
    counted = settings.batch is not None and run.population is not None
    by_epochs = "schedule.epochs" in run.stated and not run.steps_are_counted
    return by_epochs and not counted and settings.method not in ("shuffled", "full")


def _share_of_loader(run: PinnedRun) -> float | None:
    """Return the batch's share of all, where a stated rate is one over the batches of a loader.

    The loader may be one of the records of an epoch.  A sampler that a file of a library tells the
    rate of draws at that rate.
    """
    settings, size = run.settings, run.population
    if settings.rate is None or settings.batch is None or size is None:
        return None
    if "sampling.rate" not in run.stated or settings.method == "full":
        return None
    if settings.method == "poisson" and "sampling.rate" in run.read:
        return None
    share = settings.batch / size
    if abs(share - settings.rate) <= RATE_TOLERANCE * share:
        return None
    loaders = [
        1.0 / draws
        for of_epoch in (size, settings.records_per_epoch)
        if of_epoch is not None and of_epoch >= settings.batch
        for batches in (of_epoch / settings.batch,)
        for draws in (batches, math.ceil(batches), math.floor(batches))
    ]
    half = run.half_unit("sampling.rate")
    is_loader = any(
        abs(settings.rate - each) <= max(half, RATE_TOLERANCE * each) for each in loaders
    )
    return share if is_loader else None


def _with_rounded_phases(run: PinnedRun, end: End) -> PinnedRun:
    half = run.half_unit("schedule.phases")
    if half == 0.0:
        return run
    phases = tuple(
        _with_rounded_noise(run, _rounded(run, phase, half, end), end)
        for phase in run.settings.phases
    )
    return replace(run, settings=replace(run.settings, phases=phases))


def _with_rounded_noise(run: PinnedRun, phase: Phase, end: End) -> Phase:
    """Return a phase whose noise is at one end of what its digits leave open, as `facts.noise`."""
    noise = phase.noise_multiplier
    half = half_unit_of(Decimal(repr(noise)))
    if half > 0.5 * CHOSEN_NOISE_UNIT or (end == "most" and not run.noise_was_logged):
        return phase
    return replace(phase, noise_multiplier=noise - half if end == "most" else noise + half)


def _rounded(run: PinnedRun, phase: Phase, half: float, end: End) -> Phase:
    half = half_unit_at(phase.rate, half)
    if phase.rate == 1.0 or (was_chosen(phase.rate, half) and not run.phases_were_printed):
        return phase
    moved = phase.rate + half if end == "most" else max(phase.rate - half, 0.5 * phase.rate)
    return replace(phase, rate=min(1.0, moved))


def accumulation(run: PinnedRun, _end: End) -> Iterator[Alternative]:
    """Pin the batches of one noise draw: whose rate is stated, and whether they are one sample.

    No order is known between one sample and several, so both ends have all alternatives.
    """
    settings = run.settings
    if settings.accumulation == 1:
        yield run, None
        return
    counted = batches_of_the_rate(run)
    kinds: tuple[str, ...] = ("one-sample", "own-draws")
    if settings.method not in INDEPENDENT:
        kinds = ("one-sample",)
    elif settings.accumulation_of is not None:
        kinds = (settings.accumulation_of,)
    for together in counted:
        for kind in kinds:
            if kind == "own-draws" and len(kinds) > 1 and _is_too_small(run, together):
                continue
            yield _accumulated(run, together, kind), _choice(run, together, kind, counted, kinds)


def _is_too_small(run: PinnedRun, together: int) -> bool:
    """Return whether a batch is that of all draws of a step, and not even one for each of them."""
    settings = run.settings
    counted = settings.batch is not None and "sampling.batch" in run.stated
    alone = together == 1 and settings.method not in ("poisson", "full")
    return alone and counted and (settings.batch or 0) < settings.accumulation


def batches_of_the_rate(run: PinnedRun) -> tuple[int, ...]:
    """Return how many batches of the stated rate a noise draw may have: one, or all of them.

    Steps and epochs, or rate and batch, can tell which.
    """
    settings, several = run.settings, run.settings.accumulation
    if settings.phases or settings.rate is None or run.event is not None:
        return 1, several
    both_said = {"sampling.rate", "sampling.batch"} <= run.stated
    if both_said and run.population is not None and settings.batch is not None:
        size, drawn = settings.rate * run.population, several * settings.batch
        if abs(size - drawn) <= PASSES_TOLERANCE * size:
            return (1,)
    # Where each start made the steps, the epochs are its own, or those of all.
    starts = {Fraction(1), Fraction(settings.restarts)}
    agreeing = tuple(
        each for each in (1, several) if any(steps_agree(run, each, times) for times in starts)
    )
    return agreeing or (1, several)


def _accumulated(run: PinnedRun, together: int, kind: str) -> PinnedRun:
    """Return a run whose rate is that of each sample that a noise draw takes."""
    settings, several = run.settings, run.settings.accumulation
    draws = several if kind == "own-draws" else 1
    factor = together / draws
    # Batches of a pass, or drawn with replacement, may be more than all records together.
    most = math.inf if settings.method in ("shuffled", "with-replacement") else 1.0
    changed = replace(
        settings,
        rate=None if settings.rate is None else min(most, settings.rate * factor),
        phases=tuple(
            replace(phase, rate=min(most, phase.rate * factor)) for phase in settings.phases
        ),
    )
    return replace(run, settings=changed, own_draws=draws, rate_factor=factor)


def _choice(
    run: PinnedRun, together: int, kind: str, counted: tuple[int, ...], kinds: tuple[str, ...]
) -> Choice | None:
    says, settles = [], []
    if len(kinds) > 1:
        words = "parts of one sample" if kind == "one-sample" else "samples of their own"
        says.append(f"the {run.settings.accumulation} batches of a noise draw are {words}")
        settles.append(f"schedule.accumulation_of={kind}")
    if len(counted) > 1:
        says.append(f"the batch is that of {'one' if together > 1 else 'all'} of them")
        # It says whose batch it is, and that there is one sample.
        settles = [_rate_of_all(run, together, kind)]
    if not says:
        return None
    options = " ".join(settles)
    key = "schedule.accumulation_of" if len(kinds) > 1 else "sampling.rate"
    return Choice(key, ", and ".join(says), options)


def _rate_of_all(run: PinnedRun, together: int, kind: str) -> str:
    """Return the options that state one sample of all batches of a noise draw, if any do.

    Of several samples no option says whether a rate is that of one or of all.
    """
    settings = run.settings
    if kind != "one-sample":
        return ""
    if together == 1:
        return "schedule.accumulation=1"
    if settings.rate is None or settings.rate * together > 1.0:
        return ""
    if "schedule.phases" in run.stated or run.from_event:
        return ""  # which have rates of their own
    return f"sampling.rate={in_option(settings.rate * together)} schedule.accumulation=1"
