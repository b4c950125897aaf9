"""The sampling rate: stated, batch over what batches are drawn from, or 1 for full batches.

What is stated twice is held against each other, as far as everything that a batch can be drawn from
was counted: a batch of an uncounted population contradicts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from ...accountant.errors import InvalidInput
from .agreement import WorkingFacts, near, shown, statement
from .run_description import Fact

RATE: Final = "sampling.rate"
BATCH: Final = "sampling.batch"
RATE_TOLERANCE: Final = 1e-6
"""A rate that a program computed is one of the usual quotients up to so much, relatively."""

POPULATIONS: Final = ("data.records", "data.users", "data.silos")
"""What a batch can be drawn from."""

OF_UNIT: Final = {"user": "data.users", "silo": "data.silos"}
"""What a batch is drawn from where a unit is more than a record."""


def kinds_of_batch(working: WorkingFacts) -> tuple[str, ...]:
    """Return the keys of all that a batch may be drawn from: units, or records."""
    unit = working.word("claim.unit", "record")
    match working.word("sampling.sampled", ""):
        case "records":
            return ("data.records",)
        case "users" if unit == "user":
            return ("data.users",)
        case "users" if unit == "record":
            return ("data.users", "data.records")
    if unit == "silo":
        return ("data.silos", "data.users", "data.records")
    several = (working.count("data.records_per_user") or 1) > 1
    if unit == "user" or "data.users" in working or several:
        return ("data.users", "data.records")
    return ("data.records",)


def population_is_counted(working: WorkingFacts) -> bool:
    """Return whether everything that a batch may be drawn from was counted."""
    return all(working.count(key) is not None for key in kinds_of_batch(working))


def population_key(working: WorkingFacts) -> str | None:
    """Return the key of what batches are drawn from: units where they are counted, or records.

    A batch that is larger than the number of users must be one of records.  One whose share of all
    that was counted is not the stated rate is of what nobody counted.
    """
    batch = working.count(BATCH)
    again = working.word("sampling.method", "unknown") == "with-replacement"
    unit = OF_UNIT.get(working.word("claim.unit", "record"), "data.records")
    keys: tuple[str, ...] = (unit, "data.records")
    if working.word("sampling.sampled", "") == "records":
        keys = ("data.records",)
    elif working.word("sampling.sampled", "") == "users" and unit == "data.records":
        keys = ("data.users",)
    for key in keys:
        size = working.count(key)
        if size is not None and (batch is None or batch <= size or again):
            return None if batch_is_of_uncounted(working) else key
    return None


def _stated(working: WorkingFacts, key: str) -> float | None:
    """Return a number that does not follow from others; None where there is none."""
    fact = working.facts.get(key)
    return None if fact is None or fact.provenance == "derived" else working.number(key)


def batch_is_of_uncounted(working: WorkingFacts) -> bool:
    """Return whether a batch and a rate tell of a population that nobody counted."""
    rate, batch = _stated(working, RATE), _stated(working, BATCH)
    if rate is None or batch is None or population_is_counted(working):
        return False
    full = working.word("sampling.method", "unknown") == "full"
    counted = any(working.count(key) is not None for key in POPULATIONS)
    half_unit = max(working.half_unit(RATE), RATE_TOLERANCE * rate)
    is_share = any(near(rate, each, half_unit) for each in rates_of(working, int(batch)))
    return counted and not full and not is_share


def drawn_by_rate(working: WorkingFacts) -> str | None:
    """Return `users` or `records`, where rate and batch tell what is drawn.

    A batch is a share of one of them alone, at the stated rate.
    """
    rate, batch = _stated(working, RATE), _stated(working, BATCH)
    if rate is None or batch is None or working.word("claim.unit", "") == "silo":
        return None
    fits = {}
    for word in ("users", "records"):
        size = working.count(f"data.{word}")
        fits[word] = None if size is None else near(rate, batch / size, RATE_TOLERANCE * rate)
    if batch_is_of_uncounted(working):
        missing = [word for word, fit in fits.items() if fit is None]
        return missing[0] if len(missing) == 1 else None
    matching = [word for word, fit in fits.items() if fit]
    return matching[0] if len(matching) == 1 and False in fits.values() else None


def complete_sampling(working: WorkingFacts) -> None:
    """Derive rate or batch, or name what contradicts them; refuse a batch above all records."""
    _derive_users(working)
    _refuse_large_batch(working)
    if working.word("sampling.method", "unknown") == "full":
        _full_batches(working)
    elif RATE in working:
        _compare_rate(working)
        _derive_batch(working)
    else:
        _derive_rate(working)
    _phase_rates(working)
    _compare_users(working)


def _derive_users(working: WorkingFacts) -> None:
    """Derive users from records, or records from users, where a user has one record."""
    if working.count("data.records_per_user") != 1 or working.word("claim.unit", "") != "user":
        return
    pair = ("data.users", "data.records")
    for key, other in (pair, pair[::-1]):
        if (size := working.count(other)) is not None:
            working.derive(key, size, "each user has one record")


def _compare_users(working: WorkingFacts) -> None:
    """Name users who together have fewer records than there are."""
    users, records = working.count("data.users"), working.count("data.records")
    of_user = working.count("data.records_per_user")
    if users is None or records is None or of_user is None or users * of_user >= records:
        return
    says = (
        f"{shown(users)} users of {shown(of_user)} records at most and {shown(records)} records "
        "cannot both be true"
    )
    keys = ("data.users", "data.records", "data.records_per_user")
    working.contradict("data.records_per_user", says, *keys)


def _refuse_large_batch(working: WorkingFacts) -> None:
    batch = working.count(BATCH)
    known = {key: size for key in POPULATIONS if (size := working.count(key)) is not None}
    if batch is None or not known or batch <= max(known.values()):
        return
    if working.word("sampling.method", "unknown") == "with-replacement":
        return
    uncounted = {key for key in kinds_of_batch(working) if key not in known}
    users, of_user = working.count("data.users"), working.count("data.records_per_user")
    most = math.inf if users is None or of_user is None else users * of_user
    if uncounted and (uncounted != {"data.records"} or batch <= most):
        return  # it may be drawn from what nobody counted
    key = max(known, key=lambda name: known[name])
    both = f"{statement(BATCH, working.facts[BATCH])} and {statement(key, working.facts[key])}"
    each = f" of {shown(of_user)} records at most" if uncounted else ""
    raise InvalidInput(
        f"A batch of {batch:,} cannot be drawn from {known[key]:,} {key.partition('.')[2]}{each}.",
        f"{both} cannot both be true.",
        "Correct one of them; the batch is what is expected in one noise draw.",
    )


def _full_batches(working: WorkingFacts) -> None:
    stated = working.number(RATE)
    if stated is None:
        working.derive(RATE, 1.0, "every step uses all: method = full")
    elif not near(stated, 1.0, working.half_unit(RATE)):
        says = f"rate = {shown(stated)} and method = full (rate 1) cannot both be true"
        working.contradict(RATE, says, RATE, "sampling.method")
    half_unit = working.half_unit("schedule.phases")
    others = [each.rate for each in working.phases() if not near(each.rate, 1.0, half_unit)]
    if others:
        says = f"phases of rate {shown(others[0])} and method = full (rate 1) cannot both be true"
        working.contradict("schedule.phases", says, "schedule.phases", "sampling.method")
    key = population_key(working)
    if key is None:
        return
    batch, size = working.count(BATCH), working.count(key)
    if batch is None:
        working.derive(BATCH, size, "every step uses all: method = full")
    elif population_is_counted(working) and not _is_all(working, batch):
        says = f"batch = {shown(batch)} of {shown(size)} and method = full cannot both be true"
        working.contradict(BATCH, says, BATCH, key, "sampling.method")


def _is_all(working: WorkingFacts, batch: int) -> bool:
    """Return whether a batch, or all that are accumulated, are all there is, or all of clients."""
    several = working.count("schedule.accumulation") or 1
    clients = working.number("sampling.clients_rate") or 1.0
    return any(
        near(batch * times, size * share, RATE_TOLERANCE * batch * times)
        for size in map(working.count, POPULATIONS)
        if size is not None
        for times in (1, several)
        for share in (1.0, clients)
    )


def _derive_rate(working: WorkingFacts) -> None:
    phases = working.phases()
    rates = {phase.rate for phase in phases}
    batch, key = working.count(BATCH), population_key(working)
    if len(rates) == 1:
        # The phases print their rate; batch / records may say it exactly.
        half_unit = working.half_unit("schedule.phases")
        working.facts[RATE] = Fact(rates.pop(), "derived", "all phases have it", half_unit)
        _compare_rate(working)
    elif not rates and batch is not None and key is not None:
        size = working.count(key)
        assert size is not None
        name = key.partition(".")[2]
        working.derive(RATE, batch / size, f"batch / {name} = {batch:,} / {size:,}")


def _derive_batch(working: WorkingFacts) -> None:
    rate, key = working.number(RATE), population_key(working)
    if BATCH in working or rate is None or key is None:
        return
    size = working.count(key)
    assert size is not None
    batch = round(rate * size)
    # 1 / 235 of 60,000 is 255.3: a loader's rate, which tells no batch.
    if batch >= 1 and near(rate, batch / size, RATE_TOLERANCE * rate):
        name = key.partition(".")[2]
        working.derive(BATCH, batch, f"rate x {name} = {shown(rate)} x {size:,}")


def _compare_rate(working: WorkingFacts) -> None:
    """Hold a stated rate against the quotients of batch and records that programs use."""
    rate, batch, key = working.number(RATE), working.count(BATCH), population_key(working)
    if rate is None or batch is None or key is None:
        return  # of a population that nobody counted, too
    half_unit = working.half_unit(RATE)
    quotients = [quotient for quotient in rates_of(working, batch) if quotient <= 1.0]
    if not quotients:
        return
    if any(near(rate, quotient, RATE_TOLERANCE * rate) for quotient in quotients):
        return
    printed_alike = any(near(rate, quotient, half_unit) for quotient in quotients)
    size = working.count(key)
    assert size is not None
    sentence = f"batch / {key.partition('.')[2]} = {shown(batch)} / {shown(size)}"
    described = min(batch / size, 1.0)
    if near(rate, described, half_unit):
        # A program may have printed the rate of its loader, which is printed alike.
        if working.facts[RATE].provenance != "read":
            working.refine(RATE, described, sentence)
        return
    if printed_alike:
        return  # the rate of a loader, which stays as open as its digits
    working.contradict(
        RATE,
        f"rate = {shown(rate)} and {sentence} ({shown(batch / size)}) cannot both be true",
        RATE,
        BATCH,
        key,
    )


def rates_of(working: WorkingFacts, batch: int) -> Iterator[float]:
    """Yield the rates that libraries compute from a batch and the number of records.

    These are batch / records, and one over the batches of a loader, which may drop the last one;
    for all records or those of an epoch, of all users, and of one silo's or user's share; times
    the batches that are accumulated, and times the clients that are sampled.
    """
    sizes = {working.count(key) for key in (*POPULATIONS, "schedule.records_per_epoch")}
    records = working.count("data.records")
    populations = {Fraction(size) for size in sizes if size is not None}
    if records is not None:
        for key in ("data.users", "data.silos"):
            holders = working.count(key)
            if holders is not None:
                populations.add(Fraction(records, holders))
    if (of_user := working.count("data.records_per_user")) is not None:
        populations.add(Fraction(of_user))
    several = working.count("schedule.accumulation") or 1
    accumulated = {Fraction(1), Fraction(several)}
    # A batch may be that of the clients of a round alone, or of all draws of both.
    of_clients = working.number("sampling.clients_rate") or 1.0
    clients = {1.0, of_clients, 1.0 / of_clients}
    # A loader's batch may be one that is accumulated, or all that are.
    together = {(drawn * batch, times) for drawn in accumulated for times in accumulated}
    together.add((Fraction(batch, several), Fraction(1)))
    for size in populations:
        for drawn, times in together:
            batches = size / drawn
            if batches < 1:
                continue
            for quotient in {
                1 / batches,
                Fraction(1, math.ceil(batches)),
                Fraction(1, int(batches)),
            }:
                for share in clients:
                    yield float(quotient * times) * share


def _phase_rates(working: WorkingFacts) -> None:
    """Name a stated rate that is that of no phase."""
    phases, rate = working.phases(), working.number(RATE)
    if not phases or rate is None or working.facts[RATE].provenance == "derived":
        return
    half_unit = working.half_unit(RATE) + working.half_unit("schedule.phases")
    if not any(near(rate, phase.rate, half_unit + RATE_TOLERANCE * rate) for phase in phases):
        says = f"rate = {shown(rate)} is that of no phase"
        working.contradict(RATE, says, RATE, "schedule.phases")
