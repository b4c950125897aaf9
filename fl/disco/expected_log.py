"""What a configuration of DISCO's peers fixes of its run's log (`fl.frame.expected_log`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, cast

from ...accountant.mechanisms import Gaussian
from ...accountant.records import Normaliser, RoundIntent, Sampling, Security
from ..declarations.declaration import Read
from ..frame.expected_log import (
    ExpectedLog,
    ExpectedPhase,
    NotStated,
    expected_phase,
    noise_multiplier_of,
)
from ..frame.initial_model import initial_tensors
from . import clip_rules
from .noise import NoiseTerms, Source, Unit, mechanism_of, sees_each, votes_mechanism
from .published_noise import published_mechanism, published_multiplier
from .settings import AS_PUBLISHED_NOISE, COUNT_PHASE, FIXED, PREVIOUS, QUANTILE
from .time_frames import Schedule


def _phase(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    if read("disco", "noise") == AS_PUBLISHED_NOISE:
        return _published(read)
    counted = intent.phase == COUNT_PHASE
    make = _count if counted else _sum
    noise = noise_multiplier_of(read, intent, lambda noise: make(read, intent, noise))
    schedule = _schedule(read)
    members = len(schedule.members(intent.round))
    constant = Normaliser("constant", float(read("disco", "divisor") or members))
    expected = expected_phase(
        make(read, intent, noise),
        read("privacy", "neighbours"),
        1,
        Sampling(),
        None if counted else constant,
    )
    return replace(expected, silos=schedule.stated(intent.round))


def _count(read: Read, intent: RoundIntent, noise: float) -> Gaussian:
    return mechanism_of(
        _terms(read),
        clip_rules.count_multiplier(noise),
        bound=clip_rules.COUNT_BOUND,
        members=len(_schedule(read).members(intent.round)),
        source="public",
    )


def _sum(read: Read, intent: RoundIntent, noise: float) -> Gaussian:
    rule, bound, source = read("disco", "clip"), read("training", "clip"), "public"
    # A clip that moves is read off the log: it follows from releases, which the log has digests of.
    # One that no release could have led to is not the nearest that one could have.
    if rule != FIXED and intent.round > 1:
        least, largest = clip_rules.range_of(rule, bound, intent.round)
        bound = min(max(intent.contribution.bound, least), largest)
        source = "models" if rule == PREVIOUS else "released"
    return mechanism_of(
        _terms(read),
        clip_rules.update_multiplier(noise) if rule == QUANTILE else noise,
        bound=bound,
        members=len(_schedule(read).members(intent.round)),
        source=cast("Source", source),
    )


def _votes(read: Read) -> ExpectedPhase:
    """Return what the release of votes states; time frames are refused beside it."""
    mechanism = votes_mechanism(_terms(read), read("evaluation", "held_out_noise"))
    votes = expected_phase(mechanism, read("privacy", "neighbours"), 1, Sampling(), None)
    return replace(votes, sees_each=sees_each(_terms(read)))


def _published(read: Read) -> ExpectedPhase:
    """Return what a round as published states: noise by the published formula, and no less."""
    model, data = read("training", "model"), read("data", "name")
    tensors, peers = initial_tensors(model, data), read("data", "silos")
    if tensors is None:
        raise NotStated(f"the tensors of {model} on {data}")
    noise = published_multiplier(
        read("privacy", "epsilon"),
        read("privacy", "noise_multiplier"),
        read("run", "rounds"),
        read("privacy", "delta"),
    )
    return expected_phase(
        published_mechanism(
            noise, clip=read("training", "clip"), tensors=len(tensors), peers=peers
        ),
        read("privacy", "neighbours"),
        1,
        Sampling(),
        Normaliser("constant", float(peers)),
    )


def _schedule(read: Read) -> Schedule:
    frames, fewest = read("disco", "time_frames"), read("disco", "min_participants")
    return Schedule(frames, read("data", "silos"), read("run", "rounds"), fewest)


def _counted(read: Read) -> int | None:
    """Return how many rounds one peer takes part in at most; None: all."""
    return _schedule(read).most_rounds


def _terms(read: Read) -> NoiseTerms:
    return NoiseTerms(
        read("disco", "noise"),
        _schedule(read).smallest,
        read("security", "colluders"),
        read("security", "aggregation"),
        cast("Unit", read("privacy", "unit")),
    )


def _shares(read: Read, security: Security) -> Security:
    """Return the parameters of shares, by the smallest group; as published in no ring."""
    if read("disco", "noise") == AS_PUBLISHED_NOISE:
        return replace(security, ring_bits=0)
    return replace(security, fewest=_schedule(read).smallest)


EXPECTED: Final = ExpectedLog(_phase, shares=_shares, counted=_counted, votes=_votes)
