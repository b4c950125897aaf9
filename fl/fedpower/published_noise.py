"""How wide the noise of FedPower's published algorithms is, and which epsilon is claimed for it.

    sigma = noise_multiplier x sqrt(r) rho eta      as published: Theorem 1 bounds one element of M

| algorithm | sigma is of | a noise multiplier, where not as published, is of |
|---|---|---|
| 1, `fedpower-original` | each node's noise | the sum of all nodes' noise |
| 2, `fedpower-utility` | each node's noise | one node's noise: the one that stays |
| 3, `fedpower-private` | the sum of all nodes' noise | the sum of all nodes' noise |

Source: Liu, Pejo and Tang 2023, *Privacy-Preserving Federated Singular Value Decomposition*,
Applied Sciences, Algorithms 1 to 3, Theorems 1 and 2.  Its bound protects no unit of data
(`accountant.sensitivity.fedpower`), so noise of that width proves nothing.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from ...accountant import validate
from ...accountant.claims.fedpower import published_epsilon
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import NoisyProduct
from ...accountant.mechanisms.product_grid import product_grid
from ...accountant.sensitivity.fedpower import element_as_published
from ...accountant.sensitivity.release import root_up, up
from .run_terms import RunTerms
from .settings import DIVISORS_OF_ROWS, PRODUCTS_OF_ROWS

Algorithm: TypeAlias = Literal["original", "utility", "private"]

ORIGINAL: Final = "original"
UTILITY: Final = "utility"
PRIVATE: Final = "private"
"""Algorithms 1, 2 and 3."""


def mechanism_of(
    algorithm: Algorithm, terms: RunTerms, noise_multiplier: float, *, ratings: bool
) -> NoisyProduct:
    """Return the noise of one product of an algorithm, in a share for each node; see the module.

    Where no stated bound holds (`is_bounded`), the mechanism says that it comes from private data,
    in every intent: a round that is cut off has no release to say so.  Raises as `NoisyProduct` and
    `product_grid` do.
    """
    if terms.settings.as_published:
        noise = _as_published(algorithm, terms, noise_multiplier)
        bounded = is_bounded(terms, ratings=ratings)
        return noise if bounded else replace(noise, bound_source="private")
    if algorithm != UTILITY:
        return terms.mechanism(noise_multiplier)
    given = Fraction(validate.positive(noise_multiplier=noise_multiplier))
    # One share alone has the multiplier that is given, rounded up.
    return terms.mechanism(root_up(given**2 * terms.silos))


def is_bounded(terms: RunTerms, *, ratings: bool) -> bool:
    """Return whether one unit moves a sum by no more than the stated bound, that of a public Z.

    After a step by itself a node multiplies by a private Z.  Where a node divides by its number of
    rows, a row that comes or goes moves what all others add, by up to sqrt(2) R^2 / (s + 1), and
    one that is replaced by a row of another node moves those of two.  Then no stated bound holds,
    and no number may follow from a log.  With `ratings` nodes have public numbers of rows, which a
    row that is replaced does not change.
    """
    return terms.settings.synchronise_every == 1 and _rows_stay(terms, ratings)


def _rows_stay(terms: RunTerms, ratings: bool) -> bool:
    if not terms.settings.divide_by_rows or terms.unit != "record":
        return True
    return ratings and terms.relation == "replace-one"


def published_claim(
    algorithm: Algorithm, noise_multiplier: float, products: int, delta: float
) -> float:
    """Return the epsilon that the paper claims for so many products, at `delta` in all.

    T eps_1 at T delta_1, with Theorem 2's eps_1 of one product at delta_1; for Algorithm 1, whose
    nodes and whose server add noise, twice both.  Range: `noise_multiplier` and `products` above 0,
    `delta` in (0, 1).  Source: Liu, Pejo and Tang 2023, Theorem 2 and Algorithm 1.

    >>> round(published_claim("private", 5.0, 1, 1e-5), 3)
    0.969
    """
    parts = validate.count(products=products) * (2 if algorithm == ORIGINAL else 1)
    return parts * published_epsilon(noise_multiplier, 1.0, delta / parts)


def published_deviation(terms: RunTerms, noise_multiplier: float) -> float:
    """Return sigma as published, rounded up: `noise_multiplier` times the bound of Theorem 1."""
    table = terms.settings
    bound = element_as_published(table.columns, table.largest_element, table.entry_clip)
    return up(Fraction(validate.positive(noise_multiplier=noise_multiplier)) * Fraction(bound))


def require_bounded_products(terms: RunTerms, *, ratings: bool) -> None:
    """Raise `InvalidInput` where no stated bound holds (`is_bounded`), and one is promised.

    As published nothing is promised, and nothing refused.  Configurations are refused by
    `.settings.PUBLISHED_RULES`; settings may be made by hand, and logs by anybody.
    """
    table = terms.settings
    if table.as_published or is_bounded(terms, ratings=ratings):
        return
    if table.synchronise_every > 1:
        raise InvalidInput(
            f"`synchronise_every` is {table.synchronise_every}, and the run is not as published.",
            PRODUCTS_OF_ROWS,
            "Give synchronise_every = 1, or as_published with a noise multiplier.",
        )
    raise InvalidInput(
        "`divide_by_rows` is given, and the unit is a row.",
        DIVISORS_OF_ROWS,
        "Leave it out, or protect a silo or an entry.",
    )


def _as_published(algorithm: Algorithm, terms: RunTerms, noise_multiplier: float) -> NoisyProduct:
    sigma = Fraction(published_deviation(terms, noise_multiplier))
    promised = terms.silos - terms.dropouts
    std = float(sigma) if algorithm == PRIVATE else root_up(sigma**2 * promised)
    share_std = root_up(Fraction(std) ** 2 / promised)
    return NoisyProduct(
        product=terms.product,
        std=std,
        grid_bits=product_grid(
            terms.product, most_rows=terms.most_rows, share_std=share_std, shares=terms.silos
        ),
        shares=terms.silos,
        tolerated_dropouts=terms.dropouts,
    )
