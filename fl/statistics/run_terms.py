"""The public facts of one release: what a unit may add, on which grid, with whose noise.

| unit | k, most rows | T, squared norms together | kept by silo s |
|---|---|---|---|
| record | 1 | 1 | every row |
| user | `rows_per_user` | 1 | k_s rows of each user, sum k_s = k |
| silo | `silo_rows` | k | k rows |

A run and an audit make the mechanism from these alone, so it is the same mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import events as ev
from ...accountant.errors import InvalidInput, there_are
from ...accountant.mechanisms import NoisyGram, grid_bits
from ...accountant.neighbours import as_neighbours
from ...accountant.sensitivity.gram import GramBound
from ...accountant.sensitivity.release import sensitivity_multiplier
from ..aggregation.unweighted_views import unweighted_views
from ..declarations.sealed_items import NOISE
from ..declarations.shared_tables import PrivacySettings
from ..frame.expected_log import ExpectedLog, noise_of_event, stated_shape
from ..frame.state import Shape
from ..frame.terms import PublicSetup, Terms, by_terms, typed
from .settings import (
    BEYOND,
    CLIPPED,
    DROPPED,
    MAX_BITS,
    MIN_BITS,
    ROWS,
    TABLE,
    ReleaseSettings,
)

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray
    from ...accountant.records import RoundIntent
    from ..declarations.declaration import Table
    from ..declarations.stated_settings import StatedSettings

USUAL_MOST_ROWS: Final = 1_000_000
"""N for the unit `record`, where nothing is said: sums of so many rows leave room for 20 bits."""


@dataclass(frozen=True, kw_only=True)
class RunTerms(Terms):
    """What of a run's public settings decides its release.

    - `features`, `classes`: columns of the data without an intercept, and how many classes there
      can be, whether or not they occur.
    - `users`, `silos`: |U| and |S|; `dropouts` of the silos' shares of noise may be missing.
    - `setup`: what else is public of the run, by which it says what each observer sees.

    Raises `InvalidInput` for fewer rows of a user than silos, and as `GramBound` does.
    """

    settings: ReleaseSettings
    unit: str
    relation: str
    features: int
    classes: int
    users: int
    silos: int
    dropouts: int = 0
    setup: PublicSetup | None = field(default=None, repr=False, compare=False)

    sealed = (*NOISE, ROWS, CLIPPED, DROPPED, BEYOND)
    divisor = 1.0

    @classmethod
    def of(
        cls, setup: PublicSetup, settings: ReleaseSettings, features: int, classes: int
    ) -> RunTerms:
        """Return the terms of a run whose data have so many columns and classes."""
        return cls(
            settings=settings,
            unit=str(setup.privacy.unit),
            relation=setup.privacy.neighbours,
            features=features,
            classes=classes,
            users=setup.users,
            silos=setup.silos,
            dropouts=setup.security.dropouts,
            setup=setup,
        )

    def __post_init__(self) -> None:
        _ = self.gram
        if self.unit == "user" and self.settings.rows_per_user < self.silos:
            raise InvalidInput(
                f"`rows_per_user` is {self.settings.rows_per_user}, and "
                f"{there_are(self.silos, 'silo')}.",
                "No silo learns of a user's rows elsewhere, so each has a part of them by itself.",
                f"Write rows_per_user = {self.silos} or more in [statistics].",
            )
        if self.settings.components > self.features:
            raise InvalidInput(
                f"`components` must be at most {self.features:,}; it is "
                f"{self.settings.components:,}.",
                "There are no more directions than features.",
                "Lower it in [statistics], or leave it out for all.",
            )

    @property
    def neighbours(self) -> str:
        """The relation that it is accounted under."""
        return self.relation

    @cached_property
    def gram(self) -> GramBound:
        """What bounds one unit's part."""
        rows = self.unit_rows
        return GramBound(
            dimension=self.features + (self.settings.intercept > 0.0),
            classes=self.classes,
            label_weight=self.settings.label_weight,
            rows=rows,
            trace=float(rows) if self.unit == "silo" else 1.0,
            by_class=self.settings.by_class,
        )

    @property
    def unit_rows(self) -> int:
        """k, the most rows of one unit."""
        if self.unit == "user":
            return self.settings.rows_per_user
        return (self.settings.silo_rows or 1) if self.unit == "silo" else 1

    def kept(self, silo: int) -> int | None:
        """Return how many rows of one unit a silo keeps; None where it keeps all rows."""
        if self.unit == "record":
            return None
        if self.unit == "silo":
            return self.unit_rows
        each, left = divmod(self.unit_rows, self.silos)
        return each + (silo < left)

    @property
    def most_rows(self) -> int:
        """N, the public number of rows for which the grid is chosen."""
        if self.settings.most_rows is not None:
            return self.settings.most_rows
        units = {"user": self.users, "silo": self.silos}.get(self.unit)
        return USUAL_MOST_ROWS if units is None else units * self.unit_rows

    @property
    def parts(self) -> Mapping[str, Shape]:
        """The shapes of what is released: upper triangles row by row, then label sums (d, c)."""
        gram = self.gram
        triangle = gram.dimension * (gram.dimension + 1) // 2
        return {
            "gram": (gram.classes, triangle) if gram.by_class else (triangle,),
            "labels": (gram.dimension, gram.classes),
        }

    def mechanism(self, noise_multiplier: float) -> NoisyGram:
        """Return the mechanism of a noise multiplier, on the finest grid on which all fits.

        Raises `InvalidInput` where not even 8 bits fit, or not as many as were asked for.
        """
        asked = self.settings.bits
        times = sensitivity_multiplier(as_neighbours(self.relation))
        moved = (self.gram.l1 if self._laplace else self.gram.l2)(self.relation)
        bits = self._fitting(noise_multiplier * moved / times, asked or MAX_BITS)
        while bits >= MIN_BITS:
            mechanism = self._on_grid(noise_multiplier, bits)
            if mechanism is not None and self._fitting(mechanism.std, bits) == bits:
                break
            bits -= 1  # the noise of a grid is a little wider than the multiplier asks for
        else:
            raise InvalidInput(
                f"No grid of {MIN_BITS} bits or more suits this noise.",
                "A share of it would be too wide to draw, or too narrow to count as even.",
                "Give a lower `most_rows`, another `label_weight`, or other noise.",
            )
        if asked and bits < asked:
            raise InvalidInput(
                f"`bits` is {asked} in [statistics], and sums of {self.most_rows:,} rows with this "
                f"noise fit into 64 bits on a grid of {bits}.",
                "A sum that wraps around is of no use.",
                f"Write bits = {bits}, or leave it out; or lower `most_rows`.",
            )
        return mechanism

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of the release for each observer."""
        assert self.setup is not None  # of a run
        return unweighted_views(
            noise_multiplier,
            family=self.settings.noise,
            unit=self.unit,
            silos=self.silos,
            aggregation=self.setup.aggregation,
            dropouts=self.dropouts,
            coalitions=self.setup.coalitions,
            colluders=self.setup.security.colluders,
        )

    def noise(self, privacy: PrivacySettings, intent: RoundIntent) -> float:
        """Return the noise multiplier: as configured, or that of the event of an intent."""
        given = privacy.noise_multiplier
        return noise_of_event(intent.event, ev.Gaussian, ev.Laplace) if given is None else given

    @property
    def _laplace(self) -> bool:
        return self.settings.noise == "laplace"

    def _fitting(self, std: float, most_bits: int) -> int:
        return grid_bits(
            self.gram, most_rows=self.most_rows, std=std, shares=self.silos, most_bits=most_bits
        )

    def _on_grid(self, noise_multiplier: float, bits: int) -> NoisyGram | None:
        """Return the mechanism on a grid of so many bits; None where noise does not suit it."""
        try:
            return NoisyGram.with_multiplier(
                noise_multiplier,
                gram=self.gram,
                bits=bits,
                relation=self.relation,
                family=self.settings.noise,
                shares=self.silos,
                tolerated_dropouts=self.dropouts,
                unit=self.unit,  # type: ignore[arg-type]
                row_norm=self.settings.row_norm,
            )
        except InvalidInput:
            return None


def expected_log(table: Table) -> ExpectedLog:
    """Return what a system fixes whose table is of `ReleaseSettings`, or adds keys to them."""

    def terms(given: StatedSettings, *_: object) -> RunTerms:
        return RunTerms.of(given, given.complete(table), *stated_shape(given.read))

    def first(given: StatedSettings) -> FloatArray:
        return np.zeros(terms(given).gram.values)

    def sealed(given: StatedSettings) -> Mapping[str, tuple[str, ...]]:
        return dict.fromkeys(given.system.phase_names(given.read), RunTerms.sealed)

    return ExpectedLog(by_terms(terms), first=typed(first), sealed=typed(sealed))


EXPECTED: Final = expected_log(TABLE)
