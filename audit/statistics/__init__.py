"""The statistics of an audit: from counts and scores to bounds that are as sure as they say.

Three kinds, never mixed: bounds that hold for any mechanism (`epsilon_lower`, `steinke`,
`exchangeable_epsilon`), tests of a claim and of the family around it (`family_test`, `mahloujifar`,
`mu_lower` for Gaussian noise), and estimates (`cosine_estimate`).  Thresholds, ranks and numbers of
guesses are fixed before the scores are seen, or on other units.
"""

from .binomial import Counts, counts_at, epsilon_lower, lower_rate, upper_rate
from .cosine import CosineEstimate, cosine_estimate
from .exchangeable import exchangeable_epsilon, exchangeable_upper, exchangeable_upper_wilson
from .family import FamilyResult, claim_rejected, family_test
from .gaussian import gdp_delta, gdp_epsilon, gdp_mu, mu_lower
from .one_run import (
    guess,
    mahloujifar,
    mahloujifar_gaussian,
    mahloujifar_rejects,
    plan_guesses,
    steinke,
    steinke_p_value,
)
from .roc import Roc, TprAt, roc
from .scaling import scaled
from .thresholds import claim_only, claim_or_split, claim_rank, counts_at_rank, split_threshold
from .tradeoff import TradeOff, gaussian_trade_off, trade_off

__all__ = [
    "CosineEstimate",
    "Counts",
    "FamilyResult",
    "Roc",
    "TprAt",
    "TradeOff",
    "claim_only",
    "claim_or_split",
    "claim_rank",
    "claim_rejected",
    "cosine_estimate",
    "counts_at",
    "counts_at_rank",
    "epsilon_lower",
    "exchangeable_epsilon",
    "exchangeable_upper",
    "exchangeable_upper_wilson",
    "family_test",
    "gaussian_trade_off",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "guess",
    "lower_rate",
    "mahloujifar",
    "mahloujifar_gaussian",
    "mahloujifar_rejects",
    "mu_lower",
    "plan_guesses",
    "roc",
    "scaled",
    "split_threshold",
    "steinke",
    "steinke_p_value",
    "trade_off",
    "upper_rate",
]
