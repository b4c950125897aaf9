"""What each design of drawing and clipping loses, as a run whose unit is drawn or moves a sum.

A run is changed into one that no engine needs to know the design of: a unit that is drawn at a
rate, moves a sum by one norm, and, where its records are drawn, is a group of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ...description.run_description import ExtraRelease
from ..grouped_events import bounds_users
from ..pinned_run import PinnedRun
from ..stated_event import samplers_of
from .clients import (
    at_both_rates,
    at_higher_rate,
    drawn_inside,
    in_batches_of_clients,
    in_every_step,
    in_several_draws_of_clients,
    turned_by_a_record,
)
from .completion import Alternative, Choice, End


def priced(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Change a run of a pinned design into one of units that are drawn and clipped as wholes."""
    if run.unbounded or run.shows_nothing:
        yield run, None
        return
    unit = run.settings.unit
    of_wholes = unit == "user" or run.design.drawn == "silos"
    if end == "most" and of_wholes and run.event is None:
        run = in_several_draws_of_clients(run)
    if unit == "record" and run.event is None:
        for each in _records(run, end):
            yield each, None
        return
    of_user = run.settings.records_per_user
    if unit in ("user", "silo") and run.event is None and _is_of_open_clients(run, end):
        pinned = at_both_rates(run) if end == "least" else at_higher_rate(run)
        yield pinned, _inside_or_besides(run, end)
        return
    if unit != "user" or of_user is None or of_user == 1:
        run = _of_single_records(_of_fewer_records(run, end), end)
        yield _with_clients(run, end), _phases_or_clients(run, end)
        return
    if run.event is not None:
        yield _with_event(run, end), None
        return
    pinned = _users(run, of_user, end)
    other: End = "most" if end == "least" else "least"
    if pinned != _users(run, of_user, other):
        pinned = replace(pinned, stands_for=end)
    yield pinned, _inside_or_besides(run, end)


def _inside_or_besides(run: PinnedRun, end: End) -> Choice | None:
    """Return what is open of records that are drawn inside of clients at a rate nobody said."""
    if not drawn_inside(run):
        return None
    says = "all of a client's records are" if end == "most" else "none of a client's records is"
    return Choice("sampling.rate", f"{says} drawn with it")


def _is_of_open_clients(run: PinnedRun, end: End) -> bool:
    """Return whether it is open how a whole user or silo is drawn with its client.

    Records may be drawn inside of clients at any rate; and where somebody says that users are
    drawn, and a rate besides that of clients, either may be theirs.  A silo of users takes part
    with any of these, which its own sampler counts.
    """
    settings = run.settings
    if settings.clients_rate is None:
        return False
    if settings.unit == "silo":
        return run.design.drawn == "users" and end == "least"
    if drawn_inside(run):
        return end == "least"
    both = settings.rate is not None or bool(settings.phases)
    single = settings.records_per_user in (None, 1)
    return single and both and settings.sampled == "users"


def _records(run: PinnedRun, end: End) -> Iterator[PinnedRun]:
    """Yield what protected records lose.

    - Records are drawn, each is clipped: a step has one clipped record or none.
    - Records are drawn, what a user adds to a step is clipped: a record that is drawn moves what
      its user adds from one place of the ball to another, by two norms at most; and so does a
      record of another user that takes its stead in a batch.
    - Users are drawn, each record is clipped: other records of a user may show that it was drawn,
      so that a draw hides no more than one that everybody sees.
    - Users are drawn, and clipped as wholes: a record makes of its user another one, or is all of
      it.

    From below a user of a single record is data, too: it is drawn, or moves, as its user is.
    """
    settings, of_user = run.settings, run.records_of_user
    alone = run.with_settings(records_per_user=None)
    if run.design.drawn == "records" and run.design.clipped == "record":
        yield in_batches_of_clients(alone) if end == "most" else alone
        return
    if end == "least" and (run.design.drawn == "records" or settings.clients_rate is not None):
        yield replace(alone, stands_for="least")
        return
    if run.design.drawn == "records":
        yield _of_clipped_sums(alone)
        return
    # Clients are users, too.
    run = at_higher_rate(run) if end == "most" else run
    whole = run.with_settings(unit="user", records_per_user=None)
    if end == "least":
        yield replace(whole, stands_for="least")
    elif run.design.clipped == "unit":
        for relation in dict.fromkeys((settings.neighbours, "replace-one")):
            if relation != "zero-out":
                yield replace(whole.with_settings(neighbours=relation), stands_for="most")
    elif settings.method in ("poisson", "full") and settings.accumulation == 1:
        yield replace(whole, presence_is_seen=True, stands_for="most")
    elif of_user is None:
        why = "Users are drawn, and nobody said how many records one has."
        missing = ("data.records_per_user",)
        yield replace(run, unbounded=why, unbounded_without=missing, stands_for="most")
    else:
        farther = _with_less_noise(whole, of_user).with_settings(neighbours="replace-one")
        yield replace(farther, stands_for="most")


def _of_clipped_sums(run: PinnedRun) -> PinnedRun:
    """Return drawn records of users whose sums are clipped, at the most that one record moves.

    A client is there in every step; of one that draws at an unknown rate a record is in each.
    """
    settings = run.settings
    if settings.clients_rate is not None:
        if settings.method not in ("poisson", "full") and settings.neighbours != "replace-one":
            why = "Records of other clients fill the batches, and what these move is not known."
            missing = ("sampling.clients_rate",)
            return replace(run, unbounded=why, unbounded_without=missing, stands_for="most")
        known = settings.method in ("poisson", "full") and not drawn_inside(run)
        run = in_batches_of_clients(run) if known else in_every_step(run)
        run = run.with_settings(clients_rate=None)
    if run.settings.neighbours == "replace-one":
        turned = turned_by_a_record(run)
        if turned is not None:
            return turned
    return replace(_with_less_noise(run, 2), stands_for="most")


