"""Covariance with Wishart noise: exactly how it fails, and what to release instead.

The mechanism releases O = A + W with A = X^T X and W ~ W_d(k, c I): W is the sum of z z^T over k
vectors of d independent N(0, c).  Published proofs compare densities, which for k = d + 1 differ
by a bounded factor, and forget the supports: O - A is always positive definite, so O reveals that
x is absent whenever O - A - x x^T is not.

**One row x, exactly.**  Against A alone the likelihood ratio of O - A = W + x x^T to W at O is
e^{n/2c} (1 - x^T O^-1 x)^{(k-d-1)/2}, n = |x|^2, where x x^T <= O, and 0 elsewhere: a function of
T = n / x^T O^-1 x.  Without x, T ~ c chi^2_m with m = k - d + 1 (the Schur complement of a
Wishart matrix); with x, T is n larger, by the formula of Sherman and Morrison.  So the mechanism
is as hard to tell apart as c chi^2_m and n + c chi^2_m.  At m = 2 this is an exponential law
against its shift: delta = 1 - e^{-n/2c} at every epsilon.

Derived here; the failure was first reported against an implementation, in issues 23 and 42 of
IBM/differential-privacy-library.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from scipy.stats import chi2

from .. import events as ev
from .. import validate
from ..errors import Unsupported
from ..guarantee import Bounds
from ..neighbours import as_neighbours
from .release import Release, Sensitivity, moved_by, require_public, root_up

_CHI2_ERROR_RELATIVE: Final = 1e-11
"""Allowance for the relative error of a chi-square probability."""

MAX_FREEDOM: Final = 10**5
"""Beyond, scipy's series for the tail of a chi-square distribution stops before it converges."""

LAYOUTS: Final = ("isometric", "upper-triangle", "full")


def failure(
    claimed_epsilon: float,
    *,
    privacy_epsilon: float = 0.0,
    norm_square: float = 1.0,
    neighbours: str = "add-remove",
) -> float:
    """Return the exact delta, at `privacy_epsilon`, of W_d(d+1, I/(2 eps)) "with epsilon-DP".

    1 - e^{-eps n}, at *every* privacy_epsilon >= 0, for a row x with |x|^2 = n = `norm_square`
    that comes or goes (O without x against O with x; the other direction is
    `failure_reversed`, never larger).  Under replace-one over the ball |x|^2 <= n the same
    number, exact from privacy_epsilon = eps n up, where it is asked for; below, delta is at least
    as large and this function refuses.  Rows with |x_j| <= 1 have n up to d.

    Raises `Unsupported` under replace-one below eps n.  Derived in this module.

    >>> round(failure(0.6), 3), round(failure(0.6, privacy_epsilon=50.0), 3)
    (0.451, 0.451)
    """
    scaled = validate.positive(claimed_epsilon=claimed_epsilon)
    scaled *= validate.positive(norm_square=norm_square)
    at = validate.non_negative(privacy_epsilon=privacy_epsilon)
    if as_neighbours(neighbours) == "replace-one" and at < scaled:
        raise Unsupported(
            f"Under replace-one the exact delta is only known from epsilon {scaled:g} up.",
            f"Below, it is at least {-math.expm1(-scaled):.6g}.",
            "Ask for a larger privacy_epsilon, or for add-remove.",
        )
    return -math.expm1(-scaled)


def failure_reversed(
    claimed_epsilon: float, *, privacy_epsilon: float = 0.0, norm_square: float = 1.0
) -> float:
    """Return the exact delta of the harmless direction: O with x against O without.

    (1 - e^{privacy_epsilon - eps n})_+: this is what the published proof is about.
    Neighbours: one row of norm^2 n comes or goes.  Derived in this module.
    """
    scaled = validate.positive(claimed_epsilon=claimed_epsilon)
    scaled *= validate.positive(norm_square=norm_square)
    at = validate.non_negative(privacy_epsilon=privacy_epsilon)
    return -math.expm1(min(at - scaled, 0.0))


