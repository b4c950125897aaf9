"""The statistics of an audit: from counts and scores to bounds that are as sure as they say.

Two kinds, never mixed: bounds that hold for any mechanism (`epsilon_lower`, `steinke`), and tests
of a claim and of the family around it (`family_test`, `mahloujifar`, `mu_lower` for mu-GDP).
Thresholds, ranks and numbers of guesses are fixed before the scores are seen, or on other units.
"""

from ...accountant.risk.trade_off import TradeOff, trade_off
from .binomial import (
    Counts,
    counts_at,
    epsilon_lower,
    gdp_epsilon,
    lower_rate,
    mu_lower,
    upper_rate,
)
from .family import (
    FamilyResult,
    claim_only,
    claim_rank,
    claim_rejected,
    counts_at_rank,
    family_test,
    scaled,
)
from .one_run import mahloujifar, mahloujifar_rejects, steinke, steinke_p_value
from .roc import Roc, roc

__all__ = [
    "Counts",
    "FamilyResult",
    "Roc",
    "TradeOff",
    "claim_only",
    "claim_rank",
    "claim_rejected",
    "counts_at",
    "counts_at_rank",
    "epsilon_lower",
    "family_test",
    "gdp_epsilon",
    "lower_rate",
    "mahloujifar",
    "mahloujifar_rejects",
    "mu_lower",
    "roc",
    "scaled",
    "steinke",
    "steinke_p_value",
    "trade_off",
    "upper_rate",
]
