"""Protocol 1 of Uldp-FL as it was published: slow, for study, and with **no guarantee**.

Written from the paper's formulas.  U users, S silos, n_su records of user u in silo s, N_u their
sum, P the step of the fixed point, n the Paillier modulus, C = lcm(1..N_max).

Setup      (a) server sends n, silos send a public key each; (b) the server relays them: SK_ij;
           (c) silo 0 sends a seed R to each silo, over the server, as R xor SK_0s;
           (d) r_u = PRG(R), B_su = r_u n_su mod n; (e) silos send B_su + pairwise masks mod n, the
           server's sum is B_u = r_u N_u; (f) the server inverts it.
Round      (a) server sends Enc(1 / B_u), or Enc(0) for users left out;
           (b) silo s computes prod_u Enc(1 / B_u)^(e(d_suj) n_su r_u C) (1 + n)^(C e(z_sj)), where
           e(x) = round(x / P) mod n; (c) adds pairwise masks to the *plaintext*, and sends; the
           server multiplies, decrypts V_j = sum_s C (sum_u (n_su / N_u) e(d_suj) + e(z_sj)), and
           decodes V_j P / C.

What is wrong with it, and shown by `privplan.audit.attack_methods`:

- The noise is a multiple of C, so V mod C holds none: it is a function of raw updates and counts.
- Nobody multiplies in fresh randomness.  The server owns the key and finds, in every silo's
  ciphertext, prod_u rho_u^(n e_u): 1 where no user moved a parameter, before any noise.
- Seeds have 32 bits, and come from a generator that is not made for secrets.  R is hidden by a key
  of 256 bits, so the server reads all of the key but 32 bits, tries those, and has the counts.
- A user without any record has B_u = 0: no inverse, and everybody sees it.  Refused here.
- The update, e(x) rounded to the nearest, may be longer than its clip.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from ....accountant import validate
from ....accountant.arrays import FloatArray
from ....accountant.errors import InvalidInput
from ...crypto.keys import fresh
from ...parties.network import SERVER, Message, Network, Post, silo_name
from .published_messages import HiddenSeed, Histogram, Updates, limits, wide
from .published_parties import (
    SEED_BITS,
    SETUP_ROUND,
    Public,
    Server,
    Silo,
    blinding_factors,
    hide_seed,
    pair_masks,
)

NO_GUARANTEE: Final = "no-guarantee"


@dataclass(frozen=True)
class PublishedRound:
    """The decoded sum of a round, `values` (D,), and why nothing is guaranteed for it."""

    values: FloatArray
    guarantee: str = NO_GUARANTEE
    why: str = (
        "The protocol as published: its noise leaves V mod C_LCM free, its ciphertexts show their "
        "randomness to the server, and its seeds have 32 bits."
    )


class PublishedWeighting:
    """The server and the silos of the published protocol; the setup runs when it is made.

    `counts` is (users, silos), with 1 <= N_u <= `count_limit`; `step` is P; `seed_bits` may be
    smaller than the published 32, so that a search is quick.  `views` holds what each party has
    received, `primes` is the server's private key.  No guarantee follows from a run.

    Raises `InvalidInput` for counts out of range, and where numbers may not fit the key;
    `MissingExtra` without phe or cryptography.
    """

    guarantee: ClassVar[str] = NO_GUARANTEE
    update_kind: ClassVar[str] = Updates.kind

    def __init__(
        self,
        counts: ArrayLike,
        *,
        count_limit: int = 20,
        step: float = 2.0**-20,
        key_bits: int = 512,
        seed_bits: int = SEED_BITS,
    ) -> None:
        table = np.asarray(counts)
        if table.ndim != 2 or table.shape[1] < 2 or table.dtype.kind not in "iu":
            raise InvalidInput("`counts` must be integers, (users, silos), with 2 silos or more.")
        totals = table.sum(axis=1)
        if (table < 0).any() or (totals < 1).any() or (totals > count_limit).any():
            raise InvalidInput(
                f"A user must have 0 records or more in each silo, and 1 to {count_limit} in all "
                "silos together.",
                "As published, the protocol has no weights for others, and would sum up something "
                "else.",
                "Count the records again, or give a larger `count_limit`; nothing was sent.",
            )
        if not 1 <= validate.count(seed_bits=seed_bits) <= SEED_BITS:
            raise InvalidInput(f"`seed_bits` must be at most {SEED_BITS}; it is {seed_bits}.")
        self.users, self.silos = table.shape
        self.multiple = math.lcm(*range(1, validate.count(count_limit=count_limit) + 1))
        self.step = validate.positive(step=step)
        names = [silo_name(number) for number in range(self.silos)]
        self.network = Network([SERVER, *names], keep=True)
        self._session = bytes(fresh(16))
        public = Public(self.multiple, self.step, self.silos, seed_bits)
        self._server = Server(self.network.post(SERVER), names, key_bits, self.users)
        self._silos = [
            Silo(number, self.network.post(name), table[:, number].tolist(), public)
            for number, name in enumerate(names)
        ]
        self._setup()

    @property
    def views(self) -> Mapping[str, tuple[Message, ...]]:
        """What each party has received so far, by its name."""
        return {name: self.network.view(name) for name in self.network.names}

    @property
    def modulus(self) -> int:
        """The Paillier modulus n, public."""
        return self._server.modulus

    @property
    def ciphertext_bytes(self) -> int:
        """How long a ciphertext of an update is: a number below n^2."""
        return len(wide(0, self.modulus**2))

    @property
    def primes(self) -> tuple[int, int]:
        """The server's private key."""
        return self._server.primes

    def round(
        self,
        number: int,
        deltas: ArrayLike,
        noise: ArrayLike,
        joining: Sequence[bool] | None = None,
    ) -> PublishedRound:
        """Return the weighted sum of `deltas` (silos, users, D) plus `noise` (silos, D).

        `number` is 1 or above; `joining` leaves users out.  Raises `InvalidInput` for other
        shapes, and for values so large that the sum may not fit the key.
        """
        updates, noises = np.asarray(deltas, float), np.asarray(noise, float)
        fits = updates.ndim == 3 and updates.shape[:2] == (self.silos, self.users)
        if not fits or noises.shape != (self.silos, updates.shape[2]):
            raise InvalidInput("`deltas` must be (silos, users, D), and `noise` (silos, D).")
        largest = (np.abs(updates).sum(axis=(0, 1)) + np.abs(noises).sum(axis=0)).max(initial=0.0)
        # A sum that wraps around the modulus would decode to something else.
        if math.ceil(float(largest) / self.step) * self.multiple >= self.modulus // 4:
            raise InvalidInput("The sum may not fit the key: take a larger step, or a longer key.")
        joins = [True] * self.users if joining is None else list(joining)
        self._enter(number, updates.shape[2])
        self._server.invite(joins)
        for silo, silo_updates, silo_noise in zip(self._silos, updates, noises, strict=True):
            silo.answer(number, silo_updates, silo_noise)
        signed = self._server.total()
        self._leave()
        return PublishedRound(np.array([v * self.step / self.multiple for v in signed]))

    @staticmethod
    def setup_seen(
        view: Sequence[Message], modulus: int, seed_bits: int = SEED_BITS
    ) -> SetupSeenByServer:
        """Return what the server can make of its view of a setup."""
        return SetupSeenByServer(view, modulus, seed_bits)

    def _setup(self) -> None:
        self._enter(SETUP_ROUND)
        self._server.announce()
        for silo in self._silos:
            silo.introduce()
        self._server.relay_points()
        for silo in self._silos:
            silo.agree()
        self._silos[0].share_seed()
        self._server.relay_seeds()
        for silo in self._silos:
            silo.send_histogram()
        self._server.invert()
        self._leave()

    def _enter(self, number: int, dimensions: int = 0) -> None:
        most = limits(self.users, self.silos, self._server.key_bits, dimensions)
        for post in self._posts():
            post.enter(self._session, number, most)

    def _leave(self) -> None:
        for post in self._posts():
            post.leave()

    def _posts(self) -> list[Post]:
        return [self._server.post, *(silo.post for silo in self._silos)]


