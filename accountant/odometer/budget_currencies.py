"""The currencies of a budget that is spent as results come in, and the price of a release.

What is spent adaptively must be kept in a quantity whose *sum over every path* is bounded, with a
bound fixed before the first release.  Three such currencies are here:

zcdp   rho, the least number with R(a) <= rho a at every order a > 1
gdp    mu^2, for Gaussian noise only
rdp    R(a) itself at one order a fixed beforehand; or at each of k orders, with delta / k each

**Why the sum is enough** (derived here).  Fix two neighbouring data sets, with outputs P and Q,
and one order a.  Given all earlier results, the next release has likelihood ratio l_t and a cost
r_t, known before it is made, with E_Q[l_t^a | past] <= e^{(a-1) r_t}.  So the product of all
l_t^a e^{-(a-1) r_t} has mean at most 1 under Q, and if the costs of every path add up to at most
B, the a-th moment of the whole likelihood ratio is at most e^{(a-1) B}: the run has R(a) <= B.  A
bound on rho bounds this at every order at once.

With several orders a release is admitted while *one* of them, never exceeded so far, has room:
split the hockey-stick of the whole run over the order that survived.  Each part is at most the
hockey-stick of the run stopped before that order is exceeded, so the deltas of the orders add up.
("Some order fits", with the whole delta at each order, counts one of these parts only, and is no
guarantee.)

For mu^2, pad the run with one last Gaussian release that uses up the budget.  Every release is
Gaussian given the past, so by induction from the last one backwards the log likelihood ratio of
the padded run has the characteristic function of N(mu^2/2, mu^2), whatever was chosen on the way.

Events with a delta of their own: outputs are mixtures with an exceptional part of weight s_t, the
same on both sides.  Outside of the exceptional parts the argument above holds, and their total
probability is at most the largest sum of s_t over a path (the `slack`).

Sources: Feldman and Zrnic 2021, arXiv 2008.11193 (one order); Whitehouse, Ramdas, Rogers and Wu
2023, arXiv 2203.05481 (zCDP, with deltas); Smith and Thakurta 2022, arXiv 2210.17520 (mu^2).

How far a budget is spent is a reading, never a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, Protocol

import numpy as np

from .. import events as ev
from ..arrays import FloatArray
from ..composition import Composition
from ..curves.concentrated import least_rho
from ..engines.base import contribution
from ..engines.correlated_noise import correlated_noise
from ..engines.gdp import GdpEngine
from ..engines.rdp import RdpEngine
from ..engines.rdp.curves import curve
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours
from ..rootfinding import bisect

CurrencyName = Literal["zcdp", "gdp", "rdp"]

RENYI_SOURCE: Final = (
    "Feldman and Zrnic 2021, arXiv 2008.11193; with deltas, Whitehouse, Ramdas, Rogers and Wu "
    "2023, arXiv 2203.05481"
)
GAUSSIAN_SOURCE: Final = "Smith and Thakurta 2022, arXiv 2210.17520"
CONVERSION_SOURCE: Final = "Canonne, Kamath and Steinke 2020, Proposition 12, arXiv 2004.00010v4"
GAUSSIAN_PROFILE_SOURCE: Final = "Balle and Wang 2018, Theorem 8, arXiv 1805.06530v2"


@dataclass(frozen=True)
class Target:
    """The promise: epsilon at delta, of which `slack` is kept for the releases' own deltas."""

    epsilon: float
    delta: float
    slack: float = 0.0

    @property
    def conversion_delta(self) -> float:
        """The delta that is left for the conversion, rounded down."""
        return self.delta if self.slack == 0.0 else (self.delta - self.slack) * (1.0 - 4e-16)


@dataclass(frozen=True)
class Cost:
    """What one release costs: an amount in each budget (infinite if it cannot pay), and a delta."""

    amounts: tuple[Fraction | float, ...]
    delta: float | Fraction = 0.0


