"""What a rate of clients leaves open: who is drawn with it, and what a client draws inside.

Nobody says with it how records are drawn inside of a client, so that their rate may be anything
from 0 to 1; and of a rate that is stated besides, with users drawn, nobody says whether it is that
of the same draw, of another one, or of both together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..pinned_run import PinnedRun, SamplingDesign
from .designs import follows

NOT_SHOWN: Final = "A batch of drawn clients may have a record any number of times."

FINE_POPULATION: Final = 10**9
"""So many units that rounding a rate up to whole ones changes no digit that counts."""


def at_higher_rate(run: PinnedRun) -> PinnedRun:
    """Return a run of units that are drawn at the higher of the rates of clients and of draws.

    Whichever of both rates is meant, or both, one after the other, a unit joins a step with no more
    than that probability; by joint convexity a higher rate shows no less.  Where a user is
    protected, clients are users: one joins no more steps than its client.
    """
    settings, clients = run.settings, run.settings.clients_rate
    if clients is None:
        return run
    are_users = settings.unit == "user" and settings.method == "poisson" and run.own_draws == 1
    are_users &= settings.silos is None  # which may be the clients, with users drawn inside
    phases = tuple(
        replace(p, rate=clients if are_users else max(p.rate, clients)) for p in settings.phases
    )
    rate = clients if are_users else max(clients, settings.rate or 0.0)
    return run.with_settings(
        rate=None if settings.phases else rate, phases=phases, clients_rate=None
    )


def at_both_rates(run: PinnedRun) -> PinnedRun:
    """Return a run of units that are drawn with their client, and by themselves besides.

    Without a rate of these it shows nothing for certain.  Full batches are those of a client, which
    takes part or not.
    """
    settings, clients = run.settings, run.settings.clients_rate
    if clients is None or settings.method == "full":
        return run
    if settings.rate is None and not settings.phases:
        return replace(run, shows_nothing=True, stands_for="least")
    phases = tuple(replace(p, rate=p.rate * clients) for p in settings.phases)
    rate = None if settings.rate is None else settings.rate * clients
    pinned = run.with_settings(rate=rate, phases=phases, clients_rate=None)
    return replace(pinned, stands_for="least")


def drawn_inside(run: PinnedRun) -> bool:
    """Return whether records are drawn inside of clients, at a rate that nobody said."""
    settings = run.settings
    unsaid = settings.rate is None and not settings.phases
    return settings.clients_rate is not None and unsaid and run.design.drawn == "records"


def in_several_draws_of_clients(run: PinnedRun) -> PinnedRun:
    """Return a run at the most that several draws before one noise draw show of a client.

    A client may be drawn once for all of them, and then its records in each.  Given the client,
    each draw has its own rate, and by joint convexity the loss is at most that without the draw of
    clients; where each draws clients anew, the higher of both rates bounds it.  Where nobody says
    the rate inside, a user or silo is in each.
    """
    settings = run.settings
    if settings.clients_rate is None or run.own_draws == 1 or settings.method == "full":
        return run
    if settings.rate is None and not settings.phases:
        run = run.with_settings(rate=1.0)
    return replace(at_higher_rate(run), stands_for="most")


def in_every_step(run: PinnedRun, **changes: object) -> PinnedRun:
    """Return a run whose unit is in every step, which no draw exceeds; with changed settings."""
    settings = run.settings
    phases = tuple(replace(phase, rate=1.0) for phase in settings.phases)
    rate = None if settings.rate is None else 1.0
    facts = {"method": "full", "rate": rate, "phases": phases, "clients_rate": None, **changes}
    return replace(run.with_settings(**facts), stands_for="most")


def in_batches_of_clients(run: PinnedRun) -> PinnedRun:
    """Return records that are each clipped, in batches of the records of the clients that came.

    A batch is a larger share of these than of all records: of a sample by as many times as the
    clients are fewer, and of a batch of a fixed size nobody knows by how many, so that it may be
    all of them, with another record in the stead of one.
    """
    settings, clients = run.settings, run.settings.clients_rate
    if clients is None or settings.rate is None or settings.phases or not follows(run):
        return run
    if settings.method == "poisson":
        rate = min(1.0, settings.rate / clients)
        return replace(run.with_settings(rate=rate), stands_for="most")
    if settings.method == "fixed-size" and settings.accumulation == 1:
        return in_every_step(run, neighbours="replace-one")
    if settings.method in ("fixed-size", "with-replacement", "weighted"):
        missing = ("sampling.clients_rate",)
        return replace(run, unbounded=NOT_SHOWN, unbounded_without=missing, stands_for="most")
    return run


def turned_by_a_record(run: PinnedRun) -> PinnedRun | None:
    """Return what a replaced record, and no other, moves where the clip bounds its user's sum.

    Given who else is drawn, its user's clipped sums without it, with it, and with what replaces it,
    are three of one ball: each is two norms from each other at most.  By advanced joint convexity
    the loss is at most that of the move by two norms, amplified by the probability that the record
    is drawn, in both directions: so it is of a record that is replaced in batches of a fixed size.
    Whoever knows all that is drawn sees a move by two norms, which bounds every other draw.  None
    where several records in a batch's stead are accounted for by other means.

    Source: Balle, Barthe, Gaboardi, "Privacy amplification by subsampling", 2018, theorems 2, 10.
    """
    settings = run.settings
    if settings.method in ("shuffled", "random-allocation"):
        return None
    rates = [p.rate for p in settings.phases] or [1.0 if settings.rate is None else settings.rate]
    alone = settings.accumulation == 1 and settings.microbatches == 1 and not settings.releases
    if settings.method == "poisson" and alone and settings.family == "gaussian" and max(rates) < 1:
        size = FINE_POPULATION
        of_records = SamplingDesign("records", "record", size, size)
        pinned = run.with_settings(method="fixed-size", batch=None, clients_rate=None)
        return replace(pinned, design=of_records, stands_for="most")
    if settings.method in ("poisson", "fixed-size") and max(rates) <= 0.5:
        return None
    return in_every_step(run)
