"""Double amplification: coordinates chosen at random, each then shuffled with its own kind.

A user sends k of d coordinates, each through the randomizer R and the shuffler of its dimension,
which is padded to n_p messages with **dummies** drawn from the blanket omega of R, secretly.

**Theorem** (oblivious selection: a uniform, fresh and secret set of k dimensions).  In dimension j
let D_j be n_p less the number of the other users' messages, D_j >= D >= 1 for all j, and
t = floor(d/k).  Then the round is dominated, at every order, by k independent copies of

    shuffle(R(0), omega^(tD-1))   against   shuffle(R(1), omega^(tD-1)).

Proof.  Reveal the other users' sets and messages.  (i) Draw the set by cutting the dimensions at
random into k blocks of at least t, and choosing one of each: that is a uniform set, and revealing
the cut only helps the observer, who then sees k independent blocks.  (ii) In a block T the density
against all dummies is the mean over j in T of (1/D_j) sum_i r_x_j(Y_ji), r_x = mu_x / omega, Y_ji
the D_j slots.  More slots than D are a post-processing.  What is left is a mean over |T| D
independent draws.  (iii) L = r_x - e^eps r_x' has mean 1 - e^eps and is at most L^(0,1) in convex
order, at every eps (`randomizers`); so are sums.  And a mean of more copies is smaller in that
order (a reverse martingale), so |T| may be lowered to t.  Domination at every order survives
products.

D = n_p - T holds outside an event of probability F <= d P(Bin(n - 1, k/d) > T), which does not
depend on the one user's data; F is charged in full.  There no dimension overflows either.

**The others hide too.**  Only the other users' messages that are told from dummies need to be
taken off: D_j may be n_p - R_j, R_j ~ Bin(n - 1, (k/d)(1 - gamma)).  Proof.  Every law of R is
gamma omega plus a rest, so let each of the others' messages come from omega with probability gamma,
by a coin that no data move.  Reveal the others' sets, the coins, and the messages from the rest:
R_j of them in dimension j, independently from user to user.  If no dimension is full without the
user, the user's message takes the place of a *dummy*, which is from omega, while all R_j stay as
they are; so what is left there are n_p - R_j independent draws from omega, or one less and the
user's message, and (ii) goes on with n_p - R_j for D_j.  Two events are charged, both up to the
others alone: some R_j is above n_p - D, by d times a tail of R_j; and some dimension is full, by
d P(Bin(n - 1, k/d) >= n_p).

The message does not take the place of *any* of the n_p messages at random, so a user is not hidden
as among t n_p users.  Binary randomized response at 0.5, one dummy and one other message in each of
two dimensions: at eps = 0.15 delta is 0.0598 for who sees all that is revealed here, and 0.0577 for
one of four users.

**Without sampling.**  Reveal the sets: k dimensions differ, each is one shuffle of n_p messages
(the other users', and dummies).  That needs no F under replace-one: whether a dimension overflows
depends on the sets alone, and a cap that drops messages at random drops the same ones.

Under add-remove a user also arrives in dimensions that are **full** of m >= n_p others.  A cap
needs no F for that.  Proof.  Reveal the sets, and the order of arrival if that decides what is
kept; then dimensions are independent, so one is enough.  Draw n_p - 1 of the others to be kept,
and one more, z.  Without the user z is kept, too.  With the user, z is kept but with some
probability q (n_p over m + 1 for random ones; 0 or 1 by an order), and the user's message is
instead.  So P is (1 - q) Q plus q times a mixture, over z, of R(x) among n_p - 1 messages of the
randomizer, and Q is the same mixture of R(x_z) among these.  By joint convexity the hockey stick
is at most q times that of two values of one user among n_p, whose worst pair is (0, 1): what is
charged for a dummy's place, too.  It takes that z is sent by the randomizer and not known: a
colluder's message is another point mass, so `mechanisms.shuffled_round` and the audit charge that
event.  And it takes that a message is dropped in its dimension alone: a cap that drops all
messages of a user moves up to 2 k dimensions.

A stated local epsilon: dummies are then messages of a further value of R, and L under omega is at
most the clones' variable in convex order, being its mean given the message.  Of gamma it is known
that it is at least e^-epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from ... import events as ev
from ...arrays import FloatArray
from ...guarantee import Neighbours, Step
from ...rootfinding import first_integer
from ..sums import UNIT_ROUNDOFF
from .binomials import log_tail
from .blanket import blanket_profile
from .clones import clones_profile
from .profile import Profile
from .randomizers import (
    Blanket,
    GaussianRandomizer,
    LaplaceRandomizer,
    Randomizer,
    ResponseRandomizer,
    randomizer_of,
)

DOUBLE_SOURCE: Final = (
    "derived in amplification/shuffling/double.py; one message among others: arXiv 1903.02837, "
    "or arXiv 2208.04591 for a stated local epsilon"
)


@dataclass(frozen=True, eq=False)
class Copies:
    """A round is dominated by `copies` of `profile`, outside an event of probability `failure`."""

    profile: Profile
    copies: int
    failure: float
    steps: tuple[Step, ...]


def oblivious_bound(event: ev.SampledShuffle, neighbours: Neighbours, failure: float) -> Copies:
    """Return the bound of coordinate-wise shuffling with oblivious selection.

    The better of those derived above, charging at most about `failure`.  Under `add-remove`,
    "absent" is a user whose slots hold dummies.
    """
    # t = floor(d/k) dimensions a block; D free slots in each, but for an event of probability F.
    blocks = event.dimensions // event.chosen
    slots, charged = most_slots(event, failure)
    # What revealing the sets leaves, gamma n_p dummies' worth, is no fewer: that bound instead.
    if blanket_mass(event.event) * event.padded_to >= blocks * slots:
        return _revealed(event, neighbours)
    step = Step(
        "shuffling",
        f"Double amplification: {event.chosen:,} copies of one message ({described(event.event)}) "
        f"among {blocks * slots - 1:,} dummies ({blocks:,} dimensions of {slots:,} places). "
        "Other users' messages that look like dummies count; with probability about "
        f"{charged:.2g} a round there are fewer, which is added to delta.",
        DOUBLE_SOURCE,
        (
            f"every user sends a uniformly random set of {event.chosen:,} of "
            f"{event.dimensions:,} dimensions, drawn afresh, secretly and whatever the data",
            *padding_conditions(event),
            f"neighbours: {neighbours}",
        ),
    )
    profile = profile_among_dummies(event.event, blocks * slots)
    return Copies(profile, event.chosen, charged, (step,))


def _revealed(event: ev.SampledShuffle, neighbours: Neighbours) -> Copies:
    """Return the bound that reveals who sends what: no gain from sampling.

    Under `add-remove` a round that stops is charged in full; a cap needs nothing for full
    dimensions, where the user's message is kept instead of another user's (the module's proof).
    """
    failure = 0.0
    if neighbours == "add-remove" and event.overflow == "refuse":
        failure = overflow_probability(event)
    step = Step(
        "shuffling",
        f"No sampling gain: {event.chosen:,} copies of one message ({described(event.event)}) "
        f"among {event.padded_to:,} of one dimension; who sends which dimension may be known.",
        DOUBLE_SOURCE,
        (
            "every user chooses dimensions whatever the data",
            *padding_conditions(event),
            f"neighbours: {neighbours}",
        ),
    )
    profile = profile_among_users(event.event, event.padded_to)
    return Copies(profile, event.chosen, failure, (step,))


def padding_conditions(event: ev.SampledShuffle) -> tuple[str, ...]:
    """Return what must hold of the shufflers and of the padding."""
    overflow_rule = "the round stops" if event.overflow == "refuse" else "random ones are dropped"
    return (
        f"each dimension is shuffled on its own, padded to {event.padded_to:,} messages with "
        "dummies from the randomizer's blanket that nobody else can tell",
        f"beyond {event.padded_to:,} messages in a dimension, {overflow_rule}",
        "the analyzer sees the shuffled messages; the shufflers themselves see more",
    )


def most_slots(event: ev.SampledShuffle, failure: float) -> tuple[int, float]:
    """Return the larger D that is derived above, and the probability to be charged for it.

    That is at most about `failure`, but 1 where D is 0 or below.
    """
    slots = clear_slots(event, failure)
    charged = math.exp(_log_failure(event, event.padded_to - slots, 1.0)) if slots > 0 else 1.0
    # Two events are charged: a full dimension, and too many messages told from dummies.
    full = math.exp(_log_failure(event, event.padded_to - 1, 1.0))
    share = revealed_share(event.event)
    hidden = clear_slots(event, failure - full, share)  # what never fails, if nothing is left
    if hidden <= slots:
        return slots, charged
    return hidden, full + math.exp(_log_failure(event, event.padded_to - hidden, share))


def clear_slots(event: ev.SampledShuffle, failure: float, share: float = 1.0) -> int:
    """Return D: how many slots of every dimension the others leave free, but for `failure`.

    `share` of the other users' messages count.  The result may be 0 or below.
    """
    trials = event.users - 1
    rate = event.chosen / event.dimensions * share
    low, high = min(math.ceil(trials * rate), trials), trials  # `high` never fails
    target = math.log(failure) if failure > 0.0 else -math.inf
    # Least number that the others exceed with probability at most `failure`; integers.
    least = first_integer(lambda most: _log_failure(event, most, share) <= target, low, high)
    return event.padded_to - least


def _log_failure(event: ev.SampledShuffle, most: int, share: float) -> float:
    """Return log of a bound on the probability that the others fill some dimension above `most`."""
    if most < event.chosen / event.dimensions * share * (event.users - 1):
        return 0.0
    rate = min(event.chosen / event.dimensions * share, 1.0)
    tail = log_tail(event.users - 1, rate, most)
    return min(math.log(event.dimensions) + tail, 0.0) + 1e-15


def overflow_probability(event: ev.SampledShuffle) -> float:
    """Return a bound on the probability that all users' messages overflow some dimension."""
    if event.users <= event.padded_to:
        return 0.0
    rate = event.chosen / event.dimensions
    if event.padded_to < event.users * rate:
        return 1.0
    log_some = math.log(event.dimensions) + log_tail(event.users, rate, event.padded_to)
    return min(math.exp(min(log_some, 0.0)) * (1.0 + 1e-12), 1.0)


# --- one message among others -------------------------------------------------------------------


def described(inner: ev.Event) -> str:
    """Return the randomizer in words."""
    if isinstance(inner, ev.Local):
        return f"{inner.epsilon:.6g}-LDP"
    randomizer = randomizer_of(inner)
    assert randomizer is not None
    return randomizer.description


@lru_cache(maxsize=64)
def profile_among_users(inner: ev.Event, messages: int) -> Profile:
    """Return the bound for one message among others of the same randomizer, or dummies."""
    if isinstance(inner, ev.Local):
        return clones_profile(inner.epsilon, messages)
    randomizer = randomizer_of(inner)
    assert randomizer is not None
    return blanket_profile(randomizer, messages)


@lru_cache(maxsize=64)
def profile_among_dummies(inner: ev.Event, messages: int) -> Profile:
    """Return the bound for shuffle(R(0), omega^(m-1)) against shuffle(R(1), omega^(m-1)).

    delta(eps) = (1/m) E(L_1 + ... + L_m)+, L = r_0 - e^eps r_1 under omega.
    """
    if isinstance(inner, ev.Local):
        return clones_profile(inner.epsilon, messages)
    randomizer = randomizer_of(inner)
    assert randomizer is not None
    return blanket_profile(RandomizerAmongDummies(randomizer), messages)


@dataclass(frozen=True)
class RandomizerAmongDummies:
    """A randomizer as it looks among messages that are all from its blanket."""

    randomizer: Randomizer

    @property
    def largest_loss(self) -> float:
        """The local epsilon."""
        return self.randomizer.largest_loss

    @property
    def description(self) -> str:
        """What it is, in words."""
        return f"{self.randomizer.description}, all other messages dummies from its blanket"

    def log_local_delta(self, epsilon: float) -> float:
        """Return log delta(epsilon) of one message alone."""
        return self.randomizer.log_local_delta(epsilon)

    def blanket(self, outside: float) -> Blanket:
        """Return the blanket with all mass on it."""
        inner = self.randomizer.blanket(outside)
        log_gamma = log_blanket_mass(self.randomizer)
        # The blanket normalised to mass 1: every other message is from it.
        log_masses = inner.log_masses - log_gamma
        log_rest = -math.inf
        if inner.outside > 0.0:  # at least what lies there, where the sum gains nothing
            log_rest = math.log(max(1.0 - math.fsum(np.exp(log_masses)), 0.0) + 1e-13)
        error = inner.mass_error + 16.0 * UNIT_ROUNDOFF * (1.0 + abs(log_gamma))
        return _FullMassBlanket(inner.losses, log_masses, log_rest, inner.outside, error, log_gamma)


@dataclass(frozen=True, eq=False)
class _FullMassBlanket(Blanket):
    """A blanket of mass 1, where mu_0 / omega = gamma e^max(l, 0)."""

    log_gamma: float

    def terms(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """Return gamma Y, rounded up, and the log masses."""
        values, log_masses = super().terms(epsilon)
        scaled = values * math.exp(self.log_gamma)
        return scaled + 16.0 * UNIT_ROUNDOFF * (1.0 + abs(self.log_gamma)) * np.abs(
            scaled
        ), log_masses


def log_blanket_mass(randomizer: Randomizer) -> float:
    """Return log gamma, the mass that all laws of a randomizer share."""
    if isinstance(randomizer, LaplaceRandomizer):
        return -0.5 * randomizer.epsilon0
    if isinstance(randomizer, ResponseRandomizer):
        k = randomizer.categories
        return math.log(k) - float(np.logaddexp(randomizer.epsilon0, math.log(k - 1)))
    if isinstance(randomizer, GaussianRandomizer):
        return math.log(2.0) + float(log_ndtr(-0.5 / randomizer.sigma))
    raise AssertionError(f"no blanket mass of {randomizer.description}")


def revealed_share(inner: ev.Event) -> float:
    """Return 1 - gamma, rounded up: the share of a user's messages that are told from dummies.

    >>> round(revealed_share(ev.Laplace(4.0)), 4)
    0.2212
    """
    randomizer = randomizer_of(inner)
    if randomizer is None:
        assert isinstance(inner, ev.Local)
        log_gamma = -inner.epsilon
    else:
        log_gamma = log_blanket_mass(randomizer)
    return min(-math.expm1(log_gamma) + 1e-13, 1.0)


def blanket_mass(inner: ev.Event) -> float:
    """Return about gamma; for a stated local epsilon 1: clones count dummies and users alike."""
    randomizer = randomizer_of(inner)
    return 1.0 if randomizer is None else math.exp(log_blanket_mass(randomizer))
