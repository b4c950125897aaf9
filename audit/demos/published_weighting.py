"""One round of Uldp-FL's Protocol 1 as published, with a user who moves something or nothing.

Three users, two silos.  The user in question has all of the protocol's records that follow from
`COUNTS`; absent, it moves nothing.  (A user without any record stops the published protocol, which
shows as much.)  Silos draw the published noise, float Gaussians of sigma C / sqrt(|S|) each.

Keys of 256 bits are far too short for use, and long enough here: what is read does not depend on
them.  The protocol's keys come from the operating system; what is counted is the same for all.

Source: Kato et al. 2024, *Uldp-FL*, arXiv 2308.12210, Protocol 1.

**What is proven** by a read-out that is there whenever the user is, and never otherwise: counts
alone bound epsilon by about ln(runs / 3.7).  That the false alarms are 0 for certain is algebra, so
the hits alone bound it for any number of rounds; that is said with the number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.claims.uldp_fl import DELTA, NOISE, published_user_epsilon
from ..measurement import Measurement
from ..statistics import Counts, epsilon_lower
from .counting import delta_lower, epsilon_lower_known
from .demo import shown

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


PROTOCOL_ROUNDS: Final = 100

EXACT_VALUES: Final = (math.inf, math.inf, 1.0)
"""The truth of each measurement."""

ABSENCE: Final = "absent, the user moves nothing: without any record it would stop the protocol"


def read_out(
    seen: str, hits: int, alarms: int, runs: int, *, event: str, impossible: str, proves: str
) -> tuple[Measurement, Measurement, Measurement]:
    """Return what `hits` and `alarms` in `runs` sessions each prove of Protocol 1.

    `seen` says where the server looks, `event` names what it finds, `impossible` why it cannot be
    found without the user, and `proves` what that means.
    """
    counts = Counts(alarms, runs, runs - hits, runs)
    once = published_user_epsilon(1)
    about: dict[str, Any] = {
        "observer": "server",
        "unit": "user",
        "neighbours": "add-remove",
        "sample": {
            "sessions with the user": runs,
            "sessions without": runs,
            f"{event}, with": hits,
            f"{event}, without": alarms,
        },
    }
    endless = shown(
        f"{seen}, in the first of {PROTOCOL_ROUNDS} rounds",
        epsilon_lower_known(counts, delta=DELTA, log_false_alarm=-math.inf),
        published_user_epsilon(PROTOCOL_ROUNDS),
        delta=DELTA,
        proves=proves,
        assumes=(ABSENCE, f"no false alarm is possible: {impossible}"),
        **about,
    )
    by_counts = shown(
        "the same in a run of one round, by counts alone",
        epsilon_lower(counts, delta=DELTA),
        once,
        delta=DELTA,
        proves="The epsilon published for one round is exceeded.",
        assumes=(ABSENCE,),
        **about,
    )
    delta = shown(
        "the same, at the epsilon published for one round",
        delta_lower(counts, epsilon=once),
        DELTA,
        quantity=f"delta at epsilon {once:.3g}",
        proves="At the published epsilon the claim fails nearly always.",
        assumes=(ABSENCE,),
        **about,
    )
    return endless, by_counts, delta
