"""Aggregation of the silos' vectors: the interface, the sum in the clear, and the sum with noise.

Silos send integers that contain their share of the noise, so the sum is the same, bit for bit, by
whatever protocol it is computed.  The log states as `aggregation` what the server sees:

plain                every silo's integers
masked               only their sum, modulo 2^64 (`fl.secagg`)
private-weighting    only the sum, under weights that nobody sees (`fl.uldp.weighting`; it weights
                     users as well as summing over silos, and is called by itself)
shares               nothing: every silo sees the sum, and there is no server
                     (`fl.aggregation.share_sums`)
shuffle              units' messages without their senders (`fl.shuffling`, which belongs to systems
                     that send messages): silos have no vectors to sum
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ...accountant import records, validate
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput, ProtocolFault, Unsupported
from ...accountant.mechanisms.clip import check_totals
from ..parties.network import silo_name

if TYPE_CHECKING:
    from ...accountant.mechanisms import SharedNoise, Ticket
    from ..crypto.fixed_point_sums import FixedPoint
    from ..parties.network import Network
    from .residuals import ResidualMonitor

Silo: TypeAlias = Callable[[], IntArray]
"""Called when it is the silo's turn: returns its integers (D,), with its share of the noise."""


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum `total` (D,), of the vectors of `silos`.

    `made_here` are the silos whose vectors were made in this process, where others were made by
    other parties; None: all.
    """

    total: IntArray
    silos: tuple[int, ...]
    made_here: tuple[int, ...] | None = None


class Aggregator(Protocol):
    """Sums the vectors of silos; one object serves a whole run."""

    @property
    def security(self) -> records.Security | None:
        """The parameters of the protocol, as the log states them; None for sums in the clear."""

    @property
    def network(self) -> Network | None:
        """The network of its parties; None for sums in the clear."""

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Return the sum of the silos' vectors, of `length` integers each, in round `number`.

        `present` are the indices of those that take part, by what is public, and `silos` are
        theirs, in that order; None: all.  `largest` is a public bound on every integer, its noise
        included: one beyond it is refused before it is sent.  Raises `MissingParty` where too few
        silos send one, `ProtocolFault` for messages against the protocol, `InvalidInput` for
        others that are present than there can be, and whatever a silo raises.
        """


@runtime_checkable
class SumsFloats(Protocol):
    """An aggregator in the clear between processes, each of which has the rows of some silos."""

    def float_rows(self, number: int, rows: FloatArray) -> FloatArray:
        """Return the rows (silos, D) of all silos, of `rows` in which only some are known here."""


class PlainAggregator:
    """Sums in the clear: the server sees the vector of every silo."""

    security: Final = None
    network: Final = None

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Return the sum of the silos' vectors.

        Raises `ProtocolFault` for a wrong length, `InvalidInput` for integers beyond `largest`.
        """
        total = np.zeros(length, np.int64)
        taking_part = indices(present, len(silos))
        for index, silo in zip(taking_part, silos, strict=True):
            sent = silo()
            if sent.shape != total.shape or sent.dtype != total.dtype:
                raise ProtocolFault(
                    f"{silo_name(index)} did not send {length:,} integers.",
                    "Another vector would be stretched, and its noise used more than once.",
                    "Find out which model it has, and begin again.",
                )
            check_largest(sent, largest)
            total += sent
        return Sum(total, taking_part)


class NoAggregator:
    """No aggregation: units send messages to a shuffler, and silos send no vectors to be summed."""

    security: Final = None
    network: Final = None

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Raise `Unsupported`."""
        raise Unsupported(
            'aggregation = "shuffle" adds no vectors of silos up.',
            "A shuffler hands on the messages of units, which its analyzer sums.",
            'Write aggregation = "plain", "masked" or "shares", or use a system of messages.',
        )


def integers_of(silo: Silo, index: int) -> IntArray:
    """Return what a silo makes; raise `ProtocolFault` unless it is integers of 64 bits."""
    sent = silo()
    if not isinstance(sent, np.ndarray) or sent.dtype != np.dtype(np.int64):
        raise ProtocolFault(
            f"{silo_name(index)} did not make integers of 64 bits.",
            "Others would be cut off before they are summed, their noise too.",
            "Find out which model it has, and begin again.",
        )
    return sent


