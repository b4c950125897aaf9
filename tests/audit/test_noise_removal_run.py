"""A real run whose noise is taken off: its audit finds by itself what a node may know."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import privplan as pp
from privplan.audit.budget import audit_budget

SILOS = 3

CONFIGURATION = {
    "run": {"system": "fedpower-utility", "rounds": 2},
    "data": {"name": "low-rank", "silos": SILOS},
    "privacy": {"unit": "record", "epsilon": 4.0},
    "security": {"aggregation": "masked", "key_bits": 2048},
    "fedpower": {"rank": 1, "row_norm": 1.0},
}


def test_a_node_may_know_the_noise_that_stays(tmp_path: Path) -> None:
    for needed in ("gmpy2", "phe", "nacl"):
        pytest.importorskip(needed)
    pp.run(CONFIGURATION, tmp_path / "run")
    result = audit_budget(tmp_path / "run")
    fired = {hazard.id: hazard.says for hazard in result.hazards}
    # In one of two rounds at least: 1 - (1 - 1/3)^2 = 5/9.
    assert "Delta is at least 0.556 before 'silo'" in fired["noise-may-be-known"]
    upper = {row.observer: row.total.epsilon.upper for row in result.rows}
    assert math.isinf(upper["client"])
    assert math.isinf(upper["silo"])
    assert 3.99 < upper["model"] <= 4.0
    assert upper["server"] == upper["model"]
