"""How much noise DISCO adds, how much a proof asks for, and in which unit each is counted.

R rounds release L tensors each, every tensor clipped to radius r.  Replacing one client moves a
tensor by at most 2 r, so all releases together are one Gaussian shift mu, and the least noise is

    each tensor clipped to r:                     sigma = 2 sqrt(L R) / mu(epsilon, delta)    in r
    the update clipped as one to C = sqrt(L) r:   sigma = 2 sqrt(R) / mu                      in C

The two are the same noise.  Where only sums of m peers' messages are seen, all peers but the
observer and its c colluders hide a message, and each may add sigma / sqrt(m - 1 - c): the
variances add up to sigma^2.

Source: Dong, Roth and Su 2022, Corollaries 2.13 and 3.3, arXiv 1905.02383v3.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, Final

from .. import events as ev
from .. import validate
from ..calibrate import calibrate
from ..errors import InvalidInput
from .disco import DELTA, SUMMED_PEERS, published_classical_multiplier
from .proofs import gaussian, nothing_holds
from .table import Noise

NOISE_EPSILON: Final = 10.0
"""The epsilon that every deviation here is for, or is said to be for."""

TENSOR_RADIUS: Final = "r, the radius of a tensor"
FLAT_CLIP: Final = "C, the flat clip of the whole update"

_DIVISION_NUDGE_RELATIVE: Final = 1e-12
"""More than the rounding error of a root and a division: a deviation that follows is not less."""


@cache
def least_noise(rounds: int, tensors: int, epsilon: float, delta: float = DELTA) -> float:
    """Return the least noise in r that proves `epsilon` at `delta`, to a relative 1e-4 above.

    One client is replaced, whose `tensors` tensors each have a public radius r, in each of
    `rounds` rounds.  With `tensors` 1 it is the noise in C of one flat clip.  Raises
    `InvalidInput` for numbers out of range.

    >>> f"{least_noise(20, 6, 10.0):.3g} r", f"{least_noise(20, 1, 10.0):.3g} C"
    ('11 r', '4.47 C')
    """
    releases = validate.count(rounds=rounds) * validate.count(tensors=tensors)

    def event(multiplier: float) -> ev.Event:
        return ev.Repeat(releases, ev.Gaussian(multiplier))

    return calibrate(event, epsilon=epsilon, delta=delta, neighbours="replace-one").value


def part_of_peer(noise: float, peers: int, colluders: int = 0) -> float:
    """Return what each of `peers` adds, so that who sees sums only misses `noise`, rounded up.

    noise / sqrt(peers - 1 - colluders): the observer is a peer, and takes off its noise and that
    of `colluders` others.  Raises `InvalidInput` where nobody is left who hides a message.

    >>> round(part_of_peer(10.952, 20), 2)
    2.51
    """
    validate.positive(noise=noise)
    others = validate.count(peers=peers) - 1 - validate.count_from(0, colluders=colluders)
    if others < 1:
        raise InvalidInput(
            f"`colluders` must be at most {max(peers - 2, 0)} of {peers} peers; it is {colluders}.",
            "Otherwise the observer knows all noise in the sum but that of the message itself.",
            "Have more peers, or let each add the whole noise.",
        )
    return noise / math.sqrt(others) * (1.0 + _DIVISION_NUDGE_RELATIVE)


def _noise(way: str, rounds: int, tensors: int, deviation: float, **fields: Any) -> Noise:
    given = {"length": TENSOR_RADIUS, "observer": "peer", "published": False, **fields}
    return Noise(
        system="disco",
        setting=f"{rounds} rounds, {tensors} tensors, epsilon {NOISE_EPSILON:g}",
        way=way,
        deviation=deviation,
        unit="user",
        neighbours="replace-one",
        delta=DELTA,
        **given,
    )


def _proven(multiplier: float, releases: int) -> float:
    return gaussian(multiplier, releases, DELTA, "replace-one")[0]


def _as_coded(rounds: int, tensors: int) -> Noise:
    reason = "The radius is computed from the update that it is to hide."
    return _noise(
        "as published, radii as coded",
        rounds,
        tensors,
        published_classical_multiplier(NOISE_EPSILON, rounds),
        proven=nothing_holds(reason, DELTA),
        published=True,
    )


def _as_published(rounds: int, tensors: int) -> Noise:
    deviation = published_classical_multiplier(NOISE_EPSILON, rounds)
    return _noise(
        "as published, were radii public",
        rounds,
        tensors,
        deviation,
        proven=_proven(deviation, rounds * tensors),
        published=True,
    )


def _published_sum(rounds: int, tensors: int) -> Noise:
    """Return what the published noise of all others proves to a peer who sees sums only."""
    deviation = published_classical_multiplier(NOISE_EPSILON, rounds)
    seen = deviation * math.sqrt(SUMMED_PEERS - 1) * (1.0 - _DIVISION_NUDGE_RELATIVE)
    return _noise(
        f"as published, were radii public and only sums of {SUMMED_PEERS} peers seen",
        rounds,
        tensors,
        deviation,
        proven=_proven(seen, rounds * tensors),
        published=True,
    )


def _least(rounds: int, tensors: int) -> Noise:
    deviation = least_noise(rounds, tensors, NOISE_EPSILON)
    proven = _proven(deviation, rounds * tensors)
    return _noise("least, a public radius a tensor", rounds, tensors, deviation, proven=proven)


def _flat(rounds: int, tensors: int) -> Noise:
    in_clips = least_noise(rounds, 1, NOISE_EPSILON)
    in_radii = in_clips * math.sqrt(tensors) * (1.0 + _DIVISION_NUDGE_RELATIVE)
    way = f"least, one flat clip C = sqrt({tensors}) r"
    return _noise(way, rounds, tensors, in_radii, proven=_proven(in_clips, rounds))


def _flat_in_clips(rounds: int, tensors: int) -> Noise:
    in_clips = least_noise(rounds, 1, NOISE_EPSILON)
    proven = _proven(in_clips, rounds)
    return _noise(
        "the same noise, in C", rounds, tensors, in_clips, length=FLAT_CLIP, proven=proven
    )


def _part(rounds: int, tensors: int, colluders: int) -> Noise:
    deviation = part_of_peer(least_noise(rounds, tensors, NOISE_EPSILON), SUMMED_PEERS, colluders)
    # The observer misses the noise of all peers but itself and its colluders.
    others = math.sqrt(SUMMED_PEERS - 1 - colluders) * (1.0 - _DIVISION_NUDGE_RELATIVE / 2.0)
    collusion = f"{colluders} collude" if colluders else "none colludes"
    return _noise(
        f"least of each of {SUMMED_PEERS} peers whose sums alone are seen; {collusion}",
        rounds,
        tensors,
        deviation,
        proven=_proven(deviation * others, rounds * tensors),
    )


NOISE: Final = (
    *(partial(row, 20, 6) for row in (_as_coded, _as_published, _published_sum)),
    *(partial(row, 20, 6) for row in (_least, _flat, _flat_in_clips)),
    *(partial(_part, 20, 6, colluders) for colluders in (0, 2)),
    *(partial(row, *size) for size in ((20, 50), (100, 6)) for row in (_as_published, _least)),
)
"""One function per line, in the order in which they are shown."""
