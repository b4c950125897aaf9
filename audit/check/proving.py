"""What is proven about every run that a description allows: the hull of its completions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.guarantee import Bounds
from ...accountant.rounding import up
from ...accountant.work_limit import MOST_WORK, work_of
from .bounds import CONTRADICTION, Proof, events_of, lower_end_of, proof_of
from .checked_run import CheckedRun
from .completions.completion import Choice, Completion, End
from .completions.subjects import completions
from .noise_draws import LackingFacts
from .pinned_run import PinnedRun
from .stated_event import is_sum_of_draws, samplers_of

UNKNOWN: Final = "unknown"
ALTERNATIVES: Final = ("poisson", "shuffled", "fixed-size", "full")
"""The samplers that are compared where nobody said which one ran."""

BEYOND: Final = {
    "with-replacement": "with replacement",
    "weighted": "by weights",
    "random-allocation": "into one batch of each pass, by itself",
}
"""Rarer samplers, which the bounds cover as well."""

MOST_CHECK_WORK: Final = 2_200
"""Most units of work of all runs that a description allows: some ten seconds."""

LONG_RUN: Final = 1_000_000
LONG_RUN_WORK: Final = 100
"""Units of work of a run of so many steps besides: its losses take the largest grids."""

ENDS: Final[tuple[End, End]] = ("least", "most")

ALIKE: Final = ("poisson", "full")
"""Samplers for which a record that is set to zero is as one that is removed."""


def prove(run: CheckedRun, most: int = MOST_CHECK_WORK) -> Proof:
    """Return what is proven about every run that a description allows.

    The upper end is the largest over its completions, the lower end the smallest.  `most` are the
    units of work that it may be.
    """
    refusal = _too_much_work(run, most)
    if refusal:
        lacking = ("sampling.method",) if run.settings.method == UNKNOWN else ()
        return Proof(Bounds(0.0, math.inf), unbounded=refusal, lacking=lacking, refused=True)
    if run.of_users is None:
        return _of_unit(run)
    of_records = replace(run, of_users=None, among_users=True)
    proofs = {"record": _of_unit(of_records), "user": _of_unit(run.of_users)}
    runs = {"record": of_records, "user": run.of_users}
    return _hull_of_units(proofs, runs)


def _too_much_work(run: CheckedRun, most: int) -> str:
    """Return why a description is too much work, before any of it is done; empty if it is not."""
    events: set[ev.Event] = set()
    records = run if run.of_users is None else replace(run, among_users=True)
    for each in (records, run.of_users):
        if each is None:
            continue
        method = each.settings.method
        unknown = method == UNKNOWN and (each.event is None or is_sum_of_draws(each))
        for name in (*ALTERNATIVES, *BEYOND) if unknown else (method,):
            for end in ENDS:
                try:
                    runs = completions(each, name, end)
                except (LackingFacts, Unsupported):
                    continue  # which is refused, or asked for, there
                events |= {event for some in runs for event in events_of(some.run)}
    work = sum(map(_work_of, events))
    if work <= most:
        return ""
    return (
        f"The runs that the description allows are {work:,} units of work, and the limit is "
        f"{most:,}: state more of what is open, first of all sampling.method."
    )


def _work_of(event: ev.Event) -> int:
    try:
        work = work_of(event)
    except InvalidInput:  # too deep, and refused where it is accounted for
        return 0
    if work > MOST_WORK:
        return 0  # which is refused by itself
    return work + LONG_RUN_WORK if _steps_of(event) >= LONG_RUN else work


def _steps_of(event: ev.Event) -> int:
    """Return how often the release is made that an event repeats most."""
    match event:
        case ev.Repeat(count, inner):
            return count * _steps_of(inner)
        case ev.Compose(parts):
            return max(map(_steps_of, parts), default=1)
    return 1


def _of_unit(run: CheckedRun) -> Proof:
    """Return what is proven where the protected unit is pinned."""
    if run.currency == "epsilon" and run.settings.delta is None:
        return Proof(None, lacking=("claim.delta",))
    if run.event is not None:
        if run.currency != "epsilon" or not is_sum_of_draws(run):
            return _hull(run, run.settings.method)
        if run.settings.method == UNKNOWN and not samplers_of(run.event):
            return _hull(run, "full")
    settings, method = run.settings, run.settings.method
    of_records = settings.sampled == "records" or settings.clip_bounds == "record"
    if settings.unit == "user" and of_records and settings.records_per_user is None:
        return Proof(None, lacking=("data.records_per_user",))
    if method != UNKNOWN:
        return _hull(run, method)
    # Nobody said which sampler ran: each is computed, and the worst counts.
    proofs = {name: _hull(run, name) for name in (*ALTERNATIVES, *BEYOND)}
    known = {name: each.bounds for name, each in proofs.items() if each.bounds is not None}
    if "poisson" not in known:
        return proofs["poisson"]
    proof = _enveloping(known, proofs)
    if run.settings.rate is not None and run.settings.rate < 1.0:
        # Who says a rate, or a batch, cannot state full batches with it.
        return replace(proof, unsettled=proof.unsettled | {"full"})
    return proof


def _hull_of_units(proofs: Mapping[str, Proof], runs: Mapping[str, CheckedRun]) -> Proof:
    """Return bounds that hold whether a record or a user is protected."""
    conditions = tuple(dict.fromkeys(says for each in proofs.values() for says in each.conditions))
    lacking = tuple(dict.fromkeys(key for each in proofs.values() for key in each.lacking))
    unbounded = next((each.unbounded for each in proofs.values() if each.unbounded), "")
    ends = [each.bounds for each in proofs.values() if each.bounds is not None]
    first = proofs["record"]
    if len(ends) < len(proofs):
        return Proof(None, conditions, unbounded, ("claim.unit", *lacking))
    alike = all(each.alternatives == first.alternatives for each in proofs.values())
    if alike and all(end == ends[0] for end in ends):
        return replace(first, conditions=conditions, lacking=lacking)
    spread: list[tuple[Completion, Bounds]] = []
    for unit, proof in proofs.items():
        choice = Choice("claim.unit", f"one {unit} is protected", f"claim.unit={unit}")
        known = proof.spread or ((Completion(PinnedRun.of_described(runs[unit])), proof.bounds),)
        spread += [
            (replace(each, choices=(choice, *each.choices)), bounds)
            for each, bounds in known
            if bounds is not None
        ]
    return Proof(
        Bounds(min(end.lower for end in ends), max(end.upper for end in ends)),
        conditions,
        unbounded,
        lacking,
        _by_sampler(list(proofs.values())),
        min(each.class_lower for each in proofs.values()),
        tuple(spread),
        frozenset(name for each in proofs.values() for name in each.alternatives),
    )


def _hull(run: CheckedRun, method: str) -> Proof:
    """Return bounds that hold for all completions of a run whose batches are drawn by `method`."""
    try:
        least, most = completions(run, method, "least"), completions(run, method, "most")
    except LackingFacts as lacking:
        return Proof(None, lacking=lacking.keys)
    except Unsupported as refusal:
        return Proof(Bounds(0.0, math.inf), unbounded=refusal.what)
    proofs: list[tuple[Completion, Proof]] = []
    for each in (*most, *least):
        # Where nothing is open, both ends are one run, which is computed once.
        if all(each.run != other.run for other, _ in proofs):
            proofs.append((each, proof_of(each.run)))
    if len(proofs) == 1:
        return proofs[0][1]
    without = next((proof for _, proof in proofs if proof.bounds is None), None)
    if without is not None:
        return without
    # Completions at one end bound that end alone: the other end of each is inside of the hull.
    known = [(each, proof.bounds) for each, proof in proofs if proof.bounds is not None]
    lower = min(bounds.lower for each, bounds in known if _among(each, least))
    upper = max(bounds.upper for each, bounds in known if _among(each, most))
    every = [proof for _, proof in proofs]
    unbounded = next((proof.unbounded for proof in every if proof.unbounded), "")
    if lower > upper:
        lower, upper, unbounded = 0.0, math.inf, CONTRADICTION
    return Proof(
        Bounds(lower, upper),
        tuple(dict.fromkeys(sentence for proof in every for sentence in proof.conditions)),
        unbounded if math.isinf(upper) else "",
        tuple(dict.fromkeys(key for proof in every for key in proof.lacking)),
        _by_sampler(every),
        min(proof.class_lower for proof in every),
        tuple(known),
    )


def _among(completion: Completion, others: tuple[Completion, ...]) -> bool:
    return any(completion.run == other.run for other in others)


def _by_sampler(proofs: list[Proof]) -> Mapping[str, Bounds]:
    """Return the hull of each sampler, where every completion leaves the same ones open."""
    names = [name for name in proofs[0].alternatives if all(name in p.alternatives for p in proofs)]
    return {
        name: Bounds(
            min(proof.alternatives[name].lower for proof in proofs),
            max(proof.alternatives[name].upper for proof in proofs),
        )
        for name in names
    }


def _enveloping(known: Mapping[str, Bounds], proofs: Mapping[str, Proof]) -> Proof:
    """Return bounds that hold whichever sampler ran: the lowest end and the highest."""
    envelope = Bounds(
        min(bounds.lower for bounds in known.values()),
        max(bounds.upper for bounds in known.values()),
    )
    unbounded = next((each.unbounded for each in proofs.values() if each.unbounded), "")
    lacking = tuple(dict.fromkeys(key for each in proofs.values() for key in each.lacking))
    if len(known) < len(proofs):
        envelope = Bounds(0.0, envelope.upper)
    if lacking:
        # A sampler that cannot be computed leaves the upper end open.
        envelope = Bounds(envelope.lower, math.inf)
        unbounded = unbounded or "A sampler that is not excluded cannot be computed."
    common = {name: bounds for name, bounds in known.items() if name not in BEYOND}
    rarer = [
        f"drawn {words}, at most {up(known[name].upper)}"
        for name, words in BEYOND.items()
        if name in known and math.isfinite(known[name].upper)
    ]
    says = "; ".join(rarer)
    # What only some samplers rest on is said with these; what all rest on is said here.
    shared = set.intersection(*(set(each.conditions) for each in proofs.values()))
    conditions = [sentence for sentence in proofs["poisson"].conditions if sentence in shared]
    if says:
        conditions.insert(0, f"{says[0].upper()}{says[1:]}.")
    return Proof(
        envelope,
        tuple(conditions),
        unbounded,
        lacking,
        common,
        min(each.class_lower for each in proofs.values()),
        proofs["poisson"].spread,
        frozenset(name for name, each in proofs.items() if each.spread),
    )


def with_every_relation(run: CheckedRun, proof: Proof) -> Proof:
    """Return the proof with a lower end that holds under every relation, if none was stated.

    Shuffled and fixed batches prove less about a record that is set to zero.
    """
    if "claim.neighbours" in run.known or proof.bounds is None:
        return proof
    lower = proof.bounds.lower
    for each in (run, run.of_users):
        if each is not None:
            lower = min(lower, _least_where_zeroed(replace(each, of_users=None), proof))
    return replace(proof, bounds=Bounds(lower, proof.bounds.upper))


def _least_where_zeroed(run: CheckedRun, proof: Proof) -> float:
    """Return the lower end where a unit is set to zero; infinite where that is as removing it."""
    zeroed, method = run.under("zero-out"), run.settings.method
    names: list[str] = [method]
    if run.event is None or is_sum_of_draws(run):
        names = [*ALTERNATIVES, *BEYOND] if proof.alternatives else [method]
        # What is released besides may not move where a unit is set to zero.
        alike = () if run.settings.releases or run.clip_source == "adaptive" else ALIKE
        names = [name for name in names if name not in (*alike, UNKNOWN)]
    ends = (lower_end_of(each.run) for name in names for each in completions(zeroed, name, "least"))
    return min((end for end in ends if end is not None), default=math.inf)
