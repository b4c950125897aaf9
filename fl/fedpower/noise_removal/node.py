r"""One node in the rounds of noise removal: what it knows and what it sends.

    pack b:   (1 + n x_b) E^(-x_b)                    an encryption of (1 - e) x_b
              * prod_t (mask of the pair s, t)^(+-1) * rho_b^n              modulo n^2

x_b are values of the node's noise packed into one integer, and E = Enc(e) is the server's
selection.  Without more, the product's n-th residue would be that of E to the power of -x_b, and
the server, who made E, could try noise by noise which one it is.  The masks are uniform in
Z*_{n^2}, so all ciphertexts of all nodes but one are uniform and independent: they hide plaintext
and residue of every single node.  They cancel in the product over nodes, and there each node's own
rho, uniform in Z*_n and never used again, hides the residues that the noise has left.

Masks and residues depend on nobody's noise and on no selection: they are multiplied before the
selection is read (`blind`).
"""

from __future__ import annotations

import numpy as np

from ....accountant.arrays import IntArray
from ....accountant.errors import InvalidInput, ProtocolFault
from ....accountant.randomness import SecretHolder
from ...crypto.masks import words
from ...crypto.paillier.blinding import Residues, blinded, keystream_length, units
from ...crypto.paillier.fixed_base import powers
from ...crypto.paillier.processes import SERIAL, Workers
from ...parties.network import SERVER, Post
from .introductions import SETUP, Membership
from .messages import Removal, Selection, round_limits
from .terms import RoundTerms


class Node(SecretHolder):
    """One node, in one session; its steps are called in their order in every round.

    `rounds` is how many are planned, which decides how random residues are made, and nothing else.
    """

    def __init__(
        self, member: Membership, post: Post, *, rounds: int = 1, workers: Workers = SERIAL
    ) -> None:
        self._member, self._post = member, post
        self._rounds, self._workers = rounds, workers
        self._residues: Residues | None = None
        self._factors: list[int] = []
        self._round = self._answered = SETUP

    def prepare(self, packs: int) -> None:
        """Precompute, once for all rounds of so many packs, what residues are made from."""
        self._source(packs).prepare(self._workers)

    def begin(self, terms: RoundTerms, number: int) -> None:
        """Enter a round; its number must be above all earlier ones, or masks would come again."""
        # Masks are derived from the round's number: the same number gives the same masks.
        if number <= self._round:
            raise InvalidInput(
                f"{self._post.name} was in round {self._round} already.",
                "Two selections of one round would show its noise, and so would masks used twice.",
                "Give each round of a session a higher number than the one before.",
            )
        self._round, self._terms = number, terms
        self._factors = []
        self._post.enter(self._member.session, number, round_limits(terms))

    def blind(self) -> None:
        """(a) Multiply masks and fresh residues: one factor for each pack, used once."""
        packs, public = self._terms.packs, self._member.public
        residues = self._source(packs).draw(packs, self._workers)
        self._factors = blinded(public, [1] * packs, residues, *self._masks())

    def answer(self, noise: IntArray) -> None:
        """(b) Receive the selection; send (1 - e) times the noise, packed and blinded; leave.

        Raises `ProtocolFault`, and sends nothing, for a second time in a round, a selection that
        is no unit, and noise that is not int64 (values,) within `largest`; no error shows a value.
        """
        if self._answered == self._round:
            raise ProtocolFault(
                f"{self._post.name} has answered the selection of round {self._round} already.",
                "Under the same masks a second answer would show its noise.",
                "Find out who asked for it, and begin a new session.",
            )
        self._answered, public = self._round, self._member.public
        (selection,) = public.read([self._post.receive(Selection, SERVER).ciphertext])
        factors, self._factors = self._factors, []
        packed = self._terms.packing.pack(self._checked(noise).tolist())
        if len(factors) != len(packed):
            raise InvalidInput(
                f"{self._post.name} has no blinding for this round.",
                "What it sends would show its noise to the owner of the key.",
                "Let it `blind` first.",
            )
        # Enc(x) E^(-x) with randomness 1 for Enc(x): 1 + n x.  The factors hide it.
        removed = powers(public, selection, [-x for x in packed], packed, self._workers)
        hidden = blinded(public, removed, factors)
        self._post.send(SERVER, Removal(tuple(public.write(hidden))))
        self._post.leave()

    def _source(self, packs: int) -> Residues:
        if self._residues is None:
            self._residues = Residues(self._member.public, expected=self._rounds * packs)
        return self._residues

    def _masks(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return masks to multiply by (shared with later nodes) and to divide by (earlier ones)."""
        multiply: list[list[int]] = []
        divide: list[list[int]] = []
        member, packs = self._member, self._terms.packs
        length = keystream_length(member.public, packs)
        for other, key in member.mask_keys.items():
            # Both nodes of a pair derive the same masks; one multiplies, the other divides.
            stream = words(
                key,
                -(-length // 8),
                session=member.session,
                round=self._round,
                label=self._terms.label(*sorted((member.number, other))),
            )
            masks = units(member.public, stream.astype("<u8").tobytes()[:length], packs)
            (multiply if member.number < other else divide).append(masks)
        return multiply, divide

    def _checked(self, noise: IntArray) -> IntArray:
        terms = self._terms
        if not isinstance(noise, np.ndarray) or noise.dtype != np.int64:
            raise self._fault("did not draw its noise as integers of 64 bits.")
        if noise.shape != (terms.values,):
            raise self._fault(f"did not draw noise for {terms.values} values.")
        if noise.max() > terms.largest or noise.min() < -terms.largest:
            raise self._fault("has drawn noise beyond the bound on it.")
        return noise

    def _fault(self, what: str) -> ProtocolFault:
        return ProtocolFault(
            f"{self._post.name} {what}",
            "The slots of a pack have no room for it, and it would spoil the others' noise.",
            "It has sent nothing; begin a new session, with a bound that noise keeps to.",
        )

    def __repr__(self) -> str:
        return f"Node({self._post.name})"
