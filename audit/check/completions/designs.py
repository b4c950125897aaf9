"""The product of who is drawn, who is clipped, and what a batch counts, as the facts leave it open.

For each protected unit the designs are enumerated once.  A design is left out only where a stated
fact says otherwise, or one of the conventions (`user-clip`, `record-clip`) is in force; everything
else about draws asks the design that was pinned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Final

from ..checked_run import CheckedRun
from ..noise_draws import LackingFacts
from ..pinned_run import Clipped, Drawn, PinnedRun, SamplingDesign
from .completion import Alternative, Choice, End, in_option

REPLACING: Final = ("with-replacement", "weighted")
"""Ways of drawing that may have more draws than there are of what is drawn."""

RATE_TOLERANCE: Final = 1e-6
"""How far a stated rate may be from a quotient that it is, relatively."""

CLIPPED: Final[tuple[Clipped, ...]] = ("unit", "record")
DRAWN: Final[tuple[Drawn, ...]] = ("users", "records")

DRAWN_AS: Final[Mapping[str, Drawn]] = {"record": "records", "user": "users", "silo": "silos"}
"""What a draw takes of units that are drawn as wholes."""

UNCOUNTED: Final = "Users are drawn, and nobody said how many there are."

UNCOUNTED_STEPS: Final = (
    "How many steps the stated epochs are is not known: users or silos may count their own passes."
)


def designs(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Pin who is drawn and who is clipped, with the rate and the steps that follow from these."""
    for pinned, choice in _designs(run, end):
        yield _of_unsaid_passes(pinned, end), choice


def _designs(run: PinnedRun, end: End) -> Iterator[Alternative]:
    settings = run.settings
    if settings.unit == "silo":
        yield from _of_silos(run)
    elif run.event is not None:
        yield _pinned(run, _as_stated(run)), None
    elif settings.unit == "user":
        yield from _of_users(run, end)
    elif may_be_of_users(run):
        yield from _of_records_of_users(run, end)
    else:
        yield _of_records(run), None


def may_be_of_users(run: PinnedRun) -> bool:
    """Return whether protected records may be drawn, or clipped, with those of their user."""
    settings = run.settings
    if run.event is not None or run.records_of_user == 1:
        return False
    if settings.sampled == "users" or run.records_of_user is not None:
        return True
    if run.among_users and settings.clients_rate is None:
        return True
    # By convention (`record-clip`) a record is by itself, if nothing else is said.
    # That rate and batch tell who is drawn says nothing of the clip.
    said = "sampling.sampled" in run.stated or settings.clip_bounds is not None
    holders = (settings.users, settings.silos, settings.clients_rate)
    return said and any(each is not None for each in holders)


def _of_records(run: PinnedRun) -> PinnedRun:
    """Return a run of records by themselves; users of one record each are records."""
    size = _size(run, "records")
    if size is None and run.records_of_user == 1:
        size = _size(run, "users")
    pinned = _pinned(run, SamplingDesign("records", "record", size, size), sampled="records")
    if size is None or run.settings.batch is None or not follows(run):
        return pinned
    return _at_rate(pinned, run.settings.batch / size)


def passes_are_unsaid(run: PinnedRun) -> bool:
    """Return whether no steps follow from the epochs of a pinned design.

    Epochs of users and silos may be the passes that each makes over its records in a step, and
    those of batches of what nobody counted are any number of steps.
    """
    if run.settings.clients_rate not in (None, 1.0):
        return False  # no steps were derived from these
    uncounted = follows(run) and run.design.counted is None
    of_silo = run.settings.unit == "silo" and run.settings.sampled is None
    stated = "schedule.epochs" in run.stated and not run.steps_are_counted
    return stated and (run.design.takes_wholes or uncounted or of_silo)


