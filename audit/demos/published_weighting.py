"""One round of Uldp-FL's Protocol 1 as published, with a user who moves something or nothing.

Three users, two silos.  The user in question has all of the protocol's records that follow from
`COUNTS`; absent, it moves nothing.  (A user without any record stops the published protocol, which
shows as much.)  Silos draw the published noise, float Gaussians of sigma C / sqrt(|S|) each.

Keys of 256 bits are far too short for use, and long enough here: what is read does not depend on
them.  The protocol's keys come from the operating system; what is counted is the same for all.

Source: Kato et al. 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.claims.uldp_fl import NOISE

COUNTS: Final = ((1, 6), (3, 2), (2, 2))
"""Records of each user in each silo; the first user is the one in question."""

COUNT_LIMIT: Final = 12
MULTIPLE: Final = math.lcm(*range(1, COUNT_LIMIT + 1))
"""C_LCM."""

REPLAYED_FIXED_POINT_STEP: Final = 2.0**-10
KEY_BITS: Final = 256
PROTOCOL_CLIP: Final = 1.0

SESSIONS: Final = 250
"""Sessions with the user, and as many without, each with keys of its own."""


def one_session() -> Any:
    """Return a session of the published protocol after its setup: **no-guarantee**, for study.

    Raises `MissingExtra` without phe or cryptography.
    """
    from ..attack_methods.seeds import published_protocol

    return published_protocol("uldp-avg")(
        np.array(COUNTS), count_limit=COUNT_LIMIT, step=REPLAYED_FIXED_POINT_STEP, key_bits=KEY_BITS
    )


def one_round(
    session: Any, number: int, deltas: FloatArray, rng: np.random.Generator
) -> dict[str, list[int]]:
    """Run a round on clipped updates (silos, users, D); return what each silo sent the server."""
    from ...fl.parties.network import SERVER
    from ..attack_methods import transcripts

    silos, _, size = deltas.shape
    noise = rng.normal(0.0, NOISE * PROTOCOL_CLIP / math.sqrt(silos), (silos, size))
    session.round(number, deltas, noise)
    view, width = session.views[SERVER], session.ciphertext_bytes
    return transcripts.residues(view, session.update_kind, width, round=number)


def noise_free(deltas: FloatArray) -> list[int]:
    """Return sum C_LCM n_su / N_u e(delta_su) mod C_LCM of each parameter: what no noise touches.

    Known to whoever knows the updates: `deltas` is (silos, users, D).
    """
    # N_u; C_LCM n_su / N_u is an integer, as N_u is at most the count limit.
    totals = [sum(counts) for counts in COUNTS]
    return [
        sum(
            MULTIPLE * COUNTS[user][silo] // totals[user] * encoded(deltas[silo, user, parameter])
            for silo in range(deltas.shape[0])
            for user in range(deltas.shape[1])
        )
        % MULTIPLE
        for parameter in range(deltas.shape[2])
    ]


def encoded(value: float) -> int:
    """Return a float on the protocol's fixed point, as published: rounded to the nearest."""
    return round(float(value) / REPLAYED_FIXED_POINT_STEP)


def updates(moves: Sequence[Sequence[float]]) -> FloatArray:
    """Return updates (silos, users, 1) from a table of them by silo and user."""
    return np.array(moves, np.float64)[:, :, None]
