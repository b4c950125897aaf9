"""Plots of results: nothing is computed a second time, and both ends of a number are shown.

>>> import privplan as pp
>>> chart = pp.plot.noise  # each draws on axes of matplotlib, which the extra `plots` brings

- `front`: `privplan.plot`, whose functions return axes.
- `chart`: what a plot shows, without saying how it is drawn.
- `spending`, `sized_noise`, `loss_curves`, `attacked`, `comparisons`, `ledger_course`: from results
  to charts.
- `axes`, `picture`, `text_chart`: a chart on axes, in a file, and in characters.
"""

from __future__ import annotations

from .front import (
    claims,
    epsilon_by_round,
    ledger_spending,
    noise,
    privacy_profile,
    trade_off,
    utility,
)

__all__ = [
    "claims",
    "epsilon_by_round",
    "ledger_spending",
    "noise",
    "privacy_profile",
    "trade_off",
    "utility",
]
