"""Uldp-FL: user-level privacy across silos, by group conversion or by clipping per user.

Unless said otherwise noise 5, delta 1e-5, and a unit is a user with all records in all silos,
present or absent, among users whose number, silos and sampling rate are public.

Source of what is claimed: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL: Federated Learning
with Across-Silo User-Level Differential Privacy*, PVLDB, arXiv 2308.12210, and the authors'
program, branch ULDP-FL-2023.  The published functions below are written from that description.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from .. import events as ev
from ..arrays import FloatArray
from ..engines.rdp.curves import curve
from ..sensitivity import uldp
from .proofs import epsilon, nothing_holds, upper_epsilon
from .table import Claim, RowMaker
from .uldp_leaks import protocol_1_randomness, protocol_1_residue

NOISE: Final = 5.0
DELTA: Final = 1e-5
MAX_RECORDS_PER_USER: Final = 2000
"""Most records of one user that the authors' program provides for."""

ULDP_FL_PAPER: Final = "Kato et al. 2024, arXiv 2308.12210"

PAPER_RENYI_ORDERS: Final = np.array(
    [1.0 + step / 10.0 for step in range(1, 100)] + [*range(12, 64)]
)
"""The orders over which the paper's program minimises, for one record or one user."""


def published_rdp_epsilon(divergences: FloatArray, orders: FloatArray, delta: float) -> float:
    """Return the paper's epsilon: min over orders a of R + log((a-1)/a) - (log d + log a)/(a-1).

    `divergences` R and `orders` a > 1 are aligned.  The formula is sound (Canonne, Kamath and
    Steinke 2020, Proposition 12, arXiv 2004.00010v4) where R is.
    Source: arXiv 2308.12210, Theorems 3 and 5.
    """
    slack = -(math.log(delta) + np.log(orders)) / (orders - 1.0)
    return float(np.min(divergences + slack + np.log((orders - 1.0) / orders)))


def published_user_epsilon(
    rounds: int, *, rate: float = 1.0, noise: float = NOISE, delta: float = DELTA
) -> float:
    """Return what the paper claims for NAIVE, AVG and SGD: T sampled Gaussians, by RDP.

    One formula for all three: for NAIVE it takes the silo's clipped difference to move by C.
    Source: arXiv 2308.12210, Theorems 3 and 5, over the orders of the authors' program.
    """
    divergences = rounds * _record_divergence(rate, noise, PAPER_RENYI_ORDERS)
    return published_rdp_epsilon(divergences, PAPER_RENYI_ORDERS, delta)


def published_group_rdp_with_illegal_orders(
    size: int, *, rate: float, rounds: int, noise: float = NOISE, delta: float = DELTA
) -> tuple[float, float]:
    """Return the paper's epsilon for `size` records, and the order that is left where it is least.

    R(a / k) <= 3^log2(k) R(a), minimised over a = 2k, 2k + 0.1, ..., 2k + 9.9 *and* twenty orders
    from k + 10 to 64k: for k > 10 some of those leave an order a / k below 2, where the rule is
    not stated, and below 1.5, where its proof fails.  Range: `size` a power of two.
    Source: arXiv 2308.12210, Figure 2; the function `get_group_privacy_spent` of its program.

    >>> published_group_rdp_with_illegal_orders(64, rate=0.01, rounds=100_000)[1]
    1.15625
    """
    orders = np.array(
        [2.0 * size + step / 10.0 for step in range(100)]
        + list(np.linspace(size + 10.0, 64.0 * size, 20))
    )
    finals = orders / size
    divergences = 3.0 ** math.log2(size) * rounds * _record_divergence(rate, noise, orders)
    slack = -(math.log(delta) + np.log(finals)) / (finals - 1.0)
    values = divergences + slack + np.log((finals - 1.0) / finals)
    best = int(values.argmin())
    return float(values[best]), float(finals[best])


def _record_divergence(rate: float, noise: float, orders: FloatArray) -> FloatArray:
    """Return the exact Renyi divergence of the sampled Gaussian, which the paper's program uses."""
    event = ev.Gaussian(noise) if rate == 1.0 else ev.Poisson(rate, ev.Gaussian(noise))
    return curve(event, "add-remove").at(orders)


