"""Who masks with whom: a random graph in which everybody has the same number of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from .messages import statement


class Graph:
    """Each of `names` with its `degree` neighbours; the same for all who know the `seed`.

    Parties stand on a circle in the order of SHA-256(seed, name), a uniform permutation where
    nobody chose the seed, and each is joined to the `degree` / 2 nearest on either side.  With
    `degree` one below the number of names, or above, everybody is joined to everybody.

    Where the seed is the hash of keys to which every honest party adds a fresh one, nobody can aim
    at a graph, only try: `terms` says how often.

    >>> sorted(Graph(["a", "b", "c"], 2, b"seed").neighbours("b"))
    ['a', 'c']
    """

    def __init__(self, names: Sequence[str], degree: int, seed: bytes) -> None:
        self._half = degree // 2
        self._circle = list(names)
        self._complete = degree >= len(names) - 1
        if not self._complete:
            self._circle.sort(
                key=lambda name: sha256(statement(b"place", seed, name.encode())).digest()
            )
        self._position = {name: position for position, name in enumerate(self._circle)}

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Return the neighbours of one party."""
        position, size = self._position[name], len(self._circle)
        if self._complete:
            return (*self._circle[:position], *self._circle[position + 1 :])
        # The nearest on either side of the circle, whose ends are joined.
        steps = range(1, self._half + 1)
        ahead = (self._circle[(position + step) % size] for step in steps)
        return (*ahead, *(self._circle[position - step] for step in steps))
