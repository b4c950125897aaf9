"""Users drawn at random before their messages are shuffled, on top of a shuffle bound.

**Exactly m of n**, uniformly, afresh and secretly; only their messages are shuffled.  Replace one
of the n users.  With b = m/n, and delta(eps) the bound for m shuffled messages,

    delta'(eps') = b delta(eps),    eps' = log(1 + b (e^eps - 1)).

Proof.  The outputs are mixtures b M + (1-b) O and b M' + (1-b) O of those with the user (old and
new value) and without.  With e^eps' = 1 + b (e^eps - 1) and s = e^(eps' - eps), the difference
(b M + (1-b) O) - e^eps' (b M' + (1-b) O) is b (M - e^eps ((1-s) O + s M')), whose positive part is
at most b times a mean of those of M - e^eps O and M - e^eps M'.  M and O are neighbours on average:
a sample without the user is one with the user in which a uniformly random user from outside takes
the place.  So both are at most delta(eps).

**Each with probability q**, independently and secretly.  Whoever does not join sends "nothing"; how
many do is visible anyway.  So this is a plain shuffle of n messages by the randomizer that says
"nothing" with probability 1 - q, whatever the value: its blanket has the mass (1 - q) there, where
L = 1 - e^eps, and q times that of the randomizer.  A stated local epsilon has, in convex order, no
larger terms than binary randomized response (`clones`), also after this.

Source: Balle, Barthe, Gaboardi 2018, arXiv 1807.01647, for m of n under replace-one; the other is
derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .. import events as ev
from .. import validate
from ..arrays import FloatArray
from ..errors import InvalidInput, Unsupported
from ..guarantee import Step
from .shuffling.blanket import blanket_profile
from .shuffling.profile import Profile
from .shuffling.randomizers import Blanket, Randomizer, ResponseRandomizer, randomizer_of
from .sums import UNIT_ROUNDOFF


def drawn_profile(event: ev.Event, profile_of: Callable[[int], Profile]) -> Profile:
    """Return the bound for `Shuffle`, or for `FixedSize` or `Poisson` of it.

    `profile_of(m)` bounds one round of m shuffled messages under replace-one; so does the result.
    `FixedSize(m, n, Shuffle(m, e))` draws m of n users; `Poisson(q, Shuffle(n, e))` each of n.
    Raises `InvalidInput` where the shuffle does not say how many users were drawn, `Unsupported`
    for other events.
    """
    if isinstance(event, ev.Shuffle):
        return profile_of(event.users)
    inner = getattr(event, "event", None)
    if isinstance(event, ev.FixedSize) and isinstance(inner, ev.Shuffle):
        if inner.users != event.batch:
            raise InvalidInput(
                f"{event.batch:,} users are drawn, but {inner.users:,} messages are shuffled.",
                "The users of a Shuffle are those who send: the ones that were drawn.",
                f"Write FixedSize({event.batch}, {event.population}, Shuffle({event.batch}, ...)).",
            )
        return drawn_without_replacement(profile_of(event.batch), event.batch, event.population)
    if isinstance(event, ev.Poisson) and isinstance(inner, ev.Shuffle):
        if event.rate == 1.0:
            return profile_of(inner.users)
        # A stated epsilon: binary randomized response has the largest terms in convex order.
        randomizer = randomizer_of(inner.event)
        if isinstance(inner.event, ev.Local):
            randomizer = ResponseRandomizer(inner.event.epsilon, 2)
        assert randomizer is not None
        return poisson_drawn(randomizer, inner.users, event.rate)
    raise Unsupported(
        f"No user-sampling bound here takes `{event.type}`.",
        next_step="Draw users by FixedSize or Poisson directly around a Shuffle.",
    )


# --- exactly m of n -----------------------------------------------------------------------------


def drawn_without_replacement(profile: Profile, batch: int, population: int) -> Profile:
    """Return the bound when exactly `batch` of `population` users are drawn and shuffled.

    delta'(eps') = b delta(log(1 + (e^eps' - 1)/b)), b = batch / population; `profile` bounds the
    shuffle of `batch` messages.  The draw is uniform, fresh and secret; replace-one.
    """
    batch, population = validate.count(batch=batch), validate.count(population=population)
    if batch > population:
        raise InvalidInput(
            f"`batch` must be at most `population` ({population}); it is {batch}.",
            next_step="Draw fewer users.",
        )
    if batch == population:
        return profile
    share = batch / population
    # Beyond the amplified largest loss delta is 0.
    largest = _amplified(profile.largest_loss, share)

    def log_delta(epsilon: float) -> float:
        return -math.inf if epsilon >= largest else _log_drawn(profile, share, epsilon)

    step = Step(
        "sampling",
        f"{batch:,} of {population:,} users are drawn: log(1 + b (e^eps - 1)) at b delta, "
        f"b = {share:.6g}; the shuffle counts {batch:,} messages.",
        "Balle, Barthe, Gaboardi 2018, arXiv 1807.01647; proof in amplification/subsampling.py",
        (
            "a uniformly random set of that size, drawn afresh and kept secret",
            "neighbours: replace-one",
        ),
    )
    return Profile(log_delta, largest, (*profile.steps, step))


def _log_drawn(profile: Profile, share: float, epsilon: float) -> float:
    """Return log of b delta(log(1 + (e^epsilon - 1)/b)), rounded up."""
    # Two forms of log(1 + (e^eps - 1)/b), each without overflow or cancellation.
    if epsilon > 1.0:
        inner = epsilon - math.log(share) + math.log1p((share - 1.0) * math.exp(-epsilon))
    else:
        inner = math.log1p(math.expm1(epsilon) / share)
    # Read at a slightly smaller epsilon, where delta is no smaller.
    log_delta = profile.log_delta(inner * (1.0 - 16.0 * UNIT_ROUNDOFF))
    return log_delta + math.log(share) + 1e-14


def _amplified(loss: float, share: float) -> float:
    """Return log(1 + b (e^loss - 1)), rounded up."""
    if loss > 1.0:
        grown = loss + math.log(share + (1.0 - share) * math.exp(-loss))
    else:
        grown = math.log1p(share * math.expm1(loss))
    return grown * (1.0 + 16.0 * UNIT_ROUNDOFF)


# --- each with probability q --------------------------------------------------------------------


def poisson_drawn(randomizer: Randomizer, users: int, rate: float) -> Profile:
    """Return the bound when each of `users` joins with probability `rate`, and then shuffles.

    The blanket bound of `users` messages that say "nothing" with probability 1 - `rate`.  The draw
    is independent, fresh and secret; replace-one.  For a stated local epsilon give binary
    randomized response.
    """
    users, rate = validate.count(users=users), validate.probability(rate=rate)
    if rate == 0.0:
        step = Step("sampling", "A rate of 0 releases nothing about anybody.", "by definition")
        return Profile(lambda _: -math.inf, 0.0, (step,))
    if rate == 1.0:
        return blanket_profile(randomizer, users)
    profile = blanket_profile(SampledRandomizer(randomizer, rate), users)
    step = Step(
        "sampling",
        f"Each of {users:,} users joins with probability {rate:.6g}; not to join is a message like "
        "any other.",
        "derived in amplification/subsampling.py",
        ("users join independently, afresh and secretly", "neighbours: replace-one"),
    )
    return replace(profile, steps=(*profile.steps, step))


@dataclass(frozen=True)
class SampledRandomizer:
    """A randomizer that is used with probability `rate` in (0, 1), and else says "nothing"."""

    randomizer: Randomizer
    rate: float

    @property
    def largest_loss(self) -> float:
        """The local epsilon."""
        return self.randomizer.largest_loss

    @property
    def description(self) -> str:
        """What it is, in words."""
        return f"{self.randomizer.description}, with probability {self.rate:.6g}"

    def log_local_delta(self, epsilon: float) -> float:
        """Return log of `rate` times delta(epsilon) of one message alone, rounded up."""
        return self.randomizer.log_local_delta(epsilon) + math.log(self.rate) * (1.0 - 1e-15)

    def blanket(self, outside: float) -> Blanket:
        """Return `rate` times the blanket, and "nothing"."""
        inner = self.randomizer.blanket(outside)
        # All masses times q; with mass 1 - q nothing is said, and the term is 1 - e^eps.
        log_rate = math.log(self.rate)
        return _SampledBlanket(
            inner.losses,
            inner.log_masses + log_rate,
            inner.log_rest + log_rate,
            inner.outside * self.rate * (1.0 + 4.0 * UNIT_ROUNDOFF),
            inner.mass_error + 8.0 * UNIT_ROUNDOFF * (1.0 - log_rate),
            math.log1p(-self.rate),
        )


@dataclass(frozen=True, eq=False)
class _SampledBlanket(Blanket):
    """A blanket with a further mass where mu_0 = mu_1 = gamma omega."""

    log_nothing: float

    def terms(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """Return the values, rounded up, and log masses of one user's term, "nothing" included."""
        values, log_masses = super().terms(epsilon)
        nothing = -math.expm1(epsilon) * (1.0 - 4.0 * UNIT_ROUNDOFF)
        return np.append(values, nothing), np.append(log_masses, self.log_nothing)
