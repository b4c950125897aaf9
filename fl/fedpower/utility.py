"""FedPower's Algorithm 2: a masked sum from which the noise of all nodes but one is taken off.

    masked sum   sum_i (Y_i D_i + N_i)
    removal      sum_{i != j} N_i        decrypted by the server; j is its secret, drawn anew
    released     sum_i Y_i D_i + N_j

Whoever does not know j and no N_i sees the sum with one node's noise.  A node c knows N_c, and with
probability 1 / n it is the one that stays: then that node sees the exact sum, whatever the noise.
So before a node, and before the server with c nodes, delta is at least 1 / n, or c / n, in every
round, and a server that chooses j as it likes, or takes all noises off, sees the exact sum: it must
follow the protocol.

Source: Liu, Pejo and Tang 2023, *Privacy-Preserving Federated Singular Value Decomposition*,
Applied Sciences, Algorithm 2; what a node learns is derived in `accountant.sensitivity`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from ...accountant import records
from ...accountant.errors import InvalidInput
from ...accountant.sensitivity.fedpower_views import revealed_probability
from ..frame.setup import setup
from ..frame.state import State
from ..observers.names import MODEL, SERVER, coalition_of
from ..parties.network import Network, silo_name
from .power import ReceivedSum
from .published import PublishedIteration
from .published_noise import UTILITY, with_removal
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ...accountant.arrays import IntArray
    from ...accountant.mechanisms import Gate, NoisyProduct
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..frame.model import Parameters, Round
    from ..frame.setup import Setup
    from ..frame.state import Arrays
    from ..parties.network import Post
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining

RESTS_ON: Final = (
    "the server follows the protocol: it draws anew, evenly, whose noise stays, and tells nobody",
)
"""What a reach of one share supposes."""

_DEVIATIONS: Final = 40
"""A share is no larger than so many of its deviations, but with probability below 1e-340."""


class NoiseRemover(Protocol):
    """Finds the noise of all nodes but one, which stays unknown to them."""

    def removed(
        self, number: int, noises: Sequence[Callable[[], IntArray]], *, largest: int
    ) -> IntArray:
        """Return sum_{i != j} N_i (values,) in round `number`; no N_i is beyond `largest`.

        `noises` return each node's noise when it is its turn.
        """


RemovalFactory: TypeAlias = Callable[[Mapping[str, "Post"], int], NoiseRemover]
"""From the posts of server and nodes, and the number of nodes, to what takes their noise off."""


class FedPowerUtility(PublishedIteration):
    """Algorithm 2; see the module.

    `removal` makes the protocol that takes noise off; before the first round, keys are made.
    Raises `InvalidInput` for an observer before whom delta is too small for any guarantee.
    """

    algorithm = UTILITY

    def __init__(
        self, setup: Setup, table: FedPowerSettings, seed: int, removal: RemovalFactory
    ) -> None:
        super().__init__(setup, table, seed)
        self._removal = removal
        self._remover: NoiseRemover | None = None
        if not self.as_published:
            _require_hidden_noise(setup)

    def remove_noise_by(self, remover: NoiseRemover) -> None:
        """Take noise off by this from now on, in a rehearsal or a test, and make no keys."""
        self._remover = remover

    @cached_property
    def state(self) -> State:
        """The singular values that go with the iterate, and nothing else."""
        return self.singular_values

    @property
    def security(self) -> records.Security | None:
        """The masks' parameters, the length of the Paillier key, and a server that must be honest.

        Masks may hold against a server that lies, but it could take every noise off.
        """
        masks = super().security
        return None if masks is None else with_removal(masks, self.setup.security.key_bits)

    def reaches(self) -> Mapping[str, records.Reach] | None:
        """Return what reaches each observer: the sum with one node's noise."""
        views = {MODEL: self.promise.event, **self.promise.views}
        return {name: _reach(name) for name in views}

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round; before the first one, keys are made."""
        if self._remover is None:
            with gate.before(number):
                self._remover = self._removal(self._posts(), self.setup.silos)
        return super().round(number, parameters, gate, state)

    def _posts(self) -> Mapping[str, Post]:
        """Return the posts of server and nodes: those of the masked sums, if these have any."""
        from ..aggregation.masked_sums import MaskedAggregator

        if isinstance(self.aggregator, MaskedAggregator):
            return self.aggregator.posts
        network = Network([SERVER, *map(silo_name, range(self.setup.silos))])
        return {name: network.post(name) for name in network.names}

    def released(self, number: int, received: ReceivedSum) -> IntArray:
        """Return the sum with one node's noise; `monitor` is shown which, and how much is left."""
        assert self._remover is not None  # made by `round`
        mechanism = received.mechanism
        noises = [partial(received.noises.__getitem__, node) for node in received.silos]
        removed = self._remover.removed(number, noises, largest=largest_steps(mechanism))
        released = received.steps - removed
        left = released - received.exact
        staying = [node for node in received.silos if np.array_equal(received.noises[node], left)]
        # Where what is left is nobody's noise, tests of its width must fail: one share is named.
        received.monitor.whole(left, mechanism.grid, staying[:1] or received.silos[:1])
        return released


def largest_steps(mechanism: NoisyProduct) -> int:
    """Return a public bound on one share of the noise, in steps of the grid."""
    return math.ceil(_DEVIATIONS * mechanism.share_std / mechanism.grid) + 1


def _reach(observer: str) -> records.Reach:
    coalition = coalition_of(observer)
    colluders = 0 if coalition is None else coalition.colluders
    return records.Reach("one-share", colluders=colluders, rests_on=RESTS_ON)


def _require_hidden_noise(setup: Setup) -> None:
    """Raise `InvalidInput` where the claim is for an observer who may know the noise that stays."""
    observer, silos = setup.privacy.observer, setup.silos
    coalition = coalition_of(observer)
    if observer in (MODEL, SERVER) or silos < 2:
        return
    known = 1 if coalition is None else coalition.colluders
    least = revealed_probability(silos, setup.rounds, known)
    if setup.privacy.delta > least:
        return
    raise InvalidInput(
        f"Nothing can be promised before {observer!r} at delta {setup.privacy.delta:g}: it is at "
        f"least {least:.3g}.",
        f"One node's noise stays in a sum, and with probability {known} / {silos} it is one that "
        f"{observer} knows; then the sum is exact, whatever the noise.",
        'Name "model" or "server" as `observer` in [privacy], or use fedpower-private.',
    )


def paillier_removal(settings: Settings) -> RemovalFactory:
    """Return what makes the protocol of `noise_removal`, with the configured keys."""
    security, rounds = settings.security, settings.run.rounds

    def make(posts: Mapping[str, Post], nodes: int) -> NoiseRemover:
        from .noise_removal.driver import NoiseRemoval

        return NoiseRemoval(
            posts,
            nodes,
            key_bits=security.key_bits,
            processes=security.processes,
            rounds=rounds,
        )

    return make


def utility(
    settings: Settings,
    federation: Federation,
    local: LocalTraining,
    streams: Streams,  # noqa: ARG001
) -> FedPowerUtility:
    """Return the system `fedpower-utility`."""
    parts = setup(settings, federation, local, whole_ring=True)
    table, seed = settings.of(FedPowerSettings), settings.data.seed
    return FedPowerUtility(parts, table, seed, paillier_removal(settings))
