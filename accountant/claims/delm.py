"""DELM: learning with a functional mechanism, private PCA, private selection and a shuffler.

The setting in which the text claims epsilon = 1: epsilon1 : epsilon2 = 1 : 2 over m = 3 layers, so
epsilon1 = 0.6 (PCA), epsilon2 = 1.2 (functional mechanism) and epsilon3 = 3 (selection); 100
clients of 600 records, 250 rounds, 392 features after the PCA.  The text claims pure privacy; what
is proven and shown here is at delta 1e-5 unless a row says otherwise.

Source of what is claimed: Cao et al. 2023, *Differentially Private Federated Learning with
Functional Mechanism*, Chinese Journal of Computers, equations 16 to 25.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from .. import events as ev
from ..sensitivity import functional, selection, wishart
from ..sensitivity.functional import Objective
from .proofs import epsilon, nothing_holds, upper_epsilon
from .table import Claim, RowMaker

DELTA: Final = 1e-5
EPSILON_PCA, EPSILON_TRAINING, EPSILON_SELECTION = 0.6, 1.2, 3.0
LAYERS: Final = 3
CLIENTS: Final = 100
RECORDS: Final = 600
DELM_ROUNDS: Final = 250
DELM_DIMENSION: Final = 392
DELM_PAPER: Final = "Cao et al. 2023 (DELM)"

_CLOSED_FORM_ROUNDING: Final = 1e-12
"""More than the relative rounding error of the closed forms below."""


def published_layer_amplification(epsilon_of_layer: float, layers: int = LAYERS) -> float:
    """Return epsilon / m, the text's effect of splitting a report over m shuffled layers.

    Source: Cao et al. 2023, equations 23 to 25; the first-order term of
    `published_layer_amplification_unexpanded`, used at epsilon up to 3.
    """
    return epsilon_of_layer / layers


def published_layer_amplification_unexpanded(
    epsilon_of_layer: float, layers: int = LAYERS
) -> float:
    """Return log(1 + (e^epsilon - 1) / m): equation 23 before its first-order expansion.

    The formula of a *sample* of which one component is seen; a shuffler shows all of them.

    >>> round(published_layer_amplification_unexpanded(3.0), 3)
    1.996
    """
    return math.log1p(math.expm1(epsilon_of_layer) / layers)


def published_total(pca: float, training: float, choice: float, layers: int = LAYERS) -> float:
    """Return max(epsilon1 + epsilon2 / m, epsilon3 / m), the text's epsilon of the whole.

    >>> published_total(0.6, 1.2, 3.0)
    1.0
    """
    return max(
        pca + published_layer_amplification(training, layers),
        published_layer_amplification(choice, layers),
    )


def all_equal_loss(epsilon_of_message: float, users: int) -> float:
    """Return the loss of the event that all shuffled messages agree.

    Binary randomized response; all other users hold 1, and the victim 1 or 0.  The event "all 1"
    has probability p^n and p^(n-1) q, so its loss is log(p/q) = epsilon for every n.
    """
    log_p = -math.log1p(math.exp(-epsilon_of_message))
    log_q = log_p - epsilon_of_message
    return users * log_p - ((users - 1) * log_p + log_q)


# --- the rows -----------------------------------------------------------------------------------


_row: Final = RowMaker(
    "delm",
    DELM_PAPER,
    {"unit": "record", "neighbours": "replace-one", "observer": "server", "delta": DELTA},
)


def _wishart_delta() -> tuple[float, float]:
    """Return (upper, lower) bounds on the exact delta of the PCA step, at every epsilon."""
    exact = wishart.failure(EPSILON_PCA)
    return exact * (1.0 + _CLOSED_FORM_ROUNDING), exact * (1.0 - _CLOSED_FORM_ROUNDING)


def _total() -> Claim:
    _, lower = _wishart_delta()
    why = (
        f"The PCA step alone has delta {lower:.3f} at every epsilon, so no epsilon holds for "
        "the whole."
    )
    return _row(
        "the whole",
        published_total(EPSILON_PCA, EPSILON_TRAINING, EPSILON_SELECTION),
        nothing_holds(why, DELTA),
        math.inf if lower > DELTA else None,
        why,
        "equation 25",
        neighbours="add-remove",
        printed="1",
    )


def _pca() -> Claim:
    _, lower = _wishart_delta()
    why = (
        "The proof compares densities and forgets supports: a released matrix from which the "
        "record cannot be subtracted shows that it is absent."
    )
    return _row(
        "PCA with Wishart noise",
        EPSILON_PCA,
        nothing_holds(why, DELTA),
        math.inf if lower > DELTA else None,
        why,
        "LDP-FPCA",
        neighbours="add-remove",
    )


def _pca_delta() -> Claim:
    upper, lower = _wishart_delta()
    why = "Exactly 1 - e^-epsilon1, at every epsilon, for one row of norm 1."
    return _row(
        "PCA with Wishart noise: delta",
        0.0,
        upper,
        lower,
        why,
        "LDP-FPCA",
        neighbours="add-remove",
        delta=0.0,
        quantity="delta",
    )


def _training_any() -> Claim:
    event = ev.Repeat(DELM_ROUNDS, ev.Pure(EPSILON_TRAINING))
    why = (
        "That every round is 1.2-DP proves no more than this over 250 rounds; the text composes "
        "nothing, and shuffling layers does not divide epsilon."
    )
    return _row(
        "training, 250 rounds, any 1.2-DP step",
        published_total(EPSILON_PCA, EPSILON_TRAINING, EPSILON_SELECTION),
        upper_epsilon(event, DELTA, "replace-one"),
        None,
        why,
        "Algorithm 1 and equation 25",
        printed="1",
    )


def _training_logistic(data: str) -> Claim:
    """Fresh Laplace noise, at the printed sensitivity, in each round; worst of all layouts."""
    scale = functional.delta_as_published("logistic", DELM_DIMENSION) / EPSILON_TRAINING
    # The worst of all ways to lay a quadratic objective out, the best bound of each.
    proven = max(
        min(
            upper_epsilon(event, DELTA, "replace-one")
            for event in functional.release(
                Objective("logistic", DELM_DIMENSION, data, layout),
                "replace-one",
                scale=scale,
                schedule="fresh",
                rounds=DELM_ROUNDS,
            ).events
        )
        for layout in functional.QUADRATIC
    )
    bound = {"coordinate": "|x_j| <= 1", "l2": "|x| <= 1"}[data]
    why = (
        "The number holds although its argument does not: noise for an L1 sensitivity of 38,808 "
        "is large against what one record moves in L2."
    )
    return _row(
        f"training, linear logistic, {bound}",
        published_total(EPSILON_PCA, EPSILON_TRAINING, EPSILON_SELECTION),
        proven,
        None,
        why,
        "Algorithm 1 and equation 25",
        printed="1",
    )


def _noise_once(records: int) -> Claim:
    pca_and_training = ev.Compose((ev.Pure(EPSILON_PCA), ev.Pure(EPSILON_TRAINING)))
    event: ev.Event = pca_and_training if records == 1 else ev.Group(records, pca_and_training)
    why = {
        1: "With a sound PCA and noise drawn once, epsilon1 + epsilon2 is what follows.",
        RECORDS: "A client holds 600 records, and the proof is about one.",
    }[records]
    unit = "record" if records == 1 else "user"
    return _row(
        f"sound PCA, noise once, {'one record' if records == 1 else 'whole client'}",
        published_total(EPSILON_PCA, EPSILON_TRAINING, EPSILON_SELECTION),
        upper_epsilon(event, DELTA, "replace-one"),
        None,
        why,
        "equation 25",
        unit=unit,
        printed="1",
    )


def _selection(scores: str) -> Claim:
    exponent = selection.exponent_as_published(EPSILON_SELECTION, CLIENTS)
    event = selection.release(
        exponent, candidates=CLIENTS, draws=50, layers=LAYERS, rounds=DELM_ROUNDS, scores=scores
    ).event
    why = {
        "privatised": "Scores come from gradients that are private already: choosing by them is "
        "free, if the training is sound.",
        "private": "Were the scores raw, 37,500 draws of exponent epsilon3 / 2n would compose to "
        "this.",
    }[scores]
    name = {"privatised": "private gradients", "private": "raw gradients"}[scores]
    return _row(
        f"selection by {name}",
        published_layer_amplification(EPSILON_SELECTION),
        upper_epsilon(event, DELTA, "replace-one"),
        None,
        why,
        "equations 16 and 25",
    )


def _m_fold() -> Claim:
    lower = all_equal_loss(EPSILON_TRAINING, CLIENTS) * (1.0 - _CLOSED_FORM_ROUNDING)
    why = (
        "Counterexample: binary randomized response in one layer; when all others agree, the "
        "event that all messages are equal keeps the whole loss, for every n and m."
    )
    return _row(
        "split and shuffle, pure epsilon",
        published_layer_amplification(EPSILON_TRAINING),
        EPSILON_TRAINING,
        lower,
        why,
        "equations 21 to 23",
        unit="user",
        observer="analyzer",
        delta=0.0,
        printed="0.4",
    )


def _shuffled(epsilon_of_message: float) -> Claim:
    """One round of client-level messages; the lower end is that of binary randomized response."""
    proven = upper_epsilon(ev.Shuffle(CLIENTS, ev.Local(epsilon_of_message)), DELTA, "replace-one")
    response = ev.Shuffle(CLIENTS, ev.RandomizedResponse(epsilon_of_message, 2))
    _, lower = epsilon(response, DELTA, "replace-one")
    unexpanded = published_layer_amplification_unexpanded(epsilon_of_message)
    why = (
        "The formula is that of a sample, expanded where it may not be (unexpanded it says "
        f"{unexpanded:.3f}); a shuffler of 100 clients proves this, if reports are private per "
        "client."
    )
    return _row(
        f"split and shuffle, one round at {epsilon_of_message:g}",
        published_layer_amplification(epsilon_of_message),
        proven,
        lower,
        why,
        "equations 21 to 23",
        unit="user",
        observer="analyzer",
    )


ROWS: Final = (
    _total,
    _pca,
    _pca_delta,
    _training_any,
    partial(_training_logistic, "coordinate"),
    partial(_training_logistic, "l2"),
    partial(_noise_once, 1),
    partial(_noise_once, RECORDS),
    partial(_selection, "privatised"),
    partial(_selection, "private"),
    _m_fold,
    partial(_shuffled, EPSILON_TRAINING),
    partial(_shuffled, EPSILON_SELECTION),
)
"""One function per row, in the order of the table."""
