"""What the tiers of an attack are made of, loaded when it is needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..measurement import Measurement


@dataclass(frozen=True)
class Tools:
    """What the tiers are made of; `real` has those of this package, tests may have others."""

    rehearse: Callable[..., Any]
    claim: Callable[..., Measurement]
    robust: Callable[..., Measurement]
    residual: Callable[..., Sequence[Measurement]]
    membership: Callable[..., Sequence[Measurement]]
    seal: Callable[[Path, Sequence[Measurement]], Path]

    @classmethod
    def real(cls) -> Tools:
        """Return the tools of this package, each loaded when it is used."""
        return cls(
            rehearse=_later("canaries", "rehearse"),
            claim=_later("canaries", "claim_tier"),
            robust=_later("canaries", "robust_tier"),
            residual=_later("residual", "residual_tier"),
            membership=_later("attacks.membership", "membership_tier"),
            seal=_later("residual", "write_sealed_report"),
        )


def _later(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a sibling, which is loaded by its first call."""

    def called(*given: Any, **more: Any) -> Any:
        return getattr(importlib.import_module(f"..{module}", __package__), name)(*given, **more)

    return called
