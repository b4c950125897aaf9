"""Noise removal for rehearsals: the sum that the protocol would find, without its encryption.

That both find the same, bit for bit, is tested where the protocol is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...accountant.arrays import IntArray


class RehearsedRemoval:
    """Takes all noise but that of one node off, a node that an attacker's generator draws.

    `taken` is what the last round took off, (values,) in steps of the grid.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.taken: IntArray = np.zeros(0, np.int64)

    def removed(
        self,
        number: int,  # noqa: ARG002
        noises: Sequence[Callable[[], IntArray]],
        *,
        largest: int,  # noqa: ARG002
    ) -> IntArray:
        """Return the sum of all noises but one, modulo 2^64: (values,)."""
        drawn = [noise() for noise in noises]
        staying = int(self._rng.integers(len(drawn)))
        self.taken = np.asarray(np.sum(drawn, axis=0, dtype=np.int64) - drawn[staying])
        return self.taken
