"""DISCO's noise as published: its width for the largest radius, and the epsilon it is said to give.

    sigma_il = r_il z         z = 2 sqrt(2 ln(1.25 R / delta)) R / epsilon       R rounds

z, the noise multiplier, is public; r_il <= C is not (`radius`).  So a peer draws what is stated,
noise of deviation C z, and then shrinks each tensor by r_il / C: what it sends has less.

Source: epfml/disco, `discojs/src/privacy.ts`, 2024 (`accountant.claims.disco`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from ...accountant import validate
from ...accountant.claims.disco import published_classical_multiplier
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gaussian
from ...accountant.sensitivity.release import root_up

_MOST_NOISE: Final = 1e5
"""Most noise of a peer in units of its clip; the clip then has steps of the grid to stand on."""


def published_multiplier(
    epsilon: float | None, noise_multiplier: float | None, rounds: int, delta: float
) -> float:
    """Return z: as given, or by the published formula for an epsilon of all rounds together.

    Raises `InvalidInput` unless exactly one of them is given, and for over 10^5 clips of noise.
    """
    if (epsilon is None) == (noise_multiplier is None):
        raise InvalidInput(
            "DISCO as published takes an epsilon or a noise multiplier, and not both.",
            "Either follows from the other by its formula, which proves neither.",
            "Give one of them.",
        )
    if epsilon is not None:
        noise = published_classical_multiplier(epsilon, rounds, delta)
        if not noise <= _MOST_NOISE:
            raise InvalidInput(
                f"`epsilon` = {epsilon:g} at `delta` = {delta:g} needs noise of {noise:.3g} clips "
                "by the published formula.",
                f"More than {_MOST_NOISE:g} clips of noise are not drawn on this grid.",
                "Give a larger epsilon, or a larger delta.",
            )
        return noise
    assert noise_multiplier is not None
    return validate.positive(noise_multiplier=noise_multiplier)


def published_claim(noise_multiplier: float, rounds: int, delta: float) -> float:
    """Return the epsilon for which the published formula gives this noise multiplier.

    It is claimed for `rounds` rounds at `delta`, and true of none.

    >>> round(published_claim(21.7, 20, 1e-5), 1)
    10.0
    """
    # z epsilon is a constant, so the formula is its own inverse.
    return published_classical_multiplier(noise_multiplier, rounds, delta)


def published_mechanism(
    noise_multiplier: float, *, clip: float, tensors: int, peers: int
) -> Gaussian:
    """Return the noise of the sum where every radius is the clip, in a share for each peer.

    A peer's L tensors of norm at most C together have norm at most C sqrt(L).  The bound is stated
    as private: what noise is scaled by afterwards follows from the updates.
    """
    clip_square = Fraction(clip) ** 2
    return Gaussian(
        bound=root_up(tensors * clip_square),
        std=root_up(peers * Fraction(noise_multiplier) ** 2 * clip_square),
        shares=peers,
        terms="unit",
        unit="silo",
        source="private",
    )
