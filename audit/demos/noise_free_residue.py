"""Uldp-FL's Protocol 1: the noise enters in multiples of C_LCM, so V mod C_LCM holds none.

The server decrypts V = C_LCM (sum n_su / N_u e(delta_su) + z).  Whoever knows the others' updates
knows V mod C_LCM with the user and without; a user of seven records moves it by multiples of
C_LCM / 7.  Nobody needs to know anything to see that the residue is the same in every round on
the same updates.

Source: Kato et al. 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1 and Theorem 5.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray
from .demo import Demo, Weakness
from .published_weighting import (
    EXACT_VALUES,
    MULTIPLE,
    SESSIONS,
    noise_free,
    one_round,
    one_session,
    read_out,
    updates,
)

REPEATED_ROUNDS: Final = 4

UPDATES_WITH_USER: Final = updates([[0.3, 0.25, -0.4], [-0.2, 0.4, -0.1]])
UPDATES_WITHOUT_USER: Final = updates([[0.0, 0.25, -0.4], [0.0, 0.4, -0.1]])
"""Updates by silo and user; the first user is the one in question."""


def residues(deltas: FloatArray, rounds: int, rng: np.random.Generator) -> list[list[int]]:
    """Return V of each parameter in some rounds of one session, as the server decrypts it."""
    from ..attack_methods import transcripts

    session = one_session()
    return [
        transcripts.decrypted_sums(one_round(session, number, deltas, rng), session.primes)
        for number in range(1, rounds + 1)
    ]


def recognised(present: bool, rng: np.random.Generator) -> bool:
    """Return whether the server finds the residue that follows from the user's presence."""
    values = residues(UPDATES_WITH_USER if present else UPDATES_WITHOUT_USER, 1, rng)[0]
    return [value % MULTIPLE for value in values] == noise_free(UPDATES_WITH_USER)


def _run(rng: np.random.Generator) -> Weakness:
    from ..attack_methods import transcripts

    hits = sum(recognised(True, rng) for _ in range(SESSIONS))
    alarms = sum(recognised(False, rng) for _ in range(SESSIONS))
    unaided = transcripts.noise_free_residue(
        residues(UPDATES_WITH_USER, REPEATED_ROUNDS, rng),
        MULTIPLE,
        without=residues(UPDATES_WITHOUT_USER, REPEATED_ROUNDS, rng),
    )
    measured = read_out(
        "the decrypted sum modulo lcm(1..12)",
        hits,
        alarms,
        SESSIONS,
        event="residue of the user",
        impossible="the residue without the user is another one",
        proves="The server tells the user's presence with certainty, whatever noise is drawn.",
    )
    seen = unaided.what if unaided.detected else "It found nothing in a few rounds."
    return Weakness(
        measured,
        EXACT_VALUES,
        (
            f"The published protocol ran {SESSIONS} times with a user of seven records and "
            f"{SESSIONS} "
            "times without its updates, each time with keys of its own and full noise.",
            f"The server decrypted the sum and took it modulo {MULTIPLE}: it was what follows from "
            f"the user's presence in {hits} and {alarms} of them.",
            f"The noise is a multiple of {MULTIPLE}, so that residue is a function of raw updates "
            "and counts.",
            f"A search that knows none of them, on {REPEATED_ROUNDS} rounds: {seen}",
        ),
    )


DEMO: Final = Demo(
    name="noise-free-residue",
    system="uldp-fl",
    title="Protocol 1's noise leaves the residue of the decrypted sum as it was.",
    claim="The decrypted sum is as private as its Gaussian noise, by the user-level epsilon.",
    rows=("Protocol 1 (AVG-w), 100 rounds",),
    run=_run,
)
"""Noise in multiples of C_LCM."""
