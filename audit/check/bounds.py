"""What is proven about a described run: bounds on what it claims, and under what conditions."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from ...accountant import events as ev
from ...accountant.account import bounds_on_epsilon
from ...accountant.errors import EnginesDisagree, InvalidInput, Unsupported
from ...accountant.guarantee import Bounds, Neighbours
from .bounding_event import BoundingEvent, RunEvents
from .checked_run import CheckedRun
from .concentrated import concentrated_bounds
from .events import run_events
from .noise_draws import LackingFacts, without_noiseless
from .stated_event import event_alternatives

UNKNOWN: Final = "unknown"
ALTERNATIVES: Final = ("poisson", "shuffled", "fixed-size", "full")
"""The samplers that are compared where nobody said which one ran."""

ALIKE: Final = ("poisson", "full")
"""Samplers for which a record that is set to zero is as one that is removed."""


@dataclass(frozen=True)
class Proof:
    """Bounds on the claimed quantity; `unbounded` says why there is no upper end, if so.

    `bounds` is None where facts are lacking: then `lacking` names their keys.  `alternatives`
    are the bounds by sampler, where nobody said which one ran.
    """

    bounds: Bounds | None
    conditions: tuple[str, ...] = ()
    unbounded: str = ""
    lacking: tuple[str, ...] = ()
    alternatives: Mapping[str, Bounds] = field(default_factory=dict)


@lru_cache(maxsize=1024)
def _epsilon(event: ev.Event, delta: float, neighbours: Neighbours) -> Bounds | str:
    """Return the bounds of an event on epsilon, or why there are none."""
    try:
        return bounds_on_epsilon(event, delta=delta, neighbours=neighbours)
    except (Unsupported, InvalidInput) as refusal:
        return refusal.what
    except EnginesDisagree as disagreement:
        return str(disagreement)
    except ValueError:
        # Noise or counts beyond all use can empty a grid; then nothing is proven.
        return "The numbers of this run are too extreme to be accounted."


def epsilon_bounds(events: RunEvents, delta: float) -> tuple[Bounds, str]:
    """Return the bounds on epsilon at a delta, and why there is no upper end (empty if there is).

    >>> gaussian = BoundingEvent(ev.Gaussian(1.0), "add-remove")
    >>> bounds, _ = epsilon_bounds(RunEvents(gaussian, (gaussian,)), 1e-5)
    >>> round(bounds.upper, 3)
    4.377
    """
    upper, reason = _upper_end(events.upper, delta)
    lower = _lower_bound(events, delta)
    if lower > upper:
        # Two events of one run that contradict each other prove nothing.
        return Bounds(0.0, math.inf), "Its upper event proves less than its lower event shows."
    return Bounds(lower, upper), reason


def _upper_end(bounding: BoundingEvent, delta: float) -> tuple[float, str]:
    # What happens beside the event is paid for out of delta.
    left = delta - bounding.delta_spent
    if not left > 0.0 < delta:
        if bounding.delta_spent > 0.0 or delta != 0.0:
            return math.inf, "Nothing of delta is left for the noise."
        left = delta
    answer = _epsilon(bounding.event, left, bounding.neighbours)
    if isinstance(answer, str):
        return math.inf, answer
    unbounded = "" if math.isfinite(answer.upper) else "No finite epsilon is proven at this delta."
    return answer.upper, unbounded


def _lower_bound(events: RunEvents, delta: float) -> float:
    """Return the lower end that the first lower event with an account shows."""
    ends = (_lower_end(each, delta) for each in events.lower)
    return next((end for end in ends if end is not None), 0.0)


def _lower_end(bounding: BoundingEvent, delta: float) -> float | None:
    answer = _epsilon(bounding.event, delta, bounding.neighbours)
    return None if isinstance(answer, str) else answer.lower


def prove(run: CheckedRun) -> Proof:
    """Return what is proven about a run, by the sampler that it states or by each."""
    lacking = _lacking(run)
    if lacking:
        return Proof(None, lacking=lacking)
    if run.event is not None:
        return _proof_of_event(run)
    method = run.settings.method
    if method != UNKNOWN:
        return _proof(run, method)
    # Nobody said which sampler ran: each is computed, and the worst counts.
    proofs = {name: _proof(run, name) for name in ALTERNATIVES}
    known = {name: each.bounds for name, each in proofs.items() if each.bounds is not None}
    if "poisson" not in known:
        return proofs["poisson"]
    return _enveloping(known, proofs)


def _enveloping(known: Mapping[str, Bounds], proofs: Mapping[str, Proof]) -> Proof:
    """Return bounds that hold whichever sampler ran: the lowest end and the highest."""
    envelope = Bounds(
        min(bounds.lower for bounds in known.values()),
        max(bounds.upper for bounds in known.values()),
    )
    unbounded = next((each.unbounded for each in proofs.values() if each.unbounded), "")
    lacking = tuple(dict.fromkeys(key for each in proofs.values() for key in each.lacking))
    if lacking:
        # A sampler that cannot be computed leaves the upper end open.
        envelope = Bounds(envelope.lower, math.inf)
        unbounded = unbounded or "A sampler that is not excluded cannot be computed."
    return Proof(envelope, (), unbounded, lacking, known)


def _lacking(run: CheckedRun) -> tuple[str, ...]:
    if run.currency == "epsilon" and run.settings.delta is None:
        return ("claim.delta",)
    return ()


def _proof(run: CheckedRun, method: str) -> Proof:
    try:
        if run.currency != "epsilon":
            return _opened(run, concentrated_bounds(run, method))
        assert run.settings.delta is not None
        delta = run.settings.delta
        events = run_events(run, method, delta)
    except LackingFacts as lacking:
        # What has no stated noise is left out: the rest still bounds the run from below.
        if "releases.noise_multiplier" in lacking.keys:
            rest = _proof(without_noiseless(run), method)
            lower = rest.bounds.lower if rest.bounds is not None else 0.0
            keys = (*lacking.keys, *rest.lacking)
            return Proof(
                Bounds(lower, math.inf), rest.conditions, "A release's noise is not said.", keys
            )
        return Proof(None, lacking=lacking.keys)
    except InvalidInput as refusal:
        return Proof(None, unbounded=refusal.what)
    bounds, reason = epsilon_bounds(events, delta)
    return _opened(run, (bounds, events.conditions, reason))


def _opened(run: CheckedRun, proven: tuple[Bounds, tuple[str, ...], str]) -> Proof:
    """Return the proof, without an upper end where a fact is stated that no bound covers."""
    bounds, conditions, reason = proven
    stated = unbounded_by(run)
    if stated:
        lacking = ("releases",) if run.clip_source == "adaptive" else ()
        return Proof(Bounds(bounds.lower, math.inf), conditions, stated, lacking)
    return Proof(bounds, conditions, reason)


def unbounded_by(run: CheckedRun) -> str:
    """Return the stated fact for which no upper bound is known, as a sentence; empty if none."""
    settings = run.settings
    paid = any(release.noise_multiplier for release in settings.releases)
    if run.clip_source in ("data", "median"):
        return "The clipping norm was computed from the data itself."
    if run.clip_source == "none":
        return "Nothing bounds what one unit contributes: no clipping norm was used."
    if run.clip_source == "adaptive" and not paid:
        return "The clipping norm follows a count of the data whose noise is not stated."
    if run.weights == "unequal":
        return "Contributions are weighted, and the heaviest weight is not stated."
    if run.normaliser == "realised" and not normaliser_is_harmless(run):
        return "Sums are divided by the realised size of a batch, which the noise does not hide."
    return ""


def normaliser_is_harmless(run: CheckedRun) -> bool:
    """Return whether all neighbours have batches of one and the same size."""
    fixed = run.settings.method in ("shuffled", "fixed-size", "with-replacement", "full")
    return fixed and run.settings.neighbours != "add-remove"


def _proof_of_event(run: CheckedRun) -> Proof:
    """Return what is proven about a run whose event is stated as a whole."""
    delta = run.settings.delta
    assert run.event is not None
    if run.currency != "epsilon" or delta is None:
        return Proof(None, unbounded="An event is compared with a claim of epsilon only.")
    proofs: dict[str, Proof] = {}
    for name, events in event_alternatives(run).items():
        bounds, reason = epsilon_bounds(events, delta)
        proofs[name] = _opened(run, (bounds, events.conditions, reason))
    if len(proofs) == 1:
        return next(iter(proofs.values()))
    known = {name: each.bounds for name, each in proofs.items() if each.bounds is not None}
    return _enveloping(known, proofs)


def with_every_relation(run: CheckedRun, proof: Proof) -> Proof:
    """Return the proof with a lower end that holds under every relation, if none was stated.

    Shuffled and fixed batches prove less about a record that is set to zero.
    """
    if "claim.neighbours" in run.known or run.event is not None or proof.bounds is None:
        return proof
    names = [name for name in proof.alternatives or (run.settings.method,) if name not in ALIKE]
    zeroed = replace(run, settings=replace(run.settings, neighbours="zero-out"))
    others = [_lower_of(zeroed, name) for name in names]
    lower = min([proof.bounds.lower, *(each for each in others if each is not None)])
    return replace(proof, bounds=Bounds(lower, proof.bounds.upper))


def _lower_of(run: CheckedRun, method: str) -> float | None:
    """Return the lower end of a run; None where there are no bounds.  No upper event is asked."""
    if run.currency == "epsilon" and run.settings.delta is not None:
        with contextlib.suppress(LackingFacts, InvalidInput):
            return _lower_bound(run_events(run, method, run.settings.delta), run.settings.delta)
    bounds = _proof(run, method).bounds
    return None if bounds is None else bounds.lower