class SetupSeenByServer:
    """What the server of the published protocol makes of its setup, once it guesses the seed R.

    `view` holds what it received, `modulus` is n.  It has R xor SK_0s of every silo s, so that a
    guess of R (`seed_bits` bits) gives every SK_0s, all masks of silo 0, and the factors r_u.
    """

    def __init__(self, view: Sequence[Message], modulus: int, seed_bits: int = SEED_BITS) -> None:
        self._modulus, self._seed_bits = modulus, seed_bits
        sent = {message.kind: message.body for message in view if message.sender == silo_name(0)}
        self._hidden = HiddenSeed.unpack(sent[HiddenSeed.kind]).hidden
        blinded = Histogram.unpack(sent[Histogram.kind]).blinded
        self._blinded = [int.from_bytes(value, "big") for value in blinded]
        self.users = len(self._blinded)

    def counts(self, seed: int, count_limit: int, users: int) -> list[int] | None:
        """Return the counts of silo 0 of the first users under a guess; None for a wrong guess.

        A guess is right if what the masks leave is r_u times a count of 0 to `count_limit`.
        """
        found = []
        factors = blinding_factors(seed, users, self._modulus)
        for factor, value in zip(factors, self._unmasked(seed, users), strict=True):
            numbers = range(count_limit + 1)
            count = next((n for n in numbers if factor * n % self._modulus == value), None)
            if count is None:
                return None
            found.append(count)
        return found

    def _unmasked(self, seed: int, users: int) -> list[int]:
        total = self._blinded[:users]
        for hidden in self._hidden:
            key = hide_seed(seed, hidden)  # xor with R again: the key of the pair, for the right R
            masks = pair_masks(key, SETUP_ROUND, users, self._modulus, self._seed_bits)
            total = [
                (value - mask) % self._modulus for value, mask in zip(total, masks, strict=True)
            ]
        return total
