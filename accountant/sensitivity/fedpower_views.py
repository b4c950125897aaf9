"""FedPower's three algorithms as events: what a run releases to whom.

Each of n clients multiplies Y_i = M_i Z_i; every p-th product ("sync") is aggregated, and the
server's orthonormalised Z goes back to all.  sigma is the standard deviation of the noise on one
entry, Delta the sensitivity of Y.

- `original` (Algorithm 1): each client adds N(0, sigma^2) to what it sends at a sync; the server
  adds its own noise to the sum.  The local and the central part are not added up: the server sees
  the clients' noise alone, everybody else sees all of it.
- `utility` (Algorithm 2): all noises but one are subtracted from a secure sum; whose noise stays
  is one hidden, uniform index.  A client whose noise stayed knows it and sees the exact sum, so
  against clients delta is at least 1/n per release, at every epsilon and every sigma.
- `private` (Algorithm 3): every product, local ones too, gets N(0, sigma^2 / n) from its client,
  and syncs are secure sums, with noise sigma^2 in all.

With p = 1 all clients multiply the same public Z, and Y moves by Delta.  With p > 1 local steps of
Algorithms 1 and 2 add no noise, Z_i depends on private data, and noise calibrated to Delta proves
nothing.

Source of the algorithms: Liu, Pejo and Tang 2023, Applied Sciences, Algorithms 1-3.  The
accounting is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from .. import events as ev
from .. import validate
from ..errors import InvalidInput
from .fedpower import PowerStep, drifting_sensitivity
from .release import Release, Sensitivity, as_sensitivity, moved_by, repeated, up

ALGORITHMS: Final = ("original", "utility", "private")
OBSERVERS: Final = ("server", "client", "outsider")

_DRIFT_EVENT: Final = ev.NoGuarantee(
    "Local steps without noise make Z depend on private data, so noise calibrated to one product "
    "proves nothing: use local_steps 1, or give `drift` for the bound 2 R^2."
)
_BIASED_EVENT: Final = ev.NoGuarantee(
    "A server that picks the index, or asks every client for its noise, sees the sum without "
    "noise; nothing in the protocol proves that it does not."
)


def release(
    algorithm: str,
    sensitivity: Sensitivity,
    *,
    noise: float,
    rounds: int,
    clients: int,
    observer: str = "server",
    colluders: int | None = None,
    local_steps: int = 1,
    drift: PowerStep | None = None,
    server_noise: float = 0.0,
    equal_weights: bool = False,
    biased_server: bool = False,
) -> Release:
    """Return what `rounds` products reveal about one unit to an observer, as an event.

    `noise` is sigma: per client for `original` and `utility`, in the sum of all clients for
    `private`.  `observer` is the server, another client, or an outsider who sees every Z;
    `colluders` of the other clients share what they know with it (a client counts itself).
    `server_noise`, the server's own noise on the sum, counts for `original` where all clients have
    `equal_weights` 1 in that sum; otherwise only the noise that a client adds to its own product
    counts.  `biased_server`: the server of `utility` may pick the index.  `drift`: bounds for
    products that follow local steps without noise; with `local_steps` p above 1, Algorithms 1 and
    2 are accounted at `drifting_sensitivity(drift)`, and without it they are no guarantee.

    With c colluders, per release: `original` Delta/sigma for the server, and for others noise
    sqrt((n - c) sigma^2 + server_noise^2) where weights are equal; `utility` Delta/sigma, and a
    delta of c/n with it; `private` Delta/sigma_c, sigma_c = sigma sqrt((n - c)/n), and for each
    local step Delta sqrt(n)/sigma, as if it were published: at c = 0 in all
    mu_T = (Delta/sigma) sqrt((T/p)((p-1) n + 1)).

    Raises `InvalidInput` for values out of range, and where `sensitivity` is a stated number.

    >>> from .fedpower import row_sensitivity
    >>> moved = row_sensitivity(PowerStep(row_norm=3.0, rank=2))
    >>> release("private", moved, noise=18.0, rounds=92, clients=100).event
    Repeat(count=92, event=Gaussian(noise_multiplier=2.0))
    """
    validate.choice(ALGORITHMS, algorithm=algorithm)
    validate.choice(OBSERVERS, observer=observer)
    as_sensitivity(sensitivity)
    colluding = _colluders(observer, colluders, validate.count(clients=clients))
    run = _Run(
        moved=sensitivity,
        variance=Fraction(validate.positive(noise=noise)) ** 2,
        rounds=validate.count(rounds=rounds),
        local_steps=validate.count(local_steps=local_steps),
        clients=clients,
        colluding=colluding,
        observer=observer,
    ).drifted(algorithm, drift)
    central = Fraction(validate.non_negative(server_noise=server_noise)) ** 2
    event: ev.Event
    if algorithm == "private":
        event, condition = run.private(), f"no client but {colluding} tells its noise or drops out"
    elif run.unsound:
        event, condition = _DRIFT_EVENT, "local steps release nothing"
    elif algorithm == "original":
        event, condition = run.original(equal_weights, central), "local steps release nothing"
    else:
        event, condition = (
            run.utility(biased_server),
            "the index is uniform, hidden, and always new",
        )
    return Release(
        event,
        sensitivity.neighbours,
        run.seen_by,
        sensitivity.unit,
        conditions=(*run.moved.conditions, "all noise is drawn freshly and kept secret", condition),
        warnings=run.warnings(algorithm),
    )


def revealed_probability(clients: int, rounds: int, colluders: int = 1) -> float:
    """Return how often at least one of `rounds` releases of Algorithm 2 is exact to its clients.

    1 - (1 - c/n)^T, for c `colluders` among n `clients`.  It is a lower bound on delta at every
    epsilon: an adversary who knows all other data and its own noise N_c compares Z with
    orth(sum Y + N_c).  With the unit's data they agree with probability c/n in each release, with
    other data almost never (r < d).  Neighbours: any that move the sum.  Derived here.

    >>> round(revealed_probability(100, 92), 2)
    0.6
    """
    share = _colluders("client", colluders, validate.count(clients=clients)) / clients
    probability = -math.expm1(validate.count(rounds=rounds) * math.log1p(-share))
    return probability * (1.0 - 1e-14)  # rounded down, by more than four operations can add


@dataclass(frozen=True)
class _Run:
    """A run of p-step rounds: sigma^2 as a fraction, who watches, and how far Y moves."""

    moved: Sensitivity
    variance: Fraction
    rounds: int
    local_steps: int
    clients: int
    colluding: int
    observer: str
    unsound: bool = False

    @property
    def syncs(self) -> int:
        """Aggregated products, at most."""
        return -(-self.rounds // self.local_steps)

    def drifted(self, algorithm: str, drift: PowerStep | None) -> _Run:
        """Return the run with the sensitivity that local steps without noise leave."""
        if algorithm == "private" or self.local_steps == 1:
            return self
        if drift is None or self.moved.unit == "matrix-entry":
            return replace(self, unsound=True)
        return replace(self, moved=drifting_sensitivity(drift, self.moved.neighbours))

    def original(self, equal_weights: bool, central: Fraction) -> ev.Event:
        # The server knows its own noise, so only what a client adds to its own product counts.
        seen = self.variance
        if equal_weights and self.observer != "server":
            seen = (self.clients - self.colluding) * self.variance + central
        return moved_by(seen, self.moved, self.syncs)

    def utility(self, biased_server: bool) -> ev.Event:
        if biased_server and self.observer == "server":
            return _BIASED_EVENT
        # With probability c/n the noise that stays belongs to a colluder: delta c/n each time.
        once = moved_by(self.variance, self.moved)
        if self.colluding:
            exact = ev.Approximate(0.0, up(Fraction(self.colluding, self.clients)))
            once = ev.Compose((once, exact))
        return repeated(self.syncs, once)

    def private(self) -> ev.Event:
        # Shares of honest clients alone hide the sum; local steps are counted as if published.
        honest = Fraction(self.clients - self.colluding, self.clients)
        summed = moved_by(self.variance * honest, self.moved, self.syncs)
        local = self.rounds - self.rounds // self.local_steps
        if local == 0:
            return summed
        return ev.Compose((moved_by(self.variance / self.clients, self.moved, local), summed))

    def warnings(self, algorithm: str) -> tuple[str, ...]:
        if algorithm == "private" and self.local_steps > 1:
            return (
                "Local steps have only sigma / sqrt(n) of noise and are counted as if they were "
                "published: an upper bound, no attack is known to reach it.",
            )
        if algorithm == "utility" and self.colluding:
            share = self.colluding / self.clients
            return (f"Delta is at least {share:.3g} per release, whatever the noise.",)
        return ()

    @property
    def seen_by(self) -> str:
        if self.observer == "client":
            return f"{self.colluding} of the clients"
        others = f" and {self.colluding} of the clients" if self.colluding else ""
        return self.observer + others


def _colluders(observer: str, colluders: int | None, clients: int) -> int:
    least = 1 if observer == "client" else 0
    number = validate.count_from(least, colluders=least if colluders is None else colluders)
    if number >= clients:
        raise InvalidInput(
            f"`colluders` must be below the number of clients ({clients}); it is {number}.",
            "Nobody is left to be protected.",
            "Count the clients that collude, without the one that is protected.",
        )
    return number
