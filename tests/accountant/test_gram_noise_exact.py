"""Exact probabilities of what a Gram release draws, beside what its event proves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.mechanisms import NoisyGram
from privplan.accountant.mechanisms.gaussian import SMOOTHING
from privplan.accountant.sensitivity.gram import GramBound

from ..cases import for_each

BITS = 8
ONE = 2**BITS
"""A row of norm 1, and a label of 1, in steps."""


def law(parameter: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the integers within 12 deviations and their probabilities, summed from the formula."""
    reach = math.ceil(12 * parameter)
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-((x / parameter) ** 2) / 2)
    return x, weights / weights.sum()


def exact_delta(moved: tuple[int, int], parameters: tuple[float, float], epsilon: float) -> float:
    """Return delta of two discrete Gaussians that move by whole steps, summed over all integers.

    For each first number the second is summed from where the privacy loss is above epsilon.
    """
    (s, t), (first, second) = moved, parameters
    x, p = law(first)
    y, q = law(second)
    above = np.concatenate([np.cumsum(q[::-1])[::-1], [0.0]])  # P(noise >= y)
    # Loss of noise x, y with the sums there, against without: (2 x s + s^2) / (2 first^2) + ...
    loss = (2.0 * x * s + s * s) / (2 * first**2)
    need = ((epsilon - loss) * 2 * second**2 / t - t) / 2
    start = np.clip(np.floor(need).astype(int) + 1 - y[0], 0, len(y))
    with_unit = float((p * above[start]).sum())
    # Without: the same outcomes are noise x + s, y + t.
    elsewhere = np.exp(-(((x + s) / first) ** 2) / 2) / np.exp(-((x / first) ** 2) / 2).sum()
    later = np.clip(start + t, 0, len(y))
    return with_unit - math.exp(epsilon) * float((elsewhere * above[later]).sum())


def parameters(mechanism: NoisyGram) -> tuple[float, float]:
    """Return the parameters of the diagonal and of the label sum, from the formulas."""
    share = mechanism.share_std
    diagonal = (share * 4**BITS) ** 2 + SMOOTHING
    labels = (share * 2**BITS * 2**BITS / mechanism.gram.label_weight) ** 2 + SMOOTHING
    return math.sqrt(diagonal), math.sqrt(labels)


@for_each(("weight", "epsilon"), [(0.5, 0.1), (1.0, 1.0), (0.5, 3.0)])
def test_delta_of_two_numbers_is_at_most_what_the_event_proves(
    weight: float, epsilon: float
) -> None:
    """A row of norm 1 and a label of 1 come: the pair that attains the bound, noise as drawn."""
    gram = GramBound(dimension=1, classes=1, label_weight=weight)
    mechanism = NoisyGram(gram=gram, std=0.75, bits=BITS)
    exact = exact_delta((ONE * ONE, ONE * ONE), parameters(mechanism), epsilon)
    proven = pp.account(mechanism.event("add-remove"), epsilon=epsilon).delta
    assert exact <= proven.upper
    assert exact >= 0.999 * proven.upper
    # What the event takes off for the grid is seen: less than all noise, and hardly less.
    without = exact_delta((ONE * ONE + 2**9, ONE * ONE), parameters(mechanism), epsilon)
    assert without > proven.upper


@for_each("epsilon", [0.1, 1.0, 3.0])
def test_delta_of_a_replaced_row_is_at_most_what_the_event_proves(epsilon: float) -> None:
    """Opposite rows of one label: only the label sum moves, by twice a row."""
    gram = GramBound(dimension=1, classes=1, label_weight=2.0)
    mechanism = NoisyGram(gram=gram, std=1.5, bits=BITS)
    exact = exact_delta((0, 2 * ONE * ONE), parameters(mechanism), epsilon)
    event = mechanism.event("replace-one")
    proven = pp.account(event, epsilon=epsilon, neighbours="replace-one").delta
    assert 0.999 * proven.upper <= exact <= proven.upper


def test_what_is_drawn_has_the_parameters_of_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler is asked for these parameters and no others, each rounded up."""
    from privplan.accountant.mechanisms import gram_noise

    from .mechanism_tickets import ticket_for

    asked: list[tuple[int, float]] = []

    def remember(_stream: object, count: int, scale: float) -> np.ndarray:
        asked.append((count, scale))
        return np.zeros(count, np.int64)

    monkeypatch.setattr(gram_noise, "discrete_gaussian", remember)
    gram = GramBound(dimension=5, classes=3, label_weight=0.7)
    mechanism = NoisyGram(gram=gram, std=0.75, bits=14, shares=3)
    mechanism.share_steps(ticket_for(mechanism), np.zeros(gram.values, np.int64), "a")
    share = Fraction(mechanism.share_std)
    squares = [
        (share * 4**14) ** 2,
        (share * 4**14) ** 2 / 2,
        (share * 2**14 * 3 / Fraction(0.7)) ** 2,
    ]
    assert [count for count, _ in asked] == [5, 10, 15]
    for (_, scale), square in zip(asked, squares, strict=True):
        exact = square + SMOOTHING
        assert Fraction(scale) ** 2 >= exact > Fraction(math.nextafter(scale, 0.0)) ** 2


@for_each("relation", ["add-remove", "replace-one"])
def test_rounded_laplace_noise_loses_what_the_event_says(relation: str) -> None:
    """P(noise >= n) = e^-(n - 1/2)/scale / 2, so a shift by n steps costs n / scale at most."""
    gram = GramBound(dimension=1, classes=1, label_weight=2.0)
    mechanism = NoisyGram(gram=gram, std=3.0, bits=BITS, family="laplace")
    event = mechanism.event(relation)
    assert isinstance(event, ev.Laplace)
    scales = (3.0 * 4**BITS, 3.0 * 2**BITS * 2**BITS / 2.0)
    moved = (ONE * ONE, ONE * ONE) if relation == "add-remove" else (0, 2 * ONE * ONE)

    def log_tail(steps: float, scale: float) -> float:
        return -(steps - 0.5) / scale

    far = 10**8
    loss = sum(
        log_tail(far, scale) - log_tail(far + shift, scale)
        for scale, shift in zip(scales, moved, strict=True)
    )
    times = 2 if relation == "replace-one" else 1
    proven = times / event.noise_multiplier
    assert loss <= proven * (1 + 1e-9)
    if relation == "add-remove":
        assert loss == pytest.approx(proven)
