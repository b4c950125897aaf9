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

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.claims.fedpower import published_epsilon
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import NoisyProduct
from ...accountant.mechanisms.product_grid import product_grid
from ...accountant.records import Security
from ...accountant.sensitivity.fedpower import element_as_published
from ...accountant.sensitivity.release import root_up, up
from ..observers.names import CLIENT, MODEL, SERVER, SILO, Coalition
from .run_terms import RunTerms
from .settings import DIVISORS_OF_ROWS, PRODUCTS_OF_ROWS

Algorithm: TypeAlias = Literal["original", "utility", "private"]

ORIGINAL: Final = "original"
UTILITY: Final = "utility"
PRIVATE: Final = "private"
"""Algorithms 1, 2 and 3."""


PUBLISHED_EVENT: Final = ev.NoGuarantee(
    "FedPower as published: its noise is made for one element of A^T A, which protects no row"
)


@dataclass(frozen=True, kw_only=True)
class PublishedTerms(RunTerms):
    """What decides the products of one of the published algorithms; see the module.

    With `ratings` nodes have public numbers of rows.  Raises as `RunTerms`, and `InvalidInput` for
    products that move farther than their noise is made for, unless nothing is promised of them.
    """

    algorithm: Algorithm
    ratings: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_bounded_products()

    @property
    def draws(self) -> int:
        """How many noisy products of each node's rows a round makes."""
        return self.settings.synchronise_every if self.algorithm == PRIVATE else 1

    @property
    def clip_enforced(self) -> bool:
        """Whether one unit moves a sum by no more than the stated bound, that of a public Z.

        After a step by itself a node multiplies by a private Z.  Where a node divides by its number
        of rows, a row that comes or goes moves what all others add, by up to sqrt(2) R^2 / (s + 1),
        and one that is replaced by a row of another node moves those of two.  Then no stated bound
        holds, and no number may follow from a log.  With `ratings` nodes have public numbers of
        rows, which a row that is replaced does not change.
        """
        return self.settings.synchronise_every == 1 and self._rows_stay

    @property
    def _rows_stay(self) -> bool:
        if not self.settings.divide_by_rows or self.unit != "record":
            return True
        return self.ratings and self.relation == "replace-one"

    def mechanism(self, noise_multiplier: float) -> NoisyProduct:
        """Return the noise of one product, in a share for each node.

        Where no stated bound holds, the mechanism says that it comes from private data, in every
        intent: a round that is cut off has no release to say so.
        """
        if self.settings.as_published:
            noise = self._printed_noise(noise_multiplier)
            return noise if self.clip_enforced else replace(noise, bound_source="private")
        if self.algorithm != UTILITY:
            return super().mechanism(noise_multiplier)
        given = Fraction(validate.positive(noise_multiplier=noise_multiplier))
        # One share alone has the multiplier that is given, rounded up.
        return super().mechanism(root_up(given**2 * self.silos))

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for each observer; as published, none has a guarantee.

        Of Algorithm 2 it is that of one node's noise, and a node, or c of them with the server,
        knows with probability c / n the noise that stays.
        """
        views = super().views(noise_multiplier)
        if self.algorithm == UTILITY:
            assert self.setup is not None  # of a run
            once, known = ev.Gaussian(noise_multiplier), {SILO: 1, CLIENT: 1}
            known |= {Coalition(colluding).name: colluding for colluding in self.setup.coalitions}
            views = {MODEL: once, SERVER: once}
            for name, nodes in known.items():
                exact = ev.Approximate(0.0, up(Fraction(nodes, self.silos)))
                views[name] = ev.Compose((once, exact))
        return dict.fromkeys(views, PUBLISHED_EVENT) if self.settings.as_published else views

    def _printed_noise(self, noise_multiplier: float) -> NoisyProduct:
        sigma = Fraction(published_deviation(self, noise_multiplier))
        promised = self.silos - self.dropouts
        std = float(sigma) if self.algorithm == PRIVATE else root_up(sigma**2 * promised)
        share_std = root_up(Fraction(std) ** 2 / promised)
        return NoisyProduct(
            product=self.product,
            std=std,
            grid_bits=product_grid(
                self.product, most_rows=self.most_rows, share_std=share_std, shares=self.silos
            ),
            shares=self.silos,
            tolerated_dropouts=self.dropouts,
        )

    def _require_bounded_products(self) -> None:
        """Raise `InvalidInput` where no stated bound holds, and one is promised.

        Configurations are refused by `.settings.PUBLISHED_RULES`; settings may be made by hand, and
        logs by anybody.
        """
        table = self.settings
        if table.as_published or self.clip_enforced:
            return
        if table.synchronise_every > 1:
            raise InvalidInput(
                f"`synchronise_every` is {table.synchronise_every}, and the run is not as "
                "published.",
                PRODUCTS_OF_ROWS,
                "Give synchronise_every = 1, or as_published with a noise multiplier.",
            )
        raise InvalidInput(
            "`divide_by_rows` is given, and the unit is a row.",
            DIVISORS_OF_ROWS,
            "Leave it out, or protect a silo or an entry.",
        )


def with_removal(masks: Security, key_bits: int) -> Security:
    """Return the facts of masked sums from which noise is taken off under a Paillier key."""
    return replace(masks, key_bits=key_bits, server="honest-but-curious")


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
