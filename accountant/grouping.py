"""A release as a group of records sees it: scaled where that is exact, else by the lemma."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, TypeGuard

from . import events as ev
from . import validate
from .errors import Unsupported
from .events import contributions

CLASSES: Final = (ev.Pure, ev.Approximate, ev.Local)
"""Events that name a class of mechanisms by stated numbers."""


def grouped(size: int, leaf: ev.Event) -> ev.Event:
    """Return the leaf as a unit of `size` records sees it, scaled where that is exact or a bound.

    A sum moves by `size` bounds; a bounded range grows by the factor, rho by its square.  What is
    known by a stated epsilon and delta stays a group: `by_lemma` has its stated numbers.
    """
    if size == 1:
        return leaf
    if size * getattr(leaf, "sensitivity", 1) > validate.LARGEST_COUNT:
        raise Unsupported(
            f"A group of {size:,} records moves `{leaf.type}` by more than can be counted.",
            next_step="Use a smaller group, or continuous noise.",
        )
    # Noise per moved bound is rounded down, a stated epsilon or rho up: never too private.
    match leaf:
        case ev.Gaussian(noise):
            return ev.Gaussian(math.nextafter(noise / size, 0.0))
        case ev.MatrixGaussian(noise, strategy, participation) if not isinstance(
            participation, ev.BallsInBins
        ):
            # Records that contribute alike, in the same rounds, attain it.
            return ev.MatrixGaussian(math.nextafter(noise / size, 0.0), strategy, participation)
        case ev.Laplace(noise):
            return ev.Laplace(math.nextafter(noise / size, 0.0))
        case ev.DiscreteGaussian(noise, sensitivity):
            return ev.DiscreteGaussian(math.nextafter(noise / size, 0.0), sensitivity * size)
        case ev.TruncatedDiscreteGaussian(noise, sensitivity, bound):
            return ev.TruncatedDiscreteGaussian(noise / size, sensitivity * size, bound)
        case ev.DiscreteLaplace(noise, sensitivity):
            return ev.DiscreteLaplace(math.nextafter(noise / size, 0.0), sensitivity * size)
        case ev.Exponential(epsilon):
            return ev.Exponential(_times_up(size, epsilon))
        case ev.ZCDP(rho):
            return ev.ZCDP(size * size * rho * (1.0 + 1e-15))
        case ev.NoGuarantee():
            return leaf
        case ev.Group(inner_size, inner):
            return ev.Group(size * inner_size, inner)
        # A client's records are drawn together.
        case ev.ClientSampled(rate, inner):
            return ev.ClientSampled(rate, ev.Group(size, inner))
        case ev.GaussianMixture():
            return contributions.several(size, leaf)
        # Each draw is of the unit with probability size / population.
        case ev.WithReplacement(batch, population, inner) if population % size == 0:
            return ev.WithReplacement(batch, population // size, inner)
        case _:
            return ev.Group(size, leaf)


def is_chain(event: ev.Event) -> TypeGuard[ev.Group]:
    """Return whether an event is a group of records of which only stated numbers are known."""
    stated = (*CLASSES, ev.RandomizedResponse)
    return isinstance(event, ev.Group) and isinstance(event.event, stated)


def by_lemma(group: ev.Group) -> ev.Event:
    """Return the stated event of a group of stated events, by the lemma for groups.

    Epsilon grows by the factor, delta to delta (e^(size epsilon) - 1) / (e^epsilon - 1).

    >>> by_lemma(ev.Group(3, ev.Local(0.5)))
    Pure(epsilon=1.5)
    """
    record = group.event
    if isinstance(record, ev.Approximate):
        return _grouped_approximate(group.size, record.epsilon, record.delta)
    assert isinstance(record, (ev.Pure, ev.Local, ev.RandomizedResponse))
    return ev.Pure(_times_up(group.size, record.epsilon))


def _times_up(size: int, epsilon: float) -> float:
    """Return the product, rounded up."""
    product = size * epsilon
    exact = math.isinf(product) or Fraction(product) >= size * Fraction(epsilon)
    return product if exact else math.nextafter(product, math.inf)


def _grouped_approximate(size: int, epsilon: float, delta: float) -> ev.Event:
    """Return Approximate(k epsilon, delta sum_{i<k} e^(i epsilon)), rounded up, delta at most 1."""
    grown = _times_up(size, epsilon)
    # log of (e^(k epsilon) - 1) / (e^epsilon - 1), without overflow where k epsilon is large.
    if epsilon > 30.0:
        log_factor = grown - epsilon + math.exp(-epsilon)
    elif grown > 700.0:
        log_factor = grown - (math.log(math.expm1(epsilon)) if epsilon > 0.0 else 0.0)
    elif epsilon == 0.0:
        log_factor = math.log(size)
    else:
        log_factor = math.log(math.expm1(grown) / math.expm1(epsilon))
    log_delta = math.log(delta) + log_factor if delta > 0.0 else -math.inf
    total = 1.0 if log_delta >= 0.0 else min(math.exp(log_delta) * (1.0 + 1e-12), 1.0)
    return ev.Approximate(grown, total)