# --- the rows -----------------------------------------------------------------------------------


_row: Final = RowMaker(
    "uldp-fl",
    ULDP_FL_PAPER,
    {"unit": "user", "neighbours": "add-remove", "observer": "model", "delta": DELTA},
)
"""Makes a row about a user, present or absent, before the released models."""


def _of_group(size: int) -> str:
    return "record" if size == 1 else f"group of {size} records"


def _figure_2(size: int, printed: str = "") -> Claim:
    rounds, rate = 100_000, 0.01
    claimed, order = published_group_rdp_with_illegal_orders(size, rate=rate, rounds=rounds)
    event = ev.Group(size, ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(NOISE))))
    why = (
        "Each doubling of the group triples the divergence; the exact pair, a mixture of "
        "Gaussians, loses far less."
    )
    if order < 1.5:
        why = (
            f"Derivation invalid: it leaves the order {order:.3f}, and a factor of 3 per doubling "
            "is proven from 1.5 up; the number still lies above the truth."
        )
    elif size == 1:
        why = "Renyi orders cost a few per cent against the exact privacy loss."
    setting, source = f"Figure 2: GROUP, k = {size}", "Figure 2"
    bounds = epsilon(event, DELTA, "add-remove")
    return _row(setting, claimed, *bounds, why, source, printed=printed, unit=_of_group(size))


def _creditcard(size: int) -> Claim:
    rounds, rate = 350_000, 1.0 / 70.0
    claimed, order = published_group_rdp_with_illegal_orders(size, rate=rate, rounds=rounds)
    event = ev.Group(size, ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(NOISE))))
    why = "The group rule is loose, and even the exact number promises such a user nothing."
    if order < 1.5:
        why = (
            f"Derivation invalid (it leaves the order {order:.3f}); the truth promises nothing too."
        )
    setting, source = f"Creditcard: GROUP, k = {size}", "experiments: rate 1/70, 350,000 steps"
    bounds = epsilon(event, DELTA, "add-remove")
    return _row(setting, claimed, *bounds, why, source, unit=_of_group(size))


def _average(rounds: int) -> Claim:
    bounds = epsilon(ev.Repeat(rounds, ev.Gaussian(NOISE)), DELTA, "add-remove")
    why = "Clipping each user's weighted sum to C is sound; the exact Gaussian curve is tighter."
    claimed = published_user_epsilon(rounds)
    return _row(f"AVG, {rounds} rounds", claimed, *bounds, why, "Theorem 5")


def _average_exchanged() -> Claim:
    bounds = epsilon(ev.Repeat(100, ev.Gaussian(NOISE)), DELTA, "replace-one")
    why = (
        "The definition of neighbours does not exclude that a user's records are exchanged for "
        "others, which moves the sum by 2C."
    )
    setting, source = "AVG, 100 rounds, records exchanged", "Theorem 5 and the definition of ULDP"
    claimed = published_user_epsilon(100)
    return _row(setting, claimed, *bounds, why, source, neighbours="replace-one")


def _naive() -> Claim:
    """Theorem 3.  A silo's clipped difference goes from one point of the C-ball to another.

    A linear loss attains 2C, in every silo and round at once: the others' gradients sum to -M, the
    user's to +2M, so the difference is +C with the user and -C without.
    """
    bounds = epsilon(uldp.naive_release(NOISE, rounds=100, silos=5).event, DELTA, "add-remove")
    why = "Removing a user moves a silo's clipped difference by up to 2C; the theorem counts C."
    return _row(
        "Theorem 3: NAIVE, 100 rounds", published_user_epsilon(100), *bounds, why, "Theorem 3"
    )


def _sampled(rate: float) -> Claim:
    event = ev.Repeat(100, ev.Poisson(rate, ev.Gaussian(NOISE)))
    bounds = epsilon(event, DELTA, "add-remove")
    why = "Sound against whoever does not see the sample; the exact loss is below RDP's."
    claimed = published_user_epsilon(100, rate=rate)
    return _row(f"AVG, 100 rounds, users at rate {rate:g}", claimed, *bounds, why, "sub-sampling")