def _of_unsaid_passes(run: PinnedRun, end: End) -> PinnedRun:
    """Return a run of at least one step, without a most, where no steps follow from its epochs."""
    if not passes_are_unsaid(run):
        return run
    if end == "most":
        missing = (*run.unbounded_without, "schedule.steps")
        run = replace(run, unbounded=run.unbounded or UNCOUNTED_STEPS, unbounded_without=missing)
    return replace(run.with_settings(steps=1, epochs=None), stands_for=end)


def _size(run: PinnedRun, drawn: Drawn) -> int | None:
    """Return how many there are of what is drawn; None where nobody counted them."""
    settings = run.settings
    sizes = {"records": settings.records, "users": settings.users, "silos": settings.silos}
    return None if run.uncounted else sizes[drawn]


def _as_stated(run: PinnedRun) -> SamplingDesign:
    """Return the design of units that are drawn as wholes, or of their records if that is said.

    A batch of more than these counts their records; one of what nobody counted is no share.
    """
    settings = run.settings
    drawn: Drawn = "records" if settings.sampled == "records" else DRAWN_AS[settings.unit]
    size = _size(run, drawn)
    too_large = size is not None and settings.batch is not None and settings.batch > size
    return SamplingDesign(drawn, "unit", size, _size(run, "records") if too_large else size)


def _pinned(run: PinnedRun, design: SamplingDesign, **changes: object) -> PinnedRun:
    return replace(run.with_settings(**changes), design=design)


def _of_silos(run: PinnedRun) -> Iterator[Alternative]:
    """Yield draws of silos, or of records, which hide no silo.

    A rate, or a batch, counts silos only where somebody says that units are drawn as wholes.  Of
    what is drawn as a whole and is none of the counted silos a draw may have several of one silo.
    """
    settings = run.settings
    of_silos = _as_stated(run)
    records = _size(run, "records")
    of_records = SamplingDesign("records", "unit", records, records)
    if settings.sampled == "records":
        pinned = _pinned(run, of_records)
        # A batch may be all records, of whom nobody counted any.
        yield _at_rate(pinned, 1.0) if settings.rate is None and follows(run) else pinned, None
        return
    if settings.clients_rate is not None:
        whole = silos_are_clients(run) or run.event is not None
        yield _pinned(run, of_silos if whole else replace(of_silos, drawn="users")), None
        return
    by_records = counts_records(run)
    may_be_silos = "sampling.batch" in run.stated and not by_records and settings.users is None
    if settings.sampled == "users" or run.event is not None or not may_be_silos:
        drawn: Drawn = "silos" if may_be_silos and settings.sampled == "users" else "users"
        batch_of_records = settings.sampled is None and "sampling.batch" in run.stated
        if batch_of_records and by_records and records is not None:
            yield _of_share(_pinned(run, of_records)), None
        else:
            yield _pinned(run, replace(of_silos, drawn=drawn)), None
        return
    for design, what, word in ((of_silos, "silos", "users"), (of_records, "records", "records")):
        choice = Choice("sampling.sampled", f"{what} are drawn", f"sampling.sampled={word}")
        yield _of_share(_pinned(run, design, sampled=word)), choice


def _of_share(run: PinnedRun) -> PinnedRun:
    """Return a run whose rate is the share of its batch, if it follows from that."""
    batch, size = run.settings.batch, run.design.population
    return _at_rate(run, batch / size) if follows(run) and batch and size else run


def silos_are_clients(run: CheckedRun) -> bool:
    """Return whether clients are sampled from silos, and nothing else is said of who is drawn.

    They may be users of the silos, if any of these, or of their records, are counted.
    """
    settings = run.settings
    said = (settings.users, settings.sampled, settings.rate, settings.batch)
    alone = all(each is None for each in said) and run.event is None and not settings.phases
    return settings.unit == "silo" and settings.clients_rate is not None and alone


