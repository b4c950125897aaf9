"""Uldp-FL's Protocol 1: a ciphertext that nobody re-randomises says whether a user moved.

A silo raises the server's own ciphertexts to its users' updates and adds noise and masks to the
plaintext.  The server decrypts and divides: what is left is prod_u rho_u^(n e_u), and 1 where no
user of the silo moved that parameter, before any noise.  Here nobody but the user moves it.

Source: Kato et al. 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1 and Theorem 2.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from .demo import Demo, Weakness
from .published_weighting import EXACT_VALUES, SESSIONS, one_round, one_session, read_out, updates

UPDATES_WITH_USER_MOVING: Final = updates([[0.3, 0.0, 0.0], [-0.2, 0.4, -0.1]])
UPDATES_WITHOUT_USER_MOVING: Final = updates([[0.0, 0.0, 0.0], [0.0, 0.4, -0.1]])
"""Updates by silo and user: in the first silo nobody but the user moves the parameter."""


def moved(present: bool, rng: np.random.Generator) -> bool:
    """Return whether the server finds that somebody moved the parameter in the first silo."""
    from ..attack_methods import transcripts

    session = one_session()
    sent = one_round(
        session, 1, UPDATES_WITH_USER_MOVING if present else UPDATES_WITHOUT_USER_MOVING, rng
    )
    finding = transcripts.shown_randomness({"silo-0": sent["silo-0"]}, session.modulus)
    return not finding.detected


def _run(rng: np.random.Generator) -> Weakness:
    hits = sum(moved(True, rng) for _ in range(SESSIONS))
    alarms = sum(moved(False, rng) for _ in range(SESSIONS))
    measured = read_out(
        "the randomness of a silo's ciphertext",
        hits,
        alarms,
        SESSIONS,
        event="randomness other than 1",
        impossible="a product of powers with exponent 0 is 1",
        proves="The server tells the user's presence with certainty, whatever noise is added.",
    )
    return Weakness(
        measured,
        EXACT_VALUES,
        (
            f"The published protocol ran {SESSIONS} times with a user who alone moves a "
            "parameter in "
            f"one silo, and {SESSIONS} times without, each time with keys of its own and full "
            "noise.",
            "The server took the plaintext out of that silo's ciphertext by its own key: what was "
            f"left was not 1 in {hits} and {alarms} of them.",
            "Noise and masks are added to the plaintext, and nobody multiplies in randomness of "
            "its own, so the exponents show.",
            f"{SESSIONS} sessions alone can show no epsilon above "
            f"{math.log(SESSIONS / 3.69):.1f}; that "
            "the count without the user is 0 for certain is algebra.",
        ),
    )


DEMO: Final = Demo(
    name="paillier-randomness",
    system="uldp-fl",
    title="Protocol 1's ciphertexts show their randomness, and with it who moved a parameter.",
    claim="The server learns nothing beyond the noisy sum, so the user-level epsilon holds.",
    rows=("Protocol 1 (AVG-w), ciphertexts, 100 rounds",),
    run=_run,
)
"""Paillier ciphertexts that are not re-randomised."""
