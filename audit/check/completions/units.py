"""Users with several records: what the clipping norm bounds, and what a draw takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ...description.run_description import ExtraRelease
from ..checked_run import CheckedRun
from ..stated_event import samplers_of
from ..unit_samplers import draws_records_of_silos
from .completion import Alternative, Choice, End
from .records_of_users import are_of_users, records_of_users


def contributions(run: CheckedRun, end: End) -> Iterator[Alternative]:
    """Pin whose contribution is clipped, and what is drawn, of as many users as there may be."""
    for pinned, choice in _clipped_and_drawn(run, end):
        yield _of_uncounted_users(pinned, end), choice


def _of_uncounted_users(run: CheckedRun, end: End) -> CheckedRun:
    """Return a run of users whom nobody counted: a batch of users is no share of the records.

    There may be as few as the batch takes, each of whom is in every batch, or as many as there are
    records: then a step has the least of them, and an epoch the fewest steps of the others.
    """
    settings = run.settings
    drawn = settings.unit == "user" and settings.sampled == "users" and settings.method != "full"
    derived = "sampling.rate" not in run.stated and settings.batch is not None
    if not drawn or not derived or settings.users is not None or settings.phases:
        return run
    if settings.clients_rate is not None or run.event is not None:
        return run
    # A batch of all users has each of them in every step.
    if end == "most":
        why = "Users are drawn, and nobody said how many there are."
        return replace(run, unbounded=why, unbounded_without=("data.users",))
    if not run.steps_are_counted and settings.epochs is not None:
        steps = max(1, math.floor(settings.epochs))
        settings = replace(settings, steps=steps)
    return replace(run, settings=settings, stands_for="least")


def _clipped_and_drawn(run: CheckedRun, end: End) -> Iterator[Alternative]:
    """Pin whose contribution is clipped, and whether users or records are drawn.

    - The norm bounds a user, users are drawn: a step has one clipped contribution or none.
    - The norm bounds a record, records are drawn: a user is a group of its records.
    - The norm bounds a record, users are drawn: a user moves a sum by as many norms as records.
    - The norm bounds a user, records are drawn: a step has one contribution where any is drawn.

    No order is known between them, so both ends have all alternatives.
    """
    settings = run.settings
    records = settings.records_per_user
    if are_of_users(run):
        yield from records_of_users(run, end)
        return
    if settings.unit == "silo" and _may_draw_silos(run):
        yield from _silos_or_records(run)
        return
    run = _of_fewer_records(run, end)
    if settings.unit != "user" or records is None or records == 1:
        run = _of_single_records(run, end)
        yield _with_clients(run, end), _phases_or_clients(run, end)
        return
    if run.event is not None:
        yield _with_event(run, end), None
        return
    by_clients = settings.clients_rate is not None and settings.rate is None
    for bounds in ("unit", "record"):
        for sampled in ("users", "records"):
            if settings.clip_bounds not in (None, bounds):
                continue
            if settings.sampled not in (None, sampled):
                continue
            # Who draws clients, and clips each as a whole, draws users.
            if by_clients and settings.sampled is None and (bounds, sampled) == ("unit", "records"):
                continue
            open_keys = {
                "noise.clip_bounds": (settings.clip_bounds, bounds),
                "sampling.sampled": (settings.sampled, sampled),
            }
            left = [key for key, (said, _) in open_keys.items() if said is None]
            settles = " ".join(f"{key}={open_keys[key][1]}" for key in left)
            whose = "user" if bounds == "unit" else "record"
            says = f"the clip bounds each {whose}, and {sampled} are drawn"
            choice = Choice(left[0], says, settles, tuple(left[1:])) if left else None
            pinned = _pinned(run, bounds, sampled, records, end)
            other: End = "most" if end == "least" else "least"
            if pinned != _pinned(run, bounds, sampled, records, other):
                pinned = replace(pinned, stands_for=end)
            yield pinned, choice


def _may_draw_silos(run: CheckedRun) -> bool:
    """Return whether a batch may be one of silos, or one of records."""
    settings = run.settings
    if settings.sampled is not None or settings.clients_rate is not None or run.event is not None:
        return False
    return not draws_records_of_silos(run.with_settings(sampled="users"))


def _silos_or_records(run: CheckedRun) -> Iterator[Alternative]:
    """Pin whether a batch is one of silos, drawn as wholes, or of records, which hide no silo."""
    for sampled, what in (("users", "silos"), ("records", "records")):
        choice = Choice("sampling.sampled", f"{what} are drawn", f"sampling.sampled={sampled}")
        yield run.with_settings(sampled=sampled), choice


def _of_fewer_records(run: CheckedRun, end: End) -> CheckedRun:
    """Return a run whose batch is a share of the records, where these are fewer than the units."""
    settings = run.settings
    records, batch, units = settings.records, settings.batch, run.units
    if settings.unit == "record" or settings.sampled == "users" or end == "least":
        return run
    if records is None or batch is None or units is None or records >= units:
        return run
    if "sampling.rate" in run.stated or settings.rate is None or settings.phases:
        return run
    rate = max(settings.rate, min(1.0, batch / records))
    return replace(run, settings=replace(settings, rate=rate), stands_for="most")


def _of_single_records(run: CheckedRun, end: End) -> CheckedRun:
    """Return a run at whose least a user has one record, of a client that is sampled around it.

    Such users are data, too: they join a step with their client, and if they are drawn besides.
    """
    settings = run.settings
    both = settings.rate is not None and settings.clients_rate is not None
    if settings.unit != "user" or settings.sampled == "users" or end == "most" or not both:
        return run
    return replace(run, settings=replace(settings, records_per_user=1), stands_for="least")


def _rates_differ(run: CheckedRun) -> bool:
    """Return whether phases and clients have rates, of which a user or silo joins at either."""
    settings = run.settings
    whole = settings.unit in ("user", "silo") and run.event is None
    return whole and settings.clients_rate is not None and bool(settings.phases)


def _with_clients(run: CheckedRun, end: End) -> CheckedRun:
    """Return a run in whose phases a whole user or silo joins: at a client's rate, or the phase's.

    By joint convexity the higher of both shows no less.
    """
    clients = run.settings.clients_rate
    if clients is None or not _rates_differ(run):
        return run
    pick = max if end == "most" else min
    phases = tuple(replace(p, rate=pick(p.rate, clients)) for p in run.settings.phases)
    return replace(run, settings=replace(run.settings, phases=phases))


def _phases_or_clients(run: CheckedRun, end: End) -> Choice | None:
    if not _rates_differ(run):
        return None
    which = "higher" if end == "most" else "lower"
    unit = run.settings.unit
    says = f"one {unit} joins a step at the {which} of its phase's rate and its client's"
    return Choice("schedule.phases", says)


def _with_event(run: CheckedRun, end: End) -> CheckedRun:
    """Return a run whose event stands: as of drawn records that are clipped, if it samples any.

    Whole users that are drawn, with each record clipped, can lose more than a group of records.
    """
    settings = run.settings
    of_records = (settings.clip_bounds, settings.sampled) == ("record", "records")
    if end == "least" or of_records or run.event is None or not samplers_of(run.event):
        return run
    why = "The stated event does not say whether users or records are drawn, and what is clipped."
    return replace(run, unbounded=why)


def _pinned(run: CheckedRun, bounds: str, sampled: str, records: int, end: End) -> CheckedRun:
    if sampled == "records" and end == "least":
        run = _of_all_records(run, records)
    run = replace(run, settings=replace(run.settings, sampled=sampled))
    settings = run.settings
    if bounds == "record" and sampled == "records":
        if end == "least":
            # All records of a user may move a release by one norm together.
            released = _of_all(settings.releases, 1.0 / records, of_batches=True)
            return replace(run, settings=replace(settings, releases=released))
        return run
    whole = replace(settings, records_per_user=None, sampled=sampled)
    rate, clients = settings.rate, settings.clients_rate
    if sampled == "records" and end == "least" and rate is not None and clients is not None:
        # A user is there with its client, if one of its records is drawn besides.
        whole = replace(whole, rate=rate * clients, clients_rate=None)
    if sampled == "records" and end == "least" and settings.phases and clients is not None:
        phases = tuple(replace(p, rate=p.rate * clients) for p in settings.phases)
        whole = replace(whole, phases=phases, clients_rate=None)
    # All records of a user come together, each clipped: the sum moves by as many norms.
    if bounds == "record":
        phases = tuple(
            replace(phase, noise_multiplier=phase.noise_multiplier / records)
            for phase in _with_clients(run, end).settings.phases
        )
        noise = settings.noise_multiplier
        return replace(
            run,
            settings=replace(
                whole,
                phases=phases,
                noise_multiplier=None if noise is None else noise / records,
                releases=settings.releases
                if end == "least"
                else _of_all(settings.releases, records),
            ),
        )
    if sampled == "users":
        return _with_clients(replace(run, settings=whole), end)
    if end == "least":
        # Users of a single record are data, too.
        return replace(run, settings=whole)
    return _any_of_a_user(run, records)


def _of_all(
    releases: tuple[ExtraRelease, ...], moved: float, *, of_batches: bool = False
) -> tuple[ExtraRelease, ...]:
    """Return releases that a unit moves so many times as far; of batches alone if told so."""
    return tuple(
        each
        if each.noise_multiplier is None or (of_batches and each.of_batch is False)
        else replace(each, noise_multiplier=each.noise_multiplier / moved)
        for each in releases
    )


def _of_all_records(run: CheckedRun, records: int) -> CheckedRun:
    """Return a run whose batch is a share of all records, where it was one of users."""
    settings = run.settings
    size = settings.records or (None if settings.users is None else settings.users * records)
    if "sampling.rate" in run.stated or settings.batch is None or size is None:
        return run
    if settings.rate is None or settings.phases:
        return run
    rate = min(settings.rate, settings.batch / size)
    return replace(run, settings=replace(settings, rate=rate))


def _any_of_a_user(run: CheckedRun, records: int) -> CheckedRun:
    """Return a run in which a user is there where any of its records is drawn.

    Given which of them are drawn, a step moves by one clipping norm at most; by joint convexity the
    worst is one contribution, at the probability that any is drawn.  Samples of a fixed size move
    others as well where a user has another number of records, for which no bound is known here.

    Source: joint convexity of the hockey-stick divergence; Balle, Barthe, Gaboardi 2018.
    """
    settings = replace(run.settings, records_per_user=None, sampled="records")
    if settings.method in ("poisson", "full"):
        phases = tuple(replace(p, rate=_any_drawn(p.rate, records) or 1.0) for p in settings.phases)
        drawn = replace(
            settings,
            phases=phases,
            rate=_any_drawn(settings.rate, records),
            # Where both are stated, a client that is always there is the worst.
            clients_rate=None
            if settings.rate is not None or settings.phases
            else _any_drawn(settings.clients_rate, records),
        )
        return replace(run, settings=drawn)
    if settings.neighbours != "zero-out":
        why = (
            "Records are drawn in samples of a fixed size and clipped by user: where a user comes, "
            "goes, or has fewer records, no bound on what else moves is known."
        )
        return replace(run, settings=settings, unbounded=why)
    phases = tuple(replace(phase, rate=1.0) for phase in settings.phases)
    rate = None if settings.rate is None else 1.0
    full = replace(settings, method="full", rate=rate, phases=phases)
    return replace(run, settings=full, stands_for="most")


def _any_drawn(rate: float | None, records: int) -> float | None:
    """Return the probability that any of some independent draws happens, rounded up."""
    if rate is None or rate >= 1.0:
        return rate
    return min(1.0, -math.expm1(records * math.log1p(-rate)) * (1.0 + 1e-12))
