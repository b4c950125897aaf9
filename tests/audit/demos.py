"""What is asked of every demonstration."""

from __future__ import annotations

from collections.abc import Sequence

from privplan.accountant.claims.table import Claim, Row
from privplan.audit.demos import Demo, Weakness


def check_rows(demo: Demo, found: Weakness, rows: Sequence[Row]) -> None:
    """Check that what was measured is of the rows that the demonstration names."""
    table: dict[str, Claim] = {row.setting: row for row in (make() for make in rows)}
    assert demo.rows
    assert len(demo.rows) <= len(found.measurements)
    for setting, one in zip(demo.rows, found.measurements, strict=False):
        claim = table[setting]
        assert claim.system == demo.system
        assert one.claimed == claim.claimed
        assert one.quantity == claim.quantity
        assert one.delta == claim.delta
        assert (one.unit, one.neighbours, one.observer) == (
            claim.unit,
            claim.neighbours,
            claim.observer,
        )
        if claim.proven is not None:
            assert one.value <= claim.proven
        # Not only above the formula: above the number as the text prints it.
        assert one.contradicted == (one.value > claim.largest)
