"""The pages of `privplan explain TOPIC`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from .attack_page import ATTACK_PAGE
from .log_page import LOG_PAGE
from .run_page import run_page
from .system_pages import SYSTEM_PAGES

_SAMPLING: Final = """\
SAMPLING: who takes part in a step, and why it must be the sampler that was accounted

A step that uses a random part of the data reveals less about each record, because nobody
knows whether the record took part.  How much less depends on how the part was drawn.

Poisson sampling. Every record joins every step independently, with the same probability,
  and batches differ in size.  This is what `privplan calibrate` and the event `poisson`
  mean, and what the usual accountants assume.
Shuffled batches. The data are put in random order and cut into batches, as most loaders
  do.  This is not Poisson sampling.  Every record takes part once in every epoch, for
  certain, and its absence from one batch says that it stands in another.  Calling it
  Poisson has been measured to be wrong by this much, for one epoch and a record that is
  replaced by zeros:
    noise 0.5, 10,000 steps, delta 1e-6    claimed epsilon 1.953    truth at least 10.99
    noise 1.0,  1,000 steps, delta 1e-5    claimed epsilon 0.149    truth at least  2.88
Fixed-size batches. Each step draws exactly so many records.  Adding a record does not keep
  the size, so the guarantee is about replacing one.  With noise 1, rate 0.01, 1,000 steps
  and delta 1e-5, Poisson accounting says 1.828; the truth lies between 13.35 and 14.83.
Poisson with a cap. Batches above a cap are cut.  With the same noise, mean 500 of 50,000
  records and a cap of 550, what can be proven is 4.80, not 1.83.
Accumulated gradients. Noise is drawn once for several small batches.  Then the rate that
  counts is that of all of them together: at 8 batches, rate 0.01 each, and 100 steps with
  noise 1, 0.718 was claimed and 5.613 is true.

What to do
  - Use a loader that samples as Poisson does: one independent coin for each record and step.
  - Or claim no amplification.  If each record takes part at most once in an epoch, a run of
    E epochs proves what E releases on all the data prove: {"type": "repeat", "count": E,
    "event": {"type": "gaussian", "noise_multiplier": ...}}.  That is the number in the
    warning of `calibrate`.  It needs no secret order, and holds when a record is replaced
    by zeros (add-remove's number) or by another (replace-one's number).

Sources: Chua et al. 2024, arXiv 2403.17673 (shuffled batches); Wang, Balle and
Kasiviswanathan 2019, arXiv 1808.00087, and Zhu, Dong and Wang 2022, arXiv 2106.08567
(fixed size).  The numbers were measured for privplan against certified bounds.
"""

_NEIGHBOURS: Final = """\
NEIGHBOURS: which change of the data the guarantee hides

Epsilon compares the run on two data sets that are neighbours.  Without saying what makes
them neighbours, it is not a guarantee.

add-remove    One has one record more than the other.
replace-one   They have the same number of records, and one record differs.
zero-out      They have the same number of records, and in one of them one record
              contributes nothing.

The noise multiplier is always the noise divided by the bound on one contribution (the clip
norm).  When a record comes, goes, or becomes zero, the sum moves by at most one bound.  When
it is replaced, the sum loses one contribution and gains another, so it can move by two:
  Gaussian noise 1, delta 1e-5                        add-remove 4.378    replace-one 10.00
  the same, Poisson rate 0.01, 1,000 steps            add-remove 1.829    replace-one 2.844
The second line shows that sampling changes the ratio: replacing one record is neither the
same as adding one nor as halving the noise (which would give about 13).

Two numbers can only be compared when their relations agree.  Libraries do not always say
which they use, or use two under one name: for the first line under replace-one, one part of
dp_accounting 0.6 says 10.00 and another 4.73 (google/differential-privacy, issue 378).
All engines of privplan use the definitions above.

Which one?  Take add-remove with Poisson sampling and where the number of records is itself
confidential; take replace-one where it is public or the batch size is fixed.  `privplan
account --neighbours` never converts one into another silently.

Sources: Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy; the
dominating pairs of sampled Gaussians, Zhu, Dong and Wang 2022, arXiv 2106.08567.  The
numbers are certified upper bounds, rounded up.
"""

_DELTA: Final = """\
DELTA: the slack

(epsilon, delta)-differential privacy says: for every set S of outputs, and for neighbours A
and B,
    P(output of A in S)  <=  exp(epsilon) x P(output of B in S)  +  delta.
