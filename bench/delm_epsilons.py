"""What baselines of DELM claim, and what noise of their laws would prove of a record or a client.

All is under replace-one, at delta 1e-5; `None` stands for no guarantee at all.

    fedavg, fedprox, stc    no noise: none claimed, none proven
    ldp-fl      a round claims epsilon2, as if a message were one number.  A client's message has D
                numbers, of which each can move by 2 C: T rounds are T D Laplace mechanisms of
                epsilon2 each, which is proven of a whole client, so of a record as well.
    secprobe    a round claims epsilon2 for the coefficients; of a network nothing is proven, as the
                sensitivity that was printed is that of a polynomial.  The choice costs nothing
                next to it: scores are of noisy gradients, on public records.
    ldp         covariances, once: epsilon1, proven for a record under add-remove
"""

from __future__ import annotations

from functools import cache

import privplan as pp
from privplan.accountant import events as ev

DELTA = 1e-5


@cache
def ldp_fl_proven(epsilon_of_round: float, dimensions: int, rounds: int) -> float:
    """Return the epsilon of a client in all rounds, by Renyi composition: an upper bound."""
    number = ev.Laplace(2.0 / epsilon_of_round)
    every = ev.Repeat(dimensions * rounds, number)
    return pp.account(every, delta=DELTA, neighbours="replace-one", engine="rdp").epsilon.upper
