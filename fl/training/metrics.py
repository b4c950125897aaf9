"""How good a model is on test data: accuracy, ROC AUC, concordance, error, loss.

Test data are held out and must be public; on private records each of these is a release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ...accountant.arrays import BoolArray, Float32Array, FloatArray, IntArray
from ...accountant.errors import InvalidInput

if TYPE_CHECKING:
    from ..models import Model

_MAX_PAIRS_AT_ONCE: Final = 2**22
"""How many pairs of records are compared at once."""


class _TestSet(Protocol):
    @property
    def test_features(self) -> Float32Array: ...

    @property
    def test_labels(self) -> IntArray | Float32Array: ...
    @property
    def label_range(self) -> tuple[float, float] | None: ...


def evaluate(model: Model, parameters: ArrayLike, test_set: _TestSet) -> dict[str, float]:
    """Return the metrics of a model on a federation's test set; see `measured`."""
    logits = model.logits(parameters, test_set.test_features)
    return measured(logits, test_set.test_labels, test_set.label_range)


def measured(
    logits: ArrayLike, labels: ArrayLike, label_range: tuple[float, float] | None = None
) -> dict[str, float]:
    """Return the metrics that logits (records, outputs) allow, by name.

    - labels (records, 2) [time, event], one output, a risk score: `c_index`, `loss` (Cox).
    - labels (records,) integers: `accuracy`, `balanced_accuracy`, `loss` (cross-entropy), and with
      two classes `roc_auc`.  One output is the log-odds of class 1.
    - labels (records,) in [-1, 1], one output, which stand for numbers of `label_range`:
      `mean_absolute_error` and `root_mean_squared_error`, in the unit of the label.  Answers are
      clipped to the range; where there is none, it errs by the whole range.

    A record with a logit that is NaN is answered wrongly.
    A metric that these labels do not define (one class only, no comparable pair) is NaN.
    Raises `InvalidInput` for shapes that do not fit.

    >>> measured([[-1.0], [2.0]], [0, 1])["accuracy"]
    1.0
    """
    scores, truth = np.asarray(logits, np.float64), np.asarray(labels)
    if scores.ndim != 2 or not len(scores) or len(truth) != len(scores):
        raise InvalidInput(
            f"`logits` and `labels` have shapes {scores.shape} and {truth.shape}.",
            next_step="Give (records, outputs) logits, and as many labels, at least one.",
        )
    if label_range is not None:
        return errors(truth, scores[:, 0], label_range)
    if truth.ndim == 2:
        return {
            "c_index": concordance(truth[:, 0], truth[:, 1], scores[:, 0]),
            "loss": cox_loss(truth[:, 0], truth[:, 1], scores[:, 0]),
        }
    # One output is the log-odds of class 1: the same as logits (0, s).
    table = np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
    # A record without a logit has no answer, which is wrong: -1 is no label.
    chosen = np.where(np.isnan(table).any(1), -1, table.argmax(1))
    values = {
        "accuracy": accuracy(truth, chosen),
        "balanced_accuracy": balanced_accuracy(truth, chosen),
        "loss": cross_entropy(truth, table),
    }
    if table.shape[1] == 2:
        values["roc_auc"] = roc_auc(truth, table[:, 1] - table[:, 0])
    return values


def errors(
    labels: ArrayLike, answers: ArrayLike, label_range: tuple[float, float]
) -> dict[str, float]:
    """Return the mean error of answers, and the root of its mean square, in the label's unit.

    Labels and answers are (records,), scaled from `label_range` to [-1, 1].

    >>> errors([0.0, 1.0], [0.5, 7.0], (0.0, 300.0))["mean_absolute_error"]
    37.5
    """
    low, high = label_range
    given = np.clip(np.asarray(answers, np.float64), -1.0, 1.0)
    error = np.abs(given - np.asarray(labels, np.float64))
    error = np.where(np.isnan(error), 2.0, error) * ((high - low) / 2.0)
    return {
        "mean_absolute_error": float(error.mean()),
        "root_mean_squared_error": float(np.sqrt((error**2).mean())),
    }


