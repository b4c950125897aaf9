"""Which keys of a configuration all systems share, which some use, and which a log has.

What only one family of systems has stands in their declarations.  Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .data_table import DataSettings
from .evaluation_table import EvaluationSettings, LogSettings
from .ledger_table import LedgerSettings
from .shared_tables import PrivacySettings, RunSettings, SecuritySettings, TrainingSettings
from .toml_key import Key, keys_of

SHARED_TABLES: Final[Mapping[str, type[Any]]] = {
    "run": RunSettings,
    "data": DataSettings,
    "privacy": PrivacySettings,
    "training": TrainingSettings,
    "security": SecuritySettings,
    "evaluation": EvaluationSettings,
    "log": LogSettings,
    "ledger": LedgerSettings,
}
"""The tables that all systems share."""

SHARED_KEYS: Final[Mapping[str, tuple[Key, ...]]] = {
    name: keys_of(table) for name, table in SHARED_TABLES.items()
}
"""The keys of each of them."""

RATING_KEYS: Final = (
    *("selection", "selection_source", "columns", "fewest_ratings", "largest_rating"),
)
"""Keys of [data] that say what is read of ratings."""

TABLE_KEYS: Final = (
    *("user", "label", "silo", "schema", "rows"),
    *("users_at_most", "users_public", "users_list"),
)
"""Keys of [data] that say what is read of a table of one's own."""

HELD_OUT_KEYS: Final = ("held_out", "held_out_noise")
"""Keys of [evaluation] that say how users of such a table are held out."""

HELD_OUT_USES: Final = tuple(f"evaluation.{key}" for key in HELD_OUT_KEYS)
"""The same as a system that sums their votes has them in its `uses`."""

TABLE_USES: Final = ("data.schema",)
"""What a system that runs on such a table has in its `uses`."""

LOCAL_STEP_USES: Final = tuple(
    f"training.{key}" for key in ("local_rate", "local_epochs", "batch", "dropout")
)
"""What a system has that trains in local steps."""

FEDERATED_USES: Final = (
    *LOCAL_STEP_USES,
    "training.class_weights",
    *TABLE_USES,
    *HELD_OUT_USES,
)
"""The same of one that can run on a table and measure itself by votes."""

RATING_USES: Final = tuple(f"data.{key}" for key in RATING_KEYS)
"""The same as a system that reads ratings has them in its `uses`."""

CORRELATED_KEYS: Final = ("noise", "cohorts", "bands", "blocks")
"""Keys of [privacy] that say how noise is correlated."""

OPTIONAL_KEYS: Final = (
    *(("data", key) for key in RATING_KEYS),
    ("data", "schema"),
    ("privacy", "normalisation_noise"),
    ("privacy", "sampling_rate"),
    *(("privacy", key) for key in CORRELATED_KEYS),
    ("training", "weighting"),
    ("training", "clip"),
    ("training", "local_rate"),
    ("training", "local_epochs"),
    ("training", "batch"),
    ("training", "dropout"),
    ("training", "class_weights"),
    *(("evaluation", key) for key in HELD_OUT_KEYS),
)
"""Shared keys that only some systems have a use for: those whose declarations say so."""

ANY_AGGREGATION_KEYS: Final = (("security", "processes"),)
"""Keys of some aggregations that a system has a use for under any, where its `uses` say so."""

CODE_DIGESTS: Final = ("model_digest", "loss_digest")
"""What a log says in [training] of code of one's own, and no configuration does."""

CODE_REFERENCES: Final = ("model", "loss")
"""Keys of [training] that may name code, by a path that no log has."""

TRAINING_KEYS_LOGGED_IF_GIVEN: Final = ("loss", *CODE_DIGESTS)
"""Keys of [training] that earlier versions lack: a log has them where they are given."""

STUDY_KEYS: Final = ("bad_silos", "bad_labels")
"""Keys of [data] by which a study gives some silos bad labels."""

UNLOGGED_KEYS: Final = (
    *("path", "columns", "silo_files", "users_list", "handed_over", "test_file", "executable"),
    *("fsync", "sign_key", "save_models", "keep_transcripts", "processes"),
    *("url", "data_set", "project", "public_key", "charged_blocks"),
)
"""Keys that never reach the log: a path may name a person, the others change nothing in a run."""

KEYS_LOGGED_IF_TRUE: Final = (
    "accept_delta",
    *(key for key in RATING_KEYS if key not in UNLOGGED_KEYS),
    *STUDY_KEYS,
    *(key for key in TABLE_KEYS if key not in UNLOGGED_KEYS),
    *CORRELATED_KEYS,
    *HELD_OUT_KEYS,
    "class_weights",
)
"""Keys that earlier versions lack: they reach the log where they are true or given."""


def may_be_unlogged(table: str, key: str) -> bool:
    """Return whether a log of this version may lack a key: where it is not true, or not given."""
    if table == "training" and key in TRAINING_KEYS_LOGGED_IF_GIVEN:
        return True
    # Other tables have keys of these names, which they always log.
    if key in CORRELATED_KEYS and table != "privacy":
        return False
    return key in KEYS_LOGGED_IF_TRUE
