"""What FedPower's three algorithms have in common: the width of their noise, and what is promised.

With `as_published` noise has the paper's width, for one element of M = A^T A / s, and a run logs
the paper's epsilon as a claim and states `no-guarantee` in every round.  Without, the same
algorithm has noise for a row, a silo or an entry, and states what that proves; then nodes multiply
once in a round, as steps by themselves would depend on private data.

Source: Liu, Pejo and Tang 2023, *Privacy-Preserving Federated Singular Value Decomposition*,
Applied Sciences, Algorithms 1 to 3.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from ...accountant.arrays import IntArray
from ...accountant.mechanisms import NoisyProduct
from ...accountant.mechanisms.product_rows import basis_steps
from ..data.rating_federation import RatingFederation
from ..frame.model import Parameters
from ..frame.opening import OpeningStatement
from ..frame.promise import Promise, unproven
from ..frame.setup import setup
from ..frame.state import State
from ..parties.network import SERVER
from . import rows as data_rows
from .iterate import NodeProducts, aligned_steps, exact_steps, reference_node, require_full_rank
from .power import PowerIteration, ReceivedSum
from .published_noise import ORIGINAL, PUBLISHED_EVENT, Algorithm, PublishedTerms, published_claim
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ...accountant.mechanisms import NoisyProduct
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..frame.setup import Setup
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining
    from .settings import FedPowerSettings


class PublishedIteration(PowerIteration):
    """A power iteration with the noise of one of the published algorithms; see the module.

    Raises `InvalidInput` for products that move farther than their noise is made for, unless the
    run is as published.
    """

    algorithm: ClassVar[Algorithm]
    terms: PublishedTerms

    def __init__(self, setup: Setup, table: FedPowerSettings, seed: int) -> None:
        super().__init__(setup, table, seed)
        if self.steps > 1 and self.aligns:
            kept = math.inf if self.terms.kept is None else self.terms.kept
            counts = [min(rows.shape[0], kept) for rows in self.raw_rows]
            require_full_rank([int(count) for count in counts], table.columns)

    def run_terms(self, table: FedPowerSettings) -> PublishedTerms:
        """Return the public facts of its products.

        Raises `InvalidInput` for products that move farther than their noise is made for, unless
        the run is as published.
        """
        federation = self.setup.federation
        return PublishedTerms.of(
            self.setup,
            table,
            data_rows.dimension(federation),
            algorithm=self.algorithm,
            ratings=isinstance(federation, RatingFederation),
        )

    aligns: ClassVar[bool] = True
    """Whether nodes make exact steps by themselves, and are aligned after them."""

    @property
    def as_published(self) -> bool:
        """Whether noise has the published width."""
        return self.terms.settings.as_published

    @property
    def steps(self) -> int:
        """p, how many products a node makes in a round."""
        return self.terms.settings.synchronise_every

    @cached_property
    def promise(self) -> Promise:
        """The promise of the run; as published, it proves nothing and claims the paper's number."""
        if not self.as_published:
            return super().promise
        privacy, rounds = self.setup.privacy, self.setup.rounds

        def claim(noise: float) -> float:
            products = rounds * self.steps
            return published_claim(self.algorithm, noise, products, privacy.delta)

        return unproven(self.views, privacy, rounds, PUBLISHED_EVENT, claim, self.phase)

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states; a run as published is marked."""
        return replace(super().opening(), as_published=self.as_published)

    @cached_property
    def raw_rows(self) -> list[Any]:
        """The rows of each node, (n, d); with `divide_by_rows`, over the root of their number.

        A node of s_i rows that count divides its product by max(s_i, s) in place of s, the public
        `divisor`: its rows are multiplied by the root of s / max(s_i, s), at most 1, before they
        are clipped.
        """
        rows = super().raw_rows
        if not self.terms.settings.divide_by_rows:
            return rows
        return [table * self._shrinking(table.shape[0]) for table in rows]

    def _shrinking(self, count: int) -> float:
        counted = count if self.terms.kept is None else min(count, self.terms.kept)
        divisor = self.terms.settings.divisor
        return math.sqrt(divisor / max(counted, divisor))

    def products(
        self, number: int, mechanism: NoisyProduct, parameters: Parameters
    ) -> NodeProducts:
        """Return what each node multiplies: once, or after steps by itself, and then aligned.

        With one product in a round all nodes multiply by one Z, which nothing is turned against.
        """
        if self.steps == 1:
            return super().products(number, mechanism, parameters)
        public = parameters.reshape(self.terms.parts["iterate"])
        basis = basis_steps(public, mechanism.grid_bits.basis_bits)
        products = exact_steps(mechanism, self.nodes, basis, self.steps)
        return aligned_steps(mechanism, products, reference_node(number, self.setup.silos))


class FedPowerOriginal(PublishedIteration):
    """Algorithm 1: every node adds noise of its own, and the server adds some more.

        node i   Y_i D_i + N_i       sends it to the server, which sees each of them
        server   sum_i Y_i D_i + N_i + N'     N' is as wide as one N_i

    The server knows N', so before it each node has its own N_i alone; nobody's guarantee counts N'.
    As published, nodes make p - 1 steps by themselves without noise, and are then aligned
    (`iterate.aligned_steps`): Z_i and D_i depend on private data, and the noise is not made for
    that.
    """

    algorithm = ORIGINAL

    @cached_property
    def state(self) -> State:
        """The singular values that go with the iterate, and nothing else."""
        return self.singular_values

    def released(self, number: int, received: ReceivedSum) -> IntArray:
        """Return the sum with the server's own noise."""
        name = f"noise/{SERVER}"
        return received.mechanism.extra_steps(received.ticket, received.steps, name)


def original(
    settings: Settings,
    federation: Federation,
    local: LocalTraining,
    streams: Streams,  # noqa: ARG001
) -> FedPowerOriginal:
    """Return the system `fedpower-original`."""
    parts = setup(settings, federation, local, whole_ring=True)
    return FedPowerOriginal(parts, settings.of(FedPowerSettings), settings.data.seed)
