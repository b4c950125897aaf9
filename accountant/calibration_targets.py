"""What a calibration aims at: (epsilon, delta), or the risk of the best attack.

Let delta(eps) be the larger one of both directions of the neighbouring relation.  No test of "out"
against "in" has TPR > e^eps FPR + delta(eps), nor TPR > 1 - e^-eps (1 - delta(eps) - FPR), for any
eps >= 0.  So

    advantage = max (TPR - FPR)    = delta(0),
    Bayes risk at prior p          = m (1 - delta(|log((1 - p) / p)|)),  m = min(p, 1 - p),

and TPR at an FPR is at most t if some eps has delta(eps) <= t - e^eps FPR (where FPR <= 1 - t;
beyond, the roles of the two errors are exchanged).  One (epsilon, delta) is enough for each target,
and the first two need no less.  A TPR may: where the directions differ, no test need attain the
least of these lines, and `tpr_search` looks at each direction with its own deltas.
Source: Dong, Roth, Su 2022, arXiv 1905.02383v3, Proposition 2.12; Kulynych, Gomez, Kaissis, Calmon,
Troncoso 2024, arXiv 2407.02191v2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from scipy.special import ndtri

from . import validate
from .errors import InvalidInput
from .guarantee import Bounds
from .rounding import as_given

ULP: Final = 2.0**-52

ROUNDING_MARGIN: Final = 1e-12
"""Share of delta by which a target is tightened, so that no rounding takes a risk above it."""


MIN_LEFT_SHARE: Final = 1e-5
"""How far below log(TPR / FPR), relatively, an epsilon stays: beyond, no delta is left."""


class RiskTarget(Protocol):
    """A risk that the best attack may not exceed."""

    @property
    def measure(self) -> str:
        """The name of the risk: `advantage`, `tpr` or `bayes_risk`."""

    @property
    def value(self) -> float:
        """What the risk may be at most (a Bayes risk: at least)."""

    @property
    def words(self) -> str:
        """The target in words, for a sentence."""

    @property
    def relaxed(self) -> str:
        """What to ask for where this cannot be met."""

    @property
    def stricter(self) -> str:
        """What to ask for where every value of the unknown meets this."""

    @property
    def first_epsilon(self) -> float:
        """The epsilon at which delta is asked for, or with which the search for it begins."""

    @property
    def line_slope(self) -> float | None:
        """The a of e^eps a + delta(eps), which is least at the best epsilon; None: it is fixed."""

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon that just meets the target, rounded down."""

    def reached(self, epsilon: float, delta: Bounds) -> Bounds:
        """Return the risk that a bound on delta at this epsilon leaves, rounded outwards."""

    def gap(self, risk: Bounds) -> float:
        """Return how far the truth can lie from the target, at most, on the safe side of it."""

    def through_epsilon(self, delta: float) -> float | None:
        """Return the epsilon that implies the target at this delta, whatever the mechanism.

        None where none does.  Calibrating to it costs more noise: it assumes the worst mechanism
        with that (epsilon, delta).
        """


@dataclass(frozen=True)
class AdvantageTarget:
    """At most this advantage, in (0, 1): the largest TPR - FPR of a test."""

    value: float
    measure: ClassVar[str] = "advantage"
    first_epsilon: ClassVar[float] = 0.0
    line_slope: ClassVar[None] = None

    @property
    def words(self) -> str:
        return f"an advantage of at most {as_given(self.value)}"

    @property
    def relaxed(self) -> str:
        return "a larger advantage"

    @property
    def stricter(self) -> str:
        return "a smaller advantage"

    def delta(self, epsilon: float) -> float:
        return self.value

    def reached(self, epsilon: float, delta: Bounds) -> Bounds:
        return delta

    def gap(self, risk: Bounds) -> float:
        return self.value - risk.lower

    def through_epsilon(self, delta: float) -> float | None:
        return _through(1.0, self.value, delta)


