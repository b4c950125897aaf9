"""What is proven by a read-out that is there whenever the user is, and never otherwise.

Counts alone bound epsilon by about ln(runs / 3.7).  That the false alarms are 0 for certain is
algebra, so the hits alone bound it for any number of rounds; that is said beside the number.
"""

from __future__ import annotations

import math
from typing import Any, Final

from ...accountant.claims.uldp_fl import DELTA, published_user_epsilon
from ..measurement import Measurement
from ..statistics import Counts, epsilon_lower
from .counting import delta_lower, epsilon_lower_known
from .demo import shown

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
