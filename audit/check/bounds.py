"""What is proven about a described run: bounds on what it claims, and under what conditions."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from ...accountant import events as ev
from ...accountant.account import account, bounds_on_epsilon
from ...accountant.composition import Composition
from ...accountant.errors import EnginesDisagree, InvalidInput, Unsupported
from ...accountant.event_tree import events_inside
from ...accountant.guarantee import Bounds, Neighbours
from ...accountant.work_limit import MOST_WORK, require_little_work, work_of
from ..description.run_description import ExtraRelease
from .bounding_event import BoundingEvent, LowerEnd, RunEvents
from .checked_run import normaliser_is_harmless
from .completions.completion import Completion
from .concentrated import concentrated_bounds, concentrated_event, squared_bounds
from .events import run_events
from .grouped_events import groups_are_users
from .noise_draws import LackingFacts, about_clip, without_noiseless
from .pinned_run import PinnedRun
from .stated_event import (
    event_conditions,
    is_sum_of_draws,
    samplers_of,
    unaccounted_by_event,
    whole_event,
)

NOT_JOINED: Final = (
    "No bound is known of such noise, drawn in this way, together with what else is released; "
    "describe the run without the other releases for the bound of its sums alone."
)

TOO_EXTREME: Final = "The numbers of this run are too extreme to be accounted."

CONTRADICTION: Final = (
    "What these facts prove and what they refute contradict each other, so neither is used; report "
    "this run to the makers of privplan."
)


@dataclass(frozen=True)
class Proof:
    """Bounds on the claimed quantity; `unbounded` says why there is no upper end, if so.

    `bounds` is None where facts are lacking: then `lacking` names their keys.  `alternatives`
    are the bounds by sampler, where nobody said which one ran, `unsettled` those of them that no
    word about the sampler alone pins down.  `class_lower` is the lower end for
    the worst of a class of mechanisms that the run names by stated numbers; another may lose less.
    `spread` has the bounds of each run that the description allows, where these are several.
    `refused` says that nothing was accounted for, as all of it would be too much work.
    """

    bounds: Bounds | None
    conditions: tuple[str, ...] = ()
    unbounded: str = ""
    lacking: tuple[str, ...] = ()
    alternatives: Mapping[str, Bounds] = field(default_factory=dict)
    class_lower: float = 0.0
    spread: tuple[tuple[Completion, Bounds], ...] = ()
    unsettled: frozenset[str] = frozenset()
    refused: bool = False


def _joins(event: ev.Event) -> bool:
    """Return whether several releases share what an event draws."""
    shared = (each for each in events_inside(event) if each is not event)
    return any(isinstance(each, ev.Compose) and len(each.events) > 1 for each in shared)


@lru_cache(maxsize=1024)
def _epsilon(event: ev.Event, delta: float, neighbours: Neighbours) -> Bounds | str:
    """Return the bounds of an event on epsilon, or why there are none."""
    try:
        require_little_work(event)
    except (InvalidInput, Unsupported) as refusal:
        return refusal.what
    try:
        return bounds_on_epsilon(event, delta=delta, neighbours=neighbours)
    except Unsupported as refusal:
        return NOT_JOINED if _joins(event) else refusal.what
    except InvalidInput as refusal:
        return refusal.what
    except EnginesDisagree as disagreement:
        return str(disagreement)
    except ValueError:
        # Noise or counts beyond all use can empty a grid; then nothing is proven.
        return TOO_EXTREME


def epsilon_bounds(events: RunEvents, delta: float) -> tuple[Bounds, str]:
    """Return the bounds on epsilon at a delta, and why there is no upper end (empty if there is).

    >>> gaussian = BoundingEvent(ev.Gaussian(1.0), "add-remove")
    >>> bounds, _ = epsilon_bounds(RunEvents((gaussian,), ((gaussian,),)), 1e-5)
    >>> round(bounds.upper, 3)
    4.377
    """
    ends = [_upper_end(each, delta) for each in events.upper]
    upper = max(end for end, _ in ends)
    reason = next((reason for _, reason in ends if reason), "")
    lower = _lower_bound(events, delta)
    if lower > upper:
        # Two events of one run that contradict each other prove nothing.
        return Bounds(0.0, math.inf), CONTRADICTION
    return Bounds(lower, upper), reason


def _least_of(reading: LowerEnd, delta: float) -> float:
    """Return the lower end of one reading: that of the first event that shows something.

    An event that may not show the unit at all can be weak, so the others are asked as well.
    """
    best = 0.0
    for each in reading:
        end = _lower_end(each, delta) or 0.0
        best = max(best, end)
        if end > 0.0 and each.present == 1.0:
            break
    return best


def _upper_end(bounding: BoundingEvent, delta: float) -> tuple[float, str]:
    # What happens besides the event is paid for out of delta.
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
    """Return the lower end that holds in every reading of the description."""
    return min((_least_of(reading, delta) for reading in events.lower), default=0.0)


def _lower_end(bounding: BoundingEvent, delta: float) -> float | None:
    """Return the lower end of an event, or None where there is none.

    If the unit is shown with probability p only, then delta(epsilon) is at least p times the
    event's delta at epsilon + log(1/p), at the data where the unit is there.
    """
    present = bounding.present
    if present < 1.0 and not delta < present:
        return 0.0
    answer = _epsilon(bounding.event, delta / present, bounding.neighbours)
    return None if isinstance(answer, str) else max(0.0, answer.lower + math.log(present))


def events_of(run: PinnedRun) -> frozenset[ev.Event]:
    """Return the events that a proof about a run accounts for; none where it has no numbers."""
    settings = run.settings
    if run.currency != "epsilon" or settings.delta is None:
        return frozenset()
    try:
        if run.event is not None and not is_sum_of_draws(run):
            events = whole_event(run)
        else:
            events = _events(run, settings.method, settings.delta)
    except (LackingFacts, InvalidInput, Unsupported, ArithmeticError):
        return frozenset()
    lower = (each for reading in events.lower for each in reading)
    return frozenset(each.event for each in (*events.upper, *lower))


def proof_of(run: PinnedRun) -> Proof:
    """Return what is proven about a run that leaves nothing open but, in an event, its sampler."""
    if run.event is not None and run.currency == "epsilon" and not is_sum_of_draws(run):
        return _proof_of_event(run)
    return _proof(run, run.settings.method)


def _proof(run: PinnedRun, method: str) -> Proof:
    try:
        if run.currency != "epsilon" and run.event is not None:
            return _opened(run, concentrated_event(run))
        if run.currency != "epsilon":
            return _opened(run, concentrated_bounds(run, method))
        assert run.settings.delta is not None
        delta = run.settings.delta
        events = _events(run, method, delta)
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
    except (InvalidInput, Unsupported) as refusal:
        return Proof(None, unbounded=refusal.what)
    except ArithmeticError:  # noise whose square no float holds
        return Proof(Bounds(0.0, math.inf), unbounded=TOO_EXTREME)
    return _bounded(run, events, delta)


def _events(run: PinnedRun, method: str, delta: float) -> RunEvents:
    """Return the events of a run, those of discrete Gaussian noise bounded by its rho."""
    events = run_events(run, method, delta)
    if run.event is not None:
        return replace(events, conditions=(*events.conditions, *event_conditions(run.event)))
    if run.settings.family != "discrete-gaussian":
        return events
    # The noise is on sums of any dimension: its zCDP holds for all, and sampling lowers it not.
    _, squared, reason = squared_bounds(run, method)
    whole = (
        ev.ZCDP(squared / 2.0)
        if math.isfinite(squared)
        else ev.NoGuarantee(reason or "a record may be drawn any number of times")
    )
    return replace(events, upper=(BoundingEvent(whole, events.upper[0].neighbours),))


def _opened(run: PinnedRun, proven: tuple[Bounds, tuple[str, ...], str]) -> Proof:
    """Return the proof, without an upper end where a fact is stated that no bound covers."""
    bounds, conditions, reason = proven
    unaccounted = unaccounted_by_event(run)
    if unaccounted:
        # Neither end of the event is one of the run that the facts describe.
        return Proof(Bounds(0.0, math.inf), conditions, unaccounted)
    if run.expected_replies is not None and run.replies is None:
        # Fewer than expected draw less noise, and more of them draw more.
        sized = f"The noise was sized for {run.expected_replies:,} replies to a round"
        why = f"{sized}, and nobody said how many came."
        return Proof(Bounds(0.0, math.inf), conditions, why, ("aggregation.replies",))
    stated = unbounded_by(run)
    if run.clip_source == "adaptive" and not stated:
        names = " and ".join(f"`{each.what}`" for each in run.settings.releases if _pays(each))
        conditions = (*conditions, f"The clipping norm follows {names} alone.")
    if _shows_nothing_for_certain(run):
        bounds = Bounds(0.0, bounds.upper)
    if run.upper_only:
        bounds, conditions = Bounds(0.0, bounds.upper), (*conditions, run.upper_only)
    if stated:
        lacking = ("releases",) if run.clip_source == "adaptive" else run.unbounded_without
        return Proof(Bounds(bounds.lower, math.inf), conditions, stated, lacking)
    renews = run.settings.renews_every_days
    if renews is not None and run.settings.horizon_days is None:
        why = f"The budget renews every {renews:g} days, and nobody said over how long."
        return Proof(Bounds(bounds.lower, math.inf), conditions, why, ("schedule.horizon_days",))
    return Proof(bounds, conditions, reason)


def unbounded_by(run: PinnedRun) -> str:
    """Return the stated fact for which no upper bound is known, as a sentence; empty if none."""
    if run.unbounded:
        return run.unbounded
    settings = run.settings
    paid = any(_pays(release) for release in settings.releases)
    if run.clip_source in ("data", "median"):
        return "The clipping norm was computed from the data itself."
    if run.clip_source == "none":
        return "Nothing bounds what one unit contributes: no clipping norm was used."
    if run.clip_source == "adaptive" and not paid:
        return "The clipping norm follows a count of the data whose noise is not stated."
    if settings.unit == "silo" and settings.clip_bounds == "record":
        return "Each record is clipped by itself, and nothing bounds how many a silo has."
    missing = run.replies is not None and run.replies < (run.expected_replies or 0)
    if missing and settings.family != "gaussian":
        # Shares of Gaussian noise add up to Gaussian noise; what some shares of other noise are
        # has a law of its own.
        return (
            f"Shares of {settings.family} noise are missing, and what the others hide is not known."
        )
    if run.weights == "unequal":
        return "Contributions are weighted, and the heaviest weight is not stated."
    if run.normaliser == "realised" and not normaliser_is_harmless(run):
        return "Sums are divided by the realised size of a batch, which the noise does not hide."
    return follows_secret_count(run)


def follows_secret_count(run: PinnedRun) -> str:
    """Return what follows the number of records though it is no public number, as a sentence.

    A record that comes or goes then changes the scale of a sum, a rate or a count of steps, which
    no noise hides.
    """
    if run.records_public is not False or run.settings.neighbours != "add-remove":
        return ""
    opacus = run.normaliser is None and (run.library or "").lower().startswith("opacus")
    sampled = run.settings.method != "full"
    derived = {
        "The divisor of the sums": run.normaliser == "records" or opacus,
        "The sampling rate": sampled
        and run.settings.batch is not None
        and "sampling.rate" not in run.stated,
        "The number of steps": sampled and not run.steps_are_counted,
        "Delta": run.delta_rule is not None,
    }
    subject = next((name for name, follows in derived.items() if follows), "")
    says = "follows the number of records, which is not public: no noise hides it."
    return f"{subject} {says}" if subject else ""


def _shows_nothing_for_certain(run: PinnedRun) -> bool:
    """Return whether what is released may show a unit as little as one likes.

    Weights may all be small, and a sum that is divided by the size of its batch is not released.
    """
    settings = run.settings
    divided = run.normaliser == "realised" and not normaliser_is_harmless(run)
    several = settings.unit == "user" and (settings.records_per_user or 1) > 1
    # An event does not say whether the records of a user are clipped each or together.
    together = run.event is not None and several and settings.clip_bounds != "record"
    together = together and not (run.event is not None and groups_are_users(run, run.event))
    return divided or together or run.weights == "unequal" or run.shows_nothing


def _pays(release: ExtraRelease) -> bool:
    """Return whether a release may be the count that an adaptive clipping norm follows."""
    return bool(release.noise_multiplier) and about_clip(release)


def _proof_of_event(run: PinnedRun) -> Proof:
    """Return what is proven about a run whose event is stated as a whole."""
    assert run.event is not None
    sampled = samplers_of(run.event) - {"random-allocation"}
    if run.settings.method == "full" and sampled:
        # Batches are said to hold everything, whatever an accountant was told.
        return _whole_proof(run, sampled=False)
    stated = _whole_proof(run, sampled=True)
    if not sampled or "sampling.method" in run.known or stated.bounds is None:
        return stated
    without = _whole_proof(run, sampled=False)
    if without.bounds is None:
        return without
    # The event says what an accountant was told; other samplers stay open.
    return Proof(
        Bounds(0.0, math.inf),
        stated.conditions,
        "A sampler that is not excluded cannot be computed.",
        ("sampling.method",),
        {"poisson": stated.bounds, "full": without.bounds},
    )


def _whole_proof(run: PinnedRun, *, sampled: bool) -> Proof:
    delta = run.settings.delta
    assert delta is not None
    try:
        events = whole_event(run, sampled=sampled)
    except LackingFacts as lacking:
        return Proof(Bounds(0.0, math.inf), (), "A release's noise is not said.", lacking.keys)
    return _bounded(run, events, delta)


def _bounded(run: PinnedRun, events: RunEvents, delta: float) -> Proof:
    bounds, reason = epsilon_bounds(events, delta)
    proof = _opened(run, (bounds, events.conditions, reason))
    lacking = tuple(dict.fromkeys((*proof.lacking, *events.lacking)))
    return replace(proof, class_lower=_class_lower(events, delta), lacking=lacking)


def _class_lower(events: RunEvents, delta: float) -> float:
    """Return the lower end for the worst mechanisms of the classes that events name; else 0."""
    ends = [0.0 if each.delta_spent else _worst_of(each, delta) for each in events.upper]
    return min(ends, default=0.0)


def _worst_of(bounding: BoundingEvent, delta: float) -> float:
    with contextlib.suppress(InvalidInput, Unsupported, EnginesDisagree):
        if not Composition.of(bounding.event).names_class:
            return 0.0
        if work_of(bounding.event) > MOST_WORK:
            return 0.0
        worst = account(bounding.event, delta=delta, neighbours=bounding.neighbours)
        return worst.epsilon.lower if worst.lower_of_class else 0.0
    return 0.0


def lower_end_of(run: PinnedRun) -> float | None:
    """Return the lower end of a run that leaves nothing open; None where there are no bounds.

    No upper event is asked.
    """
    if run.event is not None and not is_sum_of_draws(run):
        whole = proof_of(run).bounds
        return None if whole is None else whole.lower
    if run.currency == "epsilon" and run.settings.delta is not None:
        with contextlib.suppress(LackingFacts, InvalidInput):
            events = run_events(run, run.settings.method, run.settings.delta)
            return _lower_bound(events, run.settings.delta)
    bounds = proof_of(run).bounds
    return None if bounds is None else bounds.lower
