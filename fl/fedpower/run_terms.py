"""The public facts of one product: what a unit may add, on which grid, with whose noise.

A run and an audit make the mechanism from these alone, so it is the same mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ...accountant.mechanisms import NoisyProduct
from ...accountant.sensitivity.product import ProductBound
from ..frame.state import Shape
from .gram_terms import require_directions
from .settings import FedPowerSettings

USUAL_MOST_ROWS: Final = 1_000_000
"""N for the units `record` and `entry`, where nothing is said."""


@dataclass(frozen=True, kw_only=True)
class RunTerms:
    """What of a run's public settings decides its products.

    `dimension` is d, `silos` |S|, and `dropouts` of the silos' shares of noise may be missing.
    Raises `InvalidInput` for more columns of an iterate than of the data, and as `ProductBound`.
    """

    settings: FedPowerSettings
    unit: str
    relation: str
    dimension: int
    silos: int
    dropouts: int = 0

    def __post_init__(self) -> None:
        require_directions(self.settings, self.dimension)
        _ = self.product

    @cached_property
    def product(self) -> ProductBound:
        """What bounds one unit's part."""
        table = self.settings
        return ProductBound(
            dimension=self.dimension,
            rank=table.columns,
            row_norm=table.row_norm,
            divisor=table.divisor,
            unit=self.unit,  # type: ignore[arg-type]
            rows=(table.silo_rows or 1) if self.unit == "silo" else 1,
            largest_change=table.largest_change,
        )

    @property
    def most_rows(self) -> int:
        """N, the public number of rows for which the grid is chosen."""
        if self.settings.most_rows is not None:
            return self.settings.most_rows
        return self.silos * self.product.rows if self.unit == "silo" else USUAL_MOST_ROWS

    @property
    def kept(self) -> int | None:
        """How many rows a silo keeps; None where it keeps all."""
        return self.product.rows if self.unit == "silo" else None

    @property
    def parts(self) -> Mapping[str, Shape]:
        """The shape of what is released: the iterate (d, r)."""
        return {"iterate": (self.dimension, self.settings.columns)}

    def mechanism(self, noise_multiplier: float) -> NoisyProduct:
        """Return the mechanism of a noise multiplier, in a share for each silo."""
        return NoisyProduct.with_multiplier(
            noise_multiplier,
            product=self.product,
            relation=self.relation,
            most_rows=self.most_rows,
            shares=self.silos,
            tolerated_dropouts=self.dropouts,
        )
