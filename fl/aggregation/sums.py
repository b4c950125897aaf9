"""How what the silos make becomes one sum: in the clear, under masks, or among peers.

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
from numpy.typing import NDArray

from ...accountant import records
from ...accountant.errors import InvalidInput, ProtocolFault, Unsupported
from ...accountant.mechanisms.clip import check_totals
from ..parties.network import silo_name

if TYPE_CHECKING:
    from ...accountant.mechanisms import Gaussian, Ticket
    from ..crypto.fixed_point import FixedPoint
    from ..parties.network import Network
    from ..settings.schema import SecuritySettings
    from .residuals import Watch

Integers: TypeAlias = NDArray[np.int64]

Silo: TypeAlias = Callable[[], Integers]
"""What one silo does when it is its turn: it returns its integers (D,), with its noise."""


@dataclass(frozen=True, eq=False)
class Sum:
    """What arrived: `total` (D,) of those silos that are in it."""

    total: Integers
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


class Plain:
    """The server sees what every silo sends, and adds it up."""

    security: Final = None
    network: Final = None

    def total(self, number: int, silos: Sequence[Silo], length: int) -> Sum:  # noqa: ARG002
        """Return the sum of what the silos make; all of them are in it."""
        total = np.zeros(length, np.int64)
        for place, silo in enumerate(silos):
            sent = silo()
            if sent.shape != total.shape or sent.dtype != total.dtype:
                raise ProtocolFault(
                    f"{silo_name(place)} did not send {length:,} integers.",
                    "Another vector would be stretched, and its noise used more than once.",
                    "Find out which model it has, and begin again.",
                )
            total += sent
        return Sum(total, tuple(range(len(silos))))


class Unsummed:
    """Adds nothing up: units send messages, and silos no vectors."""

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
    totals: Sequence[Integers],
    named: str = "noise",
    watch: Watch | None = None,
) -> Sum:
    """Return the sum of the silos' totals (D,), each with the share of noise of its silo.

    `named` begins the names of the streams; `watch` is shown what was added to the totals.  Raises
    as `Aggregator.total` does, and as the mechanism does, for totals of different lengths too, and
    for a sum that could wrap around.
    """
    names = [f"{named}/{silo_name(silo)}" for silo in range(len(totals))]
    sums = check_totals(totals, names)  # before any of them is sent
    own: list[Silo] = [
        partial(mechanism.share_steps, ticket, total, name)
        for total, name in zip(sums, names, strict=True)
    ]
    if watch is None:
        return by.total(number, own, len(totals[0]))
    seen = [
        partial(_watched, watch, mechanism.grid, *one)
        for one in enumerate(zip(own, sums, strict=True))
    ]
    arrived = by.total(number, seen, len(totals[0]))
    there = np.sum([sums[silo] for silo in arrived.silos], axis=0, dtype=np.int64)
    watch.whole(arrived.total - there, mechanism.grid, arrived.silos)
    return arrived


def _watched(watch: Watch, grid: float, place: int, made: tuple[Silo, Integers]) -> Integers:
    """Return what a silo sends, and show what is in it beside its sum."""
    silo, total = made
    sent = silo()
    if sent.shape == total.shape and sent.dtype == total.dtype:  # else whoever adds up refuses it
        watch.share(place, sent - total, grid)
    return sent


def float_sum(by: Aggregator, number: int, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of what each silo sends (silos, D), where that needs no more noise: (D,).

    In the clear it is a sum of floats.  Under masks every number is rounded towards zero, on a
    grid of 2^-40, or what 64 bits have room for with 128 silos and more; beyond 2^16 it is refused.
    """
    if by.network is None:
        return np.asarray(np.sum(rows, axis=0))
    from ..crypto.fixed_point import FixedPoint

    step = 2.0 ** -min(40, 47 - len(rows).bit_length())
    point = FixedPoint(step=step, bound=2.0**16, terms=len(rows), modulus=2**64)
    own = [partial(_encoded, point, row) for row in rows]
    arrived = by.total(number, own, rows.shape[1])
    return np.asarray(point.decode(arrived.total))


def _encoded(point: FixedPoint, row: NDArray[np.float64]) -> Integers:
    try:
        return np.asarray(point.encode(row))
    except InvalidInput:
        raise InvalidInput(
            f"A silo's update has a number that is not finite, or beyond {point.bound:,.0f}.",
            "Masked sums have no room for it, so nothing was sent.",
            'Lower `local_rate` or `clip` in [training], or write aggregation = "plain".',
        ) from None


def aggregator(own: SecuritySettings, silos: int) -> Aggregator:
    """Return what adds up the updates of so many silos.

    Raises `InvalidInput` where more silos may be missing, or collude, than leave two to hide among,
    and for settings that the aggregation cannot bear.
    """
    if own.aggregation == "shuffle":
        return Unsummed()
    if own.aggregation not in ("masked", "shares"):
        return Plain()
    from ..crypto import dependencies

    if own.aggregation == "shares":
        from ..secagg.peers import require_peers

        require_peers(silos, colluders=own.colluders, dropouts=own.dropouts)
        dependencies.require(dependencies.MASKS)
        from .share_sums import Shares

        return Shares(silos, colluders=own.colluders, keep=own.keep_transcripts)
    if silos - own.dropouts < 2:
        raise InvalidInput(
            f"Masks need two silos that stay; of {silos}, {own.dropouts} may be missing.",
            "A sum of one silo's update is that update.",
            'Lower `dropouts` in [security], or write aggregation = "plain".',
        )
    if silos - own.dropouts - own.colluders < 2:
        raise InvalidInput(
            f"Masks need two silos that stay and tell nothing; of {silos}, {own.dropouts} may be "
            f"missing and {own.colluders} may collude with the server.",
            "Who knows all updates but one learns that one from the sum.",
            'Lower `colluders` or `dropouts` in [security], or write aggregation = "plain".',
        )
    dependencies.require(dependencies.MASKS)
    from .masked_sums import Masked

    return Masked(silos, dropouts=own.dropouts, colluders=own.colluders, keep=own.keep_transcripts)
