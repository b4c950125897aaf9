"""Keeps the computed table of claims between runs; see `store`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from . import store

LIBRARIES: Final = ("numpy", "scipy")

Line = TypeVar("Line")


def kept(
    what: str, system: str, kind: type[Line], compute: Callable[[], tuple[Line, ...]]
) -> tuple[Line, ...]:
    """Return what code of this version computed of a system before, else compute and keep it.

    `what` is `claims` or `noise`, and `kind` the type of its lines.
    """
    version = current()  # before the code is loaded that computes
    known = store.recall(f"{what}-{system}", version, what, kind)
    if known is None:
        known = compute()
        store.keep(f"{what}-{system}", version, what, known, current)
    return known


def current() -> str | None:
    """Return a digest of all that the numbers depend on; None if it cannot be told."""
    from ... import accountant

    return store.version_of([accountant], LIBRARIES)
