"""The noise of DISCO's peers: one share for each, and what it proves to whom.

    peer i    x_i = clip_C(D_i) + N(0, s^2)          s = noise_multiplier C / sqrt(m)
    sum       of m peers, noise of deviation noise_multiplier C

m is the smallest group that a round may have, and the relation replace-one: whoever is replaced
moves its term by up to 2 C.  In units of C, noise is then

    local     s                     of a message, whoever sees it
    shared    s sqrt(m - 1 - c)     of the sum, before a peer that takes off what it and c others
                                    sent, which additive shares show it and nothing else

so for mu = mu(epsilon, delta) and R rounds a peer adds s = 2 C sqrt(R) / mu where its message hides
it by itself, and s / sqrt(m - 1 - c) where the sum does.  Larger groups have the same shares.

Source: derived in privplan; Dong, Roth and Su 2022, arXiv 1905.02383v3, Corollary 2.1 (mu).

How those who are held out vote on DISCO's last model: by the unit of the run, in one sum more.

    peer i    x_i = its vote, or those of its records + N(0, s^2)       s = held_out_noise / sqrt(m)

A vote is clipped to 1 as an update is clipped to C, so noise, observers and the relation are those
of a round with C = 1: shared noise hides a vote in the sum, local noise by itself.  Where
the unit is a silo, its one vote is the share of right answers to its records that are held out; it
is trained on the others, and pays for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from ...accountant import events as ev
from ...accountant.mechanisms import Gaussian
from ...accountant.sensitivity.release import root_down, root_up
from ..frame.held_out_votes import VOTE_BOUND, votes_of_records, votes_of_silos
from ..observers.names import COORDINATOR, MODEL, PEER
from .settings import LOCAL, SHARED, NoiseRule

if TYPE_CHECKING:
    from ..frame.held_out_release import HeldOutRelease

Unit = Literal["silo", "record"]
Source = Literal["public", "released", "private", "models"]


@dataclass(frozen=True)
class NoiseTerms:
    """What the noise of a round depends on, all public.

    - `rule`: `shared` or `local`.
    - `smallest`: m; `colluders`: c, how many peers may tell another all they know.
    - `aggregation`: by what messages are summed; `unit`: what is clipped together.
    """

    rule: NoiseRule
    smallest: int
    colluders: int
    aggregation: str
    unit: Unit

    @property
    def hiding(self) -> int:
        """In how many peers' noise a peer's term is hidden, from another peer."""
        return self.smallest - 1 - self.colluders if self.rule == SHARED else 1


def mechanism_of(
    terms: NoiseTerms, noise_multiplier: float, *, bound: float, members: int, source: Source
) -> Gaussian:
    """Return the noise of one sum of `members` peers, whose terms are clipped to `bound`.

    Every member adds a share of deviation noise_multiplier x bound / sqrt(m), rounded up.
    """
    share_square = (Fraction(noise_multiplier) * Fraction(bound)) ** 2 / terms.smallest
    return Gaussian(
        bound=bound,
        std=root_up(share_square * members),
        shares=members,
        terms="unit",
        unit=terms.unit,
        source=source,
    )


def views_of(terms: NoiseTerms, noise_multiplier: float) -> dict[str, ev.Event]:
    """Return one noisy sum as the model, a peer and the coordinator see it, by their names.

    Under `local` noise a message is what is accounted before a peer, whatever it is sent by: the
    number then holds even where all other peers tell what they know.  The coordinator sees that
    too in the clear; else no more than the sum.
    """
    square = Fraction(noise_multiplier) ** 2
    of_sum = ev.Gaussian(noise_multiplier)
    of_peer = ev.Gaussian(root_down(square * terms.hiding / terms.smallest))
    of_message = ev.Gaussian(root_down(square / terms.smallest))
    coordinator = of_message if terms.aggregation == "plain" else of_sum
    return {MODEL: of_sum, PEER: of_peer, COORDINATOR: coordinator}


def votes_of_peers(votes: HeldOutRelease, terms: NoiseTerms) -> HeldOutRelease:
    """Return the release of votes of silos, or of records; all peers take part."""
    return votes.of_votes(
        votes_mechanism(terms, votes.noise_multiplier),
        views_of(terms, votes.noise_multiplier),
        votes_of_records(1, None) if terms.unit == "record" else votes_of_silos,
        sees_each=sees_each(terms),
    )


def sees_each(terms: NoiseTerms) -> frozenset[str]:
    """Return who is accounted as who sees each message: peers, under local noise."""
    return frozenset({PEER}) if terms.rule == LOCAL else frozenset()


def votes_mechanism(terms: NoiseTerms, noise_multiplier: float) -> Gaussian:
    """Return the noise of the votes of all peers, of whom every round has as many."""
    return mechanism_of(
        terms, noise_multiplier, bound=VOTE_BOUND, members=terms.smallest, source="public"
    )