class Currency(Protocol):
    """The quantity in which a budget is kept; it has one budget, or one for each order."""

    def __hash__(self) -> int:
        """Return the hash, by value."""

    @property
    def name(self) -> str:
        """The word by which the currency is chosen."""

    @property
    def source(self) -> str:
        """Where the argument stands."""

    @property
    def conversion(self) -> str:
        """Where the step to epsilon stands."""

    @property
    def target(self) -> Target:
        """What is promised."""

    @property
    def whole_plans(self) -> bool:
        """Whether an event is charged as a whole, and not release by release."""

    @property
    def budgets(self) -> tuple[Fraction, ...]:
        """The budgets before the first release: with all of them spent, the target is still met."""

    def cost(self, event: ev.Event, relation: Neighbours) -> Cost:
        """Return the cost of one leaf, rounded up; raise `Unsupported` where there is none."""

    def epsilon(self, spent: Sequence[Fraction | None]) -> float:
        """Return epsilon at the target's delta, rounded up; None stands for an exhausted budget."""

    def described(self) -> str:
        """Return the budget in words."""


@dataclass(frozen=True)
class Zcdp:
    """Zero-concentrated privacy: R(a) <= rho a at every order.

    Source: Bun and Steinke 2016, Definition 1.1, arXiv 1605.02065v1.
    """

    target: Target
    name: CurrencyName = "zcdp"
    whole_plans: bool = False
    source: str = RENYI_SOURCE
    conversion: str = CONVERSION_SOURCE

    @cached_property
    def budgets(self) -> tuple[Fraction, ...]:
        """The largest rho that meets the target, by the rdp engine."""
        return (Fraction(_largest_amount(self._epsilon_of, 1e-18, 1e12, self.target)),)

    def cost(self, event: ev.Event, relation: Neighbours) -> Cost:
        """Return the least rho: in closed form, or by a search over the orders."""
        if isinstance(event, ev.NoGuarantee):
            return Cost((math.inf,))
        event = _whole_run(event, relation)
        if isinstance(event, (ev.Gaussian, ev.DiscreteGaussian)):
            # rho = (distance of neighbours / noise)^2 / 2, exactly, as a fraction.
            shift = Fraction(contribution(relation)) / Fraction(event.noise_multiplier)
            return Cost((shift * shift / 2,))
        if isinstance(event, ev.ZCDP):
            return Cost((Fraction(event.rho),))
        renyi = curve(event, relation)
        with np.errstate(over="ignore"):
            rho = least_rho(renyi)
        if math.isinf(rho):
            raise Unsupported(
                f"No finite rho is known for `{event.type}` events with this noise.",
                "Sampled Gaussian noise has that of the noise alone, so a sample gains nothing.",
                "Fix an order beforehand: Odometer(..., currency='rdp', like=event).",
            )
        # What shows anything costs something, where its rho underflows.
        return Cost((Fraction(max(rho, math.ulp(0.0)) if renyi.limit else rho),), renyi.slack)

    def epsilon(self, spent: Sequence[Fraction | None]) -> float:
        """Return the epsilon of the rho that is spent."""
        (rho,) = spent
        return math.inf if rho is None else self._epsilon_of(_round_up(rho))

    def described(self) -> str:
        """Return the budget in words."""
        return f"rho = {float(self.budgets[0]):.6g} (zero-concentrated privacy)"

    def _epsilon_of(self, rho: float) -> float:
        if rho == 0.0:
            return 0.0
        known = Composition.of(ev.ZCDP(rho))
        return RdpEngine().epsilon(known, self.target.conversion_delta, "add-remove").bounds.upper


