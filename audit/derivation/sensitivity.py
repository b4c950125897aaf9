"""The sensitivity of a noisy sum: clip x largest sum of weights x multiplier of the relation."""

from __future__ import annotations

from fractions import Fraction

from ..ledger.matrix_facts import is_matrix, moved_by_unit
from ..ledger.product_facts import is_product
from .round_facts import RoundFacts
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
