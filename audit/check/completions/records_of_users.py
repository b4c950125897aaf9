"""Records that are protected, where users are mentioned: who is drawn, and whose sums are clipped.

- Records are drawn, each is clipped: a step has one clipped record or none.
- Records are drawn, what a user adds to a step is clipped: a record that is drawn moves what its
  user adds from one place of the ball to another, by two norms at most.
- Users are drawn, each record is clipped: other records of a user may show that it was drawn, so
  that a draw hides no more than one that everybody sees.
- Users are drawn, and clipped as wholes: a record makes of its user another one, or is all of it.

From below a user of a single record is data, too: it is drawn, or moves, as its user is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ..checked_run import CheckedRun
from .completion import Alternative, Choice, End, in_option

REPLACING: Final = ("with-replacement", "weighted")
"""Ways of drawing that may have more draws than there are users."""


def are_of_users(run: CheckedRun) -> bool:
    """Return whether protected records may be drawn, or clipped, with those of their user."""
    settings = run.settings
    if settings.unit != "record" or run.event is not None or settings.clients_rate is not None:
        return False
    several = run.records_of_user is not None and run.records_of_user > 1
    return settings.sampled == "users" or several or run.among_users


def records_of_users(run: CheckedRun, end: End) -> Iterator[Alternative]:
    """Pin who is drawn, and what is clipped; both ends have all alternatives."""
    settings = run.settings
    said = (settings.sampled, settings.clip_bounds)
    # Whoever says how many records a user has, or that users are drawn, leaves the clip open.
    by_convention = run.records_of_user is None and settings.sampled is None
    for sampled, bounds in (
        ("records", "record"),
        ("records", "unit"),
        ("users", "record"),
        ("users", "unit"),
    ):
        if said[0] not in (None, sampled) or said[1] not in (None, bounds):
            continue
        if by_convention and said[1] is None and (sampled == "users") != (bounds == "unit"):
            continue
        if sampled == "users" and said[0] is None and _is_of_records(run):
            continue
        keys = {"sampling.sampled": (said[0], sampled), "noise.clip_bounds": (said[1], bounds)}
        left = [key for key, (stated, _) in keys.items() if stated is None]
        whose = "user" if bounds == "unit" else "record"
        choice = None
        if left:
            settles = " ".join(f"{key}={keys[key][1]}" for key in left)
            says = f"the clip bounds each {whose}, and {sampled} are drawn"
            choice = Choice(left[0], says, settles, tuple(left[1:]))
        counted = _counted_batch(run, end) if sampled == "users" else None
        if counted is not None and choice is not None:
            both = f"{choice.settles} {counted.settles}" if counted.settles else ""
            says = f"{choice.says}; {counted.says}"
            choice = replace(choice, says=says, settles=both, also=(*choice.also, counted.key))
        for pinned in _pinned(run, sampled, bounds, end):
            yield pinned, choice or counted


def _is_of_records(run: CheckedRun) -> bool:
    """Return whether a stated batch is larger than all users."""
    users, batch = run.settings.users, run.settings.batch
    # A draw with replacement may have a user several times.
    said = "sampling.batch" in run.stated and run.settings.method not in REPLACING
    return said and users is not None and batch is not None and batch > users


def _pinned(run: CheckedRun, sampled: str, bounds: str, end: End) -> Iterator[CheckedRun]:
    settings = run.settings
    if sampled == "records":
        alone = run.with_settings(sampled="records", records_per_user=None)
        if bounds == "record" or settings.neighbours == "replace-one":
            yield alone
        elif end == "least":
            yield replace(alone, stands_for="least")
        else:
            yield replace(_with_less_noise(alone, 2), stands_for="most")
        return
    whole = _of_drawn_users(run, end)
    if whole is None:
        why = "Users are drawn, and nobody said how many there are."
        if end == "most":
            yield replace(run, unbounded=why, unbounded_without=("data.users",))
        else:
            yield replace(run, shows_nothing=True, stands_for="least")
        return
    if end == "least":
        yield replace(whole, stands_for="least")
        return
    if bounds == "unit":
        for relation in dict.fromkeys((settings.neighbours, "replace-one")):
            if relation != "zero-out":
                yield replace(whole.with_settings(neighbours=relation), stands_for="most")
        return
    if settings.method in ("poisson", "full") and settings.accumulation == 1:
        yield replace(whole, presence_is_seen=True, stands_for="most")
        return
    records = run.records_of_user
    if records is None:
        why = "Users are drawn, and nobody said how many records one has."
        yield replace(run, unbounded=why, unbounded_without=("data.records_per_user",))
        return
    farther = _with_less_noise(whole, records).with_settings(neighbours="replace-one")
    yield replace(farther, stands_for="most")


def _rates_of_users(run: CheckedRun) -> tuple[float, ...]:
    """Return the shares that a batch may be, of all users and of all records; none if told."""
    settings = run.settings
    said = "sampling.rate" in run.stated or bool(settings.phases) or settings.method == "full"
    if said or settings.users is None or settings.batch is None:
        return ()
    sizes = (settings.users, settings.records)
    most = math.inf if settings.method in REPLACING else 1.0
    return tuple(min(most, settings.batch / size) for size in sizes if size is not None)


def _counted_batch(run: CheckedRun, end: End) -> Choice | None:
    """Return the choice of what a batch counts, where users are drawn."""
    rates = _rates_of_users(run)
    if len(set(rates)) < 2:
        return None
    rate = max(rates) if end == "most" else min(rates)
    counts = "users" if rate == rates[0] else "records"
    option = f"sampling.rate={in_option(rate)}" if rate <= 1.0 else ""  # a rate is no more
    return Choice("sampling.rate", f"the batch counts {counts}", option)


def _of_drawn_users(run: CheckedRun, end: End) -> CheckedRun | None:
    """Return the run of whole users, at the rate at which one is drawn; None where it is unknown.

    A batch of users is a share of all users, and one of records a share of all records.
    """
    settings, rate = run.settings, run.settings.rate
    steps = settings.steps
    if settings.method != "full" and "sampling.rate" not in run.stated and not settings.phases:
        rates = _rates_of_users(run)
        if not rates:
            return None
        rate = max(rates) if end == "most" else min(rates)
    if rate and not run.steps_are_counted and settings.epochs is not None and steps is not None:
        passes = settings.epochs / rate
        steps = max(steps, math.ceil(passes)) if end == "most" else min(steps, math.floor(passes))
    return run.with_settings(
        unit="user",
        sampled="users",
        clip_bounds=settings.clip_bounds,
        records_per_user=None,
        rate=rate,
        steps=None if steps is None else max(1, steps),
    )


def _with_less_noise(run: CheckedRun, times: int) -> CheckedRun:
    """Return a run with so many times less noise."""
    settings, noise = run.settings, run.settings.noise_multiplier
    return run.with_settings(
        noise_multiplier=None if noise is None else noise / times,
        phases=tuple(
            replace(phase, noise_multiplier=phase.noise_multiplier / times)
            for phase in settings.phases
        ),
    )
