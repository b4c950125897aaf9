"""The public facts of one product, or of one Gram release: what a unit may add, with whose noise.

A run and an audit make the mechanism from these alone, so it is the same mechanism.

What each observer sees of one noisy product (`RunTerms.views`):

    node s sends   V_s + noise of deviation s,   V_s = A_s^T A_s Z of its rows on the grid
    released       their sum, with k s^2 of noise where k shares count: all but those that may miss

A node is a silo that gets every iterate, so `client` and `silo` are one.  Whoever sees
each V_s sees no larger a move than who sees their sum (`accountant.sensitivity.product`, silos one
by one), so events differ by the shares of the noise alone, as those of Gram matrices do
(`fl.aggregation.unweighted_views`).  What an observer holds of the unit changes nothing: a row lies
in one node, and nothing is weighted by what lies elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from ...accountant import events as ev
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import NoisyProduct
from ...accountant.sensitivity.product import ProductBound
from ..aggregation.unweighted_views import unweighted_views
from ..declarations.shared_tables import PrivacySettings
from ..frame.expected_log import noise_of_event
from ..frame.state import Shape
from ..frame.terms import PublicSetup, Terms
from ..observers.names import CLIENT, SILO
from ..statistics.run_terms import USUAL_MOST_ROWS
from ..statistics.run_terms import RunTerms as GramTerms
from ..statistics.settings import StatisticsSettings
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ...accountant.records import RoundIntent


@dataclass(frozen=True, kw_only=True)
class RunTerms(Terms):
    """What of a run's public settings decides its products.

    `dimension` is d, `silos` |S|, and `dropouts` of the silos' shares of noise may be missing.
    `setup` is what else is public of the run, by which terms say what each observer sees.
    Raises `InvalidInput` for more columns of an iterate than of the data, and as `ProductBound`.
    """

    settings: FedPowerSettings
    unit: str
    relation: str
    dimension: int
    silos: int
    dropouts: int = 0
    setup: PublicSetup | None = field(default=None, repr=False, compare=False)

    sealed = GramTerms.sealed

    @classmethod
    def of(
        cls, setup: PublicSetup, settings: FedPowerSettings, dimension: int, **more: Any
    ) -> Self:
        """Return the terms of a run whose data have so many columns; `more` are of a subclass."""
        return cls(
            settings=settings,
            unit=str(setup.privacy.unit),
            relation=setup.privacy.neighbours,
            dimension=dimension,
            silos=setup.silos,
            dropouts=setup.security.dropouts,
            setup=setup,
            **more,
        )

    @property
    def neighbours(self) -> str:
        """The relation that it is accounted under."""
        return self.relation

    @property
    def divisor(self) -> float:
        """s, the public number that products are divided by."""
        return self.settings.divisor

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

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one product for each observer; see the module.

        `noise_multiplier` is that of who sees the sum with as few shares as may arrive.
        """
        assert self.setup is not None  # of a run
        views = unweighted_views(
            noise_multiplier,
            family="gaussian",
            unit="silo",
            silos=self.silos,
            aggregation=self.setup.aggregation,
            dropouts=self.dropouts,
            coalitions=self.setup.coalitions,
            colluders=self.setup.security.colluders,
        )
        return views | ({CLIENT: views[SILO]} if SILO in views else {})

    def noise(self, privacy: PrivacySettings, intent: RoundIntent) -> float:
        """Return the noise multiplier: as configured, or that of the event of an intent."""
        given = privacy.noise_multiplier
        return noise_of_event(intent.event, ev.Gaussian) if given is None else given


def gram_settings(table: FedPowerSettings) -> StatisticsSettings:
    """Return the settings of private statistics that release the Gram matrix alone."""
    return StatisticsSettings(
        row_norm=table.row_norm,
        intercept=0.0,
        silo_rows=table.silo_rows,
        most_rows=table.most_rows,
        fit="none",
    )


def gram_terms(table: FedPowerSettings, setup: PublicSetup, dimension: int) -> GramTerms:
    """Return what decides one Gram release of rows of `dimension` columns, without labels.

    Raises `InvalidInput` for more directions than columns, and as `statistics.run_terms.RunTerms`.
    """
    require_directions(table, dimension)
    return GramTerms.of(setup, gram_settings(table), dimension, 0)


def require_directions(table: FedPowerSettings, dimension: int) -> None:
    """Raise `InvalidInput` for more columns of an iterate than the data have."""
    if table.columns <= dimension:
        return
    extra = table.oversampling
    raise InvalidInput(
        f"`rank` is {table.rank:,}"
        + (f" and `oversampling` {extra:,}" if extra else "")
        + f"; the data have {dimension:,} columns.",
        "There are no more directions than columns.",
        "Lower them in [fedpower].",
    )