@dataclass(frozen=True)
class BayesTarget:
    """At least this probability of error, in (0, m), where a member is drawn with `prior`."""

    value: float
    prior: float
    measure: ClassVar[str] = "bayes_risk"
    line_slope: ClassVar[None] = None

    @property
    def words(self) -> str:
        prior = as_given(self.prior)
        return f"a Bayes risk of at least {as_given(self.value)} at prior {prior}"

    @property
    def relaxed(self) -> str:
        return "a smaller Bayes risk"

    @property
    def stricter(self) -> str:
        return "a larger Bayes risk"

    @property
    def first_epsilon(self) -> float:
        # Rounded down: delta only grows.
        odds = abs(math.log1p(-self.prior) - math.log(self.prior))
        return max(odds * (1.0 - 8.0 * ULP) - 8.0 * ULP, 0.0) if self.prior != 0.5 else 0.0

    @property
    def blind(self) -> float:
        """The probability of error of whoever guesses by the prior alone."""
        return min(self.prior, 1.0 - self.prior)

    def delta(self, epsilon: float) -> float:
        left = self.value / self.blind
        most = (self.blind - self.value) / self.blind
        # The margin is a share of delta or of what it leaves, and the rest rounds to multiples of
        # a unit of 1: a delta near 1 keeps no more digits of what it leaves.
        delta = most * (1.0 - 4.0 * ULP) - ROUNDING_MARGIN * min(most, left) - 8.0 * ULP * left
        return max(delta, 0.0)

    def reached(self, epsilon: float, delta: Bounds) -> Bounds:
        # The epsilon is a few units of rounding below the true one, where delta may be less still.
        least = self.blind * (1.0 - delta.upper) * (1.0 - 4.0 * ULP)
        most = self.blind * (1.0 - max(delta.lower - 64.0 * ULP, 0.0)) * (1.0 + 4.0 * ULP)
        return Bounds(max(least, 0.0), min(most, self.blind))

    def gap(self, risk: Bounds) -> float:
        return risk.upper - self.value

    def through_epsilon(self, delta: float) -> float | None:
        odds = (1.0 - self.blind) / self.blind
        return _through(odds, self.delta(0.0), delta)


@dataclass(frozen=True)
class TprTarget:
    """At most this TPR at false positive rate `fpr`, with 0 < `fpr` < `value` < 1."""

    value: float
    fpr: float
    measure: ClassVar[str] = "tpr"

    @property
    def words(self) -> str:
        return f"a TPR of at most {as_given(self.value)} at FPR {as_given(self.fpr)}"

    @property
    def relaxed(self) -> str:
        return "a larger TPR"

    @property
    def stricter(self) -> str:
        return "a smaller TPR"

    @property
    def _rates(self) -> tuple[float, float]:
        """FPR and TPR, or what they are with the two errors exchanged where FPR > 1 - TPR."""
        if self.fpr <= 1.0 - self.value:
            return self.fpr, self.value
        return 1.0 - self.value, 1.0 - self.fpr

    @property
    def first_epsilon(self) -> float:
        # Were the pair Gaussian: the log likelihood ratio at the threshold of the best test.
        false, true = self._rates
        threshold = -float(ndtri(false))
        mu = threshold + float(ndtri(true))
        return self.admissible(mu * threshold - 0.5 * mu * mu)

    @property
    def line_slope(self) -> float:
        return self._rates[0]

    def admissible(self, epsilon: float) -> float:
        """Return the nearest epsilon at which some delta above 0 meets the target."""
        false, true = self._rates
        widest = math.log(true / false)
        # What is left must be more than the rounding of both rates, too.
        most = min((1.0 - MIN_LEFT_SHARE) * widest, widest - 64.0 * ULP)
        return max(min(epsilon, most), 0.0)

    def delta(self, epsilon: float) -> float:
        false, true = self._rates
        left = true * (1.0 - 4.0 * ULP) - _grown(false, epsilon)
        # With the errors exchanged, 1 - TPR and 1 - FPR round to multiples of a unit of 1.
        exchanged = 0.0 if false == self.fpr else 4.0 * ULP * (1.0 + _grown(1.0, epsilon))
        return max(left * (1.0 - ROUNDING_MARGIN) - exchanged, 0.0)

    def reached(self, epsilon: float, delta: Bounds) -> Bounds:
        steep = (_grown(self.fpr, epsilon) + delta.upper) * (1.0 + 2.0 * ULP)
        # 1 - e^-eps (1 - delta - FPR), rounded up.
        rest = max(1.0 - delta.upper - self.fpr - 2.0 * ULP, 0.0)
        flat = 1.0 - math.exp(-epsilon) * rest * (1.0 - 4.0 * ULP * (1.0 + epsilon)) + ULP
        # Guessing blindly has TPR = FPR; what more is attained, no single delta says.
        return Bounds(self.fpr, max(min(steep, flat, 1.0), self.fpr))

    def gap(self, risk: Bounds) -> float:
        return self.value - risk.lower

    def through_epsilon(self, delta: float) -> float | None:
        false, true = self._rates
        return math.log((true - delta) / false) if true - delta > false else None


