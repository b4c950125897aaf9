"""The closed list of what can be said of a run: every dotted key, its range and its question."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...accountant.neighbours import NEIGHBOURS
from .key import (
    RELEASE_FIELDS,
    Key,
    boolean,
    claimed,
    count,
    delta,
    non_negative,
    phases,
    positive,
    rate,
    releases,
    text,
    word_of,
)

UNITS: Final = ("record", "user", "silo")
DELTA_RULES: Final = ("1/records", "1/batches")
FAMILIES: Final = ("gaussian", "laplace", "discrete-gaussian", "pure")
CLIP_SOURCES: Final = ("constant", "public", "data", "adaptive", "median", "none")
METHODS: Final = (
    "poisson",
    "shuffled",
    "fixed-size",
    "with-replacement",
    "weighted",
    "full",
    "unknown",
)
WEIGHTS: Final = ("equal", "unequal")
NORMALISERS: Final = ("constant", "records", "realised")
CLIP_NORMS: Final = ("l1", "l2", "linf")
CLIP_BOUNDS: Final = ("unit", "record")
SAMPLED: Final = ("users", "records")
WEIGHTED_DRAWS: Final = ("at-most-once", "with-replacement")
ACCUMULATIONS: Final = ("one-sample", "own-draws")


def _words(name: str, words: tuple[str, ...], meaning: str, asks: str) -> Key:
    return Key(name, word_of(words), meaning, asks, words)


def _text(name: str, meaning: str, asks: str) -> Key:
    return Key(name, text, meaning, asks, is_text=True)


_ALL: Final = (
    Key("claim.epsilon", claimed, "the epsilon that is said of the run", "Which epsilon is said?"),
    Key("claim.rho", claimed, "the rho of zCDP that is said of the run", "Which rho is said?"),
    Key("claim.mu", claimed, "the mu of Gaussian DP that is said of the run", "Which mu is said?"),
    Key("claim.delta", delta, "the delta that is said, in [0, 1)", "For which delta is it said?"),
    _words(
        "claim.delta_rule",
        DELTA_RULES,
        "the rule by which delta was set",
        "Was delta set by a rule, as 1/records?",
    ),
    _words(
        "claim.unit",
        UNITS,
        "what one neighbour adds, removes or replaces",
        "Whom does it protect: one record, all records of one user, or a silo?",
    ),
    _words(
        "claim.neighbours",
        NEIGHBOURS,
        "the relation between neighbouring data sets",
        "Under which relation: add-remove, replace-one or zero-out?",
    ),
    _text("claim.library", "what computed it, with its version", "Which library, which version?"),
    _text(
        "claim.accountant",
        "the accountant that was asked, as rdp, prv, gdp or pld",
        "Which accountant of that library was asked: rdp, prv, gdp or pld?",
    ),
    _words(
        "noise.family",
        FAMILIES,
        "the law of the noise",
        "Which noise was drawn: gaussian, laplace or discrete-gaussian?",
    ),
    Key(
        "noise.noise_multiplier",
        non_negative,
        "standard deviation (of Laplace noise: scale) over the clipping norm, as the accountant "
        "was given it; 0 or above",
        "Which noise multiplier was used, or which standard deviation and clipping norm?",
    ),
    Key(
        "noise.std",
        non_negative,
        "standard deviation of the noise on the sum of contributions (of Laplace noise sqrt(2) "
        "times its scale), 0 or above",
        "Which standard deviation did the noise on the sum have?",
    ),
    Key(
        "noise.clip",
        positive,
        "the clipping norm of one unit's contribution, above 0",
        "To which norm was each contribution clipped?",
    ),
    _words(
        "noise.clip_source",
        CLIP_SOURCES,
        "where the clipping norm came from",
        "Where did the clipping norm come from: a constant, public data, or these data?",
    ),
    _words(
        "noise.clip_norm",
        CLIP_NORMS,
        "the norm that is clipped; Laplace noise is sized for l1",
        "In which norm was each contribution clipped: l1, l2 or linf?",
    ),
    _words(
        "noise.clip_bounds",
        CLIP_BOUNDS,
        "whose contribution the clipping norm bounds: all of a unit's, or each record's",
        "Does the clipping norm bound all that a user contributes to a step, or each record?",
    ),
    Key(
        "noise.dimensions",
        count,
        "coordinates that get noise of their own",
        "How many coordinates has what the noise is added to?",
    ),
    Key("data.records", count, "records trained on", "How many records were trained on?"),
    Key("data.users", count, "users who hold the records", "How many users are there?"),
    Key("data.silos", count, "silos that hold the records", "How many silos are there?"),
    Key(
        "data.records_per_user",
        count,
        "most records of one user",
        "How many records has one user at most?",
    ),
    Key(
        "data.records_public",
        boolean,
        "whether everybody may know how many records there are",
        "May everybody know how many records there are?",
    ),
    _words(
        "sampling.method",
        METHODS,
        "how the batch of each step was chosen",
        "How was each batch chosen: by Poisson sampling, or from a shuffled loader?",
    ),
    Key(
        "sampling.batch",
        count,
        "expected units in one noise draw, as the accountant was told",
        "How many records were expected in one batch?",
    ),
    Key(
        "sampling.rate",
        rate,
        "rate of one noise draw, as the accountant was told; in (0, 1]",
        "At which rate was each batch sampled, or which batch of how many records?",
    ),
    Key(
        "sampling.clients_rate",
        rate,
        "rate at which clients are sampled, each by itself, around the sampling of records; "
        "users, where a user is protected; in (0, 1]",
        "Were clients sampled as well, and at which rate?",
    ),
    _words(
        "sampling.sampled",
        SAMPLED,
        "whether a draw takes users, each by itself, with all their records (or silos, unless a "
        "user is protected), or records by themselves",
        "Does a batch take users, or silos, with all their records, or records by themselves?",
    ),
    _words(
        "sampling.weighted_draws",
        WEIGHTED_DRAWS,
        "whether a weighted sampler draws with replacement, as PyTorch's does by default",
        "Does the weighted sampler draw with replacement, or each record at most once?",
    ),
    Key(
        "schedule.steps",
        count,
        "noise draws, as the accountant counted them",
        "How many steps were made in all, or how many epochs?",
    ),
    Key("schedule.epochs", positive, "passes over the data", "How many epochs were made?"),
    Key(
        "schedule.records_per_epoch",
        count,
        "records of an epoch, where these are not all records",
        "How many records has one epoch?",
    ),
    Key(
        "schedule.microbatches",
        count,
        "records whose gradients are averaged or summed before they are clipped",
        "Is each record clipped by itself, or how many together?",
    ),
    Key(
        "schedule.accumulation",
        count,
        "batches whose gradients are summed before one noise draw",
        "How many batches were accumulated for one noise draw?",
    ),
    _words(
        "schedule.accumulation_of",
        ACCUMULATIONS,
        "whether the batches of a noise draw are parts of one sample, or drawn independently",
        "Are the batches of one noise draw parts of one sample, or draws of their own?",
    ),
    Key(
        "schedule.phases",
        phases,
        "rows of noise multiplier, rate and steps, in order",
        "Which noise multiplier and rate had each phase, for how many steps?",
    ),
    Key(
        "schedule.restarts",
        count,
        "how often the accountant began anew; 1 is never",
        "Did one accountant count all steps, or how often did it begin anew?",
    ),
    Key(
        "schedule.horizon_days",
        positive,
        "days for which the budget is promised",
        "For how many days is the budget promised?",
    ),
    Key(
        "schedule.renews_every_days",
        positive,
        "days after which the budget is spent again",
        "Does the budget renew, and after how many days?",
    ),
    _words(
        "aggregation.weights",
        WEIGHTS,
        "whether all contributions weigh the same",
        "Do all contributions weigh the same?",
    ),
    _words(
        "aggregation.normaliser",
        NORMALISERS,
        "whether the sum is divided by a constant, by what follows from the number of records, or "
        "by how many came",
        "Is the sum divided by a constant, by what follows from the number of records, or by how "
        "many replied?",
    ),
    Key(
        "aggregation.expected_replies",
        count,
        "replies for which the noise shares were sized",
        "For how many replies was the noise sized?",
    ),
    Key(
        "aggregation.replies",
        count,
        "least replies that a round was released with",
        "How many replied in the round with the fewest?",
    ),
    Key(
        "tuning.runs",
        count,
        "trained models that the published model was chosen from",
        "From how many trained models on these data was this chosen?",
    ),
    Key(
        "releases",
        releases,
        f"tables of what was released besides: {', '.join(RELEASE_FIELDS)}",
        "Was anything released besides, such as counts, statistics or validation scores?",
    ),
)

KEYS: Final[Mapping[str, Key]] = MappingProxyType({key.name: key for key in _ALL})
"""Every key by its dotted name."""

TABLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        table: tuple(name.partition(".")[2] for name in KEYS if name.startswith(f"{table}."))
        for table in dict.fromkeys(name.partition(".")[0] for name in KEYS if "." in name)
    }
)
"""The keys of each table, without its name."""

DOTTED: Final[Mapping[str, str]] = MappingProxyType(
    {name.rpartition(".")[2]: name for name in KEYS}
)
"""The dotted name of each key by its last part, which is unique."""