def one_row_delta(
    epsilon: float, *, extra_freedom: int, scale: float, norm_square: float = 1.0
) -> Bounds:
    """Return the exact delta of W_d(d + `extra_freedom`, `scale` I), at `epsilon` >= 0.

    delta is the larger of max_t F(t) - e^eps F(t - n) and max_t S(t - n) - e^eps S(t), with F and
    S the distribution and survival functions of c chi^2_m, m = extra_freedom + 1 >= 2; both grow
    with n, so rows of norm^2 at most n = `norm_square` are covered.  The likelihood ratio is
    monotone in t, which gives the best t in closed form.  Bounds for the rounding of F and S.
    Neighbours: one row comes or goes.  Derived in this module.

    Raises `InvalidInput` below one extra degree of freedom, `Unsupported` above `MAX_FREEDOM` and
    where a row is too small against the scale to compute with.

    >>> one_row_delta(1.0, extra_freedom=34, scale=1.0).upper < 1e-5
    True
    """
    at = validate.non_negative(epsilon=epsilon)
    freedom = validate.count(extra_freedom=extra_freedom) + 1
    c, n = validate.positive(scale=scale), validate.positive(norm_square=norm_square)
    # The mechanism is as hard to tell apart as c chi^2_m and n + c chi^2_m.
    law = chi2(freedom, scale=c)
    power, rate = freedom / 2.0 - 1.0, n / (2.0 * c)
    if extra_freedom > MAX_FREEDOM or not 1e-280 < rate < math.inf:
        raise Unsupported(
            "The extra degrees of freedom, or the row relative to the scale, are too extreme.",
            f"Chi-square probabilities are only accurate up to {MAX_FREEDOM:,} degrees, and "
            "norm_square / scale must not vanish or overflow.",
            "Use the Gaussian replacement: gaussian_release.",
        )
    # Without x against with x: the ratio falls with t, and is infinite up to n; at power 0 it is
    # flat beyond n, and below 1.
    threshold = n / -math.expm1(-(at + rate) / power) if power > 0.0 else n
    removal = _excess(float(law.cdf(threshold)), float(law.cdf(threshold - n)), at)
    if at >= rate:  # the other ratio stays below e^rate
        return Bounds(*removal)
    threshold = n / -math.expm1((at - rate) / power) if power > 0.0 else n
    addition = _excess(float(law.sf(threshold - n)), float(law.sf(threshold)), at)
    return Bounds(max(removal[0], addition[0]), max(removal[1], addition[1]))


def _excess(first: float, second: float, epsilon: float) -> tuple[float, float]:
    """Return bounds on first - e^epsilon second, at least 0."""
    grown = math.exp(epsilon + math.log(second)) if second > 0.0 else 0.0
    # Outward by the error of both chi-square probabilities: the interval holds the exact delta.
    error = _CHI2_ERROR_RELATIVE * (first + grown) * (1.0 + epsilon) + 1e-290
    return max(first - grown - error, 0.0), min(max(first - grown, 0.0) + error, 1.0)


def gaussian_sensitivity(
    row_norm: float,
    neighbours: str = "add-remove",
    *,
    layout: str = "isometric",
    dimension: int = 2,
    bound_source: str = "public",
) -> Sensitivity:
    """Return the L2 sensitivity of A = X^T X, as the noise of a layout sees it.

    Rows have L2 norm at most B = `row_norm`.  `isometric`: one noise of standard deviation sigma
    per diagonal element and one of sigma / sqrt(2) per pair above it (mirrored below), so that
    noise is white in the coordinates (a_jj, sqrt(2) a_jl), where distances are Frobenius
    distances.  `upper-triangle`: sigma for each element on and above the diagonal.  `full`: sigma
    for each of the d^2 elements, independently.  In all of them B^2 for a row that comes or goes,
    and sqrt(2) B^2 (d >= 2; B^2 at d = 1) for a replaced one, attained by x = B e_1 and B e_2; the
    isometric layout has the least noise.
    Source: Dwork, Talwar, Thakurta and Zhang 2014, *Analyze Gauss* (upper triangle); derived here.

    >>> gaussian_sensitivity(1.0).l2, gaussian_sensitivity(1.0, "replace-one").l2
    (1.0, 1.4142135623730951)
    """
    require_public(bound_source, what="A row norm")
    validate.choice(LAYOUTS, layout=layout)
    relation = as_neighbours(neighbours)
    b = Fraction(validate.positive(row_norm=row_norm))
    # |x x^T - x' x'^T|_F^2 <= 2 B^4 in two dimensions or more, else B^4.
    factor = 2 if relation == "replace-one" and validate.count(dimension=dimension) > 1 else 1
    noise_conditions = {
        "isometric": "noise sigma on the diagonal and sigma / sqrt(2) above it, mirrored below",
        "upper-triangle": "noise sigma on each element on and above the diagonal, mirrored below",
        "full": "noise sigma on each element, independently",
    }
    conditions = (
        f"every row is clipped to L2 norm {row_norm:g}, a public constant",
        noise_conditions[layout],
    )
    return Sensitivity(root_up(factor * b**4), relation, conditions=conditions)


def gaussian_release(sensitivity: Sensitivity, *, noise: float, rounds: int = 1) -> Release:
    """Return the event of releasing A with symmetric Gaussian noise, the sound replacement.

    `noise` is sigma of the layout in `gaussian_sensitivity`; what is computed from the release
    (eigenvectors, a projection) costs nothing more.

    >>> gaussian_release(gaussian_sensitivity(2.0), noise=8.0).event
    Gaussian(noise_multiplier=2.0)
    """
    sigma = Fraction(validate.positive(noise=noise))
    event: ev.Event = moved_by(sigma**2, sensitivity, validate.count(rounds=rounds))
    return Release(event, sensitivity.neighbours, "model", conditions=sensitivity.conditions)
