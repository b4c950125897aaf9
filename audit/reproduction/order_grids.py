"""The orders at which published Renyi accountants look for the smallest epsilon.

A minimum over a grid lies above the minimum over all orders, most where the best order lies
beyond the grid's end; the printed value therefore shows which grid was used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class OrderGrid:
    """Ascending `orders` above 1, and the `source` that publishes them."""

    orders: FloatArray
    source: str


def _grid(source: str, *parts: list[float] | range) -> OrderGrid:
    orders = np.unique(np.concatenate([np.asarray(part, np.float64) for part in parts]))
    return OrderGrid(orders, source)


_TENTHS: Final = [1.0 + x / 10.0 for x in range(1, 100)]
_QUARTERS: Final = [1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5]

OPACUS: Final = _grid(
    "Opacus, accountants.rdp, RDPAccountant.DEFAULT_ALPHAS; the same grid is used by the "
    "MNIST tutorials of TF-Privacy, compute_epsilon",
    _TENTHS,
    range(12, 64),
)
DP_ACCOUNTING: Final = _grid(
    "dp_accounting 0.6, rdp.rdp_privacy_accountant, DEFAULT_RDP_ORDERS",
    _TENTHS,
    range(11, 64),
    [128.0, 256.0, 512.0, 1024.0],
)
TENTHS_AND_POWERS: Final = _grid(
    "programs that extend the tutorials' grid: 1.1 to 10.9, 12 to 63, 128, 256, 512",
    _TENTHS,
    range(12, 64),
    [128.0, 256.0, 512.0],
)
TF_PRIVACY: Final = _grid(
    "earlier versions of TF-Privacy, analysis.compute_dp_sgd_privacy_lib, compute_dp_sgd_privacy",
    _QUARTERS,
    range(5, 64),
    [128.0, 256.0, 512.0],
)
INTEGERS_TO_64: Final = _grid("programs with integer orders 2 to 64", range(2, 65))
INTEGERS_TO_256: Final = _grid("programs with integer orders 2 to 256", range(2, 257))
MOMENTS: Final = _grid(
    "Abadi et al. 2016, arXiv 1607.00133v2, and its gaussian_moments: moments 1 to 32, which "
    "are the orders 2 to 33",
    range(2, 34),
)

GRIDS: Final = (
    *(OPACUS, DP_ACCOUNTING, TENTHS_AND_POWERS, TF_PRIVACY),
    *(INTEGERS_TO_64, INTEGERS_TO_256, MOMENTS),
)
ALL_ORDERS: Final[FloatArray] = np.unique(np.concatenate([grid.orders for grid in GRIDS]))
"""The orders of all grids: a curve is computed at these once."""


def positions(grid: OrderGrid) -> IntArray:
    """Return where the grid's orders stand in `ALL_ORDERS`."""
    return np.asarray(np.searchsorted(ALL_ORDERS, grid.orders))
