"""FedPower's Algorithm 1: every node adds noise of its own, and the server adds some more.

    node i   Y_i D_i + N_i       sends it to the server, which sees each of them
    server   sum_i Y_i D_i + N_i + N'     N' is as wide as one N_i

The server knows N', so before it each node has its own N_i alone; nobody's guarantee counts N'.
As published, nodes make p - 1 steps by themselves without noise, and are then aligned
(`alignment`): Z_i and D_i depend on private data, and the noise is not made for that.

Source: Liu, Pejo and Tang 2023, *Privacy-Preserving Federated Singular Value Decomposition*,
Applied Sciences, Algorithm 1.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ...accountant.arrays import IntArray
from ..frame.setup import setup
from ..frame.state import State
from ..parties.network import SERVER
from . import published_noise
from .power import ReceivedSum
from .published import PublishedIteration
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ...accountant.mechanisms import NoisyProduct, Ticket
    from ...accountant.randomness import Streams
    from ..aggregation.residuals import ResidualMonitor
    from ..data.federation import Federation
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining


class FedPowerOriginal(PublishedIteration):
    """Algorithm 1; see the module."""

    algorithm = published_noise.ORIGINAL

    @cached_property
    def state(self) -> State:
        """The singular values that go with the iterate, and nothing else."""
        return self.singular_values

    def released(
        self,
        number: int,  # noqa: ARG002
        mechanism: NoisyProduct,
        ticket: Ticket,
        received: ReceivedSum,
        monitor: ResidualMonitor,  # noqa: ARG002
    ) -> IntArray:
        """Return the sum with the server's own noise."""
        return mechanism.extra_steps(ticket, received.steps, f"noise/{SERVER}")


def original(
    settings: Settings,
    federation: Federation,
    local: LocalTraining,
    streams: Streams,  # noqa: ARG001
) -> FedPowerOriginal:
    """Return the system `fedpower-original`."""
    parts = setup(settings, federation, local, whole_ring=True)
    return FedPowerOriginal(parts, settings.of(FedPowerSettings), settings.data.seed)
