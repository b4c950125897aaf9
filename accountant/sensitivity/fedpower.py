"""FedPower, private power iteration: how far one unit moves Y = M Z, and what that amounts to.

M = A^T A / s for a data matrix A (rows: records) and a public s; Z has r columns and is public,
because it follows from what was released before.  R bounds the L2 norm of a row of A, zeta the
spectral norm of Z, nu the norm of a row of Z.  All norms of Y are Frobenius norms.

The paper bounds the change of one element of M.  M is symmetric, so no change of data moves one
element off the diagonal and nothing else: that bound protects no unit of data, it is kept as
`element_as_published`, a plain number, and no event can be made of it.  The notions that do
describe data are `entry`, `row` and `client`; `pair` (an element and its mirror image) speaks of
M only.  The proofs are in the docstrings, all from ||X Z||_F <= ||X||_F zeta.

Source of the algorithms and of the published bound: Liu, Pejo and Tang 2023, *Privacy-Preserving
Federated Singular Value Decomposition*, Applied Sciences, Theorem 1.  The rest is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from .. import validate
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours, as_neighbours
from .release import Sensitivity, require_public, root_up, up

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class PowerStep:
    """One product Y = A^T A Z / `divisor`, and the public bounds that hold for it.

    `row_norm` R: the L2 norm to which every row of A is clipped.  `rank` r: the columns of Z.
    `divisor` s: a public number, 1 where the sum is not normalised.  `entry_clip` eta: the size
    to which entries of Z are clipped, if they are.  `spectral` zeta: a bound on the spectral norm
    of Z; left out, it is 1 for an orthonormal Z, and sqrt(r) after clipping entries, which undoes
    orthonormality (Z is public, so zeta may be measured).  `bound_source` says where these numbers,
    and any range of entries given with them, come from: `private` is refused.

    Raises `InvalidInput` for values out of range, `Unsupported` for bounds from private data.
    """

    row_norm: float
    rank: int
    divisor: float = 1.0
    entry_clip: float | None = None
    spectral: float | None = None
    bound_source: str = "public"

    def __post_init__(self) -> None:
        require_public(self.bound_source, what="A row norm, a clip or a divisor")
        validate.positive(row_norm=self.row_norm)
        validate.count(rank=self.rank)
        validate.positive(divisor=self.divisor)
        if self.entry_clip is not None:
            validate.positive(entry_clip=self.entry_clip)
        if self.spectral is not None:
            validate.positive(spectral=self.spectral)

    @property
    def spectral_square(self) -> Fraction:
        """zeta^2."""
        if self.spectral is not None:
            return Fraction(self.spectral) ** 2
        return Fraction(1 if self.entry_clip is None else self.rank)

    @property
    def z_row_square(self) -> Fraction:
        """nu^2 = min(zeta^2, r eta^2): every row of Z is this short."""
        if self.entry_clip is None:
            return self.spectral_square
        return min(self.spectral_square, self.rank * Fraction(self.entry_clip) ** 2)

    @property
    def replaced_factor(self) -> int:
        """2, or 1 at rank 1: ||(a a^T - b b^T) Z||_F^2 <= factor R^4 zeta^2.

        ||a a^T - b b^T||_F^2 = |a|^4 + |b|^4 - 2 (a.b)^2 <= 2 R^4, and the spectral norm, which is
        what counts for a single column, is at most R^2, for the difference of two positive
        matrices of norm R^2.  The same holds for averages of such matrices, by convexity.
        """
        return 1 if self.rank == 1 else 2

    def conditions(self) -> tuple[str, ...]:
        """Return what a run must meet."""
        clip = "" if self.entry_clip is None else f" and every entry to {self.entry_clip:g}"
        return (
            f"every row is clipped to L2 norm {self.row_norm:g}, a public constant",
            f"Z is public, of {self.rank} columns{clip}, spectral norm at most "
            f"{math.sqrt(self.spectral_square):.6g}",
        )


def element_as_published(
    rank: int, largest_element: float, entry_clip: float, *, signed: bool = False
) -> float:
    """Return the paper's bound on Y when "one element of M changes"; it protects no data.

    sqrt(r) rho eta, twice that where elements lie in [-rho, rho].  No relation between data sets
    goes with it: a row that comes or goes moves Y by up to R^2/s, however small this number is.
    Source: Liu, Pejo and Tang 2023, Theorem 1, as printed.

    >>> round(element_as_published(10, 20.0, 0.2), 2)
    12.65
    """
    validate.count(rank=rank)
    validate.positive(largest_element=largest_element)
    validate.positive(entry_clip=entry_clip)
    return math.sqrt(rank) * largest_element * entry_clip * (2.0 if signed else 1.0)


def sensitivity(
    notion: str,
    step: PowerStep,
    neighbours: str = "add-remove",
    *,
    largest_change: float | None = None,
) -> Sensitivity:
    """Return the sensitivity of Y for a notion of neighbours: pair, entry, row or client.

    `neighbours` says how a row or a client changes; an entry or a pair is always replaced, by
    something at most `largest_change` away.  See `pair_sensitivity`, `entry_sensitivity`,
    `row_sensitivity` and `client_sensitivity`.  Raises `Unsupported` for `element`.

    >>> sensitivity("row", PowerStep(row_norm=10.0, rank=10, divisor=9.0)).l2
    11.111111111111112
    """
    validate.choice(("element", "pair", "entry", "row", "client"), notion=notion)
    if notion == "element":
        raise Unsupported(
            "One element of M is no unit of data.",
            "M is symmetric and every record moves many elements at once, so no two data sets "
            "differ in one element off the diagonal, and a bound for it protects nobody.",
            "Ask for entry, row or client; the printed number is fedpower.element_as_published.",
        )
    if notion == "row":
        return row_sensitivity(step, neighbours)
    if notion == "client":
        return client_sensitivity(step, neighbours)
    if largest_change is None:
        raise InvalidInput(
            f"The notion `{notion}` needs `largest_change`.",
            next_step="Give the width of the public range of its values.",
        )
    change = validate.positive(largest_change=largest_change)
    return {"entry": entry_sensitivity, "pair": pair_sensitivity}[notion](step, change)


def pair_sensitivity(step: PowerStep, largest_change: float) -> Sensitivity:
    """Return the sensitivity of Y when m_jl and m_lj change by at most `largest_change`.

    dY = delta (e_j z_l + e_l z_j), so ||dY||_F = |delta| sqrt(|z_j|^2 + |z_l|^2), at most
    sqrt(2) |delta| nu; attained.  This protects elements of M, not what M was computed from:
    a record moves many pairs.  Relation: replace-one of a pair.  Derived here.
    """
    change = Fraction(validate.positive(largest_change=largest_change))
    square = 2 * change**2 * step.z_row_square
    conditions = (*step.conditions(), "an element of M and its mirror image are the unit")
    return Sensitivity(root_up(square), "replace-one", unit="matrix-entry", conditions=conditions)


def entry_sensitivity(step: PowerStep, largest_change: float) -> Sensitivity:
    """Return the sensitivity of Y when one entry of A changes by at most D = `largest_change`.

    With a the row before and a' = a + D e_j after, s dM = D (a' e_j^T + e_j a^T): row *and* column
    j of M move.  Three bounds hold, the least counts:

        D R (nu + zeta) / s,
        D zeta max(2R - D, sqrt(2 R^2 - D^2/2)) / s   for D <= sqrt(2) R,
        that of a replaced row, sqrt(2) R^2 zeta / s (R^2 zeta / s at rank 1).

    The first is the triangle inequality.  The second: with a = b + t e_j, b orthogonal to e_j, the
    square of ||a' e_j^T + e_j a^T||_F is 2 |b|^2 + (2t + D)^2, and its largest value under |a|,
    |a'| <= R is at t = R - D or t = -D/2; it grows with D up to sqrt(2) R, where it meets the
    third.  It is attained by an orthonormal Z whose columns span e_j and b.
    Relation: replace-one of an entry; both rows have norm at most R.  Derived here.

    >>> step = PowerStep(row_norm=92.0, rank=10, divisor=9.0, entry_clip=0.2, spectral=1.0)
    >>> round(entry_sensitivity(step, 5.0).l2, 1)
    83.4
    """
    change = Fraction(validate.positive(largest_change=largest_change))
    row, divisor = Fraction(step.row_norm), Fraction(step.divisor)
    nu, zeta = (Fraction(root_up(square)) for square in (step.z_row_square, step.spectral_square))
    # Triangle inequality, D <= sqrt(2) R, and a whole row replaced: the least bound counts.
    bounds = [up(change * row * (nu + zeta) / divisor)]
    squares = [step.replaced_factor * row**4]
    if change**2 <= 2 * row**2:
        squares.append(change**2 * max((2 * row - change) ** 2, 2 * row**2 - change**2 / 2))
    bounds += [root_up(square * step.spectral_square / divisor**2) for square in squares]
    conditions = (*step.conditions(), f"an entry changes by at most {largest_change:g}")
    return Sensitivity(min(bounds), "replace-one", unit="entry", conditions=conditions)


def entry_shift(
    row: ArrayLike, column: int, change: float, z: ArrayLike, *, divisor: float = 1.0
) -> float:
    """Return exactly how far Y moves when entry `column` of `row` grows by `change`.

    |D|/s sqrt(|a|^2 |z_j|^2 + |Z^T a'|^2 + 2 a_j z_j . Z^T a'), with a' = a + D e_j.  `row` has d
    entries, `z` is (d, r).  A measurement of private data: never calibrate noise to it.
    Derived here.
    """
    import numpy as np  # what is exact for given rows is never asked for where logs are checked

    a, basis = np.asarray(row, np.float64), np.asarray(z, np.float64)
    after = a.copy()
    after[column] += change
    z_row, seen = basis[column], basis.T @ after
    # |a z_j^T + e_j (Z^T a')^T|_F^2, expanded: exact for this row, and no bound on others.
    square = (a @ a) * (z_row @ z_row) + seen @ seen + 2.0 * a[column] * (z_row @ seen)
    return abs(change) / divisor * math.sqrt(max(float(square), 0.0))


def row_sensitivity(
    step: PowerStep,
    neighbours: str = "add-remove",
    *,
    renormalised: bool = False,
    l1_norm: float | None = None,
) -> Sensitivity:
    """Return the sensitivity of Y when one row of A comes, goes, is zeroed or is replaced.

    s public and fixed, row present or absent (or zeroed): |a| |Z^T a| / s <= R^2 zeta / s; and
    R a_1 nu / s where rows also have L1 norm at most a_1 (`l1_norm`).  Replaced:
    sqrt(2) R^2 zeta / s (R^2 zeta / s at rank 1).  `renormalised`: M is the mean over the rows
    that are there and `step.divisor` a public lower bound on their number; from s to s + 1 rows,
    dM = (a a^T - M) / (s + 1), and M is a mean of such matrices, hence sqrt(2) R^2 zeta / (s + 1)
    (R^2 zeta / (s + 1) at rank 1).  All attained: rows in the span of Z, of norm R, orthogonal
    where two are compared.

    In a rating matrix a row is a user.  Under secure aggregation of sums A_i^T A_i Z, `divisor` is
    1, and s_i is not revealed.  Derived here.
    """
    relation = as_neighbours(neighbours)
    row, divisor = Fraction(step.row_norm), Fraction(step.divisor)
    factor = Fraction(1)
    if relation == "replace-one":
        factor = Fraction(step.replaced_factor)
    elif renormalised and relation == "add-remove":
        validate.count(divisor=int(divisor) if divisor.denominator == 1 else step.divisor)
        factor, divisor = Fraction(step.replaced_factor), divisor + 1
    # ||a a^T Z||_F^2 <= R^4 zeta^2, times the factor of a replaced row.
    square = factor * row**4 * step.spectral_square / divisor**2
    if l1_norm is not None and factor == 1 and not renormalised and relation != "replace-one":
        length = Fraction(validate.positive(l1_norm=l1_norm))
        square = min(square, (row * length / divisor) ** 2 * step.z_row_square)
    condition = (
        f"M is the mean of at least {step.divisor:g} rows, a public number, on both sides"
        if renormalised
        else f"the divisor {step.divisor:g} is public and the same on both sides"
    )
    conditions = (*step.conditions(), condition)
    if relation == "replace-one" and step.replaced_factor == 1:
        # In another client it would move two products, each by R^2 zeta / s.
        conditions += ("a row that is replaced stays with its client, or only the sum is seen",)
    return Sensitivity(root_up(square), relation, conditions=conditions)


def client_sensitivity(
    step: PowerStep, neighbours: str = "add-remove", *, rows: int | None = None
) -> Sensitivity:
    """Return the sensitivity of Y_i when a whole client is set to zero or has its data replaced.

    A client that divides by its own number of rows sends a mean of a a^T, times Z: R^2 zeta to
    zero, sqrt(2) R^2 zeta replaced (R^2 zeta at rank 1); `step.divisor` plays no part.  One that
    sends A_i^T A_i Z / s with at most `rows` rows: the same times rows / s.  Attained by clients
    whose rows are all equal.  The number of clients is public and stays the same.  Derived here.
    """
    relation = as_neighbours(neighbours)
    # A client's data is a mean of a a^T: the bound of one row, zeroed or replaced.
    factor = step.replaced_factor if relation == "replace-one" else 1
    square = factor * Fraction(step.row_norm) ** 4 * step.spectral_square
    condition = "each client divides by its own number of rows, which is not released"
    if rows is not None:
        validate.count(rows=rows)
        square *= (rows / Fraction(step.divisor)) ** 2
        condition = f"no client has more than {rows} rows"
    conditions = (*step.conditions(), condition, "the number of clients is public and fixed")
    return Sensitivity(root_up(square), relation, unit="silo", conditions=conditions)


def drifting_sensitivity(step: PowerStep, neighbours: str = "add-remove") -> Sensitivity:
    """Return the sensitivity of Y_i D_i after local steps that add no noise: 2 R^2 zeta.

    Z_i and the alignment D_i then depend on the client's own data, so two neighbours multiply
    different matrices: nothing better than ||Y D|| + ||Y' D'|| <= 2 R^2 zeta holds in general, as
    D_i is orthogonal and a mean of a a^T has norm at most R^2.  Holds for any change of the
    client's data, under every relation.  The client divides by its own number of rows.
    Derived here.
    """
    relation: Neighbours = as_neighbours(neighbours)
    # (2 R^2 zeta)^2: nothing relates two products with different matrices.
    square = 4 * Fraction(step.row_norm) ** 4 * step.spectral_square
    conditions = (
        *step.conditions(),
        "each client divides by its own number of rows, and alignments are orthogonal",
        "an alignment depends on its own client's data and on public values only",
        "local steps release nothing",
        "a row that is replaced stays with its client",
    )
    return Sensitivity(root_up(square), relation, conditions=conditions)
