"""The curves of an event in a CSV file: delta by epsilon, and the Renyi divergence by order."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput, Unsupported
from ..inputs.curve_file import CURVE_HEADER, PROFILE_KIND, RENYI_KIND, require_replaceable

if TYPE_CHECKING:
    from ...accountant.events import Event

CURVE_ORDERS: Final = (
    *(1.0 + 0.125 * step for step in range(1, 8)),
    *(2.0 + 0.5 * step for step in range(12)),
    *range(8, 64, 2),
    64.0,
    96.0,
    128.0,
    256.0,
    512.0,
    1024.0,
)
"""Orders of the Renyi curve."""

LAST_DELTA: Final = 1e-10
"""The profile ends where delta falls below this."""

LARGEST_EPSILON: Final = 50.0
"""And ends here at the latest."""

STEPS_EACH_WAY: Final = 20
"""Epsilons above 0; as many lie below it."""


@dataclass(frozen=True)
class WrittenCurve:
    """What was written: how many epsilons and orders, where, and over an earlier curve or not.

    `refused` says why there is no Renyi curve, where there is none.
    """

    path: Path
    epsilons: int
    orders: int
    replaced: bool
    refused: str = ""

    def json(self) -> dict[str, object]:
        """Return the fields for a program."""
        return {"path": str(self.path), "epsilons": self.epsilons, "orders": self.orders}

    def row(self) -> tuple[str, str]:
        """Return the row of a table for a person."""
        over = ", in the place of an earlier curve" if self.replaced else ""
        orders = f" and {self.orders} orders" if self.orders else ""
        return "curve", f"{self.path}: {self.epsilons} epsilons{orders}{over}"


def write_curve(event: Event, neighbours: str, path: Path) -> WrittenCurve:
    """Write the curves of an event into a file, at once.

    Raises `InvalidInput` where something else is in the way, or the file cannot be written, and
    `Unsupported` as `account` does.
    """
    from ...accountant.curves import privacy_profile, rdp
    from ...fl.files import atomic

    replaced = require_replaceable(path)
    epsilons = _epsilons(event, neighbours)
    profile = privacy_profile(event, epsilons, neighbours=neighbours)
    rows = [
        (PROFILE_KIND, epsilon, bounds.lower, bounds.upper)
        for epsilon, bounds in zip(epsilons, profile.deltas, strict=True)
    ]
    refused = ""
    orders = 0
    try:
        curve = rdp(event, CURVE_ORDERS, neighbours=neighbours)
    except Unsupported as refusal:
        refused = refusal.what
    else:
        orders = len(CURVE_ORDERS)
        columns = (curve.orders.tolist(), curve.lower.tolist(), curve.upper.tolist())
        rows += [(RENYI_KIND, *point) for point in zip(*columns, strict=True)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CURVE_HEADER)
    # Each number in the shortest form that reads back as itself: nothing is rounded again.
    writer.writerows((kind, *map(repr, numbers), neighbours) for kind, *numbers in rows)
    try:
        atomic.write(path, text.getvalue().encode())
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}.",
            "What was there before is still there.",
            "Give another file.",
        ) from None
    return WrittenCurve(path, len(epsilons), orders, replaced, refused)


def _epsilons(event: Event, neighbours: str) -> list[float]:
    """Return epsilons of both signs, as far as delta falls below `LAST_DELTA`."""
    from ...accountant.account import bounds_on_epsilon

    last = bounds_on_epsilon(event, delta=LAST_DELTA, neighbours=neighbours).upper
    last = min(last, LARGEST_EPSILON) or 1.0
    # Two digits, so that a person can read them.
    step = float(f"{last / STEPS_EACH_WAY:.1e}")
    return [step * count for count in range(-STEPS_EACH_WAY, STEPS_EACH_WAY + 1)]
