"""One silo in the rounds of private weighting: what it knows and what it sends.

    W_u = Enc(B_u^-1)^(r_u c_su m) = Enc(m c_su / N_u)             where nobody is drawn: once
    block b of the update:  prod_u W_u^(d_sub packed) * Enc(z_sb packed)
                            * prod_t (mask of the pair s, t)^(+-1) * rho^n     modulo n^2

The masks are uniform in Z*_{n^2}, so all ciphertexts of S - 1 silos are uniform and independent:
they hide what is encrypted and the randomness it is encrypted with, which the server, whose key it
is, could compute.  They cancel in the product of all silos, and there each silo's own rho, uniform
in Z_n* and never used again, hides the randomness that the users' digits have left.

What is added to the users' sum, and what they can sum to, is checked before anything is sent.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ....accountant.arrays import IntArray
from ....accountant.errors import InvalidInput
from ....accountant.randomness import SecretHolder
from ...crypto.masks import words
from ...crypto.oblivious import Receiver
from ...crypto.paillier.blinding import blinded, keystream_length, units
from ...crypto.paillier.powers import rescale
from ...crypto.paillier.processes import SERIAL, Workers
from ...crypto.paillier.products import products
from ...crypto.paillier.residues import Residues
from ...parties.network import SERVER, Post, silo_name
from .enrolment import Membership
from .messages import (
    Inverses,
    TransferAnswer,
    TransferOpening,
    TransferRequests,
    Update,
    limits,
    separated,
)
from .sampling import common_slots, transfer

Rows: TypeAlias = tuple[ArrayLike, ArrayLike]
"""The users whose rows a silo has, (n,), and their digits, (n, D)."""

Noise: TypeAlias = Sequence[int] | Callable[[], Sequence[int]]
"""One silo's noise, D integers, or what draws it when it is needed."""


