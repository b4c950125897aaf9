"""Pages of a mapped file that were read count as memory, until they are given back."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def give_back(table: Any) -> None:
    """Give the pages of a file that `table` is mapped from back to the system, if it can be.

    Only of a file that is mapped to be read: what was written to a private copy would be lost.
    They are read again when they are asked for.  Anything that is not mapped is left alone.
    """
    while isinstance(table, np.ndarray):
        if isinstance(table, np.memmap) and table.mode != "r":
            return
        table = table.base
    if isinstance(table, mmap.mmap) and hasattr(table, "madvise"):  # not on every system
        table.madvise(mmap.MADV_DONTNEED)
