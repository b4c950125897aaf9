"""Metrics against scikit-learn and against slow counts, with ties and with nothing to count."""

from __future__ import annotations

import doctest
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.fl.training import metrics

from ..cases import for_each


def slow_concordance(time: list[float], event: list[int], risk: list[float]) -> float:
    """Every pair by itself, in words."""
    right, pairs = 0.0, 0
    for i, j in combinations(range(len(time)), 2):
        first, second = (i, j) if time[i] < time[j] else (j, i)
        if time[i] == time[j]:
            if event[i] == event[j]:
                continue  # both died, or both left: nobody outlived anybody
            first, second = (i, j) if event[i] else (j, i)
        elif not event[first]:
            continue  # left before the other's time
        pairs += 1
        right += 1.0 if risk[first] > risk[second] else 0.5 if risk[first] == risk[second] else 0.0
    return right / pairs if pairs else math.nan


records = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 1), st.integers(-2, 2)), min_size=1, max_size=25
)


@given(records)
def test_concordance_is_the_slow_count(rows: list[tuple[int, int, int]]) -> None:
    time, event, risk = (list(column) for column in zip(*rows, strict=True))
    found = metrics.concordance(time, event, risk)
    assert found == pytest.approx(slow_concordance(time, event, risk), nan_ok=True)
    turned = metrics.concordance(time, event, [-one for one in risk])
    assert math.isnan(found) == math.isnan(turned)
    assert math.isnan(found) or found + turned == pytest.approx(1.0)


def test_concordance_by_hand_and_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics.concordance([1, 2, 3], [1, 0, 1], [3, 9, 1]) == 0.5  # 2 against 3 is unknown
    assert metrics.concordance([2, 2], [1, 0], [1, 0]) == 1.0
    assert metrics.concordance([2, 2], [1, 1], [1, 0]) != metrics.concordance([2], [1], [1])  # nan
    assert math.isnan(metrics.concordance([1, 2], [1, 1], [math.nan, 0]))
    rng = np.random.default_rng(0)
    time, event, risk = rng.integers(0, 9, 60), rng.integers(0, 2, 60), rng.normal(size=60)
    whole = metrics.concordance(time, event, risk)
    monkeypatch.setattr(metrics, "_MAX_PAIRS_AT_ONCE", 130)
    assert metrics.concordance(time, event, risk) == whole


def slow_cox(time: list[int], event: list[int], risk: list[float]) -> float:
    total = 0.0
    for i, happened in enumerate(event):
        if happened:
            total += math.log(
                sum(math.exp(r - risk[i]) for r, t in zip(risk, time, strict=True) if t >= time[i])
            )
    return total / len(time)


@given(records)
def test_cox_loss_is_the_slow_formula(rows: list[tuple[int, int, int]]) -> None:
    time, event, risk = (list(column) for column in zip(*rows, strict=True))
    assert metrics.cox_loss(time, event, risk) == pytest.approx(
        slow_cox(time, event, [float(one) for one in risk]), abs=1e-12
    )


def test_losses_are_those_that_training_minimises() -> None:
    torch = pytest.importorskip("torch")
    from privplan.fl.models import model_named

    rng = np.random.default_rng(0)
    for name, classes in (("logistic", 2), ("softmax", 4), ("cox", 1)):
        model = model_named(name, 5, classes)
        logits = rng.normal(size=(12, model.outputs))
        labels = rng.integers(0, max(classes, 2), 12)
        if name == "cox":
            labels = np.stack([rng.integers(0, 5, 12), rng.integers(0, 2, 12)], 1)
        share = torch.full((1, 12), 1 / 12, dtype=torch.float64)
        expected = model.loss.value(torch.tensor(logits)[None], torch.tensor(labels)[None], share)
        assert metrics.measured(logits, labels)["loss"] == pytest.approx(expected.item())


@for_each("seed", range(5))
def test_classification_is_that_of_scikit_learn(seed: int) -> None:
    known = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    labels = np.concatenate([[0, 1, 2], rng.integers(0, 3, 50)])
    logits = rng.normal(size=(53, 3))
    found = metrics.measured(logits, labels)
    assert set(found) == {"accuracy", "balanced_accuracy", "loss"}
    chosen = logits.argmax(1)
    assert found["accuracy"] == pytest.approx(known.accuracy_score(labels, chosen))
    balanced = known.balanced_accuracy_score(labels, chosen)
    assert found["balanced_accuracy"] == pytest.approx(balanced)
    odds = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert found["loss"] == pytest.approx(known.log_loss(labels, odds))
    binary, scores = (labels > 0).astype(int), rng.integers(0, 6, 53) / 2.0  # many ties
    assert metrics.roc_auc(binary, scores) == pytest.approx(known.roc_auc_score(binary, scores))


def test_one_logit_or_two_say_the_same() -> None:
    rng = np.random.default_rng(0)
    score, labels = rng.normal(size=(30, 1)), rng.integers(0, 2, 30)
    one = metrics.measured(score, labels)
    two = metrics.measured(np.hstack([0.5 - score / 2, 0.5 + score / 2]), labels)
    assert one == pytest.approx(two)
    assert set(one) == {"accuracy", "balanced_accuracy", "loss", "roc_auc"}


def test_what_labels_do_not_define_is_nan_and_large_logits_do_not_overflow() -> None:
    found = metrics.measured([[1.0], [2.0]], [1, 1])
    assert math.isnan(found["roc_auc"])
    assert found["accuracy"] == found["balanced_accuracy"] == 1.0
    nothing = metrics.measured([[1.0], [2.0]], [[1.0, 0.0], [2.0, 0.0]])
    assert math.isnan(nothing["c_index"])
    assert nothing["loss"] == 0.0
    assert math.isnan(metrics.roc_auc([0, 1], [math.nan, 1.0]))
    assert metrics.measured([[900.0], [-900.0]], [0, 1])["loss"] == pytest.approx(900.0)
    assert metrics.cox_loss([1, 2], [1, 1], [-900.0, 900.0]) == pytest.approx(900.0)


def test_a_model_on_a_test_set() -> None:
    pytest.importorskip("torch")
    from types import SimpleNamespace

    from privplan.fl.models import model_named

    model = model_named("logistic", 2, 2)
    held_out = SimpleNamespace(
        test_features=np.array([[1.0, 0.0], [-1.0, 0.0]], np.float32),
        test_labels=np.array([1, 0]),
        label_range=None,
    )
    found = metrics.evaluate(model, [3.0, 0.0, 0.0], held_out)
    assert found["accuracy"] == found["roc_auc"] == 1.0
    assert found["loss"] == pytest.approx(math.log1p(math.exp(-3)))


@for_each(
    ("logits", "labels"),
    [([1.0, 2.0], [0, 1]), ([[1.0]], [0, 1]), (np.empty((0, 1)), [])],
)
def test_shapes_that_do_not_fit_are_refused(logits, labels) -> None:
    with pytest.raises(InvalidInput, match="logits"):
        metrics.measured(logits, labels)


def test_survival_of_unequal_lengths_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one length"):
        metrics.concordance([1, 2], [1], [0.5, 0.5])
    with pytest.raises(InvalidInput, match="one length"):
        metrics.cox_loss([], [], [])


def test_examples_run() -> None:
    found = doctest.testmod(metrics)
    assert found.attempted > 0
    assert found.failed == 0
