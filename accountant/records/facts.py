"""The parts of which records are made: frozen values, checked against their types when made.

Floats travel as decimal strings (the shortest that reads back as the same float), events as their
own JSON objects, everything else as JSON has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .. import events as ev
from ..errors import InvalidInput
from ..neighbours import Neighbours
from ..neighbours import Unit as Unit
from .field_codec import LATER, Fact

Json: TypeAlias = Mapping[str, object]
"""A JSON object that is only kept, never interpreted."""

Relation: TypeAlias = Neighbours


@dataclass(frozen=True)
class Claim(Fact):
    """What a run promises: at most `epsilon` at `delta`, for one `unit`, against `observer`.

    `group` is the number of records of one unit where noise protects records and the promise is
    for units of many; 1 otherwise.  `epsilon` is None where a run promises no number.
    """

    unit: Unit
    neighbours: Relation
    delta: float
    epsilon: float | None
    observer: str = "model"
    group: int = 1


@dataclass(frozen=True)
class Planned(Fact):
    """What was fixed before the first release: by observer, all that it will see.

    `rounds` counts rounds, not what each of them releases: an event of a round that makes several
    releases is the `Compose` of them, in their order.  `counted` is how many of the rounds are of
    one unit at most, where silos take part by a public schedule: then `events` hold so many, and
    not all.  None where every round is of every unit.

    Range: `counted` from 1 to `rounds`.  Raises `InvalidInput`.
    """

    rounds: int
    events: Mapping[str, ev.Event]
    counted: int | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.counted is not None and not 1 <= self.counted <= self.rounds:
            raise InvalidInput(
                f"`Planned.counted` must be from 1 to {self.rounds:,}; it is {self.counted:,}.",
                "It is how many of the planned rounds are of one unit at most.",
                "Leave it out where every silo takes part in every round.",
            )


@dataclass(frozen=True)
class Population(Fact):
    """Public constants: how many users and silos a run is for, and records where they are public.

    `records` is None where the number of records is not public.
    """

    users: int
    silos: int
    records: int | None = None

    def units(self, unit: str, *, most_records: int | None = None) -> int | None:
        """Return how many units of a kind there are at most, as is public; None if that is not.

        `most_records` is a public bound on the records of one user.
        """
        records = self.records
        # Where their number is not public, a public cap on each user's records bounds it.
        if records is None and most_records is not None:
            records = self.users * most_records
        return {"user": self.users, "silo": self.silos, "record": records}.get(unit)


@dataclass(frozen=True)
class Randomness(Fact):
    """Where protective randomness comes from: the operating system, or a seed (no protection)."""

    source: Literal["operating-system", "seeded"]
    cipher: str = "chacha20"


@dataclass(frozen=True)
class Security(Fact):
    """The protocol by which silos' updates are summed unseen: its public parameters.

    `protocol` is `pairwise-masks` (the sum alone is seen, weights are each silo's own),
    `private-weighting` (and nobody sees a user's weights), `additive-shares` (peers learn the sum
    alone, without a server) or `shuffler` (messages lose their senders).  `parties` take part
    (`shuffler`: units that send messages), at least `fewest` must reach the end, `threshold` of a
    party's `degree` neighbours recover what it leaves behind.  `ring_bits` is the size of the
    ring in which is summed, `key_bits` that of a Paillier key (`shuffler`: of the key under
    which messages are locked, 256 on a curve); numbers that a protocol has no use for are 0.
    `count_limit` is the public bound on a user's count N_u, `count_cap` that on one silo's part
    of it, `records_per_count` how many records count once; `slots` and `chosen` are those of
    the oblivious transfer.  `noise` says where the noise stands: on `every-residue` of what is
    decrypted, or on `multiples` only, as it was published, which leaves the rest without any.
    `server` says from which server updates are hidden: from one that sends what it likes
    (`malicious`), or one that follows the protocol and looks at all it gets; in either case
    `colluders` of the parties may tell it what they know, and no more.  Where messages are mixed
    and the promise is for units of k records, a colluder is such a unit, and knows k messages.
    """

    protocol: Literal["pairwise-masks", "private-weighting", "additive-shares", "shuffler"]
    parties: int
    fewest: int
    threshold: int = 0
    degree: int = 0
    ring_bits: int = 0
    key_bits: int = 0
    count_limit: int = 0
    count_cap: int = 0
    records_per_count: int = 0
    slots: int = 0
    chosen: int = 0
    noise: Literal["every-residue", "multiples"] = "every-residue"
    server: Literal["malicious", "honest-but-curious"] = "honest-but-curious"
    colluders: int = 0


@dataclass(frozen=True)
class Tuning(Fact):
    """How the settings of a run were chosen: `trials` runs, on public data only or at a cost.

    `event` is what the search released, where it was accounted.
    """

    trials: int = 1
    public_only: bool = True
    event: ev.Event | None = None


@dataclass(frozen=True)
class Gram(Fact):
    """The shape of a released Gram matrix with its label sums, and what bounds one unit's part.

    The fields but the last two are those of `sensitivity.gram.GramBound`, which derives the
    sensitivity from them: rows are relative to the public `row_norm`, and one unit has at most
    `rows` of them, of squared norms `trace` together.  Values stand on a grid of `bits` bits.
    """

    dimension: int
    classes: int
    label_weight: float
    rows: int
    trace: float
    by_class: bool
    row_norm: float
    bits: int


@dataclass(frozen=True)
class Product(Fact):
    """What a product A^T A Z / s with a public Z is made of, and what bounds one unit's part.

    The fields but the last two are those of `sensitivity.product.ProductBound`, which derives the
    sensitivity from them; `largest_change` is None where whole rows change.  Z has spectral norm 1
    at most.  Rows stand on a grid of `row_bits` bits relative to `row_norm`, Z on one of
    `basis_bits`.
    """

    dimension: int
    rank: int
    row_norm: float
    divisor: float
    rows: int
    largest_change: float | None
    row_bits: int
    basis_bits: int


@dataclass(frozen=True)
class Contribution(Fact):
    """How far one term can reach, and what a term is.

    `bound` is the norm (`norm`) to which every term is clipped.  `terms` says what one term is:

    unit          everything of one `unit` together: the sum moves by bound x its weights
    silo-delta    a whole silo's update: a unit that goes moves it by up to 2 x bound
    whole         the release as one vector, of norm at most bound whatever the unit does
    message       one message of one `unit`, with noise of its own that no other message shares
    gram          x x^T and x y^T of a unit's rows, summed: `gram` says what bounds them, and
                  `bound` is the norm of all of it, in the coordinates in which noise is even
    product       x (x^T Z) of a unit's rows, summed, for a public Z: `product` says what bounds
                  them, and `bound` is the norm of all of it

    `source` says where the bound comes from: a `public` constant, a `released` value that was
    accounted, the `models` that were released before, by a public rule, or `private` data (then it
    bounds nothing).
    """

    bound: float
    norm: Literal["l1", "l2"]
    unit: Unit
    terms: Literal["unit", "silo-delta", "whole", "message", "gram", "product"] = "unit"
    source: Literal["public", "released", "models", "private"] = "public"
    gram: Gram | None = field(default=None, metadata=LATER)
    product: Product | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class Weights(Fact):
    """How terms are weighted: `none` (each counts once), `uniform` 1/|S|, or `records` n_su/N_u.

    `largest_sum` bounds the sum of one unit's weights over all silos.
    """

    rule: Literal["none", "uniform", "records"] = "none"
    largest_sum: float = 1.0


@dataclass(frozen=True)
class Sampling(Fact):
    """Who takes part in a round: `of` units, drawn by `method`, by `drawn_by`.

    `rate` is the probability of one unit (1 without sampling); `batch` and `population` are given
    for the methods that fix them.  Whoever draws, knows the sample.

    `chosen_by` says who decided, before the first round, which records of a promised unit of many
    may be drawn at all: `each-silo` from its own records alone, under public caps that sum over the
    silos to at most the unit's number of records; `all-silos` by looking at what others hold.  None
    where it is not stated.

    Where a round makes several draws, at most `most_draws` of them hold one unit (of an epoch of
    shuffled batches: 1); None: all may.  `moves_others` says whether one unit more or less may put
    others into another batch, as it does where an order is cut into batches of one size.
    """

    method: Literal["none", "poisson", "fixed-size", "shuffled", "truncated-poisson"] = "none"
    of: Unit = "user"
    rate: float = 1.0
    drawn_by: Literal["nobody", "server", "silos", "shared-secret", "oblivious-transfer"] = "nobody"
    batch: int | None = None
    population: int | None = None
    chosen_by: Literal["each-silo", "all-silos"] | None = field(default=None, metadata=LATER)
    most_draws: int | None = field(default=None, metadata=LATER)
    moves_others: bool | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class Reach(Fact):
    """What of one round reaches one observer, besides what is released to all.

    `sees` says what:

    sum             all terms together, with all noise shares that can be relied on
    each            every contributor's own message, with its own noise
    sum-less-own    the sum, less what the observer added itself; it `holds` a part of the unit,
                    its weights, or nothing of it
    shuffled        messages without their senders: `users` messages, and where coordinates are
                    sampled `dimensions`, of which `chosen` are sent, `padded_to` messages each,
                    shuffled by `granularity`, under `selection` and `overflow`
                    (`events.SampledShuffle`)
    one-share       the sum with the noise of one contributor, drawn at random
    nothing         ciphertexts, and nothing else

    `also` names what is seen with it; `dummies`: which messages stand for nobody, and what these
    say, if there are any, as who mixes messages knows.  So many `colluders` tell the observer all
    they know (a client before mixed messages counts itself as one of them), the noise of `dropouts`
    contributors may be missing, and `knows_sample` says whether the observer knows who was drawn.
    `rests_on` are the suppositions, in words.  A reach is a statement of the run: how far it is
    believed, the audit decides.
    """

    sees: Literal["sum", "each", "sum-less-own", "shuffled", "one-share", "nothing"]
    holds: Literal["nothing", "part", "weights"] = "nothing"
    colluders: int = 0
    dropouts: int = 0
    knows_sample: bool = False
    also: tuple[Literal["identities", "index-sets", "dummies", "sizes", "times"], ...] = ()
    rests_on: tuple[str, ...] = ()
    users: int | None = field(default=None, metadata=LATER)
    dimensions: int | None = field(default=None, metadata=LATER)
    chosen: int | None = field(default=None, metadata=LATER)
    padded_to: int | None = field(default=None, metadata=LATER)
    granularity: Literal["coordinate", "tuple"] | None = field(default=None, metadata=LATER)
    selection: Literal["oblivious", "data-dependent"] | None = field(default=None, metadata=LATER)
    overflow: Literal["refuse", "cap"] | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class Noise(Fact):
    """The noise of one draw: `std` (Laplace: scale) of the whole sum, made of `shares`.

    Each share has `share_std`; the promise needs all but `tolerated_dropouts` of them.  `draws` is
    how many such sums the round releases, each of a sample of its own where there is sampling;
    `grid` is the step of the grid on which values stand.
    `std` is 0 for local randomizers, which have no common noise.

    `wishart` noise is added to a matrix: each share is Z Z^T, Z of d x `freedom` independent
    Gaussian numbers of deviation `share_std`, which is `std` too; `freedom` is None for all others.
    """

    family: Literal[
        "gaussian",
        "laplace",
        "discrete-gaussian",
        "discrete-laplace",
        "randomized-response",
        "exponential",
        "none",
        "wishart",
    ]
    std: float
    shares: int = 1
    share_std: float = 0.0
    tolerated_dropouts: int = 0
    draws: int = 1
    grid: float = 0.0
    freedom: int | None = field(default=None, metadata=LATER)


@dataclass(frozen=True)
class Block(Fact):
    """The rounds that share correlated noise, which are paid together in the first of them.

    In each of the `rounds` from the round `first` on, what is noised is the sum of the last terms,
    c_0 x_t + c_1 x_(t-1) + ..., within the block, c being the `coefficients`; the noise of each
    round is fresh.  One unit contributes in rounds that are at least `separation` apart, by a
    public schedule that depends on no data.

    Range: at most `rounds` coefficients, all finite, the first of them not 0.  Raises
    `InvalidInput`.
    """

    first: int
    rounds: int
    coefficients: tuple[float, ...]
    separation: int

    def __post_init__(self) -> None:
        super().__post_init__()
        known = all(math.isfinite(value) for value in self.coefficients)
        fits = 1 <= len(self.coefficients) <= self.rounds and self.separation >= 1
        if not known or not fits or self.coefficients[0] == 0.0:
            raise InvalidInput(
                "`Block` needs one or more rounds, at most as many finite coefficients, the first "
                "of them not 0, and a separation of 1 or above.",
                "They say which rounds a noise covers, and how far one unit moves them together.",
                "Give Block(1, 10, (1.0, 0.5), 2), for example.",
            )

    @property
    def last(self) -> int:
        """The number of its last round."""
        return self.first + self.rounds - 1

    def event(self, noise_multiplier: float) -> ev.MatrixGaussian:
        """Return all rounds of the block together, at this noise multiplier of a single round.

        >>> Block(1, 4, (1.0, 0.5), 2).event(2.0).participation
        SeparatedParticipation(most=2, separation=2)
        """
        return ev.MatrixGaussian(
            noise_multiplier,
            ev.ToeplitzStrategy(self.rounds, self.coefficients),
            ev.SeparatedParticipation(-(-self.rounds // self.separation), self.separation),
        )


@dataclass(frozen=True)
class StreamRange(Fact):
    """Bytes [`first`, `last`) of a stream, known by a one-way name of its key."""

    stream: str
    first: int
    last: int


@dataclass(frozen=True)
class Normaliser(Fact):
    """What the noisy sum is divided by: a public `constant`, or the `realised` batch (not sound).

    `value` is the constant; None where it was realised.
    """

    kind: Literal["constant", "realised"]
    value: float | None
