"""DISCO: decentralized learning in the browser, with "adaptive local differential privacy".

A client clips the update of every tensor to L2 norm r and adds Gaussian noise of standard deviation

    2 r sqrt(2 ln(1.25 / delta_r)) / epsilon_r,   epsilon_r = epsilon / R,   delta_r = delta / R,

so the budget is split over the R rounds, but not over the L tensors of each.  The radius r is the
mean norm of that tensor's last updates, this round's included, so it depends on private data.  The
unit is all data of one client; under replace-one its update, in a ball of radius r, becomes any
other one in the ball.  The observer is a peer who sees the noisy update.

Source of what is claimed: the program, epfml/disco, `discojs/src/privacy.ts`.

**How much noise** a proof asks for, and in which unit it is counted.  R rounds release L tensors
each, every tensor clipped to radius r.  Replacing one client moves a tensor by at most 2 r, so all
releases together are one Gaussian shift mu, and the least noise is

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

from scipy.special import log_ndtr

from .. import events as ev
from .. import validate
from ..calibrate import calibrate
from ..errors import InvalidInput
from .proofs import gaussian, nothing_holds
from .table import Claim, Noise, RowMaker

DELTA: Final = 1e-5
"""The delta of every row."""

DISCO_SOURCE: Final = "epfml/disco, discojs/src/privacy.ts"

FLOOR: Final = 1e-12
"""The smallest clipping radius that the program uses."""

SUMMED_PEERS: Final = 20
"""Peers that take part, where only the sum of their messages is seen."""


def published_classical_multiplier(epsilon: float, rounds: int, delta: float = DELTA) -> float:
    """Return DISCO's noise multiplier per round, 2 sqrt(2 ln(1.25 / delta_r)) / epsilon_r.

    It is the noise's standard deviation over the radius r.  The classical formula is proven for
    epsilon_r below 1 and for one release; DISCO uses it for any epsilon_r, and for each tensor.
    Source: `privacy.ts`; the formula is Dwork and Roth 2014, Theorem A.1.

    >>> round(published_classical_multiplier(10.0, 20), 1)
    21.7
    """
    return 2.0 * math.sqrt(2.0 * math.log(1.25 * rounds / delta)) / (epsilon / rounds)


_row: Final = RowMaker(
    "disco",
    DISCO_SOURCE,
    {"unit": "user", "neighbours": "replace-one", "observer": "peer", "delta": DELTA},
)


def _public_radii(epsilon: float, rounds: int, tensors: int) -> Claim:
    """Return the row for radii that are public constants: R L Gaussian releases, composed.

    A client can move every tensor by 2 r in every round, so the bounds are tight for this setting.
    `multiplier` is relative to r, and replace-one counts the factor 2.
    """
    multiplier = published_classical_multiplier(epsilon, rounds)
    bounds = gaussian(multiplier, rounds * tensors, DELTA, "replace-one")
    if tensors > 1:
        why = "Each round releases every tensor, and only rounds share the budget."
        if bounds[0] < epsilon:
            why = "Adding up epsilons of rounds wastes more than forgetting the tensors gains."
    else:
        why = "The classical formula is proven for epsilon below 1 and fails here."
    scope = f"{rounds} round{'s' * (rounds > 1)}, {tensors} tensor{'s' * (tensors > 1)}"
    setting = f"{scope}, public radii" if epsilon == 10.0 else f"{scope}, epsilon {epsilon:g}"
    return _row(setting, epsilon, *bounds, why, printed=f"{epsilon:g}")


def _public_radii_in_a_sum(rounds: int, tensors: int) -> Claim:
    """Return the row for a peer who sees only sums of all peers' messages, and its own noise.

    The noise of the other peers adds up to the square root of their number, and replacing one of
    them moves the sum by 2 r: the bounds are tight.  DISCO hides nothing of its messages this way.
    """
    epsilon = 10.0
    others = math.sqrt(SUMMED_PEERS - 1)
    multiplier = published_classical_multiplier(epsilon, rounds) * others
    bounds = gaussian(multiplier, rounds * tensors, DELTA, "replace-one")
    why = (
        "Each peer adds as much noise as if its message were read alone, and a sum that hides the "
        f"others has {SUMMED_PEERS - 1} times its variance."
    )
    setting = (
        f"{rounds} rounds, {tensors} tensors, public radii, if only sums of {SUMMED_PEERS} are seen"
    )
    return _row(setting, epsilon, *bounds, why, printed="10")


def _lower_as_coded(senders: int) -> float:
    """Return an epsilon that the sum of `senders` messages with radii as coded loses, at least.

    Let z be the noise multiplier.  A tensor of one client moved by 1 or not at all, and those of
    all others did not.  Without movement every radius is its floor 1e-12, and the noise of the sum
    has standard deviation 1e-12 z sqrt(senders); with it, at least z.  Let E be the event that a
    coordinate of the sum exceeds t = 1e-6 z in size.  Then P(E) >= 1 - 2e-6 / sqrt(2 pi) with
    movement, Q(E) = 2 Phi(-1e-6 / (1e-12 sqrt(senders))) without, and epsilon >=
    log((P(E) - delta) / Q(E)), whatever z is.  The result is rounded down.
    """
    share = 1e-6
    small_noise = 2.0 * share / math.sqrt(2.0 * math.pi)
    log_never = math.log(2.0) + float(log_ndtr(-share / FLOOR / math.sqrt(senders)))
    # log((P - delta) / Q) with P >= 1 - small_noise; the factor rounds it down.
    return (math.log1p(-small_noise - DELTA) - log_never) * (1.0 - 1e-9)


def _private_radius() -> Claim:
    """Return the row for radii as coded: a tensor that did not move against one that moved by 1."""
    why = (
        "The radius, and with it the noise, is computed from the client's own update: the size of "
        "the noise tells a tensor that moved from one that did not."
    )
    setting = "as coded: radii follow the updates"
    return _row(setting, 10.0, nothing_holds(why, DELTA), _lower_as_coded(1), why, printed="10")


def _private_radii_in_a_sum() -> Claim:
    """Return the row for radii as coded, for whoever sees each sum of all messages alone."""
    why = (
        "Where the others' tensors did not move they add no noise to speak of, so the size of the "
        "sum's noise tells whether one client's tensor moved."
    )
    setting = f"as coded, the sum of {SUMMED_PEERS} alone: radii follow the updates"
    lower = _lower_as_coded(SUMMED_PEERS)
    return _row(
        setting, 10.0, nothing_holds(why, DELTA), lower, why, observer="model", printed="10"
    )


ROWS: Final = (
    *(
        partial(_public_radii, 10.0, rounds, tensors)
        for rounds, tensors in ((1, 1), (1, 6), (5, 6), (20, 6), (20, 50), (20, 150))
    ),
    partial(_public_radii, 16.0, 1, 1),
    partial(_public_radii, 20.0, 1, 1),
    partial(_public_radii_in_a_sum, 20, 6),
    _private_radius,
    _private_radii_in_a_sum,
)
"""One function per row, in the order of the table."""


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