def _with_less_noise(run: PinnedRun, times: int) -> PinnedRun:
    """Return a run with so many times less noise."""
    settings, noise = run.settings, run.settings.noise_multiplier
    return run.with_settings(
        noise_multiplier=None if noise is None else noise / times,
        phases=tuple(
            replace(phase, noise_multiplier=phase.noise_multiplier / times)
            for phase in settings.phases
        ),
    )


def _of_fewer_records(run: PinnedRun, end: End) -> PinnedRun:
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


def _of_single_records(run: PinnedRun, end: End) -> PinnedRun:
    """Return a run at whose least a user has one record, of a client that is sampled around it.

    Such users are data, too: they join a step with their client, and if they are drawn besides.
    """
    settings = run.settings
    both = settings.rate is not None and settings.clients_rate is not None
    if settings.unit != "user" or settings.sampled == "users" or end == "most" or not both:
        return run
    return replace(run, settings=replace(settings, records_per_user=1), stands_for="least")


def _rates_differ(run: PinnedRun) -> bool:
    """Return whether phases and clients have rates, of which a user or silo joins at either."""
    settings = run.settings
    whole = settings.unit in ("user", "silo") and run.event is None
    return whole and settings.clients_rate is not None and bool(settings.phases)


def _with_clients(run: PinnedRun, end: End) -> PinnedRun:
    """Return a run in whose phases a whole user or silo joins: at a client's rate, or the phase's.

    By joint convexity the higher of both shows no less, and a draw at both, one after the other, no
    more.
    """
    clients = run.settings.clients_rate
    if clients is None or not _rates_differ(run):
        return run
    if end == "most":
        return replace(run, settings=replace(at_higher_rate(run).settings, clients_rate=clients))
    if run.settings.records_per_user == 1:
        return run  # a single record is drawn at both rates there
    phases = tuple(replace(p, rate=p.rate * clients) for p in run.settings.phases)
    return replace(run, settings=replace(run.settings, phases=phases))


def _phases_or_clients(run: PinnedRun, end: End) -> Choice | None:
    if not _rates_differ(run):
        return None
    which = "the higher" if end == "most" else "both, one after the other,"
    unit = run.settings.unit
    says = f"one {unit} joins a step at {which} of its phase's rate and its client's"
    return Choice("schedule.phases", says)


def _with_event(run: PinnedRun, end: End) -> PinnedRun:
    """Return a run whose event stands: as of drawn records that are clipped, if it samples any.

    Whole users that are drawn, with each record clipped, can lose more than a group of records.
    """
    if end == "least" or run.event is None or not samplers_of(run.event):
        return run
    if bounds_users(run, run.event):
        return run
    why = "The stated event does not say whether users or records are drawn, and what is clipped."
    return replace(run, unbounded=why)


def _users(run: PinnedRun, records: int, end: End) -> PinnedRun:
    """Return what protected users of several records lose.

    - The norm bounds a user, users are drawn: a step has one clipped contribution or none.
    - The norm bounds a record, records are drawn: a user is a group of its records.
    - The norm bounds a record, users are drawn: a user moves a sum by as many norms as records.
    - The norm bounds a user, records are drawn: a step has one contribution where any is drawn.

    Where nobody says how records are drawn inside of clients, all of them may be with their client.

    No order is known between them.
    """
    settings, drawn, clipped = run.settings, run.design.drawn, run.design.clipped
    if drawn == "users":
        run = at_higher_rate(run) if end == "most" else _at_lower_rate(run)
        settings = run.settings
    inside = drawn_inside(run)
    if clipped == "record" and drawn == "records" and not inside:
        if end == "least":
            # All records of a user may move a release by one norm together.
            released = _of_all(settings.releases, 1.0 / records, of_batches=True)
            return replace(run, settings=replace(settings, releases=released))
        return run
    whole = replace(settings, records_per_user=None)
    # Full batches are those of a client, which takes part or not.
    clients = None if settings.method == "full" else settings.clients_rate
    rate = settings.rate
    if drawn == "records" and end == "least" and rate is not None and clients is not None:
        # A user is there with its client, if one of its records is drawn besides.
        whole = replace(whole, rate=rate * clients, clients_rate=None)
    if drawn == "records" and end == "least" and settings.phases and clients is not None:
        phases = tuple(replace(p, rate=p.rate * clients) for p in settings.phases)
        whole = replace(whole, phases=phases, clients_rate=None)
    if clipped == "record":
        return _moved_by_all(replace(run, settings=whole), records, end)
    if drawn == "users" or inside:
        return _with_clients(replace(run, settings=whole), end)
    if end == "least":
        # Users of a single record are data, too.
        return replace(run, settings=whole)
    return _any_of_a_user(run, records)


def _at_lower_rate(run: PinnedRun) -> PinnedRun:
    """Return drawn users at their clients' rate, and at one that is stated besides as well."""
    settings = run.settings
    stated = settings.rate is not None or bool(settings.phases)
    return at_both_rates(run) if stated else run


def _moved_by_all(run: PinnedRun, records: int, end: End) -> PinnedRun:
    """Return a run whose sums a user moves by as many norms as it has records."""
    released = run.settings.releases
    phases = _with_clients(run, end).settings.phases
    run = _with_less_noise(run.with_settings(phases=phases), records)
    return run.with_settings(releases=released if end == "least" else _of_all(released, records))


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


def _any_of_a_user(run: PinnedRun, records: int) -> PinnedRun:
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
