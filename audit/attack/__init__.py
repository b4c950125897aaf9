"""Attacks on the run of a log, in tiers: what its claim, its residuals and its models withstand."""

from __future__ import annotations

from .log_attack import Tell, attack
from .report import Asked, AttackReport

__all__ = ["Asked", "AttackReport", "Tell", "attack"]
