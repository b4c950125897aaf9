"""What demonstrations measured, by row of the table of claims; kept between runs, see `store`.

Only runs of the default seed count: of many seeds one would be lucky.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from . import store

if TYPE_CHECKING:
    from ...audit.demos import Demo, Weakness

SEED: Final = 0
LIBRARIES: Final = ("numpy", "scipy")


@dataclass(frozen=True)
class Measured:
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
        if not all(isinstance(one, str) for one in texts):
            raise TypeError("A name is a text.")
        if not (self.value >= 0.0 and 0.0 < self.confidence < 1.0):
            raise ValueError("A value is 0 or above, and a confidence lies between 0 and 1.")


Rows = Mapping[tuple[str, str], Measured]
"""By system and setting."""


def rows_of(demo: Demo, found: Weakness) -> tuple[Measured, ...]:
    """Return what a demonstration says of the rows that it names.

    The i-th measurement is of the i-th row; a test's p-value is no value of a row's quantity.
    """
    return tuple(
        Measured(
            demo=demo.name,
            system=demo.system,
            setting=setting,
            value=one.value,
            kind=one.kind,
            confidence=one.confidence,
            contradicted=one.contradicted,
            assumes=one.assumes,
        )
        for setting, one in zip(demo.rows, found.measurements, strict=False)
        if one.kind != "test"
    )


def recall(name: str, version: str | None) -> tuple[Measured, ...] | None:
    """Return what a demonstration of this version measured on this machine, or None."""
    try:
        rows = cast("list[dict[str, Any]]", store.read(f"demo-{name}", version, "measured"))
        return tuple(Measured(**row) for row in rows)
    except Exception:  # whatever is wrong with a cache, the answer is to measure
        return None


def keep(name: str, measured: Iterable[Measured], version: str | None) -> None:
    """Keep what a demonstration measured; do nothing if that fails, or if the code has changed."""
    with contextlib.suppress(Exception):
        if current() == version:
            store.write(f"demo-{name}", version, "measured", [asdict(one) for one in measured])


def joined(measured: Iterable[tuple[Measured, ...] | None]) -> Rows:
    """Return what is known, by row; where two demonstrations measure a row, the first."""
    rows: dict[tuple[str, str], Measured] = {}
    for one in (one for found in measured for one in found or ()):
        rows.setdefault((one.system, one.setting), one)
    return rows


def current() -> str | None:
    """Return a digest of all that a demonstration depends on; None if it cannot be told."""
    from ... import accountant, audit, fl

    return store.version_of([accountant, audit, fl], LIBRARIES)
