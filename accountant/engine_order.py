"""Which engines are asked about which leaves: one table, whatever asks and whatever it asks.

Whatever leaves the choice of an engine to privplan reads it here: `account`, `calibrate`, the list
of routes, and the budget audit.  So the same leaves get the same
engines everywhere, at a delta and at an epsilon alike.  An engine that cannot answer refuses at
once; the tightest of those that answer counts, and none may contradict another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from . import events as ev
from .composition import Composition


@dataclass(frozen=True)
class EngineOrder:
    """One row: the engines for leaves that it `fits`.

    `engines` are asked, the one that is expected to be tightest first; the others check it, and
    take its place where it refuses.  `shown` hold too and are never tighter: they stand only where
    all routes are shown side by side.
    """

    about: str
    fits: Callable[[Composition], bool]
    engines: tuple[str, ...]
    shown: tuple[str, ...] = ()


def engine_order(parts: Composition) -> EngineOrder:
    """Return the row for these leaves: the first that fits."""
    return next(order for order in ENGINE_ORDERS if order.fits(parts))


def engines_for(parts: Composition, delta: float | None = None) -> tuple[str, ...]:
    """Return the engines to ask, the one that is expected to be tightest first.

    `delta` is what is asked at, where that is known: at 0 only largest losses count.

    >>> engines_for(Composition.of(ev.Repeat(10, ev.Gaussian(1.0))))
    ('gdp', 'rdp')
    >>> engines_for(Composition.of(ev.Laplace(1.0)), 0.0)
    ('pure', 'rdp')
    """
    engines = engine_order(parts).engines
    return AT_ZERO if delta == 0.0 and engines != RENYI_ONLY else engines


def _only_gaussians(parts: Composition) -> bool:
    # The best of several runs is no sum: not all that they release is seen.
    gaussian = bool(parts) and all(_is_gaussian(leaf.event) for leaf in parts)
    return gaussian and parts.fully_observed


def _is_gaussian(event: ev.Event) -> bool:
    if isinstance(event, ev.MatrixGaussian):
        # Rounds that are drawn and hidden leave less than a Gaussian.
        return not isinstance(event.participation, ev.BallsInBins)
    return isinstance(event, ev.Gaussian)


def _one_shuffled_round(parts: Composition) -> bool:
    event = parts.single
    drawn_for = event.event if isinstance(event, (ev.Poisson, ev.FixedSize)) else event
    return isinstance(drawn_for, ev.Shuffle)


def _holds_renyi_curve(parts: Composition) -> bool:
    return parts.holds(ev.Renyi)


RENYI_ONLY: Final = ("rdp",)
"""The engines of what is known by its Renyi divergences alone."""

AT_ZERO: Final = ("pure", "rdp")
"""The engines at delta 0, but for Renyi curves."""

ENGINE_ORDERS: Final = (
    EngineOrder(
        "Gaussian noise without sampling: the closed form is exact",
        _only_gaussians,
        ("gdp", "rdp"),
        shown=("pld",),
    ),
    EngineOrder(
        "one shuffled round: its bound is read directly, and pld puts it on a grid",
        _one_shuffled_round,
        ("blanket", "pld", "rdp"),
    ),
    EngineOrder(
        "a Renyi curve: nothing else is known of it",
        _holds_renyi_curve,
        RENYI_ONLY,
    ),
    EngineOrder("anything else", lambda _: True, ("pld", "rdp")),
)
"""The table; the first row that fits counts."""
