"""The schedule: steps and epochs from each other, and the sampling rate.

What is stated twice is held against each other.  The rate is stated, batch over records, or 1 for
full batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.validate import LARGEST_COUNT
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


def population_key(working: WorkingFacts) -> str | None:
    """Return the key of what batches are drawn from: units where they are counted, or records.

    A batch that is larger than the number of users must be one of records.
    """
    batch = working.count(BATCH)
    again = working.word("sampling.method", "unknown") == "with-replacement"
    units = OF_UNIT.get(working.word("claim.unit", "record"), "data.records")
    for key in (units, "data.records"):
        size = working.count(key)
        if size is not None and (batch is None or batch <= size or again):
            return key
    return None


def complete_sampling(working: WorkingFacts) -> None:
    """Derive rate or batch, or name what contradicts them; refuse a batch above all records."""
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
    key = max(known, key=lambda name: known[name])
    both = f"{statement(BATCH, working.facts[BATCH])} and {statement(key, working.facts[key])}"
    raise InvalidInput(
        f"A batch of {batch:,} cannot be drawn from {known[key]:,} {key.partition('.')[2]}.",
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
    elif batch != size:
        says = f"batch = {shown(batch)} of {shown(size)} and method = full cannot both be true"
        working.contradict(BATCH, says, BATCH, key, "sampling.method")


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
        return
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
    accumulated = {1, working.count("schedule.accumulation") or 1}
    clients = {1.0, working.number("sampling.clients_rate") or 1.0}
    # A loader's batch may be one that is accumulated, or all that are.
    together = {(drawn * batch, times) for drawn in accumulated for times in accumulated}
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


STEPS: Final = "schedule.steps"
EPOCHS: Final = "schedule.epochs"
EPOCH_RECORDS: Final = "schedule.records_per_epoch"
WHOLE_TOLERANCE: Final = 1e-6
"""A quotient this near to a whole number, relatively, is that number."""


def batches_per_epoch(working: WorkingFacts) -> Fraction | None:
    """Return the noise draws of one epoch, not rounded: records / batch, or 1 / rate.

    A rate that a program computed as 1 / 235 is 235 batches again.
    """
    if working.word("sampling.method", "unknown") == "full":
        return Fraction(1)
    batch, size = working.count(BATCH), epoch_size(working)
    if batch is not None and size is not None:
        return Fraction(size, batch)
    rate = working.number(RATE)
    if rate is None:
        return None
    batches = 1.0 / rate
    whole = round(batches)
    near = abs(batches - whole) <= WHOLE_TOLERANCE * batches
    return Fraction(whole) if near else Fraction(batches)


def epoch_size(working: WorkingFacts) -> int | None:
    """Return how many records, or users, one epoch passes over."""
    size = working.count(EPOCH_RECORDS)
    if size is not None:
        return size
    key = population_key(working)
    return None if key is None else working.count(key)


def complete_schedule(working: WorkingFacts) -> None:
    """Derive steps or epochs, or name what contradicts them."""
    phases = working.phases()
    if phases:
        total = _few_enough(sum(phase.steps for phase in phases))
        working.derive(STEPS, total, "the sum of all phases")
        if working.count(STEPS) != total:
            says = (
                f"steps = {shown(working.count(STEPS))} and phases of {shown(total)} steps "
                "cannot both be true"
            )
            working.contradict(STEPS, says, STEPS, "schedule.phases")
    batches = batches_per_epoch(working)
    epochs, steps = working.number(EPOCHS), working.count(STEPS)
    if batches is None:
        return
    if steps is None and epochs is not None and _are_passes(working):
        draws = _few_enough(math.ceil(Fraction(repr(epochs)) * batches))
        working.derive(
            STEPS, draws, f"epochs x batches of one = {shown(epochs)} x {_text(batches)}"
        )
    elif epochs is None and steps is not None:
        passes = steps / math.ceil(batches)
        working.derive(
            EPOCHS, passes, f"steps / batches of an epoch = {shown(steps)} / {math.ceil(batches):,}"
        )
    elif epochs is not None and steps is not None and _are_passes(working):
        _compare(working, epochs, steps, batches)


def _few_enough(steps: int) -> int:
    """Return a number of steps; refuse one that no run makes."""
    if steps > LARGEST_COUNT:
        raise InvalidInput(
            "The schedule would have more than 10^18 steps.",
            "No run makes so many.",
            "Correct epochs, rate or phases.",
        )
    return steps


def _are_passes(working: WorkingFacts) -> bool:
    """Return whether epochs are passes of the steps over the data.

    Where clients are sampled, or batches are made of users or silos, people count the passes that
    each makes over its records in one round; these tell nothing of the rounds.
    """
    clients = working.number("sampling.clients_rate")
    return (clients is None or clients == 1.0) and population_key(working) not in OF_UNIT.values()


def _compare(working: WorkingFacts, epochs: float, steps: int, batches: Fraction) -> None:
    """Allow every usual way to count: an incomplete batch kept, dropped or carried over."""
    half_unit = Fraction(working.half_unit(EPOCHS))
    passes = Fraction(repr(epochs))
    # Steps may be those of one start, or of all; so may epochs.
    restarts = working.count("schedule.restarts") or 1
    counts = {Fraction(steps), Fraction(steps * restarts), Fraction(steps, restarts)}
    fewest, largest = _range_of_batches(working, batches)
    for accumulated in {1, working.count("schedule.accumulation") or 1}:
        low, high = fewest / accumulated, largest / accumulated
        least = math.floor((passes - half_unit) * (low if low < 1 else math.floor(low)))
        most = math.ceil((passes + half_unit) * math.ceil(high))
        if any(least <= count <= most for count in counts):
            return
    implied = math.ceil(passes * batches)
    is_counted = BATCH in working and epoch_size(working) is not None
    known = (BATCH, "data.records", EPOCH_RECORDS) if is_counted else (RATE,)
    working.contradict(
        STEPS,
        f"steps = {shown(steps)} and epochs = {shown(epochs)} ({implied:,} steps) "
        "cannot both be true",
        STEPS,
        EPOCHS,
        *(key for key in known if key in working),
    )


def _range_of_batches(working: WorkingFacts, batches: Fraction) -> tuple[Fraction, Fraction]:
    """Return the fewest and the most noise draws of an epoch that the facts allow, not rounded.

    The printed digits of a rate leave them open, and so does an epoch of other records than all.
    """
    low = high = batches
    rate, half_unit = working.number(RATE), working.half_unit(RATE)
    batch = working.facts.get(BATCH)
    counted = batch is not None and batch.provenance != "derived"
    if not (counted and epoch_size(working) is not None) and rate and 0.0 < half_unit < rate:
        # A float of a rate can lie beside the exact quotient by its own rounding.
        low = min(low, 1 / (Fraction(rate) + Fraction(half_unit)))
        high = max(high, 1 / (Fraction(rate) - Fraction(half_unit)))
    of_epoch, key = working.count(EPOCH_RECORDS), population_key(working)
    size = None if key is None else working.count(key)
    if of_epoch is not None and size is not None and not counted:
        share = Fraction(of_epoch, size)
        low, high = low * min(Fraction(1), share), high * max(Fraction(1), share)
    return low, high


def _text(batches: Fraction) -> str:
    return f"{batches.numerator:,}" if batches.denominator == 1 else f"{float(batches):,.2f}"
