"""Units of several records that are known by stated numbers: linear programmes and explicit chains.

The upper end is held against a linear programme over all chains, which knows no trade-off function;
the lower end against a chain of data sets whose every neighbours are checked here.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

import privplan as pp
from privplan import account
from privplan import events as ev
from privplan.accountant.engines.pld.pairs.group_classes import iterated
from privplan.accountant.engines.pld.pairs.registry import pairs

from ..cases import for_each

SIZES = (2, 3, 4)
BARE = [
    (0.1, 0.0),
    (1.0, 0.0),
    (3.0, 0.0),
    (0.0, 0.05),
    (0.5, 1e-3),
    (1.0, 0.1),
    (2.0, 1e-6),
    (8.0, 1e-6),
]
SHARES = (0.0, 0.2, 0.8, 1.0)


def most_of_all_chains(size, epsilon, delta, at, outcomes=2):
    """The largest P_k(S) - e^at P_0(S) over P_0, ..., P_k on a few outcomes, S half of them.

    The variables are all probabilities, and for neighbours i, j and each outcome a slack of at
    least P_i - e^epsilon P_j, of which the sum is at most delta, in both orders.
    """
    count, width = size + 1, outcomes
    steps = [(i, i + 1) for i in range(size)] + [(i + 1, i) for i in range(size)]
    total = count * width + len(steps) * width
    gain = np.zeros(total)
    beginning = width // 2
    gain[size * width : size * width + beginning] = -1.0
    gain[:beginning] += math.exp(at)
    rows, limits = [], []
    for index, (i, j) in enumerate(steps):
        slack = count * width + index * width
        for x in range(width):
            row = np.zeros(total)
            row[i * width + x], row[j * width + x], row[slack + x] = 1.0, -math.exp(epsilon), -1.0
            rows.append(row)
            limits.append(0.0)
        row = np.zeros(total)
        row[slack : slack + width] = 1.0
        rows.append(row)
        limits.append(delta)
    sums = np.zeros((count, total))
    for i in range(count):
        sums[i, i * width : (i + 1) * width] = 1.0
    solved = linprog(
        gain, A_ub=np.array(rows), b_ub=limits, A_eq=sums, b_eq=np.ones(count), bounds=(0, 1)
    )
    assert solved.success
    return -solved.fun


def sticks(p, q, order):
    return float(np.maximum(p - order * q, 0.0).sum())


@for_each("size", SIZES)
@for_each(("epsilon", "delta"), BARE)
def test_both_ends_are_those_of_the_worst_chain(size, epsilon, delta):
    event = ev.Group(size, ev.Approximate(epsilon, delta))
    # The solver meets its constraints to 1e-7, which e^at multiplies: not beyond 6.
    for at in (share * size * epsilon for share in SHARES if share * size * epsilon <= 6.0):
        most = most_of_all_chains(size, epsilon, delta, at)
        ends = account(event, epsilon=at).delta
        assert ends.upper >= most - 1e-9
        assert ends.upper <= most * (1.0 + 1e-4) + 1e-7
        assert ends.lower <= most * (1.0 + 1e-6) + 1e-7
        assert ends.lower >= most * (1.0 - 1e-3) - 1e-7


@for_each(("epsilon", "delta"), [(1.0, 0.0), (0.5, 0.05)])
def test_more_outcomes_show_no_more(epsilon, delta):
    for share in (0.0, 0.4, 0.9):
        at = share * 3 * epsilon
        two, six = (most_of_all_chains(3, epsilon, delta, at, width) for width in (2, 6))
        assert six == pytest.approx(two, abs=1e-8)


def chain(size, epsilon, delta, cells=60):
    """Distributions of k + 1 data sets whose beginnings grow by G, those that P_0 lacks first."""

    def grown(level):
        left = max(1.0 - delta - level, 0.0)
        return min(1.0, delta + math.exp(epsilon) * level, 1.0 - math.exp(-epsilon) * left)

    beginnings = [[0.0] * (size + 1)]
    for lacking in range(size - 1, -1, -1):
        # Outcomes of P_{lacking + 1}, ..., P_k only.
        for level in np.linspace(0.0, delta, 9)[1:] if delta else []:
            row = [0.0] * (lacking + 1) + [float(level)]
            while len(row) < size + 1:
                row.append(grown(row[-1]))
            beginnings.append(row)
    corner = (1.0 - delta) / (1.0 + math.exp(epsilon))
    levels = {float(level) for level in np.linspace(0.0, 1.0, cells + 1)[1:]}
    while corner > 0.0 and len(levels) < cells + 1 + size:
        levels.add(corner)
        corner = (corner - delta) * math.exp(-epsilon)
    for level in sorted(levels):
        row = [level]
        while len(row) < size + 1:
            row.append(grown(row[-1]))
        beginnings.append(row)
    return np.diff(np.array(beginnings), axis=0).T


@for_each("size", [*SIZES, 7])
@for_each(("epsilon", "delta"), BARE)
def test_a_chain_of_data_sets_attains_the_pair(size, epsilon, delta):
    laws = chain(size, epsilon, delta)
    assert (laws > -1e-12).all()
    np.testing.assert_allclose(laws.sum(axis=1), 1.0, rtol=1e-12)
    for one, other in itertools.pairwise(laws):
        rounding = 1e-14 * (10.0 + math.exp(epsilon))
        assert sticks(one, other, math.exp(epsilon)) <= delta + rounding
        assert sticks(other, one, math.exp(epsilon)) <= delta + rounding
    mechanism = pairs(ev.Group(size, ev.Approximate(epsilon, delta)), "add-remove")
    for pair in (mechanism.pair, mechanism.class_pair):
        p, q = np.exp(pair.atoms.log_p), np.exp(pair.atoms.log_q)
        for share in SHARES:
            order = math.exp(share * size * epsilon)
            shown = sticks(laws[-1], laws[0], order)
            assert sticks(p, q, order) == pytest.approx(shown, rel=1e-9, abs=1e-11)
            assert sticks(q, p, order) == pytest.approx(shown, rel=1e-9, abs=1e-11)


@for_each("delta", [Fraction(0), Fraction(1, 1000), Fraction(1, 7), Fraction(2, 3)])
@for_each("size", [1, 2, 5, 12])
def test_pieces_are_distributions_and_their_own_mirror_image(size, delta):
    lengths, slopes, beyond = iterated(size, Fraction(3, 2), delta)
    assert sum(lengths) + beyond == 1
    masses = [length * slope for length, slope in zip(lengths, slopes, strict=True)]
    assert sum(masses) + beyond == 1
    assert sorted(masses) == sorted(lengths)


@for_each("rounds", [1, 30])
@for_each("size", [2, 5])
def test_pure_records_are_geometric_noise_on_their_number(size, rounds):
    """By the engine for discrete noise, which knows nothing of groups."""
    group = ev.Repeat(rounds, ev.Group(size, ev.Pure(0.2)))
    noise = ev.Repeat(rounds, ev.DiscreteLaplace(1.0 / (0.2 * size), size))
    for delta in (1e-2, 1e-6):
        ours, other = (account(each, delta=delta).epsilon for each in (group, noise))
        assert ours.upper == pytest.approx(other.upper, rel=1e-4)
        assert ours.lower == pytest.approx(other.lower, rel=1e-4)
    assert account(group, delta=1e-2).epsilon.upper < 0.9 * rounds * size * 0.2 or rounds == 1


def test_nested_groups_and_wrappers_agree():
    plain = account(ev.Repeat(9, ev.Group(6, ev.Pure(0.1))), delta=1e-5).epsilon
    nested = account(ev.Group(2, ev.Repeat(9, ev.Group(3, ev.Local(0.1)))), delta=1e-5).epsilon
    assert nested == plain
    # A response is one mechanism of its class: the same from above, nothing from below.
    response = account(ev.Repeat(9, ev.Group(6, ev.RandomizedResponse(0.1, 4))), delta=1e-5).epsilon
    assert response.upper == plain.upper
    assert response.lower == 0.0


def test_a_larger_group_loses_more_and_one_record_what_it_did():
    uppers = [
        account(ev.Repeat(5, ev.Group(size, ev.Approximate(0.3, 1e-8))), delta=1e-4).epsilon.upper
        for size in (1, 2, 3, 8, 20)
    ]
    assert uppers == sorted(uppers)
    record = account(ev.Repeat(5, ev.Approximate(0.3, 1e-8)), delta=1e-4).epsilon.upper
    assert uppers[0] == record


@for_each("event", [ev.Approximate(0.001, 1e-9), ev.Approximate(600.0, 1e-300)])
def test_where_nothing_is_counted_the_lemma_answers(event):
    group = ev.Group(101, event)
    ends = account(group, epsilon=101 * event.epsilon).delta
    factor = sum(math.exp(min(i * event.epsilon, 700.0)) for i in range(101))
    assert ends.upper >= min(event.delta * factor, 1.0) * (1 - 1e-9)


def test_the_iterate_is_below_the_lemma_and_risk_follows():
    group = ev.Repeat(20, ev.Group(3, ev.Pure(0.2)))
    lemma = ev.Repeat(20, ev.Pure(0.6))
    for delta in (1e-2, 1e-6):
        assert account(group, delta=delta).epsilon.upper < account(lemma, delta=delta).epsilon.upper
    ours, other = (pp.risk(each, fpr=0.01) for each in (group, lemma))
    assert ours.tpr.upper < other.tpr.upper
    assert ours.advantage.upper < other.advantage.upper
