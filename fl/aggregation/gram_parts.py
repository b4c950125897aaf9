"""Which values of a released Gram matrix have noise of one kind: each is tested by itself too."""

from __future__ import annotations

import numpy as np

from ...accountant.arrays import BoolArray
from ...accountant.mechanisms.gram_noise import NoisyGram


def gram_parts(mechanism: NoisyGram) -> dict[str, BoolArray]:
    """Return the diagonals, what is above them, and the label sums of a release: (values,) each.

    Residuals of Gram matrices are handed on as `mechanism.white(steps)`, in units, where all of
    them have the deviation of a share; noise that is scaled for one of these kinds by mistake is
    lost among the many values of another.
    """
    labels = np.arange(mechanism.gram.values) >= mechanism.label_start
    diagonal = mechanism.diagonal & ~labels
    return {"diagonal": diagonal, "above": ~diagonal & ~labels, "labels": labels}
