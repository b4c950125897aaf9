"""A node against a sum in which one node's noise stays, which may be its own.

    released   S + N_j modulo 2^64, with j drawn at random among n nodes and hidden
    the node   knows its own N_c, and for one value of the datum in question, S

If j = c, released - N_c is S, to the last bit, where the assumed value is the true one, and is not
where it is another that moves S.  If j is another node, equality needs N_j - N_c to be one given
table of integers: of values with a deviation of 2^12 steps or more (`product_grid`) that has
probability below (2^-12)^values.  So the event has probability 1/n a round with the datum and none
without it, at every amount of noise: delta is at least 1 - (1 - 1/n)^T after T rounds, at every
epsilon (`accountant.sensitivity.fedpower_views.revealed_probability`).

A run in which no round is recognised proves nothing: in most rounds the noise that stays is
another's, and what is seen then is accounted for by its deviation alone.
"""

from __future__ import annotations

import numpy as np

from ...accountant.arrays import BoolArray, IntArray
from ...accountant.errors import InvalidInput


def exact_rounds(released: IntArray, own_noise: IntArray, assumed: IntArray) -> BoolArray:
    """Return in which rounds what was released is what was assumed, with the node's own noise.

    `released`, `own_noise`, `assumed`: (rounds, values) integers of 64 bits, in steps of the grid:
    the released sums, the noise that the node itself drew, and the exact sums over all nodes if the
    datum has the assumed value.  Returns (rounds,).  Raises `InvalidInput` for tables that are not
    of one shape, of other numbers, or without a value, in which everything would be recognised.

    >>> exact_rounds(np.array([[9, 4], [9, 4]]), np.array([[2, 1], [3, 1]]), np.array([[7, 3]] * 2))
    array([ True, False])
    """
    tables = (released, own_noise, assumed)
    if any(
        table.ndim != 2
        or not table.size
        or table.shape != released.shape
        or table.dtype != np.int64
        for table in tables
    ):
        raise InvalidInput(
            "Sums and noise must be tables (rounds, values) of 64-bit integers, of one shape.",
            "On the grid they are equal or not; floats would be equal by their rounding.",
            "Give them in steps of the grid.",
        )
    # Modulo 2^64, as sums are made.
    with np.errstate(over="ignore"):
        return np.asarray((released - own_noise == assumed).all(axis=1))
