"""Sums of x x^T and x y^T over records: how far one unit moves them together.

A unit has at most k rows x_i with sum |x_i|^2 <= T, each row with a label vector y_i, |y_i| <= y.
Released are G = sum x_i x_i^T and a S = a sum x_i y_i^T, a > 0 a public weight:

| labels | y_i | y^2 | largest L1 norm |
|---|---|---|---|
| none (`classes` 0) | - | 0 | 0 |
| one number (`classes` 1) | in [-1, 1] | 1 | 1 |
| c classes | e_j - (1, ..., 1)/c | 1 - 1/c | 2 (1 - 1/c) |

**L2**, in the isometric layout (G_ii, sqrt(2) G_ij for i < j, a S), whose distances are those of
Frobenius.  Let T be 1 (for any other, scale rows by sqrt(T) and a by 1/sqrt(T)), A = k a^2 y^2,
and X, X' the matrices of rows.

*Add-remove.*  |G|_F <= trace G <= 1, and |S|_F <= y sum |x_i| <= y sqrt(k): sqrt(1 + A), attained
by k equal rows of square norm 1/k with one label.

*Replace-one.*  Let P = X X'^T, t = |P|_F <= |X|_F |X'|_F <= 1.  Then <G, G'> = t^2, and
<S, S'> = sum P_ij (y_i . y'_j) >= -y^2 sum |P_ij| >= -y^2 k t, by Cauchy twice.  So the square is
at most 2 - 2 t^2 + 2 A (1 + t), which is largest at t = A/2, and at t = 1 where that is beyond:

    sqrt(2) (1 + A/2)  where A <= 2,  else  2 sqrt(A)

attained, for d >= 2, by k equal rows against k equal rows at the angle of cosine -t, all of one
label; where A >= 2 these are opposite, and d = 1 does as well (below, less would do for d = 1).

*One Gram matrix for each class* (`by_class`), c >= 2.  A row lies in that of its class, so
add-remove stays.  Of P only pairs of one class are in sum <G_j, G'_j>; let t^2 be the sum of their
squares.  The others, whose labels have the product -1/c, hold 1 - t^2 at most.  By Cauchy the sum
of all -P_ij (y_i . y'_j) is at most k w, w^2 = y^4 t^2 + (1 - t^2)/c^2, so with B = k a^2 the
square is at most 2 - 2 t^2 + 2 A + 2 B w.  In terms of w this is a parabola over [1/c, y^2]; see
`_by_class`.  At k = 1 only t = 0 (2 + 2 B, attained by one row in two classes) and |p| = t, which
is the case above, can be.

**L1**, upper triangle (G_ij for i <= j, a S).  sum_{i <= j} |x_i x_j| = (|x|_1^2 + |x|_2^2) / 2 <=
(d + 1) |x|^2 / 2, and |x|_1 <= sqrt(d) |x|: T (d + 1)/2 + a l sqrt(d k T), l the largest L1 norm of
a label; attained by k equal rows whose coordinates are equal, and twice that where a unit is
replaced.  In the isometric layout one row moves G by 1 + (d - 1)/sqrt(2).

**Silos one by one.**  Where the sums of silos are seen each by itself, all of them together move no
farther.  With T_s and k_s of a unit's norms and rows in silo s, sum T_s^2 <= T^2 and
(sum sqrt(k_s T_s))^2 <= k T; of P only pairs of one silo are left, whose products are weighed as
before, sum_s k_s t_s <= k t with t^2 = sum t_s^2.  L1 norms add up.  A unit whose rows come back in
another silo is the pair t = 0, and twice the L1 norm: so no smaller bound on one sum alone is used.

Derived here; the isometric layout and the Gram matrix alone are in `wishart`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from .. import validate
from ..errors import InvalidInput, Unsupported, with_article
from ..neighbours import as_neighbours
from .release import Sensitivity, require_public, root_up, up

MAX_DIMENSION: Final = 2**13
"""Most columns of X: a matrix of 33 million numbers, each with noise of its own."""

MAX_CLASSES: Final = 2**10
"""Most classes."""

MAX_VALUES: Final = 2**28
"""Most numbers of one release: 2 GiB of integers."""


@dataclass(frozen=True, kw_only=True)
class GramBound:
    """What is released of rows and labels, and what bounds one unit's part of it.

    - `dimension`: d, columns of X, 1 to 2^13.
    - `classes`: c, 2 to 1,024; 1 for one number in [-1, 1] as a label, 0 for no labels.
    - `label_weight`: a, above 0; without effect where there are no labels.
    - `rows`: k, most rows of one unit; `trace`: T, most of their squared norms together.
    - `by_class`: whether each class has a Gram matrix of its own; needs two classes or more.
    - `bound_source`: where the row norm and the caps come from; `private` is refused.

    Raises `InvalidInput` for what is out of range, `Unsupported` for a bound from private data.

    >>> round(GramBound(dimension=31, classes=2).l2("add-remove"), 5)
    1.22474
    >>> GramBound(dimension=31, classes=0).l2("replace-one")
    1.4142135623730951
    """

    dimension: int
    classes: int = 0
    label_weight: float = 1.0
    rows: int = 1
    trace: float = 1.0
    by_class: bool = False
    bound_source: str = "public"

    def __post_init__(self) -> None:
        require_public(self.bound_source, what="A row norm, a cap or a label range")
        for name, most in (("dimension", MAX_DIMENSION), ("classes", MAX_CLASSES)):
            value = getattr(self, name)
            least = 1 if name == "dimension" else 0
            if validate.count_from(least, **{name: value}) > most:
                raise InvalidInput(
                    f"`{name}` must be at most {most:,}; it is {value:,}.",
                    "Each pair of columns, and each class, is a number with noise of its own.",
                    "Project the rows by a public matrix first, or release fewer classes.",
                )
        for name in ("label_weight", "trace"):
            object.__setattr__(self, name, validate.positive(**{name: getattr(self, name)}))
        validate.count(rows=self.rows)
        if self.by_class and self.classes < 2:
            raise InvalidInput(
                "A Gram matrix for each class needs two classes or more.",
                next_step="Give `classes`, or leave `by_class` out.",
            )
        if self.values > MAX_VALUES:
            raise InvalidInput(
                f"A release has at most {MAX_VALUES:,} numbers; this one would have "
                f"{self.values:,}.",
                "Each matrix of d columns has d (d + 1) / 2 of them, with noise of their own.",
                "Release one matrix for all classes, or fewer columns.",
            )

    @property
    def label_square(self) -> Fraction:
        """y^2, the largest squared norm of a label."""
        return Fraction(0) if not self.classes else self._spread

    @property
    def label_l1(self) -> Fraction:
        """The largest L1 norm of a label."""
        return 2 * self._spread if self.classes > 1 else Fraction(self.classes)

    @property
    def row_square(self) -> Fraction:
        """T / k: the squared norm that every row is clipped to."""
        return Fraction(self.trace) / self.rows

    @property
    def values(self) -> int:
        """How many numbers are released: d (d + 1) / 2 for each matrix, and d for each class."""
        matrices = self.classes if self.by_class else 1
        return matrices * (self.dimension * (self.dimension + 1) // 2) + (
            self.dimension * self.classes
        )

    def l2(self, neighbours: str) -> float:
        """Return the L2 sensitivity in the isometric layout, rounded up; see the module."""
        return root_up(self._l2_square(as_neighbours(neighbours) == "replace-one"))

    def l1(self, neighbours: str) -> float:
        """Return the L1 sensitivity of the upper triangle and the labels, rounded up."""
        trace, d = Fraction(self.trace), self.dimension
        moved = trace * (d + 1) / 2
        if self.classes:
            weight = Fraction(self.label_weight) * self.label_l1
            moved += weight * Fraction(root_up(d * self.rows * trace))
        return up(moved * (2 if as_neighbours(neighbours) == "replace-one" else 1))

    @property
    def _spread(self) -> Fraction:
        return 1 - Fraction(1, self.classes) if self.classes > 1 else Fraction(1)

    def _l2_square(self, replaced: bool) -> Fraction:
        trace = Fraction(self.trace)
        # B of the module: rows are scaled by sqrt(T), and so is the label part.
        weight = self.rows * Fraction(self.label_weight) ** 2 / trace
        label = weight * self.label_square
        if not replaced:
            return trace**2 * (1 + label)
        equal = 2 * (1 + label / 2) ** 2 if label <= 2 else 4 * label
        if not self.by_class:
            return trace**2 * equal
        if self.rows == 1:
            return trace**2 * max(equal, 2 + 2 * weight)
        return trace**2 * self._by_class(weight)

    def _by_class(self, weight: Fraction) -> Fraction:
        """Return the largest 2 - 2 t^2 + 2 A + 2 B w, with w^2 = 1/c^2 + (1 - 2/c) t^2."""
        apart, bend = Fraction(1, self.classes), 1 - Fraction(2, self.classes)
        together = self.label_square  # w where t is 1; both labels' products are then y^2
        # t^2 = (w^2 - 1/c^2) / bend: a parabola in w with its top at B bend / 2.
        best = min(max(weight * bend / 2, apart), together)
        lost = (best**2 - apart**2) / bend if bend else Fraction(0)
        return 2 - 2 * lost + 2 * weight * (together + best)


def sensitivity(
    bound: GramBound, neighbours: str = "add-remove", *, unit: str = "record"
) -> Sensitivity:
    """Return both sensitivities of a release, with the conditions under which they hold.

    `l2` is for the isometric layout and Gaussian noise, `l1` for the upper triangle and Laplace
    noise.  Raises `Unsupported` for zero-out: a row of zeros with a label is no absent row.

    >>> sensitivity(GramBound(dimension=65, classes=10), "replace-one").l2 > 2.05
    True
    """
    relation = as_neighbours(neighbours)
    if relation == "zero-out":
        raise Unsupported(
            "Gram matrices are not accounted under zero-out.",
            "A row of zeros may still have an intercept and a label, so it is no absent row.",
            "Give neighbours = 'add-remove' or 'replace-one'.",
        )
    rows = "row" if bound.rows == 1 else "rows"
    conditions: tuple[str, ...] = (
        f"{with_article(unit)} has at most {bound.rows:,} {rows}, each of squared norm at most "
        f"{float(bound.row_square):g} in units of the public row norm",
        "which rows are kept depends on that unit's rows in that silo alone",
        "off the diagonal noise is sigma / sqrt(2), on labels sigma / a; Laplace noise is even",
    )
    if bound.by_class:
        conditions += ("a row is in the Gram matrix of its class, and in no other",)
    return Sensitivity(bound.l2(relation), relation, bound.l1(relation), unit, conditions)
