"""Claims of zCDP and of Gaussian DP about sums with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ...accountant import events as ev
from ...accountant.event_tree import events_inside, parts_of
from ...accountant.guarantee import Bounds
from ..description.run_description import Phase
from .completions.facts import periods
from .events import phases_of, unit_conditions
from .grouped_events import groups_are_users, largest_group
from .loader_passes import independent_phases, passes_of
from .noise_draws import MICROBATCH_SHIFT, LackingFacts, lower_noise, upper_noise
from .pinned_run import PinnedRun
from .release_readings import JOINTLY_ACCOUNTED, may_be_of_batches, moved_in_a_batch
from .stated_event import event_conditions, samplers_of
from .unit_samplers import draws_records_of_silos, silo_may_be_drawn_again

REPLACED: Final = 4.0
"""How much farther, squared, a sum moves where a unit is replaced by another."""

SHIFTED: Final = 5.0
"""The same where a unit comes or goes and the batches behind it shift: one replaced, one gone."""

ROUNDED: Final = 1e-12
"""Relative rounding of the sums below, outward."""

ALWAYS_FILLED: Final = ("shuffled", "fixed-size", "with-replacement", "full")
"""Ways of drawing in which another record stands where one is not: no sample lacks both."""


def concentrated_bounds(run: PinnedRun, method: str) -> tuple[Bounds, tuple[str, ...], str]:
    """Return bounds on rho or mu, with their conditions, and why there is no upper end.

    A sum of noise multiplier z that a unit moves by one bound has rho = 1/(2 z^2) and mu = 1/z;
    rho and mu^2 add up.  Sampling lowers neither: both bound all orders (all error rates), and at
    large orders (small rates) a sampled Gaussian is as far apart as one without sampling.  Where a
    unit is replaced, both samples may lack it, and at large orders it is as far from that one: by
    one bound.  Discrete Gaussian noise has that rho at most, and no known mu.
    Raises `LackingFacts` where keys are missing.

    Source: Bun, Steinke 2016; Dong, Roth, Su 2022; Canonne, Kamath, Steinke 2020; the limit of the
    sampled Renyi curve.
    """
    if run.settings.family == "discrete-gaussian" and run.currency == "mu":
        return Bounds(0.0, math.inf), (), "No mu of discrete Gaussian noise is known."
    if run.settings.family not in ("gaussian", "discrete-gaussian"):
        return Bounds(0.0, math.inf), (), f"{run.currency} is known of Gaussian noise only."
    lower, upper, reason = squared_bounds(run, method)
    if reason:
        return Bounds(0.0, math.inf), (), reason
    bounds = Bounds(_claimed(run, lower) * (1 - ROUNDED), _claimed(run, upper) * (1 + ROUNDED))
    conditions = ["Sampling lowers neither rho nor mu.", *unit_conditions(run)]
    if run.settings.microbatches > 1:
        conditions.append("A record changes one microbatch alone.")
    in_parts = run.settings.accumulation_of == "one-sample" and method != "shuffled"
    if run.settings.accumulation > 1 and in_parts:
        conditions.append("A record is in at most one of the batches of a noise draw.")
    unbounded = (
        ""
        if math.isfinite(upper)
        else "Nothing bounds how often a record comes, or what else moves with it."
    )
    return bounds, tuple(conditions), unbounded


def squared_bounds(run: PinnedRun, method: str) -> tuple[float, float, str]:
    """Return 2 rho (which is mu^2) of a run, at least and at most, and why neither is known."""
    upper = lower = 0.0
    phases = phases_of(run, method)
    shown = independent_phases(run, phases) if method == "shuffled" else range(len(phases))
    for index, phase in enumerate(phases):
        if phase.noise_multiplier == 0.0:
            return 0.0, math.inf, "No noise was drawn."
        most, least = _participations(run, phase, method)
        upper += most / upper_noise(run, phase.noise_multiplier) ** 2
        if index in shown:
            lower += least / lower_noise(run, phase.noise_multiplier) ** 2
    upper *= _upper_shift(run, method)
    lower *= _lower_shift(run, method)
    of_releases = _of_releases(run, method)
    if of_releases.reason:
        return 0.0, math.inf, of_releases.reason
    upper += of_releases.upper
    lower += of_releases.lower
    upper *= run.settings.restarts * periods(run, upper=True) * run.tuning_runs
    lower *= run.settings.restarts * periods(run, upper=False)
    if run.settings.unit == "user":
        upper *= (run.settings.records_per_user or 1) ** 2
    return lower, upper, ""


@dataclass(frozen=True)
class _SquaredBounds:
    """Bounds on 2 rho (which is mu^2) of some releases, or the reason why none are known."""

    lower: float = 0.0
    upper: float = math.inf
    reason: str = ""


def _of_releases(run: PinnedRun, method: str) -> _SquaredBounds:
    """Return what is released besides the sums adds; raise `LackingFacts` without its noise."""
    upper = lower = 0.0
    for release in run.settings.releases:
        if release.noise_multiplier is None:
            raise LackingFacts("releases.noise_multiplier")
        if release.noise_multiplier == 0.0:
            return _SquaredBounds(reason="A release has no noise.")
        if release.family == "laplace" and run.currency == "mu":
            why = "A release has Laplace noise, of which no mu is proven here."
            return _SquaredBounds(reason=why)
        shift = REPLACED if run.settings.neighbours == "replace-one" else 1.0
        if may_be_of_batches(release):
            shift *= moved_in_a_batch(run, method) ** 2
        # Epsilon-DP is epsilon^2 / 2-zCDP (Bun and Steinke 2016, Proposition 1.4).
        upper += shift * release.count / release.noise_multiplier**2
        lower += 0.0 if release.family == "laplace" else release.count / release.noise_multiplier**2
    return _SquaredBounds(lower, upper)


def concentrated_event(run: PinnedRun) -> tuple[Bounds, tuple[str, ...], str]:
    """Return an upper end of rho or mu of a stated event, its conditions, or why there is none.

    Rho adds up, and a group of k records has k^2 of it; epsilon-DP is epsilon^2 / 2-zCDP.  A
    Poisson sample has no more than all data, by quasi-convexity.  Of Gaussian noise alone mu is
    sqrt(2 rho).  The lower end is 0: stated numbers are those of a class.
    Raises `LackingFacts` where the noise of a release is not said.

    Source: Bun, Steinke 2016, Propositions 1.4 and 1.9; Dong, Roth, Su 2022.
    """
    settings, event = run.settings, run.event
    assert event is not None
    nothing = Bounds(0.0, math.inf)
    leaves = [each for each in events_inside(event) if not parts_of(each)]
    if run.currency == "mu" and not all(isinstance(each, ev.Gaussian) for each in leaves):
        return nothing, (), "mu is known of Gaussian noise only."
    rho = _rho_of(event, 2.0 if settings.neighbours == "replace-one" else 1.0)
    drawn = settings.method in ("poisson", "full") or (
        settings.method == "unknown" and not samplers_of(event)
    )
    if rho is None or not drawn or settings.accumulation > 1 or settings.microbatches > 1:
        known = "zCDP, pure, Laplace and Gaussian releases of all data or of one Poisson sample"
        return nothing, (), f"{run.currency} is known of {known} only."
    of_releases = _of_releases(run, settings.method)
    if of_releases.reason:
        return nothing, (), of_releases.reason
    squared = 2.0 * rho + largest_group(event) ** 2 * of_releases.upper
    squared *= settings.restarts * periods(run, upper=True) * run.tuning_runs
    if settings.unit == "user" and not groups_are_users(run, event):
        squared *= (settings.records_per_user or 1) ** 2
    conditions = ("Sampling lowers neither rho nor mu.", *event_conditions(event))
    return Bounds(0.0, _claimed(run, squared) * (1 + ROUNDED)), conditions, ""


def _rho_of(event: ev.Event, moved: float) -> float | None:
    """Return a rho of an event whose sums move by so many bounds; None where none is known."""
    match event:
        case ev.Compose(parts):
            each = [_rho_of(part, moved) for part in parts]
            return None if None in each else math.fsum(rho or 0.0 for rho in each)
        case ev.Repeat(count, inner):
            rho = _rho_of(inner, moved)
            return None if rho is None else count * rho
        case ev.Group(size, inner):
            rho = _rho_of(inner, moved)
            return None if rho is None else size**2 * rho
        case ev.Poisson(_, inner) | ev.ClientSampled(_, inner):
            return _rho_of(inner, moved)
        case ev.Gaussian(noise) | ev.Laplace(noise):
            return (moved / noise) ** 2 / 2.0
        case ev.DiscreteGaussian(noise, _) | ev.DiscreteLaplace(noise, _):
            return (moved / noise) ** 2 / 2.0
        case ev.Pure(epsilon):
            return epsilon**2 / 2.0
        case ev.ZCDP(rho):
            return rho
    return None


def _claimed(run: PinnedRun, squared: float) -> float:
    """Return rho or mu from mu^2."""
    return squared / 2.0 if run.currency == "rho" else math.sqrt(squared)


def _participations(run: PinnedRun, phase: Phase, method: str) -> tuple[float, float]:
    """Return in how many releases a record may be, times how far squared, and is at least."""
    if draws_records_of_silos(run):
        # Records of other silos fill batches of a fixed size where one has fewer.
        filled = method not in JOINTLY_ACCOUNTED and run.settings.neighbours != "zero-out"
        again = silo_may_be_drawn_again(run)
        return math.inf if filled or again else float(phase.steps * run.own_draws**2), 1.0
    if method == "shuffled":
        passes = passes_of(run, phase)
        # A record that a loader may drop, or an epoch leave out, is in single batches at least.
        least = min(max(each.passes, 1) for each in passes.least)
        if passes.times > 1 and run.settings.neighbours == "add-remove":
            return math.inf, least
        # A draw that takes batches of two passes may have a record twice: sum c^2 <= 2 passes.
        squares = 2 if passes.spans else passes.times**2
        return passes.most_passes * squares, least
    # Each of the batches of a draw may have the record.
    most = phase.steps * run.own_draws**2
    clients = run.settings.clients_rate is not None
    return most, 1.0 if clients or run.settings.unit == "silo" else phase.steps


def _upper_shift(run: PinnedRun, method: str) -> float:
    """Return how far a sum moves at most, squared, in bounds of one unit."""
    relation = run.settings.neighbours
    shift = {"replace-one": REPLACED, "zero-out": 1.0}.get(relation, 1.0)
    if relation == "add-remove":
        # Batches of a fixed size are filled up by others.
        shift = {
            "shuffled": SHIFTED,
            "fixed-size": REPLACED,
            "with-replacement": math.inf,
            "weighted": REPLACED,
        }.get(method, 1.0)
    if method == "with-replacement" or run.settings.weighted_draws == "with-replacement":
        return math.inf
    if run.settings.microbatches > 1 and relation != "replace-one":
        return shift * MICROBATCH_SHIFT**2
    return shift


def _lower_shift(run: PinnedRun, method: str) -> float:
    """Return how far a sum certainly moves, squared, at some orders or error rates.

    Discrete Gaussian noise is on integers, and the longest integer is shorter than a norm between.
    """
    integer = 1.0
    if run.settings.family == "discrete-gaussian":
        integer = 0.0 if run.clip is None else (math.floor(run.clip) / run.clip) ** 2
    # Sampled clients may be absent, and batches of records may lack all of a user or silo.
    whole = run.settings.clients_rate is None and (
        method == "full" or run.settings.unit == "record"
    )
    replaced = run.settings.neighbours == "replace-one" and method in ALWAYS_FILLED and whole
    return integer * (REPLACED if replaced else 1.0)