def accuracy(labels: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of records whose class was predicted."""
    return float(np.mean(np.asarray(labels) == np.asarray(predicted)))


def balanced_accuracy(labels: ArrayLike, predicted: ArrayLike) -> float:
    """Return the mean of the classes' recalls, over the classes that occur in `labels`."""
    truth = np.asarray(labels)
    right = truth == np.asarray(predicted)
    return float(np.mean([right[truth == label].mean() for label in np.unique(truth)]))


def roc_auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Return how often a record of class 1 has a larger score than one of class 0; ties count 1/2.

    NaN where a class is missing or a score is NaN.
    """
    truth, given = np.asarray(labels) == 1, np.asarray(scores, np.float64)
    high, low = given[truth], np.sort(given[~truth])
    if not len(high) or not len(low) or np.isnan(given).any():
        return float("nan")
    # Those below count twice, and those that are equal once.
    twice = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(twice.sum() / (2 * len(high) * len(low)))


def cross_entropy(labels: ArrayLike, logits: ArrayLike) -> float:
    """Return the mean of -log softmax(logits)[label]; `logits` is (records, classes)."""
    from scipy.special import log_softmax

    truth, table = np.asarray(labels), np.asarray(logits, np.float64)
    return float(-np.mean(log_softmax(table, axis=1)[np.arange(len(table)), truth]))


def cox_loss(time: ArrayLike, event: ArrayLike, risk: ArrayLike) -> float:
    """Return Cox's negative log partial likelihood over the number of records (Breslow).

    As `models.losses.CoxPartialLikelihood`, in O(n log n).
    """
    when, happened, score = _survival(time, event, risk)
    # From the latest time back, log sum exp of the risks so far is that of each risk set; records
    # of equal time are in one another's, so each takes the value at the last of them.
    order = np.argsort(-when, kind="stable")
    running = np.logaddexp.accumulate(score[order])
    last = np.searchsorted(-when[order], -when, side="right") - 1
    return float(np.sum(happened * (running[last] - score)) / len(score))


def concordance(time: ArrayLike, event: ArrayLike, risk: ArrayLike) -> float:
    """Return Harrell's C: how often, of two records, the one with the earlier event is riskier.

    Pairs count where one's event came before the other's time, or at the time at which the other
    was censored.  Equal risks count 1/2.  NaN where no pair counts or a risk is NaN.
    Source: Harrell, Lee and Mark 1996, *Multivariable prognostic models*, Statistics in Medicine
    15, section 5.5.

    >>> concordance([1, 2, 3], [1, 1, 0], [0.9, 0.5, 0.1])
    1.0
    """
    when, happened, score = _survival(time, event, risk)
    if np.isnan(score).any():
        return float("nan")
    right, pairs, step = 0.0, 0, max(1, _MAX_PAIRS_AT_ONCE // len(score))
    rows = np.flatnonzero(happened)
    for first in range(0, len(rows), step):
        earlier = rows[first : first + step, None]  # (step, 1), compared with all: (step, records)
        counts = (when[earlier] < when) | ((when[earlier] == when) & ~happened)
        pairs += int(counts.sum())
        right += float((counts & (score[earlier] > score)).sum())
        right += 0.5 * float((counts & (score[earlier] == score)).sum())
    return right / pairs if pairs else float("nan")


def _survival(
    time: ArrayLike, event: ArrayLike, risk: ArrayLike
) -> tuple[FloatArray, BoolArray, FloatArray]:
    when, score = np.asarray(time, np.float64), np.asarray(risk, np.float64)
    happened = np.asarray(event) == 1
    if not when.shape == happened.shape == score.shape == (len(score),) or not len(score):
        raise InvalidInput(
            "`time`, `event` and `risk` must be rows of one length.",
            next_step="Give one of each per record, for at least one record.",
        )
    return when, happened, score