def _through(odds: float, most: float, delta: float) -> float | None:
    """Return the epsilon at which no (epsilon, delta)-DP test has TPR - odds x FPR above `most`.

    The worst trade-off function has its corner where both errors are (1 - delta) / (1 + e^eps).
    """
    grown = (1.0 + odds) * (1.0 - delta) / (1.0 - most) - 1.0
    return math.log(grown) if delta < most and grown > 1.0 else None


def _grown(rate: float, epsilon: float) -> float:
    """Return e^epsilon x rate, rounded up."""
    return rate * math.exp(epsilon) * (1.0 + 4.0 * ULP * (1.0 + epsilon))


KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "epsilon": ("epsilon", "delta"),
    "advantage": ("advantage",),
    "tpr": ("tpr", "fpr"),
    "bayes_risk": ("bayes_risk",),
}
"""The targets, each with the fields that it needs."""

_BELONGS: Final[Mapping[str, str]] = {"delta": "epsilon", "fpr": "tpr", "prior": "bayes_risk"}


def kind_of_target(given: Mapping[str, float | None]) -> str:
    """Return which target the fields that are not None state; refuse none, several, or a part."""
    present = {name for name, value in given.items() if value is not None}
    kinds = {_BELONGS.get(name, name) for name in present}
    if len(kinds) != 1:
        named = ", ".join(f"`{name}`" for name in given if name in present)
        raise InvalidInput(
            f"Several targets are given at once: {named}." if kinds else "No target is given.",
            "A calibration aims at one thing: epsilon at a delta, an advantage, a TPR at an FPR, "
            "or a Bayes risk at a prior.",
            "Give `epsilon` and `delta`, or `advantage`, or `tpr` and `fpr`, or `bayes_risk` "
            "(and `prior`).",
        )
    (kind,) = kinds
    for name in KINDS[kind]:
        if name not in present:
            (other, *_) = (field for field in given if field in present)
            raise InvalidInput(
                f"`{name}` is missing.",
                f"`{other}` is no target without it.",
                f"Give `{name}` too.",
            )
    return kind


def risk_target(kind: str, given: Mapping[str, float | None]) -> RiskTarget:
    """Return the checked target of a kind; raise `InvalidInput` for what no noise meets.

    >>> risk_target("tpr", {"tpr": 0.07, "fpr": 0.01}).words
    'a TPR of at most 0.07 at FPR 0.01'
    """
    if kind == "advantage":
        return AdvantageTarget(validate.open_probability(advantage=given["advantage"]))
    if kind == "tpr":
        fpr = validate.open_probability(fpr=given["fpr"])
        tpr = validate.open_probability(tpr=given["tpr"])
        if tpr <= fpr:
            raise InvalidInput(
                f"`tpr` must be above `fpr` ({as_given(fpr)}); it is {as_given(tpr)}.",
                "Whoever accuses people at random, and looks at nothing, has a TPR equal to the "
                "FPR; only a release that depends on nobody leaves no more.",
                f"Give a `tpr` above {as_given(fpr)}.",
            )
        return _with_room(TprTarget(tpr, fpr), f"an FPR of {as_given(fpr)}")
    prior = given.get("prior")
    target = BayesTarget(
        validate.positive(bayes_risk=given["bayes_risk"]),
        0.5 if prior is None else validate.open_probability(prior=prior),
    )
    blind, at = _told_from(target.value, target.blind), as_given(target.prior)
    if target.value >= target.blind:
        raise InvalidInput(
            f"`bayes_risk` must be below {blind} at prior {at}; it is {as_given(target.value)}.",
            "Whoever always guesses what the prior makes likelier errs no more often than that.",
            f"Give a `bayes_risk` below {blind}.",
        )
    return _with_room(target, f"the {blind} of guessing by the prior")


def _told_from(other: float, number: float) -> str:
    """Return a computed number in few digits, or in all where few do not tell it from another."""
    short = f"{number:g}"
    return as_given(number) if short == f"{other:g}" != as_given(number) else short


def _with_room(target: RiskTarget, guessing: str) -> RiskTarget:
    """Return the target; raise `InvalidInput` where rounding leaves it no delta above 0."""
    if target.delta(target.first_epsilon) > 0.0:
        return target
    raise InvalidInput(
        f"`{target.measure}` is too near to guessing: {target.words}, against {guessing}.",
        "The two differ by less than the rounding of numbers of 64 bits, so that no noise can be "
        "proven to be enough.",
        f"Ask for {target.relaxed}.",
    )