@dataclass(frozen=True)
class Gdp:
    """Gaussian privacy: mu^2 = (distance of neighbours / noise)^2, for Gaussian noise only."""

    target: Target
    name: CurrencyName = "gdp"
    whole_plans: bool = False
    source: str = GAUSSIAN_SOURCE
    conversion: str = GAUSSIAN_PROFILE_SOURCE

    @cached_property
    def budgets(self) -> tuple[Fraction, ...]:
        """The largest mu^2 that meets the target, by the gdp engine."""
        # What is certified is the noise: 1 / mu rounds to the same noise here as there.
        noise = 1.0 / _largest_amount(lambda mu: self._epsilon_of(1.0 / mu), 1e-9, 1e3, self.target)
        return (1 / Fraction(noise) ** 2,)

    def cost(self, event: ev.Event, relation: Neighbours) -> Cost:
        """Return mu^2, exactly."""
        if isinstance(event, ev.NoGuarantee):
            return Cost((math.inf,))
        event = _whole_run(event, relation)
        if not isinstance(event, ev.Gaussian):
            raise Unsupported(
                f"A budget in mu^2 cannot pay for `{event.type}` events.",
                "Only Gaussian noise without sampling is Gaussian given the past.",
                "Use currency='zcdp', or currency='rdp' with an order fixed beforehand.",
            )
        shift = Fraction(contribution(relation)) / Fraction(event.noise_multiplier)
        return Cost((shift * shift,))

    def epsilon(self, spent: Sequence[Fraction | None]) -> float:
        """Return the epsilon of the mu^2 that is spent."""
        (squared,) = spent
        if squared is None:
            return math.inf
        if squared == 0:
            return 0.0
        # Two steps down: the square root and the quotient round by one each.
        noise = 1.0 / math.sqrt(_round_up(squared))
        return self._epsilon_of(math.nextafter(math.nextafter(noise, 0.0), 0.0))

    def described(self) -> str:
        """Return the budget in words."""
        return f"mu^2 = {float(self.budgets[0]):.6g} (Gaussian privacy)"

    def _epsilon_of(self, noise: float) -> float:
        known = Composition.of(ev.Gaussian(noise))
        return GdpEngine().epsilon(known, self.target.conversion_delta, "add-remove").bounds.upper


def _whole_run(event: ev.Event, relation: Neighbours) -> ev.Event:
    """Return the Gaussian release that tells as much as a run with correlated noise, or more."""
    if isinstance(event, ev.MatrixGaussian):
        return correlated_noise(event, relation).dominating
    return event


@dataclass(frozen=True)
class Rdp:
    """Renyi divergence at orders fixed before the first release, delta / k for each of k."""

    target: Target
    orders: tuple[float, ...]
    name: CurrencyName = "rdp"
    whole_plans: bool = False
    source: str = RENYI_SOURCE
    conversion: str = CONVERSION_SOURCE

    @cached_property
    def budgets(self) -> tuple[Fraction, ...]:
        """The largest R at each order that meets the target; at least one is above 0."""
        epsilon = Fraction(self.target.epsilon)
        budgets = tuple(max(Fraction(0), epsilon - overhead) for overhead in self._overheads)
        if not any(budgets):
            raise InvalidInput(
                f"Epsilon {self.target.epsilon:g} at delta {self.target.delta:g} leaves nothing to "
                f"spend at order {', '.join(f'{order:g}' for order in self.orders)}.",
                "Turning a divergence into epsilon costs log(1/delta) / (order - 1) by itself.",
                "Fix a larger order.",
            )
        return budgets

    def cost(self, event: ev.Event, relation: Neighbours) -> Cost:
        """Return R at each order."""
        renyi = curve(event, relation)
        if renyi.limit == 0.0:
            return Cost((Fraction(0),) * len(self.orders), renyi.slack)
        with np.errstate(over="ignore", invalid="ignore"):
            values = renyi.at(np.array(self.orders, dtype=np.float64))
        # Infinite where the divergence is: that order's budget can never pay.  Above 0 elsewhere.
        amounts = tuple(
            Fraction(max(float(value), math.ulp(0.0))) if math.isfinite(value) else math.inf
            for value in values
        )
        return Cost(amounts, renyi.slack)

    def epsilon(self, spent: Sequence[Fraction | None]) -> float:
        """Return the least epsilon over the orders that are not exhausted."""
        if all(amount == 0 for amount in spent):
            return 0.0
        return min(
            (
                max(0.0, _round_up(amount + overhead))
                for amount, overhead in zip(spent, self._overheads, strict=True)
                if amount is not None
            ),
            default=math.inf,
        )

    def described(self) -> str:
        """Return the budget in words."""
        pairs = zip(self.orders, self.budgets, strict=True)
        shown = ", ".join(f"R({order:g}) = {float(amount):.6g}" for order, amount in pairs)
        return f"{shown} (Renyi divergence, the order fixed beforehand)"

    @cached_property
    def _overheads(self) -> tuple[Fraction, ...]:
        values = overheads(np.array(self.orders), self.target.conversion_delta, len(self.orders))
        return tuple(Fraction(float(value)) for value in values)


