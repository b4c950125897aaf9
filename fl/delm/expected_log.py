"""What a configuration of DELM's systems fixes of their logs (`fl.frame.expected_log`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..statistics.expected_log import expected_log
from .settings import PIECE_KEYS, TABLE

_RELEASE: Final = tuple(key for key in TABLE.keys if key.name not in PIECE_KEYS)

LINEAR: Final = expected_log(replace(TABLE, keys=_RELEASE))
