"""Every demonstration measures the rows that it says it measures."""

from __future__ import annotations

import pytest

from privplan.accountant.claims import table as tables
from privplan.audit.demos import DEMOS, MEASURES, run_demo

from ..cases import for_each
from .demos import check_rows

QUICK = ("delm", "disco")


@for_each(
    "system",
    [
        pytest.param(system, marks=() if system in QUICK else pytest.mark.slow)
        for system in tables.SYSTEMS
    ],
)
def test_what_is_measured_is_the_quantity_of_the_row(system: str) -> None:
    rows = [lambda one=claim: one for claim in tables.table(system)]
    names = [name for name, of in MEASURES.items() if of == system]
    assert names
    for name in names:
        found = run_demo(name)
        assert found.contradicted
        check_rows(DEMOS[name], found, rows)


def test_no_row_is_measured_twice() -> None:
    rows = [(one.system, row) for one in DEMOS.values() for row in one.rows]
    assert len(rows) == len(set(rows))
