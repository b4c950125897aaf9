"""Memory that nobody has written, filled while a module of one's own computes.

`torch.empty` and its like hand out what lay in memory before: numbers of whoever was computed last.
A module that reads them, be it for one record in a thousand, would carry one user's data into what
is computed of another.  PyTorch can fill such memory, with NaN or the largest whole number, also
where its own operations ask for it: so where the module reads it, its unit fails, by its own
records alone.  Of arrays of NumPy (`numpy.empty`) and of raw storages PyTorch knows nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
import torch.utils.deterministic

_FILLING: Final[Any] = torch.utils.deterministic


class _Setting:
    """PyTorch's setting, which is one for all threads: on while anybody needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._needed = 0
        self._before = (False, False, True)

    def switch_on(self) -> None:
        with self._lock:
            self._needed += 1
            if self._needed > 1:
                return
            on = torch.are_deterministic_algorithms_enabled()
            warns = torch.is_deterministic_algorithms_warn_only_enabled()
            self._before = on, warns, _FILLING.fill_uninitialized_memory
            # Operations that have no other way go on; a program may be stricter of itself.
            torch.use_deterministic_algorithms(True, warn_only=warns or not on)
            _FILLING.fill_uninitialized_memory = True

    def put_back(self) -> None:
        with self._lock:
            self._needed -= 1
            if self._needed:
                return
            on, warns, filled = self._before
            torch.use_deterministic_algorithms(on, warn_only=warns)
            _FILLING.fill_uninitialized_memory = filled


_SETTING: Final = _Setting()


@contextmanager
def memory_filled() -> Iterator[None]:
    """Let PyTorch fill all memory that it hands out within."""
    _SETTING.switch_on()
    try:
        yield
    finally:
        _SETTING.put_back()
