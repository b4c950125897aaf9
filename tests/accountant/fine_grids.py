"""Tickets and mechanisms that the tests of the fine grid share."""

from __future__ import annotations

import math
from typing import Any

from privplan.accountant.mechanisms import FineGaussian

TWENTY = math.lcm(*range(1, 21))
FORTY = math.lcm(*range(1, 41))


def of(**changes: Any) -> FineGaussian:
    return FineGaussian(**{"bound": 0.3, "std": 1.5, "multiple": FORTY, "shares": 4, **changes})
