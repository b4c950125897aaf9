"""A small run of a system, by which an attack shows what becomes of the claim of a paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Example:
    """A run on bundled data, of a published system, that is made and attacked in seconds.

    `paper` is the name of the published system in the table of claims.  `tables` are those of a
    configuration, but that `[run]` need not name the system.  `canaries` are those of the attack.
    Range: `canaries` 2 or above.
    """

    paper: str
    tables: Mapping[str, Mapping[str, Any]]
    canaries: int
