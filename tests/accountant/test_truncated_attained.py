"""Lower ends of truncated samples, beside every small data set on a grid, enumerated here."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.account import account

from ..cases import for_each

RELATIONS = ("add-remove", "replace-one", "zero-out")

AROUND = [(math.cos(a), math.sin(a)) for a in np.arange(0.0, 2.0, 1.0 / 6.0) * math.pi]


def noisy(centre, points):
    """The masses of Gaussian noise of deviation 1 around a centre, in cells of the plane."""
    edges = np.concatenate(([-np.inf], np.linspace(-7.0, 7.0, points), [np.inf]))
    return np.outer(*(np.diff(norm.cdf(edges, c)) for c in centre)).ravel()


class Sampler:
    """Who joins, who is cut: one outcome after the other."""

    def __init__(self, rate, batch, points):
        self.rate, self.batch, self.points, self.around, self.outputs = rate, batch, points, {}, {}

    def centred(self, members):
        centre = tuple(round(sum(x), 9) for x in zip((0.0, 0.0), *members, strict=True))
        if centre not in self.around:
            self.around[centre] = noisy(centre, self.points)
        return self.around[centre]

    def output(self, values):
        values = tuple(sorted(values))
        if values not in self.outputs:
            total = np.zeros((self.points + 1) ** 2)
            for drawn in itertools.product((0, 1), repeat=len(values)):
                joined = [v for v, here in zip(values, drawn, strict=True) if here]
                weight = math.prod(self.rate if here else 1.0 - self.rate for here in drawn)
                kept = list(itertools.combinations(joined, min(self.batch, len(joined))))
                for members in kept:
                    total += weight / len(kept) * self.centred(members)
            self.outputs[values] = total
        return self.outputs[values]


def delta(p, q, epsilon):
    """The larger of both hockey sticks."""
    order = math.exp(epsilon)
    return max(np.maximum(p - order * q, 0.0).sum(), np.maximum(q - order * p, 0.0).sum())


def neighbours_of(relation, unit, others, sampler):
    """The outputs of what may stand in the unit's place."""
    if relation == "add-remove":
        return [sampler.output(others)]
    places = [(0.0, 0.0)] if relation == "zero-out" else AROUND
    return [sampler.output((*others, place)) for place in places if place != unit]


@for_each("relation", RELATIONS)
@for_each(("rate", "batch"), [(0.5, 1), (0.5, 2), (0.9, 2)])
def test_no_data_set_of_three_shows_more(rate, batch, relation):
    """The unit at one point, the other two anywhere: in the middle, or on the circle."""
    sampler = Sampler(rate, batch, 65)
    event = ev.TruncatedPoisson(rate, batch, 3, ev.Gaussian(1.0))
    unit = AROUND[0]
    shown = []
    for others in itertools.combinations_with_replacement(((0.0, 0.0), *AROUND), 2):
        p = sampler.output((*others, unit))
        for q in neighbours_of(relation, unit, others, sampler):
            shown.append([delta(p, q, epsilon) for epsilon in (0.25, 2.5)])
    best = np.max(shown, axis=0)
    for epsilon, attained in zip((0.25, 2.5), best, strict=True):
        ends = account(event, epsilon=epsilon, neighbours=relation).delta
        assert attained <= ends.upper
        assert ends.lower >= 0.97 * attained


def test_a_data_set_of_four_that_shows_more_than_a_hidden_cut():
    """Others all at 120 degrees from the unit: .0313, where others at 0 show .0286."""
    sampler = Sampler(0.5, 2, 99)
    crowd = (AROUND[4],) * 3
    p, q = sampler.output((*crowd, AROUND[0])), sampler.output(crowd)
    event = ev.TruncatedPoisson(0.5, 2, 4, ev.Gaussian(1.0))
    ends = account(event, epsilon=1.0).delta
    assert delta(p, q, 1.0) == pytest.approx(0.03125, rel=2e-3)
    assert 0.985 * delta(p, q, 1.0) <= ends.lower <= ends.upper
    # Two of the others join with probability 1/2; the unit stays of 3 or 4 with 5/16 x 1/2 in all.
    overall = 0.5 * 0.5 + 0.5 * 5 / 16
    hidden = account(ev.Poisson(overall, ev.Gaussian(1.0)), epsilon=1.0).delta
    assert hidden.upper < 0.0287 < 0.03 < ends.lower


@for_each("relation", RELATIONS)
@for_each(("batch", "population"), [(2, 4), (1, 3)])
def test_where_all_join_the_sample_is_one_of_a_fixed_size(batch, population, relation):
    """Others at -1, the unit at +1: its place is one of the batch, or another's."""
    event = ev.TruncatedPoisson(1.0, batch, population, ev.Gaussian(1.0))
    x = np.concatenate(([-np.inf], np.linspace(-9.0, 9.0, 20_001), [np.inf]))
    share = batch / population
    other = {"add-remove": -1.0, "replace-one": -1.0, "zero-out": 0.0}[relation]
    places = (-1.0, 1.0, other)
    without, unit, instead = (np.diff(norm.cdf(x, place)) for place in places)
    p, q = (1 - share) * without + share * unit, (1 - share) * without + share * instead
    for epsilon in (0.25, 2.5):
        ends = account(event, epsilon=epsilon, neighbours=relation).delta
        attained = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
        assert ends.lower == pytest.approx(attained, rel=1e-3)
        assert attained <= ends.upper * (1.0 + 1e-9)


def test_a_cut_that_is_all_but_certain_shows_what_a_fixed_size_does():
    """A thousand of a hundred thousand, half of whom join: one round and a hundred."""
    for rounds in (1, 100):
        cut = ev.Repeat(rounds, ev.TruncatedPoisson(0.5, 1000, 100_000, ev.Gaussian(1.0)))
        fixed = ev.Repeat(rounds, ev.FixedSize(1000, 100_000, ev.Gaussian(1.0)))
        ends = account(cut, delta=1e-5).epsilon
        assert ends.lower >= 0.99 * account(fixed, delta=1e-5).epsilon.lower
        assert ends.lower <= ends.upper