class Silo(SecretHolder):
    """One silo, in one session; its steps are called in their order in every round.

    `rounds` is how many are planned, which decides how random residues are made, and nothing else.
    """

    def __init__(
        self, member: Membership, post: Post, *, rounds: int = 1, workers: Workers = SERIAL
    ) -> None:
        self._member, self._terms, self._post, self._workers = member, member.terms, post, workers
        self._residues = Residues(member.public, expected=rounds * member.terms.blocks)
        self._holds = np.flatnonzero(member.shares)
        self._weights: dict[int, int] = {}
        self._round = 0
        self._limits = limits(self._terms)

    def prepare(self) -> None:
        """Precompute, once for all rounds, what random residues are made from."""
        self._residues.prepare(self._workers)

    def begin(self, number: int) -> None:
        """Enter a round; its number must be above all earlier ones, or masks would come again."""
        # Masks are derived from the round's number: the same number gives the same masks.
        if number <= self._round:
            raise InvalidInput(
                f"{self._post.name} was in round {self._round} already.",
                "Masks that are used twice do not hide anything.",
                "Give each round of a session a higher number than the one before.",
            )
        self._round = number
        self._post.enter(self._member.session, number, self._limits)

    def leave(self) -> None:
        """End the setup or a round."""
        self._post.leave()

    def take_inverses(self) -> None:
        """(a) Receive a ciphertext for each user, and raise it to r_u c_su m."""
        raw = self._post.receive(Inverses, SERVER).ciphertexts
        count = self._terms.users * self._terms.pieces
        self._rescale(separated(raw, count, self._terms.ciphertext_bytes, SERVER))

    def request(self) -> None:
        """(a) Request one ciphertext of each user, at the slot that the common seed gives."""
        point = self._post.receive(TransferOpening, SERVER).point
        seed, session = self._member.seed, self._member.session
        slots = common_slots(seed, self._terms, session, self._round)
        agreed = transfer(self._terms, session, self._round, self._post.name)
        self._receiver = Receiver(agreed, point, slots)
        self._post.send(SERVER, TransferRequests(self._receiver.requests))

    def take_chosen(self) -> None:
        """(a) Decrypt the requested ciphertexts, and raise them to r_u c_su m."""
        answer = self._post.receive(TransferAnswer, SERVER).answer
        opened = self._receiver.open(answer)
        del self._receiver
        self._rescale(opened)

    def update(self, rows: Rows, noise: Noise) -> None:
        """(b), (c) Send the weighted sum of the users' digits, with noise and under masks.

        Raises `InvalidInput`, and sends nothing, for rows of other users than the silo has records
        of, digits whose norm is above `largest`, and noise that is not D integers of at most
        `tail`; without a value in the message.
        """
        terms, public = self._terms, self._member.public
        users, digits = self._checked_rows(rows)
        # Several numbers share a plaintext; the terms leave room for the largest sum.
        packed = terms.packing.pack(self._drawn(noise))
        # Enc(z) with randomness 1 is 1 + n z mod n^2; masks and rho below hide it.
        ciphertexts = [(1 + public.n * block) % public.square for block in packed]
        if len(users):
            ciphertexts = products(
                public,
                [self._weights[user] for user in users.tolist()],
                digits,
                terms.packing,
                digit_bits=terms.largest.bit_length() + 1,
                plaintexts=packed,
                workers=self._workers,
            )
        randomness = self._residues.draw(terms.blocks, self._workers)  # rho^n, used once
        hidden = blinded(public, ciphertexts, randomness, *self._masks())
        self._post.send(SERVER, Update(b"".join(public.write(hidden))))

    def _rescale(self, received: Sequence[bytes]) -> None:
        """Check every ciphertext; raise those of this silo's users to r_u c_su m, and keep them."""
        member, pieces = self._member, self._terms.pieces
        ciphertexts = member.public.read(received)
        powers = rescale(
            member.public,
            [tuple(ciphertexts[pieces * user : pieces * (user + 1)]) for user in self._holds],
            [member.exponents[user] for user in self._holds],
            self._workers,
        )
        self._weights = dict(zip(self._holds.tolist(), powers, strict=True))

    def _masks(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return masks to multiply by (shared with later silos) and to divide by (earlier ones)."""
        multiply: list[list[int]] = []
        divide: list[list[int]] = []
        public, blocks = self._member.public, self._terms.blocks
        length = keystream_length(public, blocks)
        for other in range(self._terms.silos):
            if other == self._member.number:
                continue
            first, second = sorted((self._member.number, other))
            # Both silos of a pair derive the same masks; one multiplies, the other divides.
            stream = words(
                self._member.keys[silo_name(other)].ciphertexts,
                -(-length // 8),
                session=self._member.session,
                round=self._round,
                label=b"update %d %d" % (first, second),
            )
            masks = units(public, stream.astype("<u8").tobytes()[:length], blocks)
            (multiply if self._member.number == first else divide).append(masks)
        return multiply, divide

    def _checked_rows(self, rows: Rows) -> tuple[IntArray, IntArray]:
        try:
            users, digits = (np.asarray(array) for array in rows)
        except (TypeError, ValueError):  # numpy's, of rows of different lengths
            raise self._refused("was given no table of rows.", "") from None
        if users.ndim != 1 or digits.shape != (len(users), self._terms.dimensions):
            raise self._refused(
                "was not given a row of digits for each user.",
                f"A row has {self._terms.dimensions} digits.",
            )
        if not len(users):
            return np.empty(0, np.int64), np.empty(digits.shape, np.int64)
        if users.dtype.kind not in "iu" or digits.dtype.kind not in "iu":
            raise self._refused("was given users or digits that are no integers.", "")
        if len(np.unique(users)) != len(users) or not np.isin(users, self._holds).all():
            raise self._refused(
                "was given rows of users that it has no records of, or twice.",
                "Weights are for the users that a silo has counted.",
            )
        if not _within(digits, self._terms.largest):
            raise self._refused(
                f"was given a row whose norm is above {self._terms.largest}.",
                "The noise is made for rows within it, and the sums have room for no more.",
            )
        return users.astype(np.int64), digits.astype(np.int64)

    def _drawn(self, noise: Noise) -> list[int]:
        drawn = noise() if callable(noise) else noise
        try:
            steps = [operator.index(value) for value in drawn]
        except TypeError:
            steps = []
        if len(steps) != self._terms.dimensions:
            raise self._refused(f"needs noise of {self._terms.dimensions} integers.", "")
        if max(steps) > self._terms.tail or -min(steps) > self._terms.tail:
            raise self._refused(
                "has drawn noise beyond its bound.",
                "The sums have no room for it.",
            )
        return steps

    def _refused(self, what: str, why: str) -> InvalidInput:
        return InvalidInput(
            f"{self._post.name} {what}", why, "It has sent nothing; begin a new session."
        )

    def __repr__(self) -> str:
        return f"Silo({self._post.name})"


def _within(digits: NDArray[np.integer[Any]], largest: int) -> bool:
    """Return whether every row has a norm of at most `largest`, in exact integers."""
    if digits.size == 0:
        return True
    if digits.max() > largest or digits.min() < -largest:
        return False
    # int64 where |d|^2 fits, Python integers otherwise; never floats.
    exact = digits.astype(np.int64 if digits.shape[1] * largest**2 < 2**63 else object)
    return bool(((exact * exact).sum(axis=1) <= largest**2).all())
