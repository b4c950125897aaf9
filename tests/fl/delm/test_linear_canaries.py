"""Canaries through `delm-linear` show most of what it claims, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("sklearn")

from privplan.audit.attack import AttackRequest, attack
from privplan.fl.running.run_and_resume import run

SHARE: Final = 0.8
"""The least share of epsilon that the claim tier shows."""


@pytest.mark.slow
def test_the_claim_tier_shows_four_fifths_of_epsilon_two(tmp_path: Path) -> None:
    """50,000 canaries; the tier contradicts a sound run once in 1,000 calls at most."""
    tables = {
        "run": {"system": "delm-linear"},
        "data": {"name": "breast-cancer", "users": 50, "silos": 2},
        "privacy": {"unit": "record", "epsilon": 2.0, "delta": 1e-5},
        "delm": {"row_norm": 6.0, "intercept": 0.0},
    }
    run(tables, tmp_path / "run")
    report = attack(tmp_path / "run", AttackRequest(tiers=("claim",), seed=1))
    (measured,) = report.measurements
    assert measured.verdict == "not-contradicted"
    assert SHARE * 2.0 <= measured.value <= 2.0