def indices(
    present: Sequence[int] | None, silos: int, parties: int | None = None
) -> tuple[int, ...]:
    """Return which silos take part: `silos` of them, all different, of `parties` (None: of any).

    None stands for the first `silos`.  Raises `InvalidInput`.
    """
    if present is None:
        return tuple(range(silos))
    given = tuple(validate.count_from(0, present=index) for index in present)
    if len(set(given)) != len(given) or len(given) != silos:
        raise InvalidInput(
            f"`present` must name each of the {silos} silos that are given once.",
            "One that is named twice would be counted twice.",
            "Give one index for each silo.",
        )
    if parties is not None and max(given, default=0) >= parties:
        raise InvalidInput(
            f"`present` must be indices below {parties}, the number of silos.",
            "Nobody else belongs to the run.",
            "Count silos from 0.",
        )
    return given


def check_largest(steps: IntArray, largest: int | None) -> None:
    """Raise `InvalidInput`, without the value, for an integer that is beyond a public bound."""
    if largest is None:
        return
    bound = validate.count(largest=largest)
    if not -bound <= steps.min(initial=0) <= steps.max(initial=0) <= bound:
        raise InvalidInput(
            f"An integer of a silo is beyond the {bound:,} steps that were agreed on.",
            "There is no room for it, and nothing of it was sent.",
            "Clip what is summed, and leave room for the tail of the noise.",
        )


def noisy_sum(
    by: Aggregator,
    number: int,
    mechanism: SharedNoise,
    ticket: Ticket,
    totals: Sequence[IntArray],
    named: str = "noise",
    monitor: ResidualMonitor | None = None,
    *,
    present: Sequence[int] | None = None,
    largest: int | None = None,
) -> Sum:
    """Return the sum of the silos' totals (D,), each with the share of noise of its silo.

    `named` begins the names of the random streams; `monitor` is shown the noise that was added.
    `present` and `largest` are those of `Aggregator.total`: the totals are those of `present`, and
    streams and residuals have the indices of their silos.  Raises as `Aggregator.total` does, and
    as the mechanism does, for totals of different lengths too, and for a sum that could wrap
    around.
    """
    taking_part = indices(present, len(totals))
    names = [f"{named}/{silo_name(silo)}" for silo in taking_part]
    sums = check_totals(totals, names)  # before any of them is sent
    shares: list[Silo] = [
        partial(mechanism.share_steps, ticket, total, name)
        for total, name in zip(sums, names, strict=True)
    ]
    length = len(totals[0])
    if monitor is None:
        return _added(by, number, shares, length, present, largest)
    shown: list[Silo] = [
        partial(_sent_and_shown, monitor, mechanism.grid, silo, share, total)
        for silo, share, total in zip(taking_part, shares, sums, strict=True)
    ]
    received = _added(by, number, shown, length, present, largest)
    if received.made_here is not None:
        return received  # the exact totals of the others are theirs: of the whole nothing is known
    # What arrived, less the exact totals of the silos that are in it, is the noise in the sum.
    of_silo = dict(zip(taking_part, sums, strict=True))
    exact = np.sum([of_silo[silo] for silo in received.silos], axis=0, dtype=np.int64)
    monitor.whole(received.total - exact, mechanism.grid, received.silos)
    return received


def _added(
    by: Aggregator,
    number: int,
    silos: Sequence[Silo],
    length: int,
    present: Sequence[int] | None,
    largest: int | None,
) -> Sum:
    """Return the sum, also of an aggregator that knows only rounds in which all take part."""
    if present is None and largest is None:
        return by.total(number, silos, length)
    return by.total(number, silos, length, present=present, largest=largest)


def _sent_and_shown(
    monitor: ResidualMonitor, grid: float, silo: int, share: Silo, total: IntArray
) -> IntArray:
    """Return what a silo sends; show `monitor` its noise: what is sent minus the exact total."""
    sent = share()
    if sent.shape == total.shape and sent.dtype == total.dtype:  # else the aggregator refuses it
        monitor.share(silo, sent - total, grid)
    return sent


def float_sum(by: Aggregator, number: int, rows: FloatArray) -> FloatArray:
    """Return the sum (D,) of the silos' `rows` (silos, D), to which no noise is added.

    In the clear it is a sum of floats, which an aggregator may add up by itself (`SumsFloats`).
    Otherwise every number is rounded towards zero to a
    multiple of 2^-40, or of a coarser power of two where 128 or more silos would overflow 64 bits.
    Raises `InvalidInput` for numbers beyond 2^16, and as `Aggregator.total` does.
    """
    if by.network is None:
        rows = by.float_rows(number, rows) if isinstance(by, SumsFloats) else rows
        return np.asarray(np.sum(rows, axis=0))
    from ..crypto.fixed_point_sums import FixedPoint

    # n numbers of up to 2^16 / step must sum to less than 2^63, so the step grows with n.
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
