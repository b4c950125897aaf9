"""What a configuration of Uldp-FL's systems fixes of a run's log (`fl.frame.expected_log`).

Each section recomputes noise, sampling and normaliser of one system from the configuration.

Source: the systems beside this file, which state these facts when they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

from ...accountant.mechanisms import FineGaussian, Gaussian
from ...accountant.records import Normaliser, RoundIntent, Sampling, Security
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import sensitivity_multiplier, up
from ..aggregation.weighted_sum import weighted_sum
from ..declarations.declaration import Read
from ..frame.expected_log import (
    ExpectedLog,
    ExpectedPhase,
    Mechanism,
    expected_phase,
    noise_multiplier_of,
)
from ..frame.held_out_votes import record_votes_sum
from .correlated import Schedule
from .record_flags import FLAGS_CHOSEN_BY
from .settings import BANDED

# --- ULDP-NAIVE -----------------------------------------------------------------------------------


def _naive(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    silos: int = read("data", "silos")
    mechanism = _mechanism(read, intent, lambda noise: _naive_sum(read, noise))
    constant = Normaliser("constant", float(silos))
    return expected_phase(mechanism, read("privacy", "neighbours"), 1, Sampling(), constant)


def _naive_sum(read: Read, noise_multiplier: float) -> Gaussian:
    clip, silos = read("training", "clip"), read("data", "silos")
    sensitivity = uldp.naive_sensitivity_as_published(clip, silos)
    if not read("uldp", "as_published"):
        relation = read("privacy", "neighbours")
        sensitivity = uldp.naive_sensitivity(clip, silos, relation).l2 / sensitivity_multiplier(
            relation
        )
    return Gaussian(
        bound=clip,
        std=up(Fraction(noise_multiplier) * Fraction(sensitivity)),
        shares=silos,
        terms="silo-delta",
        unit="user",
        tolerated_dropouts=read("security", "dropouts"),
    )


# --- ULDP-GROUP -----------------------------------------------------------------------------------


def _group(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    mechanism = _mechanism(read, intent, lambda noise: _group_sum(read, noise))
    rate = _record_rate(read)
    sampling = Sampling(chosen_by=FLAGS_CHOSEN_BY)
    if rate != 1.0:
        sampling = Sampling("poisson", "record", rate, "silos", chosen_by=FLAGS_CHOSEN_BY)
    epochs: int = read("training", "local_epochs")
    # Every step of DP-SGD is a draw of its own in the intent.
    steps = epochs * math.ceil(1 / Fraction(rate))  # of DP-SGD in a round
    constant = Normaliser("constant", float(Fraction(rate) * _nominal(read)))
    return expected_phase(mechanism, read("privacy", "neighbours"), steps, sampling, constant)


def _group_sum(read: Read, noise_multiplier: float) -> Gaussian:
    clip = read("training", "clip")
    std = up(Fraction(noise_multiplier) * Fraction(clip))
    return Gaussian(bound=clip, std=std, terms="unit", unit="record")


def _group_votes(read: Read) -> ExpectedPhase:
    mechanism = record_votes_sum(
        read("evaluation", "held_out_noise"),
        silos=read("data", "silos"),
        most=read("uldp", "group_records"),
        dropouts=read("security", "dropouts"),
    )
    sampling = Sampling(chosen_by=FLAGS_CHOSEN_BY)
    return expected_phase(mechanism, read("privacy", "neighbours"), 1, sampling, None)


def _nominal(read: Read) -> Fraction:
    """Return n, the records of a silo if every user has k of them over all silos."""
    group_records = read("uldp", "group_records") or 1
    return Fraction(group_records * read("data", "users"), read("data", "silos"))


def _record_rate(read: Read) -> float:
    given: float | None = read("uldp", "record_rate")
    if given is not None:
        return given
    return min(float(read("training", "batch") / _nominal(read)), 1.0)


# --- ULDP-AVG and ULDP-SGD ------------------------------------------------------------------------


def _weighted(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    mechanism = _mechanism(read, intent, lambda noise: _weighted_sum(read, noise))
    rate, slots = _user_rate(read), read("security", "slots")
    sampling = Sampling()
    if rate != 1.0:
        sampling = Sampling("poisson", "user", rate, "server")
        if slots is not None:
            sampling = replace(sampling, drawn_by="oblivious-transfer")
        elif read("security", "aggregation") == "shares":
            sampling = replace(sampling, drawn_by="shared-secret")
    users, silos = read("data", "users"), read("data", "silos")
    if read("run", "system") == "uldp-avg" and read("privacy", "noise") == BANDED:
        schedule = Schedule.of(read)
        constant = Normaliser("constant", rate * users * silos / schedule.cohorts)
        alone = expected_phase(mechanism, read("privacy", "neighbours"), 1, sampling, constant)
        # A block begins with whichever round is next after a run was cut off.
        first = intent.round if intent.block is None else intent.block.first
        return replace(alone, block=schedule.block(first))
    constant = Normaliser("constant", rate * users * silos)
    return expected_phase(mechanism, read("privacy", "neighbours"), 1, sampling, constant)


def _weighted_sum(read: Read, noise_multiplier: float) -> Mechanism:
    mechanism = weighted_sum(
        noise_multiplier,
        bound=read("training", "clip"),
        users=read("data", "users"),
        silos=read("data", "silos"),
        rule=read("training", "weighting"),
        tolerated_dropouts=read("security", "dropouts"),
    )
    if read("security", "aggregation") != "private-weighting" or read("uldp", "as_published"):
        return mechanism
    from .weighting.terms import WeightingTerms, common_multiple

    # Private weighting draws on a finer grid, so that no residue is without noise.
    multiple = common_multiple(read("security", "count_limit"))
    return FineGaussian.of(mechanism, multiple, WeightingTerms.digits)


def _user_rate(read: Read) -> float:
    """Return the probability with which a user joins a round; of slots, rounded up."""
    slots = read("security", "slots")
    if slots is None:
        return float(read("privacy", "sampling_rate"))
    return up(Fraction(_real_slots(read), slots))


def _real_slots(read: Read) -> int:
    rate: float = read("privacy", "sampling_rate")
    slots: int = read("security", "slots")
    return round(rate * slots)


def _private_weighting(read: Read) -> Security:
    """Return the parameters of private weighting."""
    silos, published = read("data", "silos"), read("uldp", "as_published")
    limit, slots = read("security", "count_limit"), read("security", "slots")
    return Security(
        "private-weighting",
        parties=silos,
        fewest=silos,
        key_bits=read("security", "key_bits"),
        count_limit=limit,
        count_cap=0 if published else (limit - 1) // silos,
        records_per_count=1 if published else read("security", "records_per_count"),
        slots=slots or 0,
        chosen=0 if slots is None else _real_slots(read),
        noise="multiples" if published else "every-residue",
    )


# --- what declarations name -----------------------------------------------------------------------


def _mechanism(read: Read, intent: RoundIntent, make: Callable[[float], Mechanism]) -> Mechanism:
    """Return the mechanism with the configured noise, or with that of the intent."""
    return make(noise_multiplier_of(read, intent, make))


EXPECTED_NAIVE: Final = ExpectedLog(_naive)
EXPECTED_GROUP: Final = ExpectedLog(_group, votes=_group_votes)
WEIGHTED: Final = ExpectedLog(_weighted, _private_weighting)