Every mechanism has a whole curve of such pairs.  A single epsilon means nothing without its
delta, and two runs can be compared only at one delta.

How small?  A mechanism that publishes each record in full with probability delta satisfies
the formula with epsilon 0.  So delta must be far below 1 / records; 1 / (10 x records) is a
common upper limit, and 1e-6 or less is better where it costs little noise.  Fix delta before
looking at any result.

What is refused.  From 1 / units on, publishing one unit at random keeps the promise: `run`
(accept_delta = true in [privacy], which the log keeps), `calibrate`, `plan`, and `account`
with --units N take such a delta with --accept-delta only, and the audit of a log calls it an
error in any case.  Units are those that are promised something: users, or records.  Where
their number is not public, a public bound on it counts, and else nothing is compared, which
is said.  .5 or more is never taken there.  In Python, privplan.account and
privplan.calibrate compute for any delta between 0 and 1.

How small can it be here?  The PLD engine certifies down to about 1e-15; below its floor it
says so, and RDP answers instead.  Pure mechanisms (Laplace, randomized response) reach
delta 0, but Gaussian noise never does.

Many steps, one delta.  The delta that is given is for the whole run.  Splitting it over the
steps and adding up epsilons is valid and wasteful; engines compose the curves instead.

Approximations.  The central-limit formula for many sampled steps looks like a guarantee and
is none: with noise 0.5, rate 0.001, 10,000 steps and delta 1e-6 it says 3.44 where the truth
is 6.35.  privplan never uses it.

Sources: Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy; Balle and
Wang 2018, arXiv 1805.06530 (the exact curve of Gaussian noise).
"""

_ENGINES: Final = """\
ENGINES: the ways from an event to a number

pld        Keeps the distribution of the privacy loss on a grid and composes it by Fourier
           transform.  It answers from both sides: the upper end is the guarantee, and
           nothing below the lower end is true of the mechanism.
rdp        Bounds moments of the privacy loss (Renyi divergences), which simply add up.
           Sound and fast, but not tight; upper end only.
gdp        The exact formula for Gaussian noise without sampling.
blanket    One shuffled round, straight from the noise that all users have in common.
google     dp_accounting, as a second opinion.
microsoft  prv_accountant, as a second opinion.

Without --engine, privplan takes the tightest sound answer and checks it against another
engine.  If one engine's lower end lies above another's upper end, one of them is wrong; that
is an error, never an average.

What the difference costs, with noise 1, rate 0.01, 1,000 steps and delta 1e-5:
  pld                     epsilon 1.829
  rdp                     epsilon 2.102
  central-limit formula   epsilon 1.618   below the truth, so not a guarantee; not offered
To reach epsilon 1 at delta 1e-5 in 100 steps at rate 0.01, RDP asks for noise 1.081 where
0.9021 is enough.

Which event is answered how.  Noise, randomized response and bare epsilons: pld and rdp (zcdp:
rdp only).  Poisson, fixed-size and truncated sampling, random allocation: pld, and rdp where a
curve is known.  shuffled-batches: no amplification.  shuffle: blanket for a single round, pld
for many.  sampled-shuffle: pld.  group: the mixture by pld, the formula and the Renyi rules by
rdp.  best-of: rdp.  What has no sound mathematics is refused, with the nearest thing that has.

When is a lower end a fact about the mechanism?  Only where one pair of data sets is the
worst in every step; that holds for Poisson sampling.  Elsewhere the lower end comes from a
pair that does occur, or is 0 and left out.

One thing no engine may do: PLD, and the best of many RDP orders, are for plans that were
fixed before the first release.  A budget that is spent as results come in needs its own
mathematics (zero-concentrated privacy, or one RDP order fixed beforehand).

Sources: Doroshenko et al. 2022, arXiv 2207.04380 (upper bounds on a grid); Gopi, Lee and
Wutschitz 2021, arXiv 2106.02848 (prv_accountant); Mironov 2017, arXiv 1702.07476 (RDP);
Balle et al. 2020, arXiv 1905.09982 (from RDP to epsilon); Dong, Roth and Su 2022, arXiv
1905.02383, and Balle and Wang 2018, arXiv 1805.06530 (gdp).
"""

_GROUP: Final = """\
GROUP: from one record to a person with many records

