"""The keys of a run's configuration that all systems share, and the words that they take.

One list, from which the configuration is checked and the page `privplan explain run` is written.
What only one family of systems has stands in their declarations.  Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...accountant import validate
from ...accountant.delta_checks import delta_below_half
from ...accountant.neighbours import NEIGHBOURS
from ..observers.names import OBSERVERS, observer_name, observer_names
from .toml_data_keys import DATA_KEYS, source
from .toml_key import Key, at_least, below_one, between, choice, flag, rate, text, word
from .toml_words import AGGREGATIONS, FSYNC_POLICIES, KEY_BITS, MODELS, UNITS

NOTHING_FOR_EVERYBODY: Final = (
    "Where everybody takes part in every round, correlated noise gains nothing: the sum of all "
    "rounds has as much noise as with independent rounds."
)
"""Why correlated noise needs cohorts."""

SHARED_KEYS: Final[Mapping[str, tuple[Key, ...]]] = {
    "run": (
        Key(
            "system",
            text,  # `registry.keys_by_table` narrows it to the systems that are installed
            "what is run: one of the systems above",
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
            at_least(0),
            "make the run repeatable on this machine, noise and all: for tests, protects nobody",
            "none",
            "It decides the noise, so whoever knows it can take the noise off again.  Another "
            "processor rounds otherwise, and deep models then end elsewhere.",
        ),
        word("device", ("cpu", "cuda"), "where local training computes", "cpu"),
        Key(
            "evaluate_every",
            at_least(0),
            'rounds between two looks at the test data; 0: none, as with test = "none"',
            "1",
            "It is a number of rounds.",
        ),
    ),
    "data": DATA_KEYS,
    "privacy": (
        word(
            "unit",
            UNITS,
            "what is protected: one of the units of the system",
            "its first: user, of most",
        ),
        word(
            "neighbours",
            NEIGHBOURS,
            "add-remove, replace-one, or zero-out",
            "the system's: add-remove, of most",
            "A guarantee must say which change of the data it hides.",
        ),
        Key(
            "delta",
            delta_below_half,
            "the slack of the promise, below .5, and below 1 / units (of what `unit` says)",
            "1e-5",
            "Delta is a probability; it should be well below 1 / units.",
        ),
        Key(
            "accept_delta",
            flag,
            "take a delta of 1 / units or more, which publishing one unit at random satisfies; the "
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
            'for normalisation = "private"',
            "required there",
            "The moments are one release more, which the same budget pays for.",
        ),
        Key(
            "sampling_rate",
            rate,
            "probability that a user joins a round",
            "1",
            "It is the probability with which a user joins one round.",
        ),
        word(
            "noise",
            ("independent", "banded"),
            "independent from round to round; or banded: later rounds take off what earlier ones "
            "had too much, for users who take part in turns",
            "independent",
            "Correlated noise is paid for a block of rounds at once.",
        ),
        Key(
            "cohorts",
            at_least(2),
            'for noise = "banded": groups of users that take part in turns, one in each round',
            "required there",
            "It counts groups of users; with one, everybody takes part in every round, where "
            "correlated noise gains nothing.",
        ),
        Key(
            "bands",
            validate.count,
            'for noise = "banded": how many rounds of a silo one noise covers, at most `cohorts`',
            "10, or as many as there are cohorts or rounds of a block",
            "A user must not come twice within them.",
        ),
        Key(
            "blocks",
            validate.count,
            'for noise = "banded": blocks that the rounds are cut into and paid for; a run that is '
            "cut off loses the rest of its block, and goes on with the next",
            "1",
            "What silos remember within a block is stored nowhere.",
        ),
        Key(
            "observer",
            observer_name,
            "for whom noise and claim are made: model, server, silo, silo-with-records, or "
            "server+2, the server with two silos that tell it all they know; without a server: "
            "model, peer or coordinator; through a shuffler: model, analyzer, client, shuffler, or "
            "colluding, the shuffler with the analyzer",
            "the system's: model, of most",
            words=(*OBSERVERS, "server+1", "server+2"),
        ),
        Key(
            "observers",
            observer_names,
            "whose numbers the verdict on the run is about, a list",
            "the system's: model, server, silo, of most; model, peer and, of some, coordinator "
            "without a server; model, analyzer, client and, of some, shuffler through one",
        ),
    ),
    "training": (
        word(
            "weighting",
            ("uniform", "records"),
            "a user's weights over silos: 1/|S|, or by its records",
            "uniform",
        ),
        # A run that begins is held to a narrower range (`settings.clip_rule`).
        Key("clip", validate.positive, "bound on one contribution, L2, 1e-9 to 1e9", "the paper's"),
        Key("local_rate", validate.positive, "step size of local training", "the paper's"),
        Key("global_rate", validate.positive, "step size of the server", "the paper's"),
        Key("local_epochs", validate.count, "passes of local training in a round", "the paper's"),
        Key("batch", validate.count, "records in one step of local training", "the paper's"),
        word("model", MODELS, "what is trained: " + ", ".join(MODELS), "the paper's for the data"),
        Key(
            "dropout",
            below_one,
            "share of units left out in training (mlp, cnn)",
            "the paper's",
            "At 1 nothing would be left to learn from.",
        ),
        Key("seed", at_least(0), "seed of the first model and the order of batches (public)", "0"),
    ),
    "security": (
        word(
            "aggregation",
            AGGREGATIONS,
            "what the server sees: every silo's update (plain), only their sum (masked), or only "
            "the sum under weights that nobody sees (private-weighting); "
            "without a server, silos see the sum (shares), or a shuffler mixes messages (shuffle), "
            "both for systems that are made for it",
            "the system's: plain, of most",
        ),
        Key(
            "dropouts",
            at_least(0),
            "masked: how many silos may be missing from a round; the others add more noise for it",
            "0",
            "The noise is made for the silos that are left.",
        ),
        Key(
            "colluders",
            at_least(0),
            "how many silos may tell the server all they know; what they learn together is a row "
            "of its own, and masks are made to bear them; at most all silos but two (shares: how "
            "many may tell a peer, at most all silos but three)",
            "as many as `observer` and `observers` name, or 0",
            "It is a number of silos.",
        ),
        choice(
            "key_bits",
            KEY_BITS,
            "private-weighting, fedpower-utility: length of the Paillier key; it may stand where "
            "there is none",
            "3072",
            "Shorter keys can be broken, and longer ones are not offered.",
        ),
        Key(
            "count_limit",
            between(2, 1000),
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
            between(2, 1000),
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
            between(1, 64),
            "private-weighting, fedpower-utility, flame: processes that share the encryption",
            "1",
            "It changes how long a run takes, and nothing else.",
        ),
    ),
    "evaluation": (
        word(
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
    "log": (
        word(
            "fsync",
            FSYNC_POLICIES,
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
"""The keys of each table that all systems share."""

RATING_KEYS: Final = (
    *("selection", "selection_source", "columns", "fewest_ratings", "largest_rating"),
)
"""Keys of [data] that say what is read of ratings."""

RATING_USES: Final = tuple(f"data.{key}" for key in RATING_KEYS)
"""The same as a system that reads ratings has them in its `uses`."""

CORRELATED_KEYS: Final = ("noise", "cohorts", "bands", "blocks")
"""Keys of [privacy] that say how noise is correlated."""

OPTIONAL_KEYS: Final = (
    *(("data", key) for key in RATING_KEYS),
    ("privacy", "normalisation_noise"),
    ("privacy", "sampling_rate"),
    *(("privacy", key) for key in CORRELATED_KEYS),
    ("training", "weighting"),
    ("training", "clip"),
    ("training", "local_rate"),
    ("training", "local_epochs"),
    ("training", "batch"),
    ("training", "dropout"),
)
"""Shared keys that only some systems have a use for: those whose declarations say so."""

ANY_AGGREGATION_KEYS: Final = (("security", "processes"),)
"""Keys of some aggregations that a system has a use for under any, where its `uses` say so."""

STUDY_KEYS: Final = ("bad_silos", "bad_labels")
"""Keys of [data] by which a study gives some silos bad labels."""

UNLOGGED_KEYS: Final = (
    *("path", "columns", "fsync", "sign_key", "save_models", "keep_transcripts", "processes"),
)
"""Keys that never reach the log: a path may name a person, the others change nothing in a run."""

KEYS_LOGGED_IF_TRUE: Final = (
    "accept_delta",
    *(key for key in RATING_KEYS if key not in UNLOGGED_KEYS),
    *STUDY_KEYS,
    *CORRELATED_KEYS,
)
"""Keys that earlier versions lack: they reach the log where they are true or given."""


def may_be_unlogged(table: str, key: str) -> bool:
    """Return whether a log of this version may lack a key: where it is not true, or not given."""
    # Other tables have keys of these names, which they always log.
    if key in CORRELATED_KEYS and table != "privacy":
        return False
    return key in KEYS_LOGGED_IF_TRUE
