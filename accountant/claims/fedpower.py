"""FedPower: private power iteration over clients, in its three versions.

The texts' own constants are not all given, so the setting is one in which the claim reads epsilon
1 a round: rank 10, entries of Z clipped to 0.2, elements of M at most 20, and noise such that
Theorem 2, with Theorem 1's sensitivity, says (1, 1e-5).  MovieLens-100k over 100 nodes gives the
bounds on data: 9 rows a node, ratings up to 5, row norms up to sqrt(8467).

Source of what is claimed: Liu, Pejo and Tang 2023, *Privacy-Preserving Federated Singular Value
Decomposition*, Applied Sciences, Theorems 1 and 2 and Algorithms 1 to 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from ..account import account
from ..sensitivity import fedpower
from ..sensitivity.fedpower import PowerStep
from ..sensitivity.fedpower_views import release, revealed_probability
from ..sensitivity.release import Sensitivity, moved_by
from .proofs import gaussian, upper_epsilon
from .table import Claim, RowMaker

DELTA: Final = 1e-5
ROUNDS: Final = 92
CLIENTS: Final = 100
RANK: Final = 10
ENTRY_CLIP: Final = 0.2
LARGEST_ELEMENT: Final = 20.0
LARGEST_RATING: Final = 5.0
ROW_NORM: Final = math.sqrt(8467.0)
ROWS_OF_NODE: Final = 9
STEP: Final = PowerStep(ROW_NORM, RANK, float(ROWS_OF_NODE), ENTRY_CLIP, spectral=1.0)
FEDPOWER_PAPER: Final = "Liu, Pejo and Tang 2023"

PUBLISHED_SENSITIVITY: Final = fedpower.element_as_published(RANK, LARGEST_ELEMENT, ENTRY_CLIP)


def published_epsilon(noise: float, sensitivity: float, delta: float = DELTA) -> float:
    """Return Theorem 2's epsilon of one round: sensitivity sqrt(2 ln(1.25/delta)) / noise.

    The classical formula read backwards; it is proven for results below 1.
    Source: Liu, Pejo and Tang 2023, Theorem 2.
    """
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / noise


def published_noise(epsilon_of_round: float, delta: float = DELTA) -> float:
    """Return the noise at which Theorems 1 and 2 claim `epsilon_of_round`."""
    return published_epsilon(1.0, PUBLISHED_SENSITIVITY, delta) / epsilon_of_round


def published_total(epsilon_of_round: float, rounds: int) -> tuple[float, float]:
    """Return the epsilon and delta of `rounds` rounds by Theorem 2: T epsilon and T delta."""
    return rounds * epsilon_of_round, rounds * DELTA


def rating_shift() -> float:
    """Return how far one rating, 0 to 5, moves Y on one pair of data sets that meets every bound.

    The user rates 337 items 5 and one more 0 or 5: a row of norm at most sqrt(8450).  The first
    column of Z (orthonormal) is proportional to the ratings but for 0.2 on that item.
    """
    row = np.full(338, LARGEST_RATING)
    row[-1] = 0.0
    z = np.full((338, 1), math.sqrt((1.0 - ENTRY_CLIP**2) / 337.0))
    z[-1] = ENTRY_CLIP
    return fedpower.entry_shift(row, 337, LARGEST_RATING, z, divisor=float(ROWS_OF_NODE))


# --- the rows -----------------------------------------------------------------------------------


_row: Final = RowMaker("fedpower", FEDPOWER_PAPER, {"observer": "server", "delta": DELTA})


def _element(rounds: int, delta: float) -> Claim:
    """The published notion; a diagonal element, which one row can move alone, attains it.

    Theorem 2 adds up the epsilons and deltas of the rounds; `delta` is the total.
    """
    noise = published_noise(1.0)
    claimed = rounds * published_epsilon(noise, PUBLISHED_SENSITIVITY, delta / rounds)
    bounds = gaussian(noise / PUBLISHED_SENSITIVITY, rounds, delta)
    why = "No data changes one element off the diagonal alone, so this protects no record."
    if rounds > 1:
        why = "Adding up epsilons is far from tight, and the notion protects no record."
    scope = f"{rounds} round{'s' * (rounds > 1)}"
    return _row(
        f"an element, {scope}, delta {delta:g}",
        claimed,
        *bounds,
        why,
        "Theorems 1 and 2",
        unit="element",
        neighbours="replace-one",
        delta=delta,
    )


def _notion(
    setting: str,
    unit: str,
    neighbours: str,
    sensitivity: Callable[[], Sensitivity],
    why: str,
    *,
    attained: float | None = None,
    rounds: int = 1,
) -> Claim:
    """The same noise under another notion of neighbours; `attained` where the bound is not."""
    claimed, delta = published_total(1.0, rounds)
    # Down by more than the rounding of the published noise: what is proven errs upward.
    noise = published_noise(1.0) * (1.0 - 1e-14)
    bound = sensitivity()
    proven = upper_epsilon(moved_by(noise**2, bound, rounds), delta, bound.neighbours)
    shift = bound.l2 if attained is None else attained
    lower = gaussian(published_noise(1.0) / shift, rounds, delta)[1]
    source = "Theorems 1 and 2"
    return _row(
        setting, claimed, proven, lower, why, source, unit=unit, neighbours=neighbours, delta=delta
    )


def _pair() -> Claim:
    why = "M is symmetric: with an element its mirror image moves, a factor sqrt(2) on Theorem 1."
    return _notion(
        "a pair of elements of M",
        "pair of elements",
        "replace-one",
        lambda: fedpower.pair_sensitivity(STEP, LARGEST_ELEMENT),
        why,
    )


def _rating() -> Claim:
    why = "One rating moves a whole row and column of M; the lower end is one user's first rating."
    return _notion(
        "one rating of one user",
        "entry",
        "replace-one",
        lambda: fedpower.entry_sensitivity(STEP, LARGEST_RATING),
        why,
        attained=rating_shift(),
    )


def _user(relation: str, rounds: int = 1) -> Claim:
    done = {"add-remove": "removed", "replace-one": "replaced"}[relation]
    why = "A user is a row, and a row in the span of Z moves Y by its squared norm over 9."
    if rounds > 1:
        why = "The same in every round, if each Z has the row in its span: Z is public, and any."
    if relation == "replace-one":
        why = "Two orthogonal rows in the span of Z are sqrt(2) times as far apart."
    return _notion(
        f"one user {done}, {rounds} round{'s' * (rounds > 1)}",
        "record",
        relation,
        lambda: fedpower.row_sensitivity(STEP, relation),
        why,
        rounds=rounds,
    )


def _client() -> Claim:
    why = "A node whose rows are all equal moves Y by the squared norm of one of them."
    return _notion(
        "one node set to zero",
        "silo",
        "add-remove",
        lambda: fedpower.client_sensitivity(STEP),
        why,
    )


def _one_client_knows(rounds: int) -> Claim:
    """Algorithm 2: whose noise stays sees the exact sum, whatever sigma is."""
    claimed_epsilon, delta = published_total(1.0, rounds)
    sensitivity = Sensitivity(PUBLISHED_SENSITIVITY, "replace-one", unit="element")
    view = release(
        "utility",
        sensitivity,
        noise=published_noise(1.0),
        rounds=rounds,
        clients=CLIENTS,
        observer="client",
    )
    bounds = account(view.event, epsilon=claimed_epsilon, neighbours=view.neighbours).delta
    lower = revealed_probability(CLIENTS, rounds) * (1.0 - 1e-12)
    why = (
        f"With probability 1/n a round (n = {CLIENTS}) the noise that stays is the client's own, "
        "so it sees the exact sum, whatever the noise."
    )
    return _row(
        f"Algorithm 2: delta, {rounds} round{'s' * (rounds > 1)}",
        delta,
        max(bounds.upper, lower),
        lower,
        why,
        "Algorithm 2",
        unit="element",
        neighbours="replace-one",
        observer="client",
        delta=delta,
        quantity=f"delta at epsilon {claimed_epsilon:g}",
    )


def _third(local_steps: int) -> Claim:
    """Algorithm 3: every client adds sigma / sqrt(n), and the noise counts in the sum only."""
    claimed, delta = published_total(1.0, ROUNDS)
    sensitivity = Sensitivity(PUBLISHED_SENSITIVITY, "replace-one", unit="element")
    noise = published_noise(1.0)
    view = release(
        "private", sensitivity, noise=noise, rounds=ROUNDS, clients=CLIENTS, local_steps=local_steps
    )
    proven = upper_epsilon(view.event, delta, view.neighbours)
    # With one step a round this is `_element`.  With more, Z is not public at a sum, nor fixed by
    # the data, so no pair of data sets is known that every sum tells apart by Delta.
    lower = None
    if local_steps == 1:
        lower = gaussian(noise / PUBLISHED_SENSITIVITY, ROUNDS, delta)[1]
    why = {
        1: "With one step a round the sum has all the noise, and the exact curve adds up better.",
        4: (
            "Steps between sums carry sigma / sqrt(n) only; what is proven counts them as "
            "published, and no attack is known that gets there."
        ),
    }[local_steps]
    return _row(
        f"Algorithm 3, p = {local_steps}, {ROUNDS} rounds",
        claimed,
        proven,
        lower,
        why,
        "Algorithm 3",
        unit="element",
        neighbours="replace-one",
        delta=delta,
    )


ROWS: Final = (
    partial(_element, 1, DELTA),
    partial(_element, 23, 23 * DELTA),
    partial(_element, ROUNDS, ROUNDS * DELTA),
    partial(_element, ROUNDS, DELTA),
    _pair,
    _rating,
    partial(_user, "add-remove"),
    partial(_user, "replace-one"),
    partial(_user, "add-remove", ROUNDS),
    _client,
    partial(_one_client_knows, 1),
    partial(_one_client_knows, ROUNDS),
    partial(_third, 1),
    partial(_third, 4),
)
"""One function per row, in the order of the table."""
