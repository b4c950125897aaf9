"""What a configuration of DELM's systems fixes of their logs (`fl.frame.expected_log`)."""

from __future__ import annotations

from typing import Final

from ..statistics.run_terms import expected_log
from .settings import TABLE

LINEAR: Final = expected_log(TABLE)
