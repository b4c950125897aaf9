"""What demonstrations, and attacks on example runs, measured; kept between runs, see `store`.

Only runs of the default seed count: of many seeds one would be lucky.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from . import store

if TYPE_CHECKING:
    from ...audit.demos import Demo, Weakness
    from ...audit.measurement import ExampleResult


LIBRARIES: Final = ("numpy", "scipy")


@dataclass(frozen=True)
class MeasuredRow:
    """What a demonstration says of one row: a value of that row's quantity, and how sure it is.

    `kind`, `contradicted` and `assumes` are those of `audit.measurement.Measurement`.
    """

    demo: str
    system: str
    setting: str
    value: float
    kind: str
    confidence: float
    contradicted: bool
    assumes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumes", tuple(self.assumes))  # JSON has lists
        texts = (self.demo, self.system, self.setting, self.kind, *self.assumes)
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("A name is a text.")
        # Written as what must hold, so that NaN fails it.
        if not (self.value >= 0.0 and 0.0 < self.confidence < 1.0):
            raise ValueError("A value is 0 or above, and a confidence lies between 0 and 1.")


Rows = Mapping[tuple[str, str], MeasuredRow]
"""By system and setting."""


def rows_of(demo: Demo, weakness: Weakness) -> tuple[MeasuredRow, ...]:
    """Return what a demonstration says of the rows that it names.

    The i-th measurement is of the i-th row; a test's p-value is no value of a row's quantity.
    """
    return tuple(
        MeasuredRow(
            demo=demo.name,
            system=demo.system,
            setting=setting,
            value=measurement.value,
            kind=measurement.kind,
            confidence=measurement.confidence,
            contradicted=measurement.contradicted,
            assumes=measurement.assumes,
        )
        for setting, measurement in zip(demo.rows, weakness.measurements, strict=False)
        if measurement.kind != "test"
    )


def recall(name: str, version: str | None) -> tuple[MeasuredRow, ...] | None:
    """Return what a demonstration of this version measured on this machine, or None."""
    return store.recall(f"demo-{name}", version, "measured", MeasuredRow)


def keep(name: str, measured: Iterable[MeasuredRow], version: str | None) -> None:
    """Keep what a demonstration measured, as `store.keep` does."""
    store.keep(f"demo-{name}", version, "measured", measured, current)


def joined(measured: Iterable[tuple[MeasuredRow, ...] | None]) -> Rows:
    """Return what is known, by row; where two demonstrations measure a row, the first."""
    rows: dict[tuple[str, str], MeasuredRow] = {}
    # The first stays: `setdefault` never replaces a value by one that happens to be larger.
    for row in (row for rows_of_demo in measured for row in rows_of_demo or ()):
        rows.setdefault((row.system, row.setting), row)
    return rows


def current() -> str | None:
    """Return a digest of all that a demonstration depends on; None if it cannot be told."""
    from ... import accountant, audit, fl

    return store.version_of([accountant, audit, fl], LIBRARIES)


def recall_run(system: str, version: str | None) -> ExampleResult | None:
    """Return what was measured of a system's example by this version on this machine, or None."""
    from ...audit.measurement import ExampleResult

    kept = store.recall(f"run-{system}", version, "measured", ExampleResult)
    return kept[0] if kept else None


def keep_run(measured: ExampleResult, version: str | None) -> None:
    """Keep what was measured, as `store.keep` does."""
    store.keep(f"run-{measured.system}", version, "measured", [measured], current)
