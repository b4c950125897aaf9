"""Rules between the keys of a configuration of DELM's systems."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Rule
from ..statistics.settings_rules import capped_units, of_classes, of_whole_records, single_round
from .settings import TABLE

LINEAR_RULES: Final[tuple[Rule, ...]] = (
    single_round,
    of_classes,
    of_whole_records,
    capped_units(TABLE.name),
)
"""In the order in which they are asked."""