A guarantee for one record is not one for a person who contributed k records.  It gets worse
fast: from (epsilon, delta) for one record follows only
    k x epsilon,   with   delta x (exp(k epsilon) - 1) / (exp(epsilon) - 1)
for k of them.  Working with the mechanism itself gives less.  For noise 5, Poisson rate 0.01,
100,000 steps and delta 1e-5:

  records of one person        1       2       4       8      16      32      64
  certified epsilon        2.627   5.836   13.60   34.19   95.17   295.8    1012
  the formula above            -   6.612   17.53   56.40   212.0   850.6    3504

(The formula starts from what RDP proves for one record at the small delta that it needs.)
A published evaluation of this setting prints 2,152 for 32 and 11,417 for 64 records; those
two points use a lemma outside the orders for which it was proven.

The honest reading: even the smallest of these numbers promises nothing to a person with 32
records.  Where people hold many records, bound what each *person* contributes to a step (clip
the sum of a person's contributions), so that the person is the unit and the noise multiplier
refers to that bound.  Then no conversion is needed.

The event {"type": "group", "size": k, "event": ...} asks the question, and `privplan calibrate
--group k` finds the noise for it.  `privplan account EVENT --routes` lists every way to the
number: the formula, Mironov's rule for Renyi curves (valid only while the order that remains
is at least 1.5), the optimised triangle inequality, and the mixture itself.

What the number covers.  Under add-remove, all k records come or go together, in whatever
silos they lie, as long as all of them are sampled at the same rate; under replace-one, all k
are replaced.  Some added and others removed at once: the formula and the Renyi routes cover
that; for the mixture it was never seen to be worse, but that is not proven.

Sources: Vadhan 2017, The Complexity of Differential Privacy (group privacy; the formula is
the sum in its proof); Mironov 2017,
arXiv 1702.07476, Proposition 2 (the lemma and its orders); Ganesh 2024, arXiv 2401.10294,
Theorem 3.1 (the mechanism itself).  The numbers were measured for privplan.
"""

_SHUFFLE: Final = """\
SHUFFLE: hiding in the crowd

Every user randomizes one value and sends it through a shuffler, which forwards all messages
in random order.  Whoever sees the mixed messages learns less about one user than the
randomizer alone would tell, because the others' messages look like that user's.

How much less depends on the randomizer.  Laplace noise 2 on values in [-1, 1] is 1-LDP
("1-LDP" means epsilon 1 without any shuffler).  At delta 0.01 / users:
  users                                   1,000     10,000    100,000   1,000,000
  this noise, computed from its blanket   0.1093    0.03785   0.01297   0.004401
  any 1-LDP randomizer, closed form 2021  0.5320    0.2141    0.07765   0.02678
The first line is within a thousandth of the best that the blanket argument can give; the
closed forms in use are several times larger, and were never meant to be close.

What must hold
  - The relation is replace-one.  The number of users is visible, so nothing hides a user who
    joins or leaves.
  - All users use the same randomizer, and none of them adapts to what others sent.  With
    different randomizers the outputs can tell users apart; a bound of 2023 holds only in the
    first case, and its erratum says so.
  - The shuffler is honest, and users who collude with the reader do not count.
  - Many rounds compose.  privplan composes the whole curve, not one (epsilon, delta).

Sampling coordinates on top ("double amplification").  If every user sends k of d coordinates,
drawn at random and hidden, each shuffled by itself and padded with dummies, the whole is no
worse than k rounds in which the dummies of floor(d / k) coordinates hide one message: not all
messages do, but those of other users that look like dummies count as well.  How few that may
be is up to chance, which is added to delta.  If the k are chosen by looking at the data
(top-k), there is nothing to add: the choice itself is what leaks.  If whole tuples are shuffled
instead of coordinates, the tuple carries its index set and the mixing is lost.

One published bound was implemented with a slip of the pen for a year, and numbers computed with
it are too small; one published "upper bound" has exact counterexamples.  See: privplan explain
flame.

Sources: Balle, Bell, Gascon and Nissim 2019, arXiv 1903.02837 (the blanket); Feldman,
McMillan and Talwar 2021, arXiv 2012.12803, and 2023, arXiv 2208.04591 (clones).  Numbers are
certified upper bounds, rounded up.
"""

_PLAN: Final = """\
PLAN: one budget, several phases

