"""The guarantee of a release of a published system, under the one relation that it is for."""

from __future__ import annotations

from dataclasses import replace

from .account import account
from .guarantee import Bounds, Guarantee, Step, unique_steps
from .sensitivity.release import Release


def account_release(
    release: Release, *, delta: float | None = None, epsilon: float | None = None
) -> Guarantee:
    """Return the smallest guarantee that the events of a release support, for its observer.

    Epsilon at a `delta` in (0, 1), or delta at an `epsilon` of 0 or above, under the relation,
    for the unit and against the observer of the release; what it rests on stands first in the
    derivation.  The lower end is 0: events bound a release, they need not attain it.

    Raises what `account` raises.

    >>> from privplan.accountant.sensitivity import wishart
    >>> sensitivity = wishart.gaussian_sensitivity(1.0, "replace-one")
    >>> release = wishart.gaussian_release(sensitivity, noise=2.0)
    >>> guarantee = account_release(release, delta=1e-5)
    >>> guarantee.neighbours, round(guarantee.epsilon.upper, 2)
    ('replace-one', 2.94)
    """
    # Each event bounds the same release, so the smallest of their guarantees holds.
    guarantees = [
        account(event, delta=delta, epsilon=epsilon, neighbours=release.neighbours)
        for event in release.events
    ]
    best = min(guarantees, key=lambda found: (found.epsilon.upper, found.delta.upper))
    scope = Step(
        "mechanism",
        f"The release as an event for {release.neighbours} of one {release.unit}.",
        "accountant/sensitivity",
        release.conditions,
    )
    return replace(
        best,
        epsilon=best.epsilon if delta is None else Bounds(0.0, best.epsilon.upper),
        delta=best.delta if epsilon is None else Bounds(0.0, best.delta.upper),
        unit=release.unit,
        observer=release.observer,
        derivation=unique_steps((scope, *best.derivation)),
        warnings=(*release.warnings, *best.warnings),
    )
