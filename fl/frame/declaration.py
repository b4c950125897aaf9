"""What the frame knows of a system before it is loaded: one declaration for each.

A declaration names what is heavy (`make`, `carrier`) and loads it when it is asked for, so that a
list of systems costs nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One system.

    `name` is that in configurations, `package` the distribution that brings it.  `make` and
    `carrier` are references, `module:attribute`: the function that makes the system (see
    `fl.system.Maker`), and the one that puts canaries in and returns what an observer sees of
    them; None where nobody can (see `fl.canaries.Carrier`).  `canaries` is how many an attack takes
    where one costs more than usual, or that by aggregation; `canary_work` refers to what says how
    much work a round of them is (`fl.canaries.Work`), None: as usual.
    """

    name: str
    make: str
    package: str = "privplan"
    carrier: str | None = None
    canaries: int | Mapping[str, int] | None = None
    canary_work: str | None = None

    def load(self, reference: str) -> Any:
        """Return what a reference of this declaration names."""
        module, _, attribute = reference.partition(":")
        return getattr(importlib.import_module(module), attribute)
