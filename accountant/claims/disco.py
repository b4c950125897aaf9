"""DISCO: decentralized learning in the browser, with "adaptive local differential privacy".

A client clips the update of every tensor to L2 norm r and adds Gaussian noise of standard deviation

    2 r sqrt(2 ln(1.25 / delta_r)) / epsilon_r,   epsilon_r = epsilon / R,   delta_r = delta / R,

so the budget is split over the R rounds, but not over the L tensors of each.  The radius r is the
mean norm of that tensor's last updates, this round's included, so it depends on private data.  The
unit is all data of one client; under replace-one its update, in a ball of radius r, becomes any
other one in the ball.  The observer is a peer who sees the noisy update.

Source of what is claimed: the program, epfml/disco, `discojs/src/privacy.ts`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from scipy.special import log_ndtr

from .proofs import gaussian, nothing_holds
from .table import Claim

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


def _row(
    setting: str,
    claimed: float,
    proven: float,
    lower: float,
    why: str,
    observer: str = "peer",
    **fields: Any,
) -> Claim:
    return Claim(
        system="disco",
        setting=setting,
        unit="user",
        neighbours="replace-one",
        observer=observer,
        claimed=claimed,
        delta=DELTA,
        proven=proven,
        lower=lower,
        why=why,
        source=DISCO_SOURCE,
        **fields,
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
    return _row(setting, 10.0, nothing_holds(why, DELTA), lower, why, "model", printed="10")


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
