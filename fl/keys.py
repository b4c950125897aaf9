"""Every key of a run's configuration: its table, its range, what it means, and its default.

One list, from which the configuration is checked and the page `privplan explain run` is written.
Nothing heavy is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..accountant import validate
from ..accountant.errors import InvalidInput
from ..accountant.slack import slack
from .observers import WORDS, observer_name, observer_names

SYSTEMS: Final = ("fedavg", "uldp-naive", "uldp-group", "uldp-avg", "uldp-sgd")
"""The systems that can be run."""

LATER_SYSTEMS: Final = (
    *("flame-simple", "flame-double", "flame-topk", "disco"),
    *("fedpower-original", "fedpower-utility", "fedpower-private"),
    *("delm-basic", "delm-enhanced"),
)
"""Systems that have a name, and no implementation yet."""

LATER_TABLES: Final = ("flame", "disco", "fedpower", "delm")
"""Tables of those systems."""

DATASETS: Final = (
    *("heart-disease", "tcga-brca", "creditcard", "mnist", "digits", "breast-cancer"),
)
LATER_DATASETS: Final = ("ratings",)

MODELS: Final = ("logistic", "cox", "softmax", "mlp", "cnn")

UNITS: Final = ("record", "user", "silo", "entry")
RELATIONS: Final = ("add-remove", "replace-one", "zero-out")

AGGREGATIONS: Final = ("plain", "masked", "private-weighting", "shares", "shuffle")

KEY_BITS: Final = (2048, 3072, 4096)

LONGEST_SOURCE: Final = 300
"""Most characters of a source."""

_PLACE: Final = re.compile(r"(?:^|[\s'\"(])(?:~|\.{0,2})[/\\]|\b[A-Za-z]:[\\/](?!/)|\bfile:")
"""What a path begins with; a web address has a colon and two slashes."""

FSYNC: Final = ("records", "always", "never")


def seed(**field: object) -> int:
    """Return an integer from 0 to 2^63 - 1."""
    ((name, value),) = field.items()
    return validate.count_from(0, **{name: value})


def rate(**field: object) -> float:
    """Return a number in (0, 1]."""
    ((name, value),) = field.items()
    if validate.probability(**field) == 0.0:
        raise InvalidInput(f"`{name}` must be a number in (0, 1]; it is {value!r}.")
    return validate.probability(**field)


def below_one(**field: object) -> float:
    """Return a number in [0, 1)."""
    ((name, value),) = field.items()
    if validate.probability(**field) == 1.0:
        raise InvalidInput(f"`{name}` must be a number in [0, 1); it is {value!r}.")
    return validate.probability(**field)


def text(**field: object) -> str:
    """Return a text that is not empty and holds no control characters."""
    ((name, value),) = field.items()
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidInput(f"`{name}` must be a text; it is {value!r:.60}.")
    return value


def rounds_between(**field: object) -> int:
    """Return an integer, 0 or above."""
    return validate.count_from(0, **field)


def source(**field: object) -> str:
    """Return a short text that names no place in a file system: it stands in the log."""
    ((name, _),) = field.items()
    found = text(**field)
    if len(found) > LONGEST_SOURCE:
        raise InvalidInput(f"`{name}` must have at most {LONGEST_SOURCE} characters.")
    if _PLACE.search(found):
        raise InvalidInput(
            f"`{name}` must not name a file or a folder.",
            "It stands in the log, which may be published, and a path may name somebody.",
            "Say who published the data, and where: a title, a DOI or a web address.",
        )
    return found


def flag(**field: object) -> bool:
    """Return true or false."""
    ((name, value),) = field.items()
    if not isinstance(value, bool):
        raise InvalidInput(f"`{name}` must be true or false; it is {value!r:.60}.")
    return value


def dropouts(**field: object) -> int:
    """Return an integer, 0 or above."""
    return validate.count_from(0, **field)


def colluders(**field: object) -> int:
    """Return an integer, 0 or above."""
    return validate.count_from(0, **field)


def count_limit(**field: object) -> int:
    """Return an integer from 2 to 1000."""
    return _between(2, 1000, **field)


def slots(**field: object) -> int:
    """Return an integer from 2 to 1000."""
    return _between(2, 1000, **field)


def processes(**field: object) -> int:
    """Return an integer from 1 to 64."""
    return _between(1, 64, **field)


def group_records(**field: object) -> int:
    """Return an integer, 2 or above."""
    return validate.count_from(2, **field)


def _between(least: int, most: int, **field: object) -> int:
    ((name, value),) = field.items()
    found = validate.count_from(least, **field)
    if found > most:
        raise InvalidInput(f"`{name}` must be an integer from {least} to {most}; it is {value!r}.")
    return found


@dataclass(frozen=True)
class Key:
    """One key of a table.

    `check(name=value)` returns the value in its canonical type or raises `InvalidInput`.
    `meaning` and `default` are what a person reads; `why` is the reason for its range.
    """

    name: str
    check: Callable[..., Any]
    meaning: str
    default: str
    why: str = ""
    words: tuple[str, ...] = ()


def _word(name: str, words: tuple[str, ...], meaning: str, default: str, why: str = "") -> Key:
    def check(**field: object) -> str:
        return validate.choice(words, **field)

    return Key(name, check, meaning, default, why, words)


def _choice(name: str, values: tuple[int, ...], meaning: str, default: str, why: str = "") -> Key:
    def check(**field: object) -> int:
        ((_, value),) = field.items()
        if isinstance(value, bool) or value not in values:
            allowed = ", ".join(map(str, values))
            raise InvalidInput(f"`{name}` must be one of {allowed}; it is {value!r:.60}.")
        return validate.count(**field)

    return Key(name, check, meaning, default, why)


TABLES: Final[Mapping[str, tuple[Key, ...]]] = {
    "run": (
        _word(
            "system",
            SYSTEMS,
            "what is run: " + ", ".join(SYSTEMS),
            "required",
            "It is the algorithm by which the silos learn together.",
        ),
        Key(
            "rounds",
            validate.count,
            "how many models are released",
            "the paper's",
            "It is how often the silos' updates are summed and released.",
        ),
        Key(
            "trials",
            validate.count,
            "runs on these records by which the settings were chosen, this one included",
            "1",
            "Choosing settings by looking at results on private records has a cost of its own.",
        ),
        Key(
            "seed",
            seed,
            "make the run repeatable on this machine, noise and all: for tests, protects nobody",
            "none",
            "It decides the noise, so whoever knows it can take the noise off again.  Another "
            "processor rounds otherwise, and deep models then end elsewhere.",
        ),
        _word("device", ("cpu", "cuda"), "where local training computes", "cpu"),
        Key(
            "evaluate_every",
            rounds_between,
            'rounds between two looks at the test data; 0: none, as with test = "none"',
            "1",
            "It is a number of rounds.",
        ),
    ),
    "data": (
        _word("name", DATASETS, "the data set: " + ", ".join(DATASETS), "required"),
        Key(
            "path",
            text,
            "file or folder of the data, from the working directory; never in the log",
            "bundled data, where there is any",
        ),
        Key(
            "users",
            validate.count,
            "how many users the records are dealt to",
            "the paper's",
            "The number of users is a public constant of the run.",
        ),
        Key(
            "silos",
            validate.count,
            "how many silos, where the data does not fix it",
            "the paper's",
            "The number of silos is a public constant of the run.",
        ),
        _word("allocation", ("uniform", "zipf"), "how records are dealt", "zipf"),
        Key(
            "labels_per_user",
            validate.count,
            "deal each user records of exactly so many labels",
            "any",
            "It is a number of labels.",
        ),
        _word(
            "normalisation",
            ("public", "none", "private"),
            "scale features by public constants (public), by moments of the records that are "
            "released with noise, once, before the training (private), or leave them (none)",
            "public",
            "Statistics of private records are a release of their own, and are paid for.",
        ),
        Key("seed", seed, "seed of the dealing and the split (public)", "0"),
    ),
    "privacy": (
        _word("unit", UNITS, "what is protected; it must suit the system", "user"),
        _word(
            "neighbours",
            RELATIONS,
            "add-remove, replace-one, or zero-out",
            "add-remove",
            "A guarantee must say which change of the data it hides.",
        ),
        Key(
            "delta",
            slack,
            "the slack of the promise, below .5, and below 1 / users",
            "1e-5",
            "Delta is a probability; it should be well below 1 / users.",
        ),
        Key(
            "accept_delta",
            flag,
            "take a delta of 1 / users or more, which publishing one user at random satisfies; the "
            "log says so, and its audit calls it an error",
            "false",
        ),
        Key(
            "epsilon",
            validate.positive,
            "the target; with noise_multiplier, a limit that cuts the rounds",
            "none",
            "Epsilon bounds how far one unit can shift the odds of any output.",
        ),
        Key(
            "noise_multiplier",
            validate.positive,
            "noise over the bound on one contribution",
            "found from epsilon",
            "It is the noise of one round, relative to the clip.",
        ),
        Key(
            "normalisation_noise",
            validate.positive,
            "noise over the bound on one user, of the moments that normalise features; "
            'for normalisation = "private", not for fedavg and uldp-group',
            "required there",
            "The moments are one release more, which the same budget pays for.",
        ),
        Key(
            "sampling_rate",
            rate,
            "probability that a user joins a round (uldp-avg, uldp-sgd)",
            "1",
            "It is the probability with which a user joins one round.",
        ),
        Key(
            "observer",
            observer_name,
            "for whom noise and claim are made: model, server, silo, silo-with-records, or "
            "server+2, the server with two silos that tell it all they know",
            "model",
            words=(*WORDS, "server+1", "server+2"),
        ),
        Key(
            "observers",
            observer_names,
            "whose numbers the verdict on the run is about, a list",
            "model, server, silo",
        ),
    ),
    "training": (
        _word(
            "weighting",
            ("uniform", "records"),
            "a user's weights over silos: 1/|S|, or by its records (uldp-avg, uldp-sgd)",
            "uniform",
        ),
        Key("clip", validate.positive, "bound on one contribution, L2", "the paper's"),
        Key("local_rate", validate.positive, "step size of local training", "the paper's"),
        Key("global_rate", validate.positive, "step size of the server", "the paper's"),
        Key("local_epochs", validate.count, "passes of local training in a round", "the paper's"),
        Key("batch", validate.count, "records in one step of local training", "the paper's"),
        _word("model", MODELS, "what is trained: " + ", ".join(MODELS), "the paper's for the data"),
        Key(
            "dropout",
            below_one,
            "share of units left out in training (mlp, cnn)",
            "the paper's",
            "At 1 nothing would be left to learn from.",
        ),
        Key("seed", seed, "seed of the first model and the order of batches (public)", "0"),
    ),
    "security": (
        _word(
            "aggregation",
            AGGREGATIONS,
            "what the server sees: every silo's update (plain), only their sum (masked), or only "
            "the sum under weights that nobody sees (private-weighting: uldp-avg, uldp-sgd); "
            "without a server, silos see the sum (shares), or a shuffler mixes messages (shuffle), "
            "both for systems that are made for it",
            "plain",
        ),
        Key(
            "dropouts",
            dropouts,
            "masked: how many silos may be missing from a round; the others add more noise for it",
            "0",
            "The noise is made for the silos that are left.",
        ),
        Key(
            "colluders",
            colluders,
            "how many silos may tell the server all they know; what they learn together is a row "
            "of its own, and masks are made to bear them; at most all silos but two",
            "as many as `observer` and `observers` name, or 0",
            "It is a number of silos.",
        ),
        _choice(
            "key_bits",
            KEY_BITS,
            "private-weighting: length of the Paillier key; it may stand where there is none",
            "3072",
            "Shorter keys can be broken, and longer ones are not offered.",
        ),
        Key(
            "count_limit",
            count_limit,
            "private-weighting: most counts of one user over all silos, one of them a dummy; each "
            "silo keeps to its part of it",
            "40",
            "The numbers that are encrypted grow with the least common multiple of 1 to this.",
        ),
        Key(
            "records_per_count",
            validate.count,
            "private-weighting: how many records of a user in a silo count once",
            "1",
            "A coarser count is a weight that is a little less exact.",
        ),
        Key(
            "slots",
            slots,
            "private-weighting with sampled users: draw them by 1-of-slots oblivious transfer, so "
            "that neither server nor silos know who joins; slots x sampling_rate must be whole",
            "none: the server draws",
            "A user joins if the answer that the silos open is one of the real ones.",
        ),
        Key(
            "keep_transcripts",
            flag,
            "keep every message that a party received, for audits of the protocol",
            "false",
        ),
        Key(
            "processes",
            processes,
            "private-weighting: processes that share the encryption",
            "1",
            "It changes how long a run takes, and nothing else.",
        ),
    ),
    "evaluation": (
        _word(
            "test",
            ("public", "none"),
            "whether the model is measured on the test data, which must be public for that, as "
            "no metric is paid for",
            "public for bundled data, none for data from a path",
        ),
        Key(
            "source",
            source,
            "who says that the test data are public, and where they are published; it stands in "
            "the log",
            "of bundled data, where they come from; else required for public",
            "Whoever reads the log must be able to look whether it is so.",
        ),
    ),
    "uldp": (
        Key(
            "as_published",
            flag,
            "run as the paper has it, which proves no guarantee: uldp-naive with sensitivity C, "
            "uldp-avg and uldp-sgd with its private weighting",
            "false",
        ),
        Key(
            "group_records",
            group_records,
            "uldp-group: most records of one user that take part, 2 or more",
            "required there",
            "The promise for a user follows from that for one record, so often.",
        ),
        Key(
            "record_rate",
            rate,
            "uldp-group: probability that a record joins one step",
            "one batch of a silo's nominal records",
            "It is the probability with which a record joins one step of training.",
        ),
    ),
    "log": (
        _word(
            "fsync",
            FSYNC,
            "when the log is forced to disk: records (what must be), always, never",
            "records",
        ),
        Key("sign_key", text, "file with an Ed25519 private key that signs the log", "none"),
        Key(
            "save_models",
            flag,
            "keep every released model in models/, for `privplan audit log --models`",
            "false",
        ),
    ),
}
"""The keys of each table."""
