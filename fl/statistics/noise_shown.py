"""Noise on a release as numbers of one law, N(0, s^2), as tests of noise read it.

Gaussian noise has deviation s in every coordinate of `NoisyGram.white`.  Laplace noise x of scale s
is turned into s Phi^-1(F(x / s)), F its distribution: exactly normal where the noise is what it
should be, and narrower where it is less.  Sums of Laplace noise have another law, so the noise of
the whole is shown as the sum of what was shown of its shares, with whatever it has besides them.
Values of one kind are tested by themselves, too (`gram_parts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.mechanisms.gram_noise import NoisyGram

if TYPE_CHECKING:
    from ...accountant.mechanisms import NoisyGram, Ticket
    from ..aggregation.residuals import ResidualMonitor


class NoiseShown:
    """The noise of one release, silo by silo and as a whole, shown to a monitor for the sidecar."""

    def __init__(self, monitor: ResidualMonitor, mechanism: NoisyGram) -> None:
        self._monitor, self._mechanism = monitor, mechanism
        self._noise: dict[int, IntArray] = {}
        self._shown: dict[int, FloatArray] = {}

    def sent(self, ticket: Ticket, silo: int, name: str, total: IntArray) -> IntArray:
        """Return what a silo sends, modulo 2^64: its exact `total` with its share of the noise."""
        sent = self._mechanism.share_steps(ticket, total, name)
        # Outside of the mechanism: what is sent less the exact total, whatever was drawn.
        self._noise[silo] = sent - total
        self._shown[silo] = normal(self._mechanism, self._noise[silo])
        self._monitor.share(silo, self._shown[silo], 1.0)
        return sent

    def whole(self, steps: IntArray, totals: Sequence[IntArray], arrived: Sequence[int]) -> None:
        """Take the sum (values,) of the silos that `arrived`, and the exact totals of all."""
        exact, shares = np.zeros((2, steps.size), np.int64)
        shown = np.zeros(steps.size)
        for silo in arrived:
            exact += totals[silo]
            shares += self._noise[silo]
            shown += self._shown[silo]
        rest = (steps - exact) - shares
        self._monitor.whole(shown + self._mechanism.white(rest), 1.0, arrived)

    def items(self) -> dict[str, object]:
        """Return the sealed item."""
        return self._monitor.items()


def normal(mechanism: NoisyGram, noise: IntArray) -> FloatArray:
    """Return one share of noise (values,), in steps, as numbers of the law N(0, `share_std`^2)."""
    white = mechanism.white(noise)
    if mechanism.family != "laplace":
        return white
    from scipy.special import ndtri_exp

    # log F(-|x|) = log(1/2) - |x|: the far tails stay apart, which F itself would round to 1.
    lower = ndtri_exp(np.log(0.5) - np.abs(white) / mechanism.share_std)
    return np.asarray(-np.sign(white) * lower * mechanism.share_std)


def gram_parts(mechanism: NoisyGram) -> dict[str, BoolArray]:
    """Return the diagonals, what is above them, and the label sums of a release: (values,) each.

    Residuals of Gram matrices are handed on as `mechanism.white(steps)`, in units, where all of
    them have the deviation of a share; noise that is scaled for one of these kinds by mistake is
    lost among the many values of another.
    """
    labels = np.arange(mechanism.gram.values) >= mechanism.label_start
    diagonal = mechanism.diagonal & ~labels
    return {"diagonal": diagonal, "above": ~diagonal & ~labels, "labels": labels}