def _sample_known_to_server() -> Claim:
    bounds = epsilon(ev.Repeat(100, ev.Gaussian(NOISE)), DELTA, "add-remove")
    why = "The server draws the sample, so nothing is hidden from it: its rate is 1."
    claimed = published_user_epsilon(100, rate=0.1)
    setting, source = "AVG, 100 rounds, rate 0.1, server", "Algorithm 4"
    return _row(setting, claimed, *bounds, why, source, observer="server")


def _silo(weighting: str, share: float, *, hidden: bool = False) -> Claim:
    """AVG with 5 silos against one of them, which subtracts its own noise from the model.

    `share` is the part of the user's records that this silo has, in the case that attains it;
    `hidden` says that nobody sees the weights.
    """
    view = uldp.insider_release(
        NOISE,
        rounds=100,
        silos=5,
        weighting=weighting,
        holds_user=share > 0.0,
        hidden_weights=hidden,
    )
    proven = upper_epsilon(view.event, DELTA, view.neighbours)
    assert isinstance(view.event, ev.Repeat)
    assert isinstance(view.event.event, ev.Gaussian)
    noise = view.event.event.noise_multiplier
    if weighting == "records":
        # In the case that attains it, the sum moves by 1 - `share` of its bound.
        noise /= 1.0 - share
    attained = ev.Repeat(100, ev.Gaussian(noise))
    lower = epsilon(attained, DELTA, view.neighbours)[1]
    setting, why = {
        ("records", False): (
            "AVG-w, 100 rounds, a silo without the user",
            "A silo knows its own noise, and a user may have all records in the other four.",
        ),
        ("records", True): (
            "Protocol 1, its leaks closed, 100 rounds, a silo with one record",
            "When a user's other records go, the weight of the one that is here grows to 1, so the "
            "sum moves by nearly two clips.",
        ),
        ("uniform", True): (
            "AVG, 100 rounds, one of 5 silos",
            "A silo knows its own noise, but a fifth of every user's weight lies with it.",
        ),
    }[weighting, share > 0.0]
    observer = "silo-with-records" if hidden else "silo"
    claimed = published_user_epsilon(100)
    return _row(setting, claimed, proven, lower, why, "Theorem 5", observer=observer)


def _silo_in_the_clear() -> Claim:
    """AVG-w without Protocol 1: the silo applies 1/N_u itself, which no noise is added to.

    Neighbours: a user with one record here and no other, whose weight is 1, or with one elsewhere
    too, whose weight here is 1/2.
    """

    def weight(here: int, elsewhere: int) -> Fraction:
        return Fraction(here, here + elsewhere)

    distinguishable = weight(1, 0) != weight(1, 1)
    why = (
        "A silo that holds one of the user's records applies its weight, n_su/N_u, so it knows N_u "
        "without noise, and whether the user has records elsewhere."
    )
    return _row(
        "AVG-w, 100 rounds, a silo with one record",
        published_user_epsilon(100),
        nothing_holds(why, DELTA),
        math.inf if distinguishable else 0.0,
        why,
        "Algorithm 3 and Theorem 5",
        observer="silo-with-records",
    )


def _protocol_1() -> Claim:
    with_user = {protocol_1_residue(noise, (3, 4), (1, 6)) for noise in (0, 1, -7, 10**6)}
    without = {protocol_1_residue(noise, (0, 0), (1, 6)) for noise in (0, 1, -7, 10**6)}
    distinguishable = not with_user & without
    why = (
        "Noise enters the decrypted integer in multiples of lcm(1..N_max) only, and the residue "
        "is a noise-free function of the user's data."
    )
    return _row(
        "Protocol 1 (AVG-w), 100 rounds",
        published_user_epsilon(100),
        nothing_holds(why, DELTA),
        math.inf if distinguishable else 0.0,
        why,
        "Protocol 1 and Theorem 5",
        observer="server",
    )


