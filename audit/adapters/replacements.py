"""Methods of another library's objects, wrapped for as long as a training is observed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Replacements:
    """What was put into the place of something else, and how to undo it.

    >>> replaced, shown = Replacements(), type("Shown", (), {"text": lambda self: "as it was"})()
    >>> replaced.put(shown, "text", lambda inner: lambda: inner().upper())
    >>> shown.text()
    'AS IT WAS'
    >>> replaced.undo()
    >>> shown.text()
    'as it was'
    """

    def __init__(self) -> None:
        self._undone: list[Callable[[], None]] = []

    def put(self, target: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        """Put what `wrap` makes of an attribute of an object, or of a module, into its place."""
        inner = getattr(target, name)
        of_object = name in vars(target) or name == "__class__"
        setattr(target, name, wrap(inner))

        def restore() -> None:
            if of_object:
                setattr(target, name, inner)
            else:
                delattr(target, name)

        self._undone.append(restore)

    def undo(self) -> None:
        """Put everything back, the last one first."""
        while self._undone:
            self._undone.pop()()