A run often releases more than one thing: statistics to normalise with, a choice of features,
then many rounds of training.  All of it is paid from one budget.  `privplan plan` finds the
noise of each phase, so that nobody who watches learns more than the target allows.

  [target]
  epsilon = 2.0
  delta = 1e-5
  neighbours = "add-remove"      # default; also group = 1, unit = "record"

  [split]
  how = "cheapest"               # or equal-noise (default), weights
  cost = "variance"              # or deviation, average, largest

  [[phase]]
  name = "statistics"
  mechanism = "laplace"
  rounds = 3                     # of all records

  [[phase]]
  name = "select"
  event = {type = "exponential", epsilon = 0.1}      # its noise is fixed; it is only paid for

  [[phase]]
  name = "train"
  mechanism = "gaussian"
  records = 60000                # or rate and rounds, or rate and epochs
  batch = 256
  epochs = 10
  sampling = "poisson"           # default; or fixed-size, shuffled
  observers = ["model", "server"]
  views = {silo = 0.9}           # a silo knows its own share: 0.9 of the noise hides from it

Splits. equal-noise gives every phase one noise multiplier; weights makes it weight x a common
  factor; cheapest looks for the ratios of least cost.  With T rounds, noise n and scale c of
  each phase: variance is the sum of T (c n)^2, deviation of T c n, average of (c n)^2 / T, and
  largest the largest c n.  Whatever the ratios, the common factor is certified, and the
  cheapest split never costs more than equal noise.  That nothing is cheaper is not proven.
Observers. Everyone named has a guarantee of his own, and all of them meet the target.  Name
  whoever sees a release *or anything that depends on it*: if the statistics steer the training,
  whoever sees the model has seen the statistics.
Alternatives. --epochs 2,5,10,20, --rates and --group-sizes replace what phases say and print a
  table.  A design that cannot meet the target is a row that says why.

Plans and odometers.  A plan is fixed before the first release, so the tightest mathematics
(PLD) is allowed.  Where the next release is chosen by earlier results it is not: then a budget
is kept in rho, in mu^2 (Gaussian noise only) or in one Renyi order that was fixed beforehand,
and what would exceed it is refused.  "Stop as soon as no order fits any more" looks like such
a rule and is none: with epsilon 3 and delta 1e-5, two releases can be chosen so that every
path fits some order, and the true delta is 1.99e-5.  What adaptivity costs, at epsilon 2 and
delta 1e-5: for noise 40 without sampling, nothing in mu^2 (402 rounds, as in a plan) and
346 rounds in rho; for noise 1 at rate 0.01, 880 rounds instead of 1,202.
In Python: privplan.Odometer(epsilon, delta), and privplan.Odometer.for_plan(plan).

Sources: Feldman and Zrnic 2021, arXiv 2008.11193 (budgets at one order); Whitehouse, Ramdas,
Rogers and Wu 2023, arXiv 2203.05481 (rho); Smith and Thakurta 2022, arXiv 2210.17520 (mu^2).
The numbers were computed with privplan.
"""

_PAGES: Final[Mapping[str, tuple[str, str | Callable[[], str]]]] = {
    "sampling": ("who takes part in a step", _SAMPLING),
    "neighbours": ("which change of the data is hidden", _NEIGHBOURS),
    "delta": ("the slack, and how small it must be", _DELTA),
    "engines": ("the ways from an event to a number", _ENGINES),
    "group": ("from one record to a person with many", _GROUP),
    "shuffle": ("hiding in the crowd", _SHUFFLE),
    "plan": ("one budget, several phases", _PLAN),
    "run": ("what a run is told, and what it leaves", run_page),
    "attack": ("what was demonstrably lost, in tiers", ATTACK_PAGE),
    "log": ("what a log proves, and against whom", LOG_PAGE),
    **SYSTEM_PAGES,
}

NAMES: Final = tuple(_PAGES)
"""The topics, in the order in which they are listed."""


def page(topic: str) -> str:
    """Return the page about `topic`, which is one of `NAMES`."""
    text = _PAGES[topic][1]
    return (text if isinstance(text, str) else text()).rstrip("\n")


def listing() -> str:
    """Return the topics, each with a few words."""
    width = max(map(len, NAMES))
    lines = [f"  privplan explain {name:<{width}}   {about}" for name, (about, _) in _PAGES.items()]
    return "\n".join(["Topics:", *lines])