def _protocol_1_ciphertexts() -> Claim:
    """Theorem 2.  Neighbours: a user who alone moves a parameter in a silo, or nobody there."""
    with_user = {protocol_1_randomness((3, 0), added) for added in (0, 1, 10**6)}
    without = {protocol_1_randomness((0, 0), added) for added in (0, 1, 10**6)}
    distinguishable = not with_user & without
    why = (
        "Silos' ciphertexts carry the server's own randomness, raised to the users' deltas, under "
        "masks and noise that hide the plaintext alone."
    )
    return _row(
        "Protocol 1 (AVG-w), ciphertexts, 100 rounds",
        published_user_epsilon(100),
        nothing_holds(why, DELTA),
        math.inf if distinguishable else 0.0,
        why,
        "Protocol 1 and Theorem 2",
        observer="server",
    )


def _private_weighting(*, rate: float = 1.0) -> Claim:
    """Protocol 1 as it is done here: fresh randomness, noise on the decrypted integer's grid.

    With a dummy among at most `MAX_RECORDS_PER_USER` counts a user's weights sum to a little less
    than 1.
    """

    def view(noise: float) -> ev.Event:
        step: ev.Event = ev.Gaussian(noise)
        return ev.Repeat(100, ev.Poisson(rate, step) if rate < 1.0 else step)

    why = "With noise on every residue the server sees the noisy sum and nothing else."
    setting = "Protocol 1, its leaks closed, 100 rounds"
    if rate < 1.0:
        setting += f", rate {rate:g} by oblivious transfer"
        why = "And nobody knows the sample: the server knows the real slots, the silos the index."
    return _row(
        setting,
        published_user_epsilon(100, rate=rate),
        upper_epsilon(view(NOISE), DELTA, "add-remove"),
        epsilon(
            view(NOISE * MAX_RECORDS_PER_USER / (MAX_RECORDS_PER_USER - 1)), DELTA, "add-remove"
        )[1],
        why,
        "Theorem 5 and the sub-sampling by oblivious transfer",
        observer="server",
    )


def _transferred_silo(rate: float) -> Claim:
    def view(noise: float) -> ev.Event:
        return ev.Repeat(100, ev.Poisson(rate, ev.Gaussian(noise)))

    run = uldp.insider_release(
        NOISE,
        rounds=100,
        silos=5,
        weighting="records",
        holds_user=False,
        rate=rate,
        knows_sample=False,
    )
    # Four silos' noise, and a weight that the dummy's record takes off the user's sum.
    attained = NOISE * math.sqrt(4 / 5) * MAX_RECORDS_PER_USER / (MAX_RECORDS_PER_USER - 1)
    return _row(
        f"Protocol 1, its leaks closed, 100 rounds, rate {rate:g} by oblivious transfer",
        published_user_epsilon(100, rate=rate),
        upper_epsilon(run.event, DELTA, run.neighbours),
        epsilon(view(attained), DELTA, run.neighbours)[1],
        "The sample hides a user from a silo that has nothing of it, and the silo knows its noise.",
        "Theorem 5 and the sub-sampling by oblivious transfer",
        observer="silo",
    )


ROWS: Final = (
    partial(_figure_2, 1, "2.85"),
    *(partial(_figure_2, size) for size in (2, 4, 8, 16)),
    partial(_figure_2, 32, "2151.98"),
    partial(_figure_2, 64, "11416.54"),
    *(partial(_creditcard, size) for size in (2, 8, 64)),
    _naive,
    *(partial(_average, rounds) for rounds in (50, 100, 200)),
    _average_exchanged,
    partial(_silo, "records", 0.0),
    _silo_in_the_clear,
    partial(_silo, "records", 1.0 / MAX_RECORDS_PER_USER, hidden=True),
    partial(_silo, "uniform", 0.2),
    *(partial(_sampled, rate) for rate in (0.1, 0.3, 0.5, 0.7)),
    _sample_known_to_server,
    _protocol_1,
    _protocol_1_ciphertexts,
    _private_weighting,
    partial(_private_weighting, rate=0.1),
    partial(_transferred_silo, 0.1),
)
"""One function per row, in the order of the table."""
