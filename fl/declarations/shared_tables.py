"""The tables of a configuration that all systems share, key by key, all but `[data]`.

A field is a key: its type, range and default, and a line for whoever writes a configuration.  From
these classes a configuration is read, `privplan explain run` is written, and a log says what a run
was configured with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal

from ...accountant import validate
from ...accountant.delta_checks import delta_below_half
from ...accountant.errors import InvalidInput
from ...accountant.neighbours import Neighbours, Unit
from ..observers.names import DEFAULT_OBSERVERS, MODEL, OBSERVERS, observer_name, observer_names
from .own_code import OwnCode, loss_name, model_name
from .toml_key import (
    KEY_BITS,
    LOSSES,
    LOSSES_OF_NUMBERS,
    MODELS,
    Aggregation,
    at_least,
    below_one,
    between,
    key,
    one_of,
    rate,
    text,
)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """`[run]`: what is run, how long, and on what.

    `seed` makes the whole run repeatable, its protective randomness included: it protects nobody
    then.  Keys and masks, which leave no trace in a result, are drawn afresh.  Training repeats to
    the last bit on one machine with the same versions; other processors round otherwise, which an
    `mlp`, a `cnn` or an `alexnet` amplifies.
    """

    system: str = key(
        "what is run: one of the systems above",
        text,
        why="It is the algorithm by which the silos learn together.",
    )
    rounds: int = key(
        "how many models are released",
        validate.count,
        shown="the paper's",
        why="It is how often the silos' updates are summed and released.",
    )
    trials: int = key(
        "runs on these records by which the settings were chosen, this one included",
        validate.count,
        default=1,
        why="Choosing settings by looking at results on private records has a cost of its own.",
    )
    seed: int | None = key(
        "make the run repeatable on this machine, noise and all: for tests, protects nobody",
        at_least(0),
        default=None,
        shown="none",
        why="It decides the noise, so whoever knows it can take the noise off again.  Another "
        "processor rounds otherwise, and deep models then end elsewhere.",
    )
    device: str = key("where local training computes", words=("cpu", "cuda"), default="cpu")
    evaluate_every: int = key(
        'rounds between two looks at the test data; 0: none, as with test = "none"',
        at_least(0),
        default=1,
        why="It is a number of rounds.",
    )


@dataclass(frozen=True, kw_only=True)
class PrivacySettings:
    """`[privacy]`: what is promised.  `unit` is None for a system that promises nothing.

    `group` is the number of records of one user that take part, where noise protects records;
    `normalisation_noise` the noise multiplier of the moments that features are normalised by.
    Noise and claim are made for `observer`; `observers` are those whose numbers a verdict is about.
    `accept_delta` says that a delta of 1 / units or more is meant.

    `noise` is `banded` where rounds share correlated noise: users take part in `cohorts`, one in
    each round, the noise has so many `bands`, and so many `blocks` of rounds are paid for.
    """

    unit: Unit | None = key(
        "what is protected: one of the units of the system",
        default="user",
        shown="its first: user, of most",
    )
    neighbours: Neighbours = key(
        "add-remove, replace-one, or zero-out",
        default="add-remove",
        shown="the system's: add-remove, of most",
        why="A guarantee must say which change of the data it hides.",
    )
    delta: float = key(
        "the slack of the promise, below .5, and below 1 / units (of what `unit` says)",
        delta_below_half,
        default=1e-5,
        shown="1e-5",
        why="Delta is a probability; it should be well below 1 / units.",
    )
    accept_delta: bool = key(
        "take a delta of 1 / units or more, which publishing one unit at random satisfies; the "
        "log says so, and its audit calls it an error",
        default=False,
    )
    epsilon: float | None = key(
        "the target; with noise_multiplier, a limit that cuts the rounds",
        validate.positive,
        default=None,
        shown="none",
        why="Epsilon bounds how far one unit can shift the odds of any output.",
    )
    noise_multiplier: float | None = key(
        "noise over the bound on one contribution",
        validate.positive,
        default=None,
        shown="found from epsilon",
        why="It is the noise of one round, relative to the clip.",
    )
    normalisation_noise: float | None = key(
        "noise over the bound on one user, of the moments that normalise features; for "
        'normalisation = "private"',
        validate.positive,
        default=None,
        shown="required there",
        why="The moments are one release more, which the same budget pays for.",
    )
    sampling_rate: float = key(
        "probability that a user joins a round",
        rate,
        default=1.0,
        shown="1",
        why="It is the probability with which a user joins one round.",
    )
    noise: Literal["independent", "banded"] | None = key(
        "independent from round to round; or banded: later rounds take off what earlier ones had "
        "too much, for users who take part in turns",
        default=None,
        shown="independent",
        why="Correlated noise is paid for a block of rounds at once.",
    )
    cohorts: int | None = key(
        'for noise = "banded": groups of users that take part in turns, one in each round',
        at_least(2),
        default=None,
        shown="required there",
        why="It counts groups of users; with one, everybody takes part in every round, where "
        "correlated noise gains nothing.",
    )
    bands: int | None = key(
        'for noise = "banded": how many rounds of a silo one noise covers, at most `cohorts`',
        validate.count,
        default=None,
        shown="10, or as many as there are cohorts or rounds of a block",
        why="A user must not come twice within them.",
    )
    blocks: int | None = key(
        'for noise = "banded": blocks that the rounds are cut into and paid for; a run that is '
        "cut off loses the rest of its block, and goes on with the next",
        validate.count,
        default=None,
        shown="1",
        why="What silos remember within a block is stored nowhere.",
    )
    observer: str = key(
        "for whom noise and claim are made: model, server, silo, silo-with-records, or server+2, "
        "the server with two silos that tell it all they know; without a server: model, peer or "
        "coordinator; through a shuffler: model, analyzer, client, shuffler, or colluding, the "
        "shuffler with the analyzer",
        observer_name,
        default=MODEL,
        shown="the system's: model, of most",
        words=(*OBSERVERS, "server+1", "server+2"),
    )
    observers: tuple[str, ...] = key(
        "whose numbers the verdict on the run is about, a list",
        observer_names,
        default=DEFAULT_OBSERVERS,
        shown="the system's: model, server, silo, of most; model, peer and, of some, coordinator "
        "without a server; model, analyzer, client and, of some, shuffler through one",
    )
    group: int = 1


def class_weights(**field: object) -> tuple[float, ...]:
    """Return numbers above 0 and up to a million, one for each of two classes or more."""
    ((name, given),) = field.items()
    listed = given if isinstance(given, (list, tuple)) else ()
    numbers = tuple(validate.positive(**{name: value}) for value in listed)
    if len(numbers) < 2 or max(numbers) > MAX_CLASS_WEIGHT:
        raise InvalidInput(
            f"`{name}` must be a list of two or more numbers above 0, at most a million each.",
            next_step=f"Write {name} = [1.0, 3.0].",
        )
    return numbers


MAX_CLASS_WEIGHT: Final = 1e6


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """`[training]`: how models are trained.  `seed` (first model, order of batches) is public.

    Of a model of one's own `model_digest` and `loss_digest` say in the log which code it was, and
    `executable` loads it: only who runs a configuration has that, and no log.
    """

    weighting: Literal["uniform", "records"] = key(
        "a user's weights over silos: 1/|S|, or by its records", default="uniform"
    )
    clip: float = key(
        "bound on one contribution, L2, 1e-9 to 1e9", validate.positive, shown="the paper's"
    )
    local_rate: float = key("step size of local training", validate.positive, shown="the paper's")
    global_rate: float = key("step size of the server", validate.positive, shown="the paper's")
    local_epochs: int = key(
        "passes of local training in a round", validate.count, shown="the paper's"
    )
    batch: int = key("records in one step of local training", validate.count, shown="the paper's")
    model: str = key(
        "what is trained: "
        + ", ".join(MODELS)
        + '; or one of your own, "model.py:make" or "package.module:make" (explain models)',
        model_name,
        words=MODELS,
        shown="the paper's for the data",
        why="It is public, and the same for everybody.",
    )
    loss: str | None = key(
        "of a model of your own: "
        + ", ".join(LOSSES)
        + '; or one of your own, "model.py:loss". Of labels that are numbers, for any model: '
        + ", ".join(LOSSES_OF_NUMBERS),
        loss_name,
        words=LOSSES,
        default=None,
        shown="that of its outputs; of numbers, squared",
        why="It says what the model learns.",
    )
    dropout: float = key(
        "share of units left out in training (mlp, cnn)",
        below_one,
        default=0.0,
        shown="the paper's",
        why="At 1 nothing would be left to learn from.",
    )
    class_weights: tuple[float, ...] | None = key(
        "what the loss of a record counts, a list with a public number for each class; not counted "
        "in the records",
        class_weights,
        default=None,
        shown="1 for each",
        why="How often a class occurs is private, and what weighs a class is public.",
    )
    seed: int = key(
        "seed of the first model and the order of batches (public)", at_least(0), default=0
    )
    model_digest: str | None = None
    loss_digest: str | None = None
    executable: OwnCode | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """`[security]`: what the server sees, and by which protocol it is kept from the rest.

    `dropouts` is how many silos may be missing from a masked sum, `colluders` how many may tell
    the server all they know.  For private weighting:
    `count_limit` bounds a user's count over all silos, `records_per_count` records of it count
    once, and `slots` are those of the oblivious transfer by which users are sampled (None: the
    server samples).  `keep_transcripts` keeps what each party saw; `processes` share the work.
    """

    aggregation: Aggregation = key(
        "what the server sees: every silo's update (plain), only their sum (masked), or only the "
        "sum under weights that nobody sees (private-weighting); without a server, silos see the "
        "sum (shares), or a shuffler mixes messages (shuffle), both for systems that are made for "
        "it",
        default="plain",
        shown="the system's: plain, of most",
    )
    dropouts: int = key(
        "masked: how many silos may be missing from a round; the others add more noise for it",
        at_least(0),
        default=0,
        why="The noise is made for the silos that are left.",
    )
    colluders: int = key(
        "how many silos may tell the server all they know; what they learn together is a row of "
        "its own, and masks are made to bear them; at most all silos but two (shares: how many "
        "may tell a peer, at most all silos but three)",
        at_least(0),
        default=0,
        shown="as many as `observer` and `observers` name, or 0",
        why="It is a number of silos.",
    )
    key_bits: int = key(
        "private-weighting, fedpower-utility: length of the Paillier key; it may stand where "
        "there is none",
        one_of(KEY_BITS),
        default=3072,
        why="Shorter keys can be broken, and longer ones are not offered.",
    )
    count_limit: int = key(
        "private-weighting: most counts of one user over all silos, one of them a dummy; each "
        "silo keeps to its part of it",
        between(2, 1000),
        default=40,
        why="The numbers that are encrypted grow with the least common multiple of 1 to this.",
    )
    records_per_count: int = key(
        "private-weighting: how many records of a user in a silo count once",
        validate.count,
        default=1,
        why="A coarser count is a weight that is a little less exact.",
    )
    slots: int | None = key(
        "private-weighting with sampled users: draw them by 1-of-slots oblivious transfer, so "
        "that neither server nor silos know who joins; slots x sampling_rate must be whole",
        between(2, 1000),
        default=None,
        shown="none: the server draws",
        why="A user joins if the answer that the silos open is one of the real ones.",
    )
    keep_transcripts: bool = key(
        "keep every message that a party received, for audits of the protocol", default=False
    )
    processes: int = key(
        "private-weighting, fedpower-utility, flame: processes that share the encryption",
        between(1, 64),
        default=1,
        why="It changes how long a run takes, and nothing else.",
    )


NO_TRAINING: Final = TrainingSettings(
    clip=math.inf, local_rate=0.0, global_rate=0.0, local_epochs=0, batch=0, model="none"
)
"""What stands for `[training]` in settings of a system that trains no model; no log has it."""
