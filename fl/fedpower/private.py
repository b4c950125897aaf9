"""FedPower's Algorithm 3: nodes share the noise of a masked sum, and entries of Z are clipped.

    node i   Y_i + N_i,  N_i of deviation sigma / sqrt(n)      under masks
    server   their sum, its left singular vectors, and entries beyond eta cut off

Clipped entries undo orthonormality; the grid of the basis keeps the spectral norm at most 1
(`accountant.mechanisms.product_rows.basis_steps`), which the sensitivity of a unit rests on.

As published, a node adds its share of the noise to each of the p - 1 products that it makes by
itself, before it makes them orthonormal and clips their entries.  They are counted as draws of the
round, and prove nothing; there is no alignment.

Source: Liu, Pejo and Tang 2023, *Privacy-Preserving Federated Singular Value Decomposition*,
Applied Sciences, Algorithm 3.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...accountant.mechanisms.product_rows import basis_steps
from ..frame.setup import setup
from ..frame.state import State
from ..parties.network import silo_name
from .iterate import Iterate, NodeProducts, orthonormal
from .published import PublishedIteration
from .published_noise import PRIVATE
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray
    from ...accountant.mechanisms import NoisyProduct, Ticket
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..frame.model import Parameters
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining


class FedPowerPrivate(PublishedIteration):
    """Algorithm 3; see the module."""

    algorithm = PRIVATE
    aligns = False

    @cached_property
    def state(self) -> State:
        """The singular values that go with the iterate, and nothing else."""
        return self.singular_values

    def initial(self) -> Parameters:
        """Return the first iterate, its entries clipped, public: (d r,)."""
        return self.clipped(super().initial())

    def iterate(self, product: FloatArray) -> Iterate:
        """Return the next iterate, its entries clipped."""
        following = super().iterate(product)
        return following._replace(basis=self.clipped(following.basis))

    def clipped(self, basis: FloatArray) -> FloatArray:
        """Return numbers of an iterate, those beyond eta cut off."""
        eta = self.terms.settings.entry_clip
        return clipped_entries(basis, eta)

    def products(
        self, number: int, mechanism: NoisyProduct, parameters: Parameters
    ) -> NodeProducts:
        """Return what each node multiplies first, by one public Z."""
        return super(PublishedIteration, self).products(number, mechanism, parameters)

    def last_products(
        self, mechanism: NoisyProduct, ticket: Ticket, products: NodeProducts
    ) -> NodeProducts:
        """Return each node's last product, after p - 1 with each node's share of the noise."""
        for _ in range(self.steps - 1):
            products = self._next_products(mechanism, ticket, products)
        return products

    def _next_products(
        self, mechanism: NoisyProduct, ticket: Ticket, products: NodeProducts
    ) -> NodeProducts:
        bases, totals = [], []
        for silo, (node, total) in enumerate(zip(self.nodes, products.totals, strict=True)):
            noisy = mechanism.share_steps(ticket, total, f"noise/{silo_name(silo)}")
            local = self.clipped(orthonormal(mechanism.units(noisy)))
            bases.append(basis_steps(local, mechanism.grid_bits.basis_bits))
            totals.append(node.total(bases[-1]))
        return NodeProducts(totals, totals, bases)


def clipped_entries(basis: FloatArray, largest: float) -> FloatArray:
    """Return numbers of any shape, each cut off at `largest` in size."""
    clipped: Any = np.clip(basis, -largest, largest)
    return np.asarray(clipped)


def private(
    settings: Settings,
    federation: Federation,
    local: LocalTraining,
    streams: Streams,  # noqa: ARG001
) -> FedPowerPrivate:
    """Return the system `fedpower-private`."""
    parts = setup(settings, federation, local, whole_ring=True)
    return FedPowerPrivate(parts, settings.of(FedPowerSettings), settings.data.seed)
