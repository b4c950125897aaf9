"""Matrices of rows with shared noise: what all silos' sum, each silo's, or all but some reveal.

A matrix is a Gram matrix with label sums, or a product with a public matrix.  C is how far one unit
moves the sum, over the multiplier of the relation; k the noise shares that can be relied on, s the
deviation of one share:

    sum                       C / (s sqrt k)
    each                      C / s
    sum-less-own              C / (s sqrt(k-1))
    sum, c told               C / (s sqrt(k-c))
    each, c told              C / s
    one-share                 C / s
    one-share, c told         C / s, and delta c/k in each round: see `round_facts`

for the shift in standard deviations.  A unit's rows may lie in several silos, of which each keeps a
part by its own rows alone: |G_1|, |G_2|, ... sum to at most T, so their squares to at most T^2, and
label sums likewise; whoever sees each silo's matrix sees no larger a move than who sees their sum
(`sensitivity.gram` and `sensitivity.product`, silos one by one; `moved_by_unit` checks it).
Nothing is re-weighted when a part goes, so who holds some of the unit learns nothing of the rest by
that.  Of Laplace noise one share counts for everyone, as a sum of several is one of them and
something independent of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import with_article
from ...accountant.records import Reach
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import down, root_down, up
from ..ledger.matrix_facts import coarsest_grid
from .noise import MIN_SHARE_GRID_STEPS, require_accounted, share_deviation, share_variance
from .protocol_consistency import is_private
from .round_facts import RoundFacts, noise_is_removed
from .run_setting import NoProof, RunSetting
from .sums import (
    contribution_bound,
    moved_by_matrix,
    require_unknown_noise,
    shared_by_silos,
    weight_sum_bound,
)

View = Callable[[RoundFacts, RunSetting, Reach], ev.Event]


def see_matrix_sum(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return the event of all silos' sum; who holds a part of the unit takes its own off."""
    if reach.colluders or reach.holds != "nothing":
        return _less(facts, setting, max(reach.colluders, 1))
    return _event(facts, setting, facts.shares)


def see_each_matrix(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return the event of each silo's matrix, with one share of the noise."""
    if noise_is_removed(facts, setting):
        raise NoProof("who sees each product sees a second sum of them, without most of the noise")
    if reach.colluders:
        _require_others(facts, setting, reach.colluders)
    shared_by_silos(facts, setting)
    return _event(facts, setting, 1, apart=True)


def see_matrix_less_own(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return the event of the sum before a silo that takes off its own part and its share."""
    return _less(facts, setting, reach.colluders + 1)


def see_matrix_of_one_share(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return the event of the sum with one share of the noise, whoever added it.

    Of the k shares, each as likely to be the one that stays, `colluders` are known: with
    probability c/k the sum is exact to who knows them, and else it has the noise of another.
    """
    if not reach.colluders or not noise_is_removed(facts, setting):
        require_unknown_noise(reach)
        return _event(facts, setting, 1)
    require_unknown_noise(replace(reach, colluders=0))
    if setting.aggregation == "plain":
        raise NoProof("no protocol is stated that takes off noise which nobody else sees")
    _require_others(facts, setting, reach.colluders)
    shared_by_silos(facts, setting)
    exact = ev.Approximate(0.0, up(Fraction(reach.colluders, facts.shares)))
    return ev.Compose((_event(facts, setting, 1), exact))


MATRIX_VIEWS: Final[Mapping[str, View]] = {
    "sum": see_matrix_sum,
    "each": see_each_matrix,
    "sum-less-own": see_matrix_less_own,
    "one-share": see_matrix_of_one_share,
}
"""One noisy matrix by what is seen."""


def _less(facts: RoundFacts, setting: RunSetting, told: int) -> ev.Event:
    """Return the event of the sum of the other silos, where `told` silos' parts are known."""
    _require_others(facts, setting, told)
    shared_by_silos(facts, setting)
    return _event(facts, setting, facts.shares - told)


def _require_others(facts: RoundFacts, setting: RunSetting, told: int) -> None:
    """Raise `NoProof` where nobody, or no noise, is left besides those who tell what they know."""
    if setting.silos <= told:
        raise NoProof("whoever sees the rest holds all data itself")
    if is_private(setting):
        raise NoProof(uldp.PRIVATE_COALITION.reason)
    if facts.shares <= told:
        raise NoProof("who takes the shares of these silos off is left with no noise")


def _event(facts: RoundFacts, setting: RunSetting, shares: int, *, apart: bool = False) -> ev.Event:
    """Return the event of a matrix with so many shares of the noise."""
    contribution = facts.contribution
    require_accounted(facts.noise)
    if facts.sampling.method != "none":
        raise NoProof(
            f"matrices of {with_article(facts.sampling.method)} sample are not accounted for"
        )
    # Noise is even in the coordinates of the bound; there the coarsest step is that of the facts.
    noise = replace(facts.noise, grid=coarsest_grid(facts.noise, contribution))
    if share_deviation(noise) < MIN_SHARE_GRID_STEPS * noise.grid:
        raise NoProof(f"noise stands on a grid of {noise.grid:g}, too coarse for its deviation")
    moved = contribution_bound(facts, setting) * weight_sum_bound(facts, setting)
    if apart:
        of_sum, of_each = (moved_by_matrix(facts, setting, apart=each) for each in (False, True))
        moved *= of_each / of_sum
    if noise.family == "laplace":
        return ev.Laplace(down(Fraction(share_deviation(noise)) / moved))
    return ev.Gaussian(root_down(share_variance(noise) * shares / moved**2))
