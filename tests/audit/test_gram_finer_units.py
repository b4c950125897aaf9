"""Records of Gram matrices that are bounded by user or by silo, or that may have several rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.audit.ledger.gram_facts import moved_by_unit

from ..cases import for_each
from .grams import gram_log, noisy
from .ledgers import DELTA, audited, upper


@for_each("unit", ["user", "silo"])
def test_a_record_replaced_by_one_of_another_whole_changes_both(unit: str) -> None:
    """Each keeps its first row: what goes lets a row in, and what comes keeps another out."""
    release = noisy("replace-one", unit=unit, rows=1, classes=1, bits=12)
    x, other = np.eye(6)[0], np.array([math.cos(2.0), math.sin(2.0), 0.0, 0.0, 0.0, 0.0])

    def whole(*rows: Any) -> Any:
        ids = np.zeros(len(rows), int)
        kept = gram_total(release, np.array(rows), np.ones(len(rows)), units=ids, most_rows=1)
        return release.white(kept.total)

    before = whole(x, other) + whole(x)
    after = whole(other) + whole(other, x)
    moved = float(np.linalg.norm(after - before))
    stated = release.contribution
    assert moved > 1.9 * release.sensitivity("replace-one")
    assert moved <= moved_by_unit(stated, "replace-one", finer=True)
    # A record that only goes lets in no more than one row.
    assert moved_by_unit(stated, "add-remove", finer=True) == release.sensitivity("replace-one")
    promised = upper(gram_log(release, "replace-one"))
    assert upper(gram_log(release, "replace-one", unit="record")) > 1.9 * promised


def test_of_a_record_one_row_is_sure_to_attain() -> None:
    """No log says that a record has several rows, each of which is within T / k."""
    release = noisy(unit="record", rows=4, shares=1)
    lower = audited(gram_log(release)).total.epsilon.lower
    row = noisy(unit="record", rows=1, trace=0.25, shares=1, sigma=1.0)
    sure = pp.account(
        ev.Gaussian(release.std / row.gram.l2("add-remove")), delta=DELTA, neighbours="add-remove"
    )
    assert 0.99 * sure.epsilon.upper < lower <= sure.epsilon.upper