def overheads(orders: FloatArray, delta: float, shares: int = 1) -> FloatArray:
    """Return epsilon - R at each order a = b + 1, with delta / shares for each, rounded up.

    It is (log(shares/delta) - log a)/b + log(b/a).
    Source: Canonne, Kamath and Steinke 2020, Proposition 12, arXiv 2004.00010v4.
    """
    b = orders - 1.0
    log_inverse_delta = math.log(shares) - math.log(delta)
    log_a, log_ratio = np.log(orders), -np.log1p(1.0 / b)
    # Rounded up by the size of the terms: their difference may cancel.
    size = (abs(log_inverse_delta) + log_a) / b - log_ratio
    return np.asarray((log_inverse_delta - log_a) / b + log_ratio + 8e-15 * size)


def best_order(
    event: ev.Event, composition: Composition, target: Target, relation: Neighbours
) -> float:
    """Return the order at which a budget admits most releases like `event`, whose leaves are given.

    It looks at the event and the target only, so it may be fixed before the first release.
    """
    orders = np.asarray(1.0 + np.geomspace(0.05, 4096.0, 400))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        total = np.zeros_like(orders)
        for leaf in composition:
            total += leaf.count * curve(leaf.event, relation).at(orders)
        # Releases that fit at each order: what conversion leaves of epsilon, over one's divergence.
        left = target.epsilon - overheads(orders, target.conversion_delta)
        affordable = np.where(
            (left > 0.0) & np.isfinite(total), left / np.maximum(total, 1e-300), 0.0
        )
    if not affordable.max() >= 1.0:
        raise Unsupported(
            f"No order leaves room for a single `{event.type}` release like this one.",
            "At every order it costs more than the whole budget.",
            "Ask for a larger epsilon or delta, or more noise.",
        )
    return float(orders[int(affordable.argmax())])


def _largest_amount(
    epsilon_of: Callable[[float], float], low: float, high: float, target: Target
) -> float:
    """Return the largest amount whose epsilon was found to meet the target, to 1e-12."""
    if epsilon_of(low) > target.epsilon:
        raise InvalidInput(
            f"Epsilon {target.epsilon:g} at delta {target.delta:g} leaves nothing to spend.",
            next_step="Ask for a larger epsilon or delta, or a smaller slack.",
        )
    if epsilon_of(high) <= target.epsilon:
        return high
    # Bisection on a log scale: the epsilon of `low` meets the target at every step, so the budget
    # errs on the side of less to spend.
    return bisect(
        lambda amount: epsilon_of(amount) <= target.epsilon,
        low,
        high,
        stop=lambda a, b: b <= a * (1.0 + 1e-12) or not a < _geometric_mean(a, b) < b,
        middle=_geometric_mean,
    )[0]


def _geometric_mean(low: float, high: float) -> float:
    return math.sqrt(low) * math.sqrt(high)


def _round_up(value: Fraction) -> float:
    """Return the value as a float, rounded up."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


Mode = Literal["adaptive", "planned"]
"""Whether releases may be chosen by earlier results, or were all fixed before the first."""


@dataclass(frozen=True)
class BudgetReading:
    """How far a budget is spent: `epsilon` so far at `delta`, and the spent `share` in [0, 1].

    `note` says why this is no guarantee.
    """

    epsilon: float
    delta: float
    share: float
    note: str
