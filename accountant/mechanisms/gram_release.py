"""What the sum of a silo's rows depends on: the facts that mechanisms on Gram matrices share.

Rows are put on the same grid whatever noise is added to their sum (`gram_row_grid`, `gram_rows`).
"""

from __future__ import annotations

from typing import Protocol

from ..sensitivity.gram import GramBound


class GramRelease(Protocol):
    """A mechanism that releases x x^T, and x y^T, of rows on a grid of b bits."""

    @property
    def gram(self) -> GramBound:
        """The shape of the release, and the bounds on one unit."""

    @property
    def bits(self) -> int:
        """b: a row of the public norm has 2^b steps."""

    @property
    def row_norm(self) -> float:
        """R, to which rows are clipped before they are divided by it."""

    @property
    def unit(self) -> str:
        """Whose rows are bounded together: `record`, `user` or `silo`."""

    @property
    def label_scale(self) -> int:
        """s: a label y stands as the integers s y."""
