"""What a model answers to records, each by itself: another record changes no bit of an answer.

A product of matrices may round otherwise with other rows, and an answer that turns would be a vote
that depends on somebody else.  So each record is a unit of its own in a stack whose size follows
from the model alone, and begins at an aligned place, as in training (`fl.models.layers`); to the
last bit this is measured, as there, not proven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from ...accountant.arrays import BoolArray, Float32Array, FloatArray, IntArray

if TYPE_CHECKING:
    from ..models import Model

_ROWS_OF_A_UNIT: Final = 4
"""Rows of a unit, all but the first zeros: so many begin at aligned places (`ALIGNED`)."""

_MAX_STACK_NUMBERS: Final = 2**20
"""About how many numbers a stack has."""


def right_answers(
    model: Model, parameters: FloatArray, features: Float32Array, labels: IntArray
) -> BoolArray:
    """Return for which records the model's largest logit is that of the label: (records,).

    `labels` are integers.  Of one logit, the log-odds of class 1, the answer is 1 above 0.  Where a
    logit is NaN, as that of a record at which a module of one's own fails, the answer is wrong.
    """
    weights = torch.from_numpy(model.vector(parameters))
    values = model.features
    flat = features.reshape(len(features), values)
    # How many records go through at once follows from the model, never from how many there are.
    units = max(
        1, _MAX_STACK_NUMBERS // (model.parameters + _ROWS_OF_A_UNIT * (model.kept + values))
    )
    stack = model.spread(weights, units)
    answers = np.zeros(len(flat), np.int64)
    for first in range(0, len(flat), units):
        piece = flat[first : first + units]
        # What is missing of the last stack are zeros, so that every stack has the same shape.
        records = np.zeros((units, _ROWS_OF_A_UNIT, values))
        records[: len(piece), 0] = piece
        logits = model.forward(stack, torch.from_numpy(records), None)[: len(piece), 0].numpy()
        is_log_odds = logits.shape[1] == 1
        chosen = (logits[:, 0] > 0.0).astype(np.int64) if is_log_odds else logits.argmax(1)
        # -1 is no label.
        answers[first : first + len(piece)] = np.where(np.isnan(logits).any(1), -1, chosen)
    right: BoolArray = answers == labels
    return right
