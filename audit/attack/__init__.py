"""Attacks on the run of a log, in tiers: what its claim, its residuals and its models withstand.

- `log_attack`, `tiers`: the attack on a run, tier by tier, and how large rehearsals are.
- `inserted_canaries`: the attack on a training of another library that had canaries put into it.
- `attacked_log`, `attacked_table`: the log, and the rows for the tier that reads them.
- `report`: what is asked for, and what was measured.
- `example_runs`: a small run of each system, audited and attacked.
"""

from __future__ import annotations

from .log_attack import ProgressReporter, attack
from .report import AttackReport, AttackRequest

__all__ = ["AttackReport", "AttackRequest", "ProgressReporter", "attack"]
