"""The sum of what silos send: its interface, the sum in the clear, and the sum with noise.

Silos add up integers, with their noise among them, so the sum is the same bit for bit whoever sees
what on the way.  What the server sees stands in the log as `aggregation`:

plain                every silo's integers
masked               only their sum, modulo 2^64 (`fl.secagg`)
private-weighting    only the sum, under weights that nobody sees (`fl.uldp.weighting`, which has
                     users to weight and not only silos to add up, and is asked by itself)
shares               every silo sees the sum, and there is no server (`fl.aggregation.share_sums`)
shuffle              units' messages without their senders (`fl.shuffling`, which a system that
                     sends messages has by itself): silos have nothing to add up
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from ...accountant import records
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput, ProtocolFault, Unsupported
from ...accountant.mechanisms.clip import check_totals
from ..parties.network import silo_name

if TYPE_CHECKING:
    from ...accountant.mechanisms import Gaussian, Ticket
    from ..crypto.fixed_point import FixedPoint
    from ..parties.network import Network
    from .residuals import ResidualMonitor

Silo: TypeAlias = Callable[[], IntArray]
"""Called when it is the silo's turn: returns its integers (D,), its share of the noise added."""


@dataclass(frozen=True, eq=False)
class Sum:
    """What arrived: `total` (D,) of those silos that are in it."""

    total: IntArray
    silos: tuple[int, ...]


class Aggregator(Protocol):
    """Adds what silos send; one for a whole run."""

    @property
    def security(self) -> records.Security | None:
        """The parameters of its protocol, as the log states them; None in the clear."""

    @property
    def network(self) -> Network | None:
        """Between whom messages travel; None in the clear."""

    def total(self, number: int, silos: Sequence[Silo], length: int) -> Sum:
        """Return the sum of what the silos make in round `number`, vectors of `length`.

        Raises `MissingParty` where too few arrive, `ProtocolFault` for what is against the rules,
        and whatever a silo raises.
        """


class PlainAggregator:
    """The server sees what every silo sends, and adds it up."""

    security: Final = None
    network: Final = None

    def total(self, number: int, silos: Sequence[Silo], length: int) -> Sum:  # noqa: ARG002
        """Return the sum of what the silos make; all of them are in it."""
        total = np.zeros(length, np.int64)
        for index, silo in enumerate(silos):
            sent = silo()
            if sent.shape != total.shape or sent.dtype != total.dtype:
                raise ProtocolFault(
                    f"{silo_name(index)} did not send {length:,} integers.",
                    "Another vector would be stretched, and its noise used more than once.",
                    "Find out which model it has, and begin again.",
                )
            total += sent
        return Sum(total, tuple(range(len(silos))))


class NoAggregator:
    """No aggregation: units send messages to a shuffler, and silos send no vectors to be summed."""

    security: Final = None
    network: Final = None

    def total(self, number: int, silos: Sequence[Silo], length: int) -> Sum:  # noqa: ARG002
        """Refuse."""
        raise Unsupported(
            'aggregation = "shuffle" adds no vectors of silos up.',
            "A shuffler hands on the messages of units, which its analyzer sums.",
            'Write aggregation = "plain", "masked" or "shares", or use a system of messages.',
        )


def noisy_sum(
    by: Aggregator,
    number: int,
    mechanism: Gaussian,
    ticket: Ticket,
    totals: Sequence[IntArray],
    named: str = "noise",
    monitor: ResidualMonitor | None = None,
) -> Sum:
    """Return the sum of the silos' totals (D,), each with the share of noise of its silo.

    `named` begins the names of the random streams; `monitor` is shown the noise that was added.
    Raises as `Aggregator.total` does, and as the mechanism does, for totals of different lengths
    too, and for a sum that could wrap around.
    """
    names = [f"{named}/{silo_name(silo)}" for silo in range(len(totals))]
    sums = check_totals(totals, names)  # before any of them is sent
    shares: list[Silo] = [
        partial(mechanism.share_steps, ticket, total, name)
        for total, name in zip(sums, names, strict=True)
    ]
    if monitor is None:
        return by.total(number, shares, len(totals[0]))
    shown = [
        partial(_sent_and_shown, monitor, mechanism.grid, silo, share, total)
        for silo, (share, total) in enumerate(zip(shares, sums, strict=True))
    ]
    received = by.total(number, shown, len(totals[0]))
    # What arrived, less the exact totals of the silos that are in it, is the noise in the sum.
    exact = np.sum([sums[silo] for silo in received.silos], axis=0, dtype=np.int64)
    monitor.whole(received.total - exact, mechanism.grid, received.silos)
    return received


def _sent_and_shown(
    monitor: ResidualMonitor, grid: float, silo: int, share: Silo, total: IntArray
) -> IntArray:
    """Return what a silo sends, and show the noise in it: what is sent less its exact total."""
    sent = share()
    if sent.shape == total.shape and sent.dtype == total.dtype:  # else whoever adds up refuses it
        monitor.share(silo, sent - total, grid)
    return sent


def float_sum(by: Aggregator, number: int, rows: FloatArray) -> FloatArray:
    """Return the sum of what each silo sends (silos, D), where that needs no more noise: (D,).

    In the clear it is a sum of floats.  Under masks every number is rounded towards zero, on a
    grid of 2^-40, or what 64 bits have room for with 128 silos and more; beyond 2^16 it is refused.
    """
    if by.network is None:
        return np.asarray(np.sum(rows, axis=0))
    from ..crypto.fixed_point import FixedPoint

    # Finer is refused by 64 bits: n numbers of up to 2^16 must add up within 63 of them.
    step = 2.0 ** -min(40, 47 - len(rows).bit_length())
    point = FixedPoint(step=step, bound=2.0**16, terms=len(rows), modulus=2**64)
    silos = [partial(_encoded, point, row) for row in rows]
    received = by.total(number, silos, rows.shape[1])
    return np.asarray(point.decode(received.total))


def _encoded(point: FixedPoint, row: FloatArray) -> IntArray:
    try:
        return np.asarray(point.encode(row))
    except InvalidInput:
        raise InvalidInput(
            f"A silo's update has a number that is not finite, or beyond {point.bound:,.0f}.",
            "Masked sums have no room for it, so nothing was sent.",
            'Lower `local_rate` or `clip` in [training], or write aggregation = "plain".',
        ) from None
