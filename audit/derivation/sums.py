"""Sums of terms with shared noise: what all of them, each of them, or all but some reveal.

C is the contribution bound of one unit in one term: under the relation of the promise a term moves
by C (by 2C under replace-one).  A term that is a unit's own clipped vector goes with the unit, so C
is the clip; a silo's whole update, or a part of what is clipped together, moves across the ball, so
C is twice the clip under add-remove and zero-out.  W is the largest sum of a unit's weights, S the
number of silos, k the noise shares that can be relied on, s the deviation of one share:

    sum                       W C / (s sqrt k)
    each                      W C / s, or C / (s sqrt S) with weights 1/S
    sum-less-own              W C / (s sqrt(k-1)), or C (S-1)/S / (s sqrt(k-1))
    sum, c told               W C / (s sqrt(k-c)), or C (S-c)/S / (s sqrt(k-c))
    each, c told              W C / s, or C sqrt(S-c) / (S s)
    one-share                 W C / s

for the shift in standard deviations; the formulas of all but the first are those of
`accountant/sensitivity/uldp.py`.  Whoever holds a part of a unit that is weighted by its records,
in the clear, knows how many records it has in all, so nothing is supported there.

Where a promised unit is k records, its records in other silos are at most k, whatever a silo holds
of the unit itself, so the event for k of them covers who holds some as it covers who holds none: if
which of its records take part says nothing of the others.  Flags that each silo makes of its own
records alone, under public caps, are a function of these records (`chosen_by`).  Flags drawn from
all records of a user are not: whether a silo's single record is flagged depends, without noise, on
how many lie elsewhere, and then nothing is proven before a silo that holds some.

The sensitivity is clip x largest sum of weights x multiplier of the relation.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ...accountant import events as ev
from ...accountant.records import Reach
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import down, root_down, up
from ..ledger.matrix_facts import is_matrix, moved_by_unit
from ..ledger.product_facts import is_product
from .noise import (
    MIN_SHARE_GRID_STEPS,
    SMOOTHING_VARIANCE_STEPS,
    require_accounted,
    share_deviation,
    share_variance,
)
from .protocol_consistency import is_private, require_strong_key
from .round_facts import RoundFacts, is_alone
from .run_setting import NoProof, RunSetting


def sensitivity_of(facts: RoundFacts, setting: RunSetting) -> Fraction:
    """Return the sensitivity of the noisy sum to one unit, derived from the facts."""
    contribution = facts.contribution
    # Delta = multiplier x C x sum of weights (x S where each silo's whole update is one term). Of
    # silos and shares the larger counts, so a log that states fewer silos gains nothing.
    silos = max(setting.silos, facts.noise.shares, 1) if contribution.terms == "silo-delta" else 1
    return _moved_by_term(facts, setting) * weight_sum_bound(facts, setting) * silos


def contribution_bound(facts: RoundFacts, setting: RunSetting) -> Fraction:
    """Return the contribution bound C; a larger stated sensitivity raises it."""
    sensitivity = sensitivity_of(facts, setting)
    # A stated sensitivity above the derived one is believed, as it claims less privacy; one below
    # is not. Events are relative to C, and `reach` is the factor that the relation puts back.
    excess = max(Fraction(1), Fraction(facts.sensitivity) / sensitivity)
    return _moved_by_term(facts, setting) * excess / setting.reach


def summed_contribution_bound(facts: RoundFacts, setting: RunSetting) -> Fraction:
    """Return C times the sum of weights for formulas that know a uniform weight to be 1/S."""
    largest = weight_sum_bound(facts, setting)
    return contribution_bound(facts, setting) * (
        max(largest, Fraction(1)) if is_uniform(facts) else largest
    )


def _moved_by_term(facts: RoundFacts, setting: RunSetting) -> Fraction:
    """Return how far one term moves: by its bound and multiplier, or by the facts of a matrix."""
    contribution = facts.contribution
    if is_matrix(contribution):
        return moved_by_matrix(facts, setting)
    return _sensitivity_multiplier(facts, setting) * Fraction(contribution.bound)


def moved_by_matrix(facts: RoundFacts, setting: RunSetting, *, apart: bool = False) -> Fraction:
    """Return how far one unit moves a sum of matrices, or those that are seen one by one."""
    contribution = facts.contribution
    scope = setting.scope(contribution.unit)
    part = setting.unit if scope == "finer" else None
    # A promise for k records composes k single ones, and of a record an entry is only a part.
    entries = "entry" in (setting.unit, contribution.unit)
    if scope == "group" and entries and is_product(contribution):
        part = "entry"
    return moved_by_unit(contribution, setting.neighbours, part=part, apart=apart)


def _sensitivity_multiplier(facts: RoundFacts, setting: RunSetting) -> int:
    """Return the sensitivity multiplier of one term: 1 if it is removed, 2 if it is replaced."""
    # A unit finer than what is clipped (a record of a user) leaves its term in the sum, pointing
    # elsewhere within the ball: the diameter 2 C, under every relation.
    stays = setting.scope(facts.contribution.unit) == "finer"
    if facts.contribution.terms not in ("unit", "message") or stays:
        return 2
    return setting.reach


def weight_sum_bound(facts: RoundFacts, setting: RunSetting) -> Fraction:
    """Return the largest sum of a unit's weights; at least 1 where terms are not a unit's own.

    A message has its noise when it is weighted, so a small weight takes nothing off.
    """
    largest = Fraction(facts.weights.largest_sum)
    # Without weights a user may have a full term in each silo, so the weights sum to S.
    if is_unweighted(facts, setting):
        return max(largest, Fraction(setting.silos))
    # Terms of several units, and messages that carry their noise already, are not made smaller
    # by small weights.
    return largest if facts.contribution.terms == "unit" else max(largest, Fraction(1))


def is_unweighted(facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether every silo counts a user's term once, so that its weights sum to S."""
    terms = facts.contribution.terms, facts.contribution.unit
    apart = setting.silos >= 2 and facts.noise.shares >= 2
    return apart and facts.weights.rule == "none" and terms == ("unit", "user")