def counts_records(run: PinnedRun) -> bool:
    """Return whether batches are batches of records, though the unit is more than a record."""
    settings, units = run.settings, run.units
    batch, rate, records = settings.batch, settings.rate, settings.records
    if units is None:
        # A batch that follows from what somebody says the rate is counts nothing; libraries have
        # rates of records.
        counted = "sampling.batch" in run.stated or "sampling.rate" in run.read
        of_records = records is not None and batch is not None and counted
        return of_records or settings.unit == "silo"
    if batch is None or batch > units:
        return batch is not None
    both = {"sampling.rate", "sampling.batch"} <= run.stated
    if not both or rate is None or records is None or records == units:
        return False
    # A rate that was stated besides tells of what the batch is a share.
    tells = [abs(batch / size - rate) <= RATE_TOLERANCE * rate for size in (units, records)]
    return tells == [False, True]


def _product(run: PinnedRun) -> Iterator[tuple[Drawn, Clipped, Choice | None]]:
    """Yield who is drawn and who is clipped, without what is stated otherwise."""
    settings = run.settings
    for bounds, each in product(CLIPPED, DRAWN):
        if settings.sampled not in (None, each) or settings.clip_bounds not in (None, bounds):
            continue
        keys = {
            "noise.clip_bounds": (settings.clip_bounds, bounds),
            "sampling.sampled": (settings.sampled, each),
        }
        left = [key for key, (said, _) in keys.items() if said is None]
        settles = " ".join(f"{key}={keys[key][1]}" for key in left)
        whose = "user" if bounds == "unit" else "record"
        says = f"the clip bounds each {whose}, and {each} are drawn"
        yield each, bounds, Choice(left[0], says, settles, tuple(left[1:])) if left else None


