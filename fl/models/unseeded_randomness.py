"""Whether code draws random numbers that no seed of a run decides."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

_SEEDED: Final = torch.Tag.nondeterministic_seeded


@contextmanager
def drawn() -> Iterator[list[str]]:
    """Yield a list of what has drawn within, filled at the end; PyTorch's generator is put back."""
    draws: list[str] = []
    before = random.getstate(), _of_numpy()
    with torch.random.fork_rng(devices=[]), _Chance(draws):
        yield draws
    if random.getstate() != before[0]:
        draws.append("random")
    if _of_numpy() != before[1]:
        draws.append("numpy.random")


@contextmanager
def generators_kept() -> Iterator[None]:
    """Put the generators of PyTorch, NumPy and Python back to where they were before."""
    of_numpy, of_python = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            np.random.set_state(of_numpy)
            random.setstate(of_python)


class _Chance(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes which operations draw random numbers."""

    def __init__(self, draws: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = draws

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _SEEDED not in func.tags:
            return func(*args, **(kwargs or {}))
        # Attention without dropout may draw, and does not: the generator stays where it was.
        before, named = torch.get_rng_state(), (*args, *(kwargs or {}).values())
        result = func(*args, **(kwargs or {}))
        generator = any(isinstance(value, torch.Generator) for value in named)
        if generator or not torch.equal(before, torch.get_rng_state()):
            self.draws.append(str(func))
        return result


def _of_numpy() -> str:
    """Return the state of NumPy's own generator, which calls without a generator move."""
    return repr(np.random.get_state(legacy=False)["state"])
