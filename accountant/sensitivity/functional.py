"""The functional mechanism: how far one record moves the coefficients of an objective.

A record (x, y) adds l_y . (W x) + <K, (W x)(W x)^T> to the objective, in the weights W; the
constant term has no weight in it and is not released.  The linear coefficients are a l_y (x) x,
with a public weight a that balances their noise against that of the others (1 unless given), the
quadratic ones K (x) x x^T, with a fixed symmetric K:

| model | l_y | K |
|---|---|---|
| `linear`: (y - x.w)^2, abs(y) <= 1 | -2y | 1 |
| `logistic`: degree 2 at w = 0, y in {0, 1} | 1/2 - y | 1/8 |
| `softmax`: degree 2 at W = 0, c classes | (1, ..., 1)/c - e_y | (I - 11^T/c)/(2c) |
| `statistics`: S_y = sum of x over class y, B = sum of x x^T | e_y | 1 |
| `centred-statistics`: the same, of labels whose elements sum to 0 | e_y - (1, ..., 1)/c | 1 |

`statistics` holds all that the degree-2 softmax needs, at far less noise, and so does
`centred-statistics` with the sum of all x, which an intercept has in B.

The quadratic part is symmetric and may be released in four ways, which have different
sensitivities: `full`, every element of the matrix with its own noise; `upper-triangle`, each
element on and above the diagonal once; `isometric`, the same with sqrt(2) in front of the elements
above the diagonal (their own noise is less by as much), so that distances are those of the matrix;
`monomials`, the coefficients of the polynomial, in which the two equal elements off the diagonal
are added up.  Gaussian noise is least in `isometric`; Laplace noise in `upper-triangle`, whose L1
sensitivity is lower.

**Neighbours.**  A record that comes or goes moves the sum by its coefficients.  For a replaced one
write u = x + x', v = x - x'; then E = x x^T - x' x'^T = (u v^T + v u^T)/2.

*L2.*  Let p = a max |l|.  Labels: |l_y|^2 |x|^2 + |l_y'|^2 |x'|^2 - 2 (l_y.l_y')(x.x') is, times
a^2, at most p^2 |v|^2 or p^2 |u|^2, and the domain holds -x' with x', so it is at most p^2 |v|^2
throughout.  K (x) E has square norm f |E|^2 = f (|u|^2 |v|^2 + (u.v)^2)/2 (`full`, `isometric`;
f = |K|^2), half of that with the diagonal counted twice (`upper-triangle`, no more than `full`), or
at most twice that (`monomials`).
 - |x| <= 1: |u|^2 + |v|^2 + 2 |u.v| <= 4.  With beta = |v|^2 the sum is convex in u.v, so u.v is 0
   or |u||v|.  The first gives p^2 beta + g f beta (4 - beta)/2, g = 1, or 2 for monomials; it is
   largest at beta = min(2 + p^2 / (g f), 4), where it is at least 2 p^2 + 2 g f, or 4 p^2.  The
   second gives p^2 b^2 + g f b^2 (2 - b)^2, b = |v|: not more at the same beta from b = 2/3 up, and
   below it at most 4/9 p^2 + 64/81 g f.  For d = 1 there is only the second, which grows with b
   where 2 p^2 >= g f, up to 4 p^2, and grows with p: below, it is at most 2 g f, and g f + 4 p^2.
 - |x_j| <= 1: norms grow with |u_j| + |v_j| <= 2, so let |v_j| = 1 + t_j, |u_j| = 1 - t_j,
   tau = sum t, q = sum t^2; the square is convex in q in [tau^2/d, d], and q = d is the larger
   end: 2 p^2 (d + tau) + m f (d^2 - tau^2), m = 2 (full, isometric), 1 (upper-triangle) or 4
   (monomials).  Where p^2 >= max(m, 2) f (at a = 1 all but the statistics) the square is convex in
   each x_j and x'_j, so the worst records are signs, tau has the parity of d, and the bound is
   attained.

*L1.*  sum |E_jl| <= |u|_1 |v|_1 <= d^2 where |x_j| <= 1, and <= d |E| <= sqrt(2) d where |x| <= 1;
sum |E_jj| <= d, or 2.  For `linear` and `logistic` both parts are bounded at once, see `_joint`.
`isometric` is 1/sqrt(2) times the former and 1 - 1/sqrt(2) times the latter.

Every L2 norm for a record that comes or goes, and every L1 norm for one, is attained.
Source of the mechanism: Zhang, Zhang, Xiao, Yang and Winslett 2012, arXiv 1208.0219.  Derived
here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from .. import events as ev
from .. import validate
from ..errors import InvalidInput
from ..neighbours import Neighbours, as_neighbours
from .release import (
    Release,
    Sensitivity,
    multiplier,
    repeated,
    require_public,
    root_down,
    root_up,
    up,
)

MODELS: Final = ("linear", "logistic", "softmax", "statistics", "centred-statistics")
DATA: Final = ("coordinate", "l2")
QUADRATIC: Final = ("upper-triangle", "monomials", "full", "isometric")
_JOINT_ROUNDING_RELATIVE: Final = Fraction(1, 10**14)
"""Allowance for a dozen operations in floating point."""


@dataclass(frozen=True)
class Objective:
    """What is released: the coefficients of a model's objective, under a bound on the data.

    `dimension` d: features.  `data`: `coordinate` for |x_j| <= 1, `l2` for ||x||_2 <= 1.
    `quadratic`: how the quadratic part is released.  `classes` c: for softmax and the statistics.
    `bound_source`: where the scale of the features comes from; `private` is refused.
    `label_weight` a: a public weight on the linear coefficients, above 0.
    """

    model: str
    dimension: int
    data: str = "l2"
    quadratic: str = "upper-triangle"
    classes: int = 2
    bound_source: str = "public"
    label_weight: float = 1.0

    def __post_init__(self) -> None:
        validate.choice(MODELS, model=self.model)
        validate.count(dimension=self.dimension)
        validate.choice(DATA, data=self.data)
        validate.choice(QUADRATIC, quadratic=self.quadratic)
        validate.count_from(2, classes=self.classes)
        require_public(self.bound_source, what="A scale of the features")
        weight = validate.positive(label_weight=self.label_weight)
        object.__setattr__(self, "label_weight", weight)


@dataclass(frozen=True)
class _Tensors:
    """|a l|_1 and |a l|_2^2; sums of |K_kl| and K_kl^2, over all of K and over its diagonal."""

    linear: Fraction
    linear_square: Fraction
    sizes: Fraction
    squares: Fraction
    diagonal_sizes: Fraction
    diagonal_squares: Fraction


def _tensors(objective: Objective) -> _Tensors:
    a, c = Fraction(objective.label_weight), Fraction(objective.classes)
    spread = 1 - 1 / c
    if objective.model == "softmax":
        # l_y = (1, ..., 1)/c - e_y and K = (I - 11^T/c)/(2c), summed over their entries.
        sizes, squares = spread, spread / (4 * c)
        diagonal = (spread / 2, spread**2 / (4 * c))
        return _Tensors(2 * spread * a, spread * a**2, sizes, squares, *diagonal)
    if objective.model == "centred-statistics":
        return _Tensors(2 * spread * a, spread * a**2, *(Fraction(1),) * 4)
    scalars = {"linear": ("2", "1"), "logistic": ("1/2", "1/8"), "statistics": ("1", "1")}
    p, k = (Fraction(word) for word in scalars[objective.model])
    return _Tensors(p * a, (p * a) ** 2, k, k * k, k, k * k)


def sensitivity(objective: Objective, neighbours: str = "add-remove") -> Sensitivity:
    """Return the L1 and the L2 sensitivity of the released coefficients.

    `add-remove` and `zero-out` are the same; formulas and proofs are in this module.

    >>> moved = sensitivity(Objective("logistic", 784, "l2", "full"), "replace-one")
    >>> round(moved.l1, 1), moved.l2
    (158.7, 1.0)
    """
    relation = as_neighbours(neighbours)
    if relation == "replace-one":
        l1, l2 = _replaced_l1(objective), _replaced_l2(objective)
    else:
        l1, l2 = _present_l1(objective), _present_l2(objective)
    bound = "every |x_j| <= 1" if objective.data == "coordinate" else "every ||x||_2 <= 1"
    conditions = (
        f"{bound}, by a public scale",
        {"linear": "|y| <= 1", "logistic": "y is 0 or 1"}.get(objective.model, "one class each"),
        f"the quadratic part is released as {objective.quadratic}",
    )
    return Sensitivity(l2, relation, l1, conditions=conditions)


def _present_l1(objective: Objective) -> float:
    """p |x|_1 + k |x|_1^2, the quadratic part as `_as_released` weighs its diagonal."""
    t, d = _tensors(objective), Fraction(objective.dimension)
    if objective.data == "coordinate":
        l1_reach, square = d, d
    else:
        l1_reach, square = Fraction(root_up(d)), Fraction(1)
    whole = t.sizes * (d * d if objective.data == "coordinate" else d)
    return up(t.linear * l1_reach + _as_released(objective, whole, t.diagonal_sizes * square))


def _as_released(objective: Objective, whole: Fraction, diagonal: Fraction) -> Fraction:
    """Return the L1 norm of a released matrix, from bounds on all of it and on its diagonal."""
    if objective.quadratic == "upper-triangle":
        return (whole + diagonal) / 2
    if objective.quadratic == "isometric":
        half = Fraction(1, 2)
        return Fraction(root_up(half)) * whole + (1 - Fraction(root_down(half))) * diagonal
    return whole


def _present_l2(objective: Objective) -> float:
    """p^2 |x|^2 + f |x|^4, with the diagonal sum x_j^4 added to or taken from it."""
    t, d = _tensors(objective), Fraction(objective.dimension)
    if objective.data == "coordinate":
        size, fourth, least_diagonal, most_diagonal = d, d * d, d, d
    else:
        size, fourth, least_diagonal, most_diagonal = Fraction(1), Fraction(1), 1 / d, Fraction(1)
    quadratic = {
        "full": t.squares * fourth,
        "isometric": t.squares * fourth,
        "upper-triangle": (t.squares * fourth + t.diagonal_squares * most_diagonal) / 2,
        "monomials": 2 * t.squares * fourth - t.diagonal_squares * least_diagonal,
    }[objective.quadratic]
    return root_up(t.linear_square * size + quadratic)


def _replaced_l2(objective: Objective) -> float:
    """See the module: 2 p^2 (d + tau) + m f (d^2 - tau^2), or p^2 beta + g f beta (4 - beta)/2."""
    t, d = _tensors(objective), Fraction(objective.dimension)
    if objective.data == "coordinate":
        # m f, from the way in which the quadratic part is released.
        times = {"upper-triangle": 1, "monomials": 4}.get(objective.quadratic, 2)
        weight = times * t.squares
        # The square is concave in tau with its peak at p^2 / (m f), cut off at d.
        best = min(t.linear_square / weight, d)
        candidates = [best]
        if t.linear_square >= max(times, 2) * t.squares:  # only signs, so d + tau is even
            below = d - 2 * math.ceil((d - best) / 2)
            candidates = [below, min(below + 2, d)]
        square = max(2 * t.linear_square * (d + tau) - weight * tau * tau for tau in candidates)
        return root_up(square + weight * d * d)
    weight = t.squares * (2 if objective.quadratic == "monomials" else 1)
    if objective.dimension == 1:  # u.v is 0 only where u or v is
        opposite = 4 * t.linear_square
        low = 2 * t.linear_square < weight
        return root_up(min(2 * weight, weight + opposite) if low else opposite)
    # Concave in beta = |v|^2 <= 4: the peak, or the end of the range.
    beta = min(2 + t.linear_square / weight, Fraction(4))
    return root_up(beta * (t.linear_square + weight * (4 - beta) / 2))


def _replaced_l1(objective: Objective) -> float:
    """The least of: twice a record, the parts apart, both at once, and the larger domain."""
    t, d = _tensors(objective), Fraction(objective.dimension)
    if objective.data == "coordinate":
        l1_reach, whole, diagonal = d, d * d, d
    else:
        l1_reach, whole = Fraction(root_up(d)), Fraction(root_up(2 * d * d))
        diagonal = Fraction(2)
    # k sum |E_jl| over the whole matrix, and over its diagonal.
    quadratic = _as_released(objective, t.sizes * whole, t.diagonal_sizes * diagonal)
    # Each is an upper bound, so the least of them is one.
    bounds = [up(2 * t.linear * l1_reach + quadratic), up(2 * Fraction(_present_l1(objective)))]
    if objective.model in ("linear", "logistic") and objective.quadratic != "isometric":
        bounds.append(up(_joint(objective, t.linear, t.sizes)))
    # The ball lies in the cube: a bound for the larger domain holds.
    if objective.data == "l2":
        bounds.append(_replaced_l1(replace(objective, data="coordinate")))
    return min(bounds)


def _joint(objective: Objective, p: Fraction, k: Fraction) -> Fraction:
    """Bound p |v|_1 + k sum |E_jl| at once, for a single weight vector (signs of y swap u and v).

    |x_j| <= 1, with |u|_1 + |v|_1 <= 2d: (p + k |u|_1) |v|_1 is at most k (d + p/(2k))^2, at
    |u|_1 = d - p/(2k), and 2 p d where that is negative; attained.  Upper triangle: with
    |v_j| = 1 + t_j the sum is at most p (d + tau) + k (d^2 + d - (1 + 1/d) tau^2)/2, attained by
    equal t_j = p/(k(d+1)), or 1 where that is larger.

    |x| <= 1: with |v| = 2 sin s and u.v = 0, p |v|_1 <= 2 p sqrt(d) sin s, and
    sum |E_jl| <= d |E| <= sqrt(2) d sin 2s; (d + sqrt(d))/2 for d in the upper triangle.  The sum
    a sin s + b sin 2s is concave in s up to pi/2 and largest where 4 b c^2 + a c = 2 b, c = cos s.
    The other case, u parallel to v, is smaller: it gives more than this to E only for |v| < 2/3,
    where all of it is below the value at s = pi/4.
    """
    d = Fraction(objective.dimension)
    if objective.data == "coordinate":
        if objective.quadratic != "upper-triangle":
            half = p / (2 * k)
            return k * (d + half) ** 2 if half <= d else 2 * p * d
        tau = min(p * d / (k * (d + 1)), d)
        return p * (d + tau) + k * (d * d + d - (1 + 1 / d) * tau * tau) / 2
    root = math.sqrt(objective.dimension)
    count = (float(d) + root) / 2.0 if objective.quadratic == "upper-triangle" else float(d)
    a, b = 2.0 * float(p) * root, math.sqrt(2.0) * float(k) * count
    # The positive root of 4 b c^2 + a c = 2 b: at a maximum, so its rounding is of second order.
    cosine = (math.hypot(a, math.sqrt(32.0) * b) - a) / (8.0 * b)
    sine = math.sqrt(1.0 - cosine * cosine)
    return Fraction(a * sine + 2.0 * b * sine * cosine) * (1 + _JOINT_ROUNDING_RELATIVE)


def release(
    objective: Objective,
    neighbours: str = "add-remove",
    *,
    scale: float,
    noise: str = "laplace",
    schedule: str = "once",
    rounds: int = 1,
    rate: float | None = None,
) -> Release:
    """Return the event of releasing noisy coefficients, and what else bounds it.

    `scale`: of the Laplace noise (`noise="laplace"`), or the standard deviation
    (`noise="gaussian"`), the same for every coefficient, each with its factor (sqrt(2) above the
    diagonal of `isometric`, a on the linear ones).  `schedule`: `once`, one noisy objective
    that all later steps reuse (post-processing, whatever their number); `fresh`, new noise in each
    of `rounds`; `poisson`, new noise each round on a Poisson sample at `rate`, drawn per round and
    hidden.

    Laplace noise on several coordinates is accounted as if all of the L1 sensitivity Delta_1 sat
    in one of them: sound, and far from tight over many rounds.  Unsampled, `alternatives` holds a
    second event: coordinate j, moved by s_j, is s_j/b-DP and so (s_j/b)^2/2-zCDP, hence
    rho = rounds (Delta_2/b)^2/2, which is small where many coordinates move a little.  Each of the
    two is a guarantee; take the smaller epsilon.  Under `poisson` the noise multiplier is that of
    a record that comes or goes, whatever the relation: a replaced record is drawn or not.

    Raises `InvalidInput` for `rounds` or `rate` that a schedule does not have.
    Source: Bun and Steinke 2016, Proposition 1.4 and Lemma 1.7, arXiv 1605.02065v1.

    >>> both = release(Objective("logistic", 784, "l2", "full"), scale=224.0, schedule="fresh",
    ...                rounds=250)
    >>> [event.type for event in both.events]
    ['repeat', 'zcdp']
    """
    relation = as_neighbours(neighbours)
    validate.choice(("laplace", "gaussian"), noise=noise)
    _check_schedule(schedule, validate.count(rounds=rounds), rate)
    b = Fraction(validate.positive(scale=scale))
    # On a Poisson sample a replaced record is drawn or not: the multiplier is that of a record
    # that comes or goes, and the engine accounts for the pair of replaced data.
    sampled = schedule == "poisson"
    moved = sensitivity(objective, relation)
    bound = sensitivity(objective, "add-remove") if sampled else moved
    counted: Neighbours = "add-remove" if sampled else relation
    once: ev.Event
    if noise == "laplace":
        once = ev.Laplace(multiplier(b, bound.l1, counted))
    else:
        once = ev.Gaussian(multiplier(b, bound.l2, counted))
    if sampled:
        once = ev.Poisson(rate if rate is not None else 1.0, once)
    alternatives: tuple[ev.Event, ...] = ()
    if noise == "laplace" and not sampled:
        # Coordinate j is (s_j/b)^2/2-zCDP; rho adds up over coordinates and rounds, rounded up.
        alternatives = (ev.ZCDP(up(rounds * (Fraction(moved.l2) / b) ** 2 / 2)),)
    schedule_conditions = {
        "once": "noise is drawn once; later steps see the noisy objective only",
        "fresh": "noise is drawn freshly in every round",
        "poisson": "each record joins each round independently, and who joins stays hidden",
    }
    return Release(
        repeated(rounds, once),
        relation,
        "model",
        alternatives=alternatives,
        conditions=(*moved.conditions, schedule_conditions[schedule]),
    )


def delta_as_published(model: str, dimension: int, classes: int = 2) -> float:
    """Return the L1 "sensitivity" that DELM prints: logistic d + d^2/4, softmax 2d + c d^2.

    Its norm, relation and form of the quadratic part are not stated.  The logistic one is an
    upper bound under every option here; the derivation of the softmax one expands a function at a
    point where it has no expansion.  Source: Cao et al. 2023, DELM, as printed.
    """
    validate.choice(("logistic", "softmax"), model=model)
    d = validate.count(dimension=dimension)
    if model == "logistic":
        return d + d * d / 4.0
    return 2.0 * d + validate.count_from(2, classes=classes) * d * d


def _check_schedule(schedule: str, rounds: int, rate: float | None) -> None:
    validate.choice(("once", "fresh", "poisson"), schedule=schedule)
    if schedule == "once" and rounds != 1:
        raise InvalidInput(
            f"A schedule of noise once has one round; `rounds` is {rounds}.",
            "Steps that reuse the noisy objective release nothing more.",
            "Leave `rounds` out, or say schedule fresh where noise is drawn again.",
        )
    if (schedule == "poisson") != (rate is not None):
        raise InvalidInput(
            "`rate` belongs to the schedule poisson, and to no other.",
            "Batches that are not Poisson samples, or are known, get no amplification here.",
            "Give `rate` with poisson only.",
        )
    if rate is not None:
        validate.probability(rate=rate)
