"""What a release of a published system cost: its event under the one relation that it is for."""

from __future__ import annotations

from dataclasses import replace

from .account import account
from .guarantee import Bounds, Guarantee, Step, unique_steps
from .sensitivity.release import Release


def account_release(
    release: Release, *, delta: float | None = None, epsilon: float | None = None
) -> Guarantee:
    """Return the smallest guarantee that the events of a release support, for whom it is for.

    Epsilon at a `delta` in (0, 1), or delta at an `epsilon` of 0 or above, under the relation,
    for the unit and against the observer of the release; what it rests on stands first in the
    derivation.  The lower end is 0: events bound a release, they need not attain it.

    Raises what `account` raises.

    >>> from privplan.accountant.sensitivity import wishart
    >>> sensitivity = wishart.gaussian_sensitivity(1.0, "replace-one")
    >>> release = wishart.gaussian_release(sensitivity, noise=2.0)
    >>> found = account_release(release, delta=1e-5)
    >>> found.neighbours, round(found.epsilon.upper, 2)
    ('replace-one', 2.94)
    """
    found = [
        account(event, delta=delta, epsilon=epsilon, neighbours=release.neighbours)
        for event in release.events
    ]
    best = min(found, key=lambda one: (one.epsilon.upper, one.delta.upper))
    rests = Step(
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
        derivation=unique_steps((rests, *best.derivation)),
        warnings=(*release.warnings, *best.warnings),
    )
