"""DISCO's sum of float shares, message by message, as published: **no-guarantee**, for study.

Peers u = 1..m with tensors of float32:

1. `share`      u splits its tensors into m shares: m - 1 uniform in [-M, M), the last one is the
                secret minus their sum; each other peer v is sent one, and u keeps the last
2. `partial`    u adds up its kept share and those it received, and sends that sum to everybody
3. `total`      u adds up all partial sums

Nothing here hides an update, and nothing that uses it may call a number a guarantee:

- all tensors of a share start their generator from one seed, so the difference of two tensors of a
  partial sum has no mask, and every peer reads the differences of the sum of what was shared;
- a number under bounded masks, in no ring, depends on what is masked (`audit.demos.disco_shares`).

The facts for the log state a ring of 0 bits, which is none: an audit believes no update hidden.
What is sent is not signed and not compared at the end, so peers may end with different totals, for
rounding too: each adds in its own order.  As in DISCO for groups of at most 8, a peer keeps its
last share; in larger ones the program sends that to one peer, who then reads off more.

Source: epfml/disco, `discojs/src/privacy.ts` and `aggregator/secure.ts`, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from ...accountant import records, validate
from ...accountant.arrays import Float32Array, FloatArray
from ...accountant.errors import InvalidInput, PrivplanError, ProtocolFault, Unsupported, counted
from ..aggregation.sums import Silo, Sum, indices
from ..crypto.additive import DISCO_MAGNITUDE, no_guarantee_float_shares
from ..crypto.keys import fresh
from ..parties.message_bodies import Body, Limits, room
from ..parties.network import Network, Post, silo_name

_SESSION_BYTES: Final = 16

_MIN_PARTIES: Final = 2
"""The program checks no size of a group; of one peer there are no shares."""


@dataclass(frozen=True)
class FloatShare(Body):
    """One share of every tensor of the sender: float32, little-endian, in the clear."""

    kind: ClassVar[str] = "float-share"
    tensors: tuple[bytes, ...]


@dataclass(frozen=True)
class FloatPartialSum(Body):
    """The sum of the shares that the sender has, tensor by tensor."""

    kind: ClassVar[str] = "float-partial"
    tensors: tuple[bytes, ...]


def limits(tensors: Sequence[int]) -> Limits:
    """Return how long each message may be, for tensors of so many numbers."""
    length = room(*[4 * count for count in tensors])
    return {FloatShare: length, FloatPartialSum: length}


class FloatSharePeer:
    """One peer in one round, as published: **no-guarantee**; each step once, in order.

    `tensors` are its float32 tensors, `others` the names of all other peers of the group.
    """

    def __init__(
        self,
        post: Post,
        others: Sequence[str],
        tensors: Sequence[Float32Array],
        *,
        magnitude: float,
        session: bytes,
        round: int,
    ) -> None:
        """Enter the round."""
        self._post, self._others, self._tensors = post, tuple(others), tuple(tensors)
        self._lengths = [len(tensor) for tensor in tensors]
        self._magnitude = magnitude
        self._sum: list[Float32Array] = []
        post.enter(session, round, limits(self._lengths))

    def share(self) -> None:
        """Send each other peer one share of every tensor; keep the last."""
        *sent, kept = no_guarantee_float_shares(
            self._tensors, len(self._others) + 1, magnitude=self._magnitude
        )
        self._sum = kept
        for other, share in zip(self._others, sent, strict=True):
            self._post.send(other, FloatShare(_packed(share)))

    def partial(self) -> None:
        """Add up the shares, and send their sum to everybody."""
        received = self._post.gather(FloatShare, self._others)
        self._sum = _added(
            [self._sum, *(self._read(name, body.tensors) for name, body in received.items())]
        )
        for other in self._others:
            self._post.send(other, FloatPartialSum(_packed(self._sum)))

    def total(self) -> FloatArray:
        """Return the sum of all partial sums, (D,), as this peer adds them up."""
        received = self._post.gather(FloatPartialSum, self._others)
        self._post.leave()
        total = _added(
            [self._sum, *(self._read(name, body.tensors) for name, body in received.items())]
        )
        return np.concatenate(total).astype(np.float64)

    def _read(self, name: str, raw: Sequence[bytes]) -> list[Float32Array]:
        """Return tensors from their bytes; `ProtocolFault` where they are not of these lengths."""
        if [len(part) for part in raw] != [4 * length for length in self._lengths]:
            raise ProtocolFault(
                f"{name} sent tensors of other lengths.",
                "They are of another model.",
                "Find out which model it has, and begin again.",
            )
        return [np.frombuffer(part, "<f4").astype(np.float32, copy=False) for part in raw]


class FloatShareAggregator:
    """DISCO's aggregation of floats, as published: **no-guarantee**, for study.

    Why there is none stands in the module; the text of DISCO claims that shares are independent of
    the update.  `magnitude` is M.  `fewest` is what the facts state as the smallest group (None:
    all), and a smaller one is refused, which the program would not do.  `keep` makes the network
    keep what each party receives, for attacks on a transcript.  Raises `InvalidInput`.
    """

    def __init__(
        self,
        silos: int,
        *,
        fewest: int | None = None,
        magnitude: float = DISCO_MAGNITUDE,
        keep: bool = False,
    ) -> None:
        self._silos = validate.count_from(_MIN_PARTIES, silos=silos)
        self._fewest = (
            self._silos if fewest is None else validate.count_from(_MIN_PARTIES, fewest=fewest)
        )
        if self._fewest > self._silos:
            raise InvalidInput(
                f"`fewest` must be at most {self._silos}, the number of silos.",
                "There is no group of more than all.",
                "Give the smallest group that may sum.",
            )
        self._magnitude = validate.positive(magnitude=magnitude)
        names = [silo_name(silo) for silo in range(self._silos)]
        self.network = Network(names, keep=keep)
        self._posts = {name: self.network.post(name) for name in names}
        self._session = bytes(fresh(_SESSION_BYTES))
        self._sums = 0

    @property
    def security(self) -> records.Security:
        """The facts for the log: shares in a ring of 0 bits, which is none, and hides nothing."""
        return records.Security(
            "additive-shares", parties=self._silos, fewest=self._fewest, ring_bits=0
        )

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Raise `Unsupported`: float shares add no integers up."""
        raise Unsupported(
            "Float shares, as published, add up floats and not the integers of silos.",
            "They hide nothing, and are there to be studied.",
            'Write aggregation = "shares" for sums of integers.',
        )

    def float_total(
        self,
        number: int,
        rows: FloatArray,
        tensors: Sequence[int],
        *,
        present: Sequence[int] | None = None,
    ) -> FloatArray:
        """Return the sum (D,) of rows (m, D), as the first peer has it; see `float_totals`."""
        return self.float_totals(number, rows, tensors, present=present)[0]

    def float_totals(
        self,
        number: int,
        rows: FloatArray,
        tensors: Sequence[int],
        *,
        present: Sequence[int] | None = None,
    ) -> list[FloatArray]:
        """Return the sum (D,) of rows (m, D) as each peer has it, by float shares in float32.

        `tensors` are the lengths of the tensors that a row consists of, end to end; their sum is D.
        `present` are the silos whose rows these are (None: all).  Raises `InvalidInput` for rows
        that are not finite or of other shapes, and for a group below `fewest`, before anything is
        sent; `MissingParty` and `ProtocolFault` as the network does.
        """
        lengths = [validate.count(tensors=length) for length in tensors]
        table = np.asarray(rows)
        if table.ndim != 2 or table.dtype != np.float64 or table.shape[1] != sum(lengths):
            raise InvalidInput(
                f"`rows` must be floats of 64 bits, {sum(lengths):,} in each row.",
                "So many numbers the tensors have.",
                "Give one row for each silo that takes part.",
            )
        with np.errstate(
            over="ignore"
        ):  # what float32 cannot hold becomes infinite, and is refused
            single = table.astype(np.float32)
        if not np.isfinite(single).all():
            raise InvalidInput(
                "`rows` must hold finite numbers, which float32 can hold.",
                "Another one would stand in every peer's total; nothing was sent.",
                "Lower the learning rate, or clip the update.",
            )
        taking_part = indices(present, len(table), self._silos)
        if len(taking_part) < self._fewest or (present is None and len(table) != self._silos):
            raise InvalidInput(
                f"{counted(len(taking_part), 'silo')} cannot sum; at least {self._fewest} must "
                "take part, and all where `present` names nobody.",
                "The facts of the run state the smallest group.",
                "Wait until there are enough, and say in `present` who they are.",
            )
        session = self._session + self._sums.to_bytes(8, "little")
        self._sums += 1
        names = [silo_name(silo) for silo in taking_part]
        bounds = np.cumsum(lengths)[:-1]
        peers = [
            FloatSharePeer(
                self._posts[name],
                [other for other in names if other != name],
                np.split(row, bounds),
                magnitude=self._magnitude,
                session=session,
                round=number,
            )
            for name, row in zip(names, single, strict=True)
        ]
        try:
            for step in (FloatSharePeer.share, FloatSharePeer.partial):
                for peer in peers:
                    step(peer)
            return [peer.total() for peer in peers]
        except PrivplanError:
            for post in self._posts.values():  # what was under way belongs to no later round
                post.enter(session, number, {}, forget=True)
            raise


def _packed(tensors: Sequence[Float32Array]) -> tuple[bytes, ...]:
    return tuple(tensor.astype("<f4", copy=False).tobytes() for tensor in tensors)


def _added(parts: Sequence[Sequence[Float32Array]]) -> list[Float32Array]:
    """Return the sum of several lists of tensors, in float32 and in their order."""
    return [
        np.asarray(np.sum(tensors, axis=0, dtype=np.float32))
        for tensors in zip(*parts, strict=True)
    ]
