"""What a configuration of FedAvg fixes of its run's log: rounds without clip and noise."""

from __future__ import annotations

import math
from typing import Final

from ...accountant.records import Contribution, Noise, Normaliser, RoundIntent, Sampling, Weights
from ..declarations.declaration import Read
from ..frame.expected_log import ExpectedLog, ExpectedPhase


def _phase(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del intent, values
    return ExpectedPhase(
        Contribution(math.inf, "l2", "user", "whole"),
        Noise("none", 0.0, shares=0, draws=0),
        math.inf,
        Weights(),
        Sampling(),
        Normaliser("constant", float(read("data", "silos"))),
        clip_enforced=False,
    )


FEDAVG: Final = ExpectedLog(_phase)
