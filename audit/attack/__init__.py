"""Attacks on the run of a log, in tiers: what its claim, its residuals and its models withstand."""

from __future__ import annotations

from .log_attack import ProgressReporter, attack
from .report import AttackReport, AttackRequest

__all__ = ["AttackReport", "AttackRequest", "ProgressReporter", "attack"]
