"""A private power iteration: in every round one noisy product with a public, orthonormal iterate.

    node s   V_s = A_s^T A_s Z of its rows on the grid, as integers, with its share of the noise
    server   their sum modulo 2^64, Y, and of it the next iterate Z: its left singular vectors

Z is made of released products, so every round is a Gaussian release of one sensitivity, and rounds
compose exactly.  Exact products are made before the intent, so that no record can keep a release
that was paid for from being made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.mechanisms import Gate, NoisyProduct, Ticket
from ...accountant.mechanisms.product_rows import ProductRows, basis_steps
from ..aggregation.residuals import ResidualMonitor, Residuals
from ..declarations.sealed_items import RELEASE
from ..frame.model import Parameters, Round
from ..frame.private_system import PrivateSystem
from ..frame.rounds import Draft
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, Shape, State
from ..parties.network import silo_name
from . import rows as data_rows
from .iterate import Iterate, NodeProducts, first_basis, next_iterate
from .product_check import ProductCheck
from .run_terms import RunTerms
from .settings import BEYOND, CLIPPED, DROPPED, ROWS, FedPowerSettings

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining

SINGULAR_VALUES: Final = "singular_values"
"""The name of the state: the singular values of the last product, (r,)."""


class ReceivedSum(NamedTuple):
    """What the server has summed: (values,), with the noise; and what is in it, for checks.

    `mechanism` drew the noise under `ticket`, and `monitor` looks at it.
    """

    mechanism: NoisyProduct
    ticket: Ticket
    monitor: ResidualMonitor
    steps: IntArray
    silos: tuple[int, ...]
    exact: IntArray
    noises: dict[int, IntArray]


class NoisyProductSum(NamedTuple):
    """A released product (d, r), and how many shares of the noise are in it."""

    product: FloatArray
    shares: int


class PowerIteration(PrivateSystem):
    """Noisy products, one in every round; see the module.

    The model is the iterate (d, r), row by row: its first k columns are the directions found.
    Raises `InvalidInput` for sampled users, private moments, and what does not suit the federation
    (`RunTerms`).
    """

    phase = RELEASE

    def __init__(self, setup: Setup, table: FedPowerSettings, seed: int) -> None:
        super().__init__(setup)
        self.terms: RunTerms = self.run_terms(table)
        self.seed = seed
        self.residuals = Residuals()

    def run_terms(self, table: FedPowerSettings) -> RunTerms:
        """Return the public facts of its products; raises as `RunTerms`."""
        return RunTerms.of(self.setup, table, data_rows.dimension(self.setup.federation))

    @property
    def parts(self) -> Mapping[str, Shape]:
        """The shape of what is released."""
        return self.terms.parts

    @cached_property
    def state(self) -> State:
        """The singular values that go with the iterate; the iterate is the model."""
        return self.singular_values

    @property
    def singular_values(self) -> State:
        """A state of the singular values of the last product, and of nothing else."""
        return State(**{SINGULAR_VALUES: (self.terms.settings.columns,)})

    def initial(self) -> Parameters:
        """Return the first iterate, public: (d r,)."""
        dimension, columns = self.terms.parts["iterate"]
        return first_basis(dimension, columns, self.seed).reshape(-1)

    def mechanism(self, noise_multiplier: float) -> NoisyProduct:
        """Return the noise of one product, in a share for each silo."""
        return self.terms.mechanism(noise_multiplier)

    @cached_property
    def nodes(self) -> list[ProductRows]:
        """The rows of each silo on the grid, put there once for all rounds; private."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        return [ProductRows(mechanism, rows, most=self.terms.kept) for rows in self.raw_rows]

    @cached_property
    def raw_rows(self) -> list[Any]:
        """The rows of each silo, (n, d), in raw units; private."""
        federation = self.setup.federation
        return [data_rows.node_rows(federation, silo) for silo in range(self.setup.silos)]

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: exact products first, then the intent, and noise under it."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        products = self.products(number, mechanism, parameters)
        checked = self.checked(mechanism, products)

        def work(ticket: Ticket) -> Draft:
            monitor = self.residuals.monitor(ticket.intent.noise)
            last = self.last_products(mechanism, ticket, products)
            noisy = self.noisy_product(number, mechanism, ticket, last.totals, monitor)
            found = self.iterate(noisy.product)
            return Draft(
                found.basis.reshape(-1),
                {SINGULAR_VALUES: found.singular_values},
                aggregate=noisy.product.reshape(-1),
                normaliser=self.terms.normaliser,
                sealed={
                    **monitor.items(),
                    **(checked if last is products else self.checked(mechanism, last)),
                },
                shares=noisy.shares,
                clip_enforced=self.terms.clip_enforced,
            )

        return self.make_round(number, parameters, gate, work, draws=self.terms.draws)

    def products(
        self, number: int, mechanism: NoisyProduct, parameters: Parameters
    ) -> NodeProducts:
        """Return what each node multiplies in a round: here all multiply by one public basis."""
        basis = basis_steps(
            parameters.reshape(self.terms.parts["iterate"]), mechanism.grid_bits.basis_bits
        )
        totals = [node.total(basis) for node in self.nodes]
        return NodeProducts(totals, totals, [basis] * len(totals))

    def last_products(
        self, mechanism: NoisyProduct, ticket: Ticket, products: NodeProducts
    ) -> NodeProducts:
        """Return what is summed, under the intent: here `products` as they are."""
        return products

    def noisy_product(
        self,
        number: int,
        mechanism: NoisyProduct,
        ticket: Ticket,
        totals: list[IntArray],
        monitor: ResidualMonitor,
    ) -> NoisyProductSum:
        """Return the sum of the nodes' products, each with its share of the noise."""
        noises: dict[int, IntArray] = {}

        def sent(silo: int) -> IntArray:
            name = f"noise/{silo_name(silo)}"
            noisy = mechanism.share_steps(ticket, totals[silo], name)
            # Outside of the mechanism: what is sent less the exact total, whatever was drawn.
            noises[silo] = noisy - totals[silo]
            monitor.share(silo, noises[silo], mechanism.grid)
            return noisy

        sends = [partial(sent, silo) for silo in range(len(totals))]
        received = self.aggregator.total(number, sends, mechanism.product.values)
        arrived = [totals[silo] for silo in received.silos]
        exact = np.asarray(np.sum(arrived, axis=0, dtype=np.int64))
        if received.made_here is None:  # else the exact products of others are theirs
            monitor.whole(received.total - exact, mechanism.grid, received.silos)
        made = (mechanism, ticket, monitor)
        summed = ReceivedSum(*made, received.total, received.silos, exact, noises)
        released = self.released(number, summed)
        return NoisyProductSum(mechanism.units(released), len(received.silos))

    def released(self, number: int, received: ReceivedSum) -> IntArray:
        """Return what becomes public of a sum: (values,), here the sum as it is."""
        return received.steps

    def iterate(self, product: FloatArray) -> Iterate:
        """Return the next iterate, a function of a released product (d, r) alone."""
        return next_iterate(product)

    def checked(self, mechanism: NoisyProduct, products: NodeProducts) -> dict[str, object]:
        """Return what is sealed of the rows and of their products."""
        check = ProductCheck(mechanism)
        for here, node, total, basis in zip(
            self.raw_rows, self.nodes, products.multiplied, products.bases, strict=True
        ):
            check.add(here[: node.count], node, basis, total)
        counts = [rows.shape[0] for rows in self.raw_rows]
        return {
            ROWS: counts,
            BEYOND: max(0, sum(counts) - self.terms.most_rows),
            CLIPPED: [node.clipped for node in self.nodes],
            DROPPED: [node.dropped for node in self.nodes],
            **check.items(),
        }


def power(
    settings: Settings,
    federation: Federation,
    local: LocalTraining,
    streams: Streams,  # noqa: ARG001
) -> PowerIteration:
    """Return the system `fedpower-power`."""
    parts = setup(settings, federation, local, whole_ring=True)
    return PowerIteration(parts, settings.of(FedPowerSettings), settings.data.seed)
