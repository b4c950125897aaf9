"""Which way of drawing bounds a run, by who is protected: a record, a user, a silo, a client."""

from __future__ import annotations

import math
from dataclasses import replace

from ...accountant import events as ev
from .bounding_event import BoundingEvent, PhaseDraws, RunEvents
from .loader_passes import passes_of
from .pinned_run import PinnedRun
from .release_readings import JOINTLY_ACCOUNTED
from .sampler_events import METHODS, Sampler, full, presence_in


def sampler_of(run: PinnedRun, method: str) -> Sampler:
    """Return what bounds a phase: by the way of drawing, and by who is protected."""
    settings = run.settings
    if draws_records_of_silos(run):
        return _silo
    of_draws = settings.rate is not None or bool(settings.phases)
    if settings.clients_rate is not None and not of_draws:
        # Batches of a fixed size are filled by others, so that a lower rate may move more.
        if method not in ("poisson", "full") and (
            settings.accumulation > 1 or settings.unit == "record"
        ):
            return _client_in_batches(METHODS["full"])
        if settings.unit == "record":
            return _record_of_client(METHODS[method])
    # Full batches are those of a client, which takes part or not.
    clients = settings.clients_rate is not None and (of_draws or method == "full")
    whole = settings.unit != "record" and settings.records_per_user is None
    if clients and (not whole or method == "full"):
        return _client(METHODS[method])
    return METHODS[method]


def draws_records_of_silos(run: PinnedRun) -> bool:
    """Return whether a silo is protected, and a draw does not count silos: no sample hides it."""
    return run.settings.unit == "silo" and run.design.drawn != "silos"


def _silo(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
    """Return a silo that is there in every step: a sample of its records does not hide it.

    Batches of a fixed size are filled up with records of other silos where one has fewer, and how
    far these move a sum is not known; under zero-out a silo keeps its records.
    """
    settings = run.settings
    whole = full(run, draws)
    if settings.method not in JOINTLY_ACCOUNTED and settings.neighbours != "zero-out":
        others = ev.NoGuarantee("records of other silos fill the batches that one leaves")
        whole = replace(whole, upper=(BoundingEvent(others, run.relation),))
    if silo_may_be_drawn_again(run):
        again = ev.NoGuarantee("how often one noise draw has the same silo is not said")
        whole = replace(whole, upper=(BoundingEvent(again, run.relation),))
    clients = settings.clients_rate
    rate = draws.lower_rate if clients is None else _least_inside(run, draws)
    if settings.method in ("with-replacement", "weighted"):
        rate = -math.expm1(-rate)  # of all draws at least one, however many there are to draw from
    alone = "sampling.batch" in run.stated and "sampling.rate" not in run.stated
    if alone and settings.batch is not None and settings.method != "full":
        # Of records that nobody counted, a batch may be any share.
        rate = min(rate, 0.0 if settings.records is None else settings.batch / settings.records)
    rate *= 1.0 if clients is None else clients
    shown = ev.Poisson(rate, draws.lower) if rate > 0.0 else ev.Pure(0.0)
    # From step to step the draw of clients need not be fresh.
    return replace(
        whole,
        lower=((BoundingEvent(shown, "add-remove", once=clients is not None),),),
        conditions=("A sample of records does not hide a silo: nothing is counted as amplified.",),
    )


def _least_inside(run: PinnedRun, draws: PhaseDraws) -> float:
    """Return the least rate at which a record is drawn inside of a client that takes part.

    Nothing bounds one that nobody said.
    """
    settings = run.settings
    if settings.method == "full":
        return 1.0
    if settings.phases:
        return draws.lower_rate
    return settings.rate or 0.0


def silo_may_be_drawn_again(run: PinnedRun) -> bool:
    """Return whether one noise draw may have a silo more than once, for all that is said.

    So it is with silos that are drawn again, and with several batches of a shuffled loader.  Where
    batches are certainly of records, what a silo adds to one draw is clipped as a whole.
    """
    settings = run.settings
    again = "with-replacement" in (settings.method, settings.weighted_draws)
    several = settings.method == "shuffled" and settings.accumulation > 1
    return several or (again and run.design.takes_wholes)


def _client(method: Sampler) -> Sampler:
    """Return the client's releases in all rounds: a draw of clients hides nothing from itself.

    Both draws together hide a record in a single step with the product of the rates; from step
    to step the draw of clients need not be fresh, so only one step bounds it from below.
    """

    def events(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
        each = method(run, draws)
        rate = (run.settings.clients_rate or 1.0) * _least_presence(run, draws, method)
        once = BoundingEvent(ev.Poisson(rate, draws.lower), "add-remove", once=True)
        return replace(
            each,
            lower=((once,),),
            conditions=(
                *each.conditions,
                "A client may take part in every round: the draw of clients is not counted.",
            ),
        )

    return events


def _record_of_client(method: Sampler) -> Sampler:
    """Return the draws of a client of whose records nobody said how they are drawn.

    A record may be in all of its steps, or in hardly any: nothing shows it for certain.
    """

    def events(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
        each = method(run, draws)
        nothing = BoundingEvent(ev.Pure(0.0), "add-remove")
        sentences = (
            "A client may take part in every round: the draw of clients is not counted.",
            "Nobody said how records are drawn inside of a client: none is counted as drawn.",
        )
        return replace(
            each,
            lower=((nothing,),),
            conditions=(*each.conditions, *sentences),
            lacking=("sampling.rate",),
        )

    return events


def _client_in_batches(method: Sampler) -> Sampler:
    """Return draws of clients of which nobody knows how often they have one, or what else moves.

    So it is with several batches before a noise draw, and with records that are drawn inside of a
    client at a rate that nobody said, where draws are not independent.
    """

    def events(run: PinnedRun, draws: PhaseDraws) -> RunEvents:
        each = method(run, draws)
        often = ev.NoGuarantee("how often a unit of a client is drawn, and what moves, is not said")
        shown: ev.Event = ev.Poisson(draws.lower_rate, draws.lower)
        if run.settings.unit == "record":
            shown = ev.Pure(0.0)
        once = BoundingEvent(shown, "add-remove", once=True)
        return replace(each, upper=(BoundingEvent(often, run.relation),), lower=((once,),))

    return events


def _least_presence(run: PinnedRun, draws: PhaseDraws, method: Sampler) -> float:
    """Return the least probability that a full draw of a client has a record of it."""
    if method is METHODS["shuffled"]:
        least = passes_of(run, draws.phase).least
        return min(draws.lower_rate, *(each.drawn for each in least))
    if method in (METHODS["with-replacement"], METHODS["weighted"]):
        return presence_in(run, draws.lower_rate)
    return draws.lower_rate
