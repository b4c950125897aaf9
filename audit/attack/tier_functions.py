"""The functions that run the tiers of an attack, each imported at its first call."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..measurement import Measurement


@dataclass(frozen=True)
class TierFunctions:
    """The functions of the tiers: `default` has those of this package, a test may pass others."""

    rehearse: Callable[..., Any]
    claim: Callable[..., Measurement]
    robust: Callable[..., Measurement]
    residual: Callable[..., Sequence[Measurement]]
    membership: Callable[..., Sequence[Measurement]]
    seal: Callable[[Path, Sequence[Measurement]], Path]

    @classmethod
    def default(cls) -> TierFunctions:
        """Return this package's own functions."""
        return cls(
            rehearse=_imported_at_call("canaries", "rehearse"),
            claim=_imported_at_call("canaries", "claim_tier"),
            robust=_imported_at_call("canaries", "robust_tier"),
            residual=_imported_at_call("residual", "residual_tier"),
            membership=_imported_at_call("attack_methods.membership", "membership_tier"),
            seal=_imported_at_call("residual", "write_sealed_report"),
        )


def _imported_at_call(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a sibling module, which is imported by the first call."""

    def call(*args: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(f"..{module}", __package__), name)(*args, **options)

    return call
