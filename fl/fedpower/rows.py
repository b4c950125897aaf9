"""The rows of a data matrix by node, from a federation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..data.federation import Federation


def dimension(federation: Federation) -> int:
    """Return d, how many columns a row has."""
    return math.prod(federation.features.shape[1:])


def node_rows(federation: Federation, silo: int) -> Any:
    """Return the rows (n, d) of one node, float64."""
    here = federation.by_silo().records(silo)
    return federation.features[here].reshape(len(here), dimension(federation)).astype(np.float64)