def is_uniform(facts: RoundFacts) -> bool:
    """Return whether a user's weights, which sum to 1, are spread evenly over the silos."""
    uniform = facts.weights.rule == "uniform" and facts.weights.largest_sum <= 1.0 + 1e-9
    return uniform and facts.contribution.unit == "user"


def shared_by_silos(facts: RoundFacts, setting: RunSetting) -> int:
    """Return the number of silos, each of which added one share of the noise."""
    if setting.silos < 1 or facts.noise.shares != setting.silos:
        raise NoProof(
            f"{facts.noise.shares} noise shares for {setting.silos} silos leave updates without "
            "known noise"
        )
    if facts.contribution.terms == "whole":
        raise NoProof("the log does not say what the parts of the release are")
    return setting.silos


def see_sum(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return the event of the sum of all terms with all reliable shares of the noise."""
    if reach.colluders:
        return _coalition_event(facts, setting, reach, reach.colluders, together=True)
    if reach.holds != "nothing":
        return see_less_own(facts, setting, reach)
    return summed_event(facts, setting)


def see_each(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return the event of all silos' updates, each with one share of the noise."""
    if reach.colluders:
        return _coalition_event(facts, setting, reach, reach.colluders, together=False)
    if reach.holds != "nothing":
        _require_unknown_counts(facts, setting, holds=True)
        _require_chosen_apart(facts, setting)
    if is_alone(facts, setting):
        return summed_event(facts, setting)
    silos = shared_by_silos(facts, setting)
    if facts.contribution.terms == "silo-delta":
        return _silo_deltas_event(facts, setting, silos, silos)
    if facts.noise.family != "gaussian":
        return summed_event(facts, setting)  # counts a single share, as each update has
    # Weights w move the updates by sqrt(sum w^2) C: 1/sqrt(S) if uniform, at most the sum of w.
    square = share_variance(facts.noise) / summed_contribution_bound(facts, setting) ** 2
    return ev.Gaussian(root_down(square * (silos if is_uniform(facts) else 1)))


def see_less_own(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return the event of the sum before a contributor that subtracts its term and its share."""
    if reach.colluders:
        return _coalition_event(facts, setting, reach, reach.colluders + 1, together=True)
    holds = reach.holds != "nothing"
    if setting.silos < 2:
        raise NoProof("a single silo holds all data itself")
    if holds:
        _require_chosen_apart(facts, setting)
    if is_alone(facts, setting):
        return summed_event(facts, setting)
    require_strong_key(setting)
    _require_unknown_counts(facts, setting, holds=holds)
    silos = shared_by_silos(facts, setting)
    if facts.shares < 2:
        raise NoProof("a silo that subtracts its share is left with no noise")
    if facts.contribution.terms == "silo-delta":
        # Dropouts take away noise, as if more of the deviation were missing.
        return _silo_deltas_event(
            facts, setting, silos, silos - 1, Fraction(facts.shares - 1, silos - 1)
        )
    if facts.noise.family != "gaussian":
        # The part of the unit that the observer holds is weighted anew when the rest goes: 2 C.
        doubled = 2 if holds and setting.neighbours != "replace-one" else 1
        return noisy_sum_event(
            facts,
            setting,
            contribution_bound(facts, setting) * weight_sum_bound(facts, setting) * doubled,
        )
    square = share_variance(facts.noise) / summed_contribution_bound(facts, setting) ** 2
    # `insider_release` supposes that (S-1)/S of the noise is left. With fewer reliable shares,
    # `shares - 1` are left of S - 1: the variance is scaled down to that.
    square *= silos * Fraction(facts.shares - 1, silos - 1)
    return uldp.insider_release(
        root_down(square),
        rounds=1,
        silos=silos,
        weighting="uniform" if is_uniform(facts) else "records",
        holds_user=holds,
        hidden_weights=True,  # or weights that tell no counts: see above
        neighbours=setting.neighbours,
    ).event


def see_one_share(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event:
    """Return the event of the sum with one share of the noise, whoever added it."""
    if reach.holds != "nothing":
        _require_unknown_counts(facts, setting, holds=True)
    require_unknown_noise(reach)
    # One share is the least noise that a sum can have with anybody in it; all others may be known.
    return summed_event(replace(facts, shares=1), setting)


def require_unknown_noise(reach: Reach) -> None:
    """Raise `NoProof` where who made the one share may tell it, look itself, or be missing."""
    if reach.colluders:
        raise NoProof("the one contributor whose noise is in the sum may tell it")
    if reach.dropouts:
        raise NoProof("the one contributor whose noise is in the sum may be missing")


def summed_event(facts: RoundFacts, setting: RunSetting) -> ev.Event:
    """Return the event of all terms with all reliable shares, whoever sees them."""
    terms = Fraction(1)
    if facts.contribution.terms == "silo-delta":
        # Each silo's whole update may change by C where one of its users changes.
        terms = Fraction(max(setting.silos, facts.noise.shares, 1))
    return noisy_sum_event(
        facts,
        setting,
        contribution_bound(facts, setting) * weight_sum_bound(facts, setting) * terms,
    )


def _coalition_event(
    facts: RoundFacts, setting: RunSetting, reach: Reach, colluding: int, *, together: bool
) -> ev.Event:
    """Return the event before who knows what `colluding` silos added: the rest summed, or each.

    Masks hide the other silos' updates from as many colluders as they are made for.
    """
    holds = reach.holds != "nothing"
    if setting.silos <= colluding:
        raise NoProof("a coalition of all silos holds all data itself")
    if is_private(setting):
        raise NoProof(uldp.PRIVATE_COALITION.reason)
    if is_alone(facts, setting):
        if holds:
            _require_chosen_apart(facts, setting)
        return summed_event(facts, setting)
    _require_unknown_counts(facts, setting, holds=holds)
    silos = shared_by_silos(facts, setting)
    # Colluders' shares are subtracted first; they may all be among those that arrived.
    others, left = silos - colluding, facts.shares - colluding
    if left < 1:
        raise NoProof("who subtracts the shares of colluding silos is left with no noise")
    # Of the sum, `left` shares spread over the other silos' terms; of single updates each has its
    # own share whole.
    shares_left = Fraction(left, others) if together else Fraction(1)
    if facts.contribution.terms == "silo-delta":
        return _silo_deltas_event(facts, setting, silos, others, shares_left)
    if facts.noise.family != "gaussian":
        return summed_event(facts, setting)  # counts a single share
    square = share_variance(facts.noise) / summed_contribution_bound(facts, setting) ** 2
    return uldp.coalition_release(
        root_down(square * silos * shares_left),
        rounds=1,
        silos=silos,
        colluders=colluding,
        weighting="uniform" if is_uniform(facts) else "records",
        holds_user=False,  # counts are told above, and uniform weights leave the same
        neighbours=setting.neighbours,
        together=together,
    ).event


def _require_unknown_counts(facts: RoundFacts, setting: RunSetting, *, holds: bool) -> None:
    """Raise `NoProof` where who holds a part of a unit learns from its weight what else there is.

    Where the unit is a part of what is weighted together, such as one record of a user, who holds
    nothing of it may still hold others of the same user.
    """
    in_the_clear = facts.weights.rule == "records" and setting.aggregation != "private-weighting"
    if in_the_clear and (holds or setting.scope(facts.contribution.unit) == "finer"):
        raise NoProof(uldp.CLEAR_WEIGHTS.reason)


def _require_chosen_apart(facts: RoundFacts, setting: RunSetting) -> None:
    """Raise `NoProof` where a silo's records may be chosen by what others hold of the unit."""
    of_many = setting.scope(facts.contribution.unit) == "group"
    if of_many and facts.sampling.chosen_by != "each-silo":
        raise NoProof(
            "which records take part may tell a silo that holds some how many lie elsewhere"
        )


def _silo_deltas_event(
    facts: RoundFacts, setting: RunSetting, silos: int, seen: int, left: Fraction = Fraction(1)
) -> ev.Event:
    """Return the event of `seen` silos' clipped updates, with the part `left` of the noise."""
    if facts.noise.family != "gaussian":
        return summed_event(facts, setting)
    per_silo = (
        contribution_bound(facts, setting) * setting.reach / 2 * weight_sum_bound(facts, setting)
    )
    sigma = root_down(share_variance(facts.noise) / per_silo**2 * left / silos)
    return uldp.naive_release(
        sigma, rounds=1, silos=silos, seen=seen, neighbours=setting.neighbours
    ).event


def noisy_sum_event(facts: RoundFacts, setting: RunSetting, moved: Fraction) -> ev.Event:
    """Return the event of a sum with all reliable noise, at sensitivity `moved`."""
    noise, norm = facts.noise, facts.contribution.norm
    if noise.family == "gaussian":
        return ev.Gaussian(root_down(share_variance(noise) * facts.shares / moved**2))
    require_accounted(noise)
    # Only Gaussian shares add up in closed form, var = k share_std^2 at sensitivity `moved`.
    # A sum of several shares is one share and something independent of the data.
    scale, grid = Fraction(share_deviation(noise)), Fraction(noise.grid)
    if noise.family == "laplace":
        _need_l1(norm)
        return ev.Laplace(down(scale / moved))
    if not grid:
        raise NoProof(f"{noise.family} noise has no grid that it stands on")
    steps = -(-moved // grid)
    if noise.family == "discrete-laplace":
        _need_l1(norm)
        return ev.DiscreteLaplace(down(scale / grid / steps), int(steps))
    # One integer: the discrete Gaussian itself. `steps` is the sensitivity in grid steps, rounded
    # up.
    if facts.single:
        return ev.DiscreteGaussian(down(scale / grid / steps), int(steps))
    # A vector on a fine grid: continuous noise of variance t^2 - 64 dominates it (`noise`).
    if scale >= MIN_SHARE_GRID_STEPS * grid:
        return ev.Gaussian(root_down(((scale / grid) ** 2 - SMOOTHING_VARIANCE_STEPS) / steps**2))
    # On a coarse grid: rho = (Delta / sigma)^2 / 2 holds for discrete Gaussian vectors; rounded up.
    return ev.ZCDP(up((steps * setting.reach * grid / scale) ** 2 / 2))


def _need_l1(norm: str) -> None:
    if norm != "l1":
        raise NoProof(f"Laplace noise needs an l1 bound, and the clip is {norm}")