def _of_users(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Yield the designs of protected users.

    Where nobody says how many records one has, it is drawn and clipped as a whole by convention
    (`user-clip`); a user of one record is that record.
    """
    settings, of_user = run.settings, run.settings.records_per_user
    if of_user is None or of_user == 1:
        by_records = settings.clients_rate is None and counts_records(run)
        is_said = of_user is not None or settings.sampled is not None
        if by_records and settings.method != "full" and not is_said:
            raise LackingFacts("data.records_per_user")
        for pinned, choice in _of_whole_users(run):
            yield _drawn_users(pinned, end), choice
        return
    for drawn, clipped, choice in _product(run):
        design = replace(_as_stated(run.with_settings(sampled=drawn)), clipped=clipped)
        pinned = _pinned(run, design, sampled=drawn, clip_bounds=clipped)
        if drawn == "users":
            yield _drawn_users(pinned, end), choice
        else:
            yield _drawn_records(pinned, of_user, end), choice


def _of_whole_users(run: PinnedRun) -> Iterator[Alternative]:
    """Yield the draws of users that are drawn and clipped as wholes, or have one record.

    A rate that is stated besides that of clients is the records', or theirs.
    """
    settings, design = run.settings, _as_stated(run)
    if settings.records_per_user != 1:
        yield _pinned(run, design), None
        return
    design = replace(design, drawn="records")
    both = settings.rate is not None or bool(settings.phases)
    if settings.clients_rate is None or not both or settings.sampled is not None:
        yield _pinned(run, design), None
        return
    for word in DRAWN:
        choice = Choice("sampling.sampled", f"{word} are drawn", f"sampling.sampled={word}")
        yield _pinned(run, design, sampled=word), choice


def _drawn_users(run: PinnedRun, end: End) -> PinnedRun:
    """Return a run of drawn users; where nobody counted them, a batch of them is any share.

    There may be as few as the batch takes, each of whom is in every batch, or as many as there are
    records: then a step has the least of them.
    """
    settings = run.settings
    uncounted = settings.sampled == "users" and settings.method != "full" and follows(run)
    if not uncounted or settings.users is not None or settings.clients_rate is not None:
        return run
    if end == "most":
        return replace(run, unbounded=UNCOUNTED, unbounded_without=("data.users",))
    return replace(run, stands_for="least")


def _drawn_records(run: PinnedRun, of_user: int, end: End) -> PinnedRun:
    """Return a run of drawn records of users, whose batch is a share of all records.

    Where nobody counted these, they are as many as the users, or as many times as many as one may
    have.
    """
    settings, size = run.settings, run.settings.records
    if not follows(run) or settings.batch is None or run.uncounted:
        return run
    if size is None and settings.users is not None:
        size = settings.users if end == "most" else settings.users * of_user
    return run if size is None else _at_rate(run, settings.batch / size)


def follows(run: PinnedRun) -> bool:
    """Return whether the rate follows from a batch."""
    said = "sampling.rate" in run.stated or bool(run.settings.phases) or run.from_event
    said |= run.half_unit("sampling.rate") > 0.0 or run.event is not None
    return not said and run.settings.batch is not None


def _at_rate(run: PinnedRun, rate: float) -> PinnedRun:
    most = math.inf if run.settings.method in REPLACING else 1.0
    return replace(run, settings=replace(run.settings, rate=min(most, rate)))


def _of_records_of_users(run: PinnedRun, end: End) -> Iterator[Alternative]:
    """Yield the designs of protected records of users.

    Where users may be protected as well and nothing is said, records are drawn and clipped by
    themselves, or users are drawn and clipped as wholes: the other two fall under a convention.
    """
    settings = run.settings
    said = settings.sampled or settings.clip_bounds or run.records_of_user
    for drawn, clipped, choice in _product(run):
        if said is None and (drawn == "users") != (clipped == "unit"):
            continue
        if drawn == "records":
            design = SamplingDesign(drawn, clipped, _size(run, drawn), _size(run, drawn))
            yield _pinned(run, design, sampled=drawn, clip_bounds=clipped), choice
        else:
            yield from _of_wholes(run, clipped, choice, end)


def _of_wholes(
    run: PinnedRun, clipped: Clipped, choice: Choice | None, end: End
) -> Iterator[Alternative]:
    """Yield draws of users, of protected records: a batch may count either."""
    settings, users = run.settings, _size(run, "users")
    design = SamplingDesign("users", clipped, users, users)
    whole = _pinned(run, design, sampled="users", clip_bounds=clipped)
    if settings.method == "full" or settings.phases or not follows(run) or settings.batch is None:
        # With neither a rate nor a batch the rate is asked for.
        yield whole, choice
        return
    if users is None:
        yield _nobody_counted(whole, end), choice
        return
    sizes = {"users": users, "records": _size(run, "records")}
    if sizes["records"] is None and end == "least":
        if run.records_of_user is None:
            yield _nobody_counted(whole, end), choice
            return
        sizes["records"] = users * run.records_of_user
    rates = {what: settings.batch / size for what, size in sizes.items() if size is not None}
    if rates["users"] > 1.0 and settings.method not in REPLACING:
        # Users are drawn once at most, so that the batch counts records: all of them, for all that
        # is said.
        rates = {"records": rates.get("records", 1.0)}
    # A sample at a lower rate is a mixture with what shows nothing: by joint convexity a higher
    # rate shows no less.
    what = (max if end == "most" else min)(rates, key=rates.__getitem__)
    counted = choice if len(set(rates.values())) == 1 else _counting(choice, what, rates[what])
    yield _at_rate(whole, rates[what]), counted


def _nobody_counted(run: PinnedRun, end: End) -> PinnedRun:
    if end == "most":
        missing = ("data.users",)
        return replace(run, unbounded=UNCOUNTED, unbounded_without=missing, stands_for="most")
    return replace(run, shows_nothing=True, stands_for="least")


def _counting(choice: Choice | None, what: str, rate: float) -> Choice:
    """Return a choice with what a batch counts besides."""
    option = f"sampling.rate={in_option(rate)}" if rate <= 1.0 else ""
    says = f"the batch counts {what}"
    if choice is None:
        return Choice("sampling.rate", says, option)
    both = f"{choice.settles} {option}" if option else ""
    also = (*choice.also, "sampling.rate")
    return replace(choice, says=f"{choice.says}; {says}", settles=both, also=also)
