"""The settings of a run: its configuration, checked, complete and frozen.

A configuration is TOML (`read_settings`); what it leaves out is filled in from the paper of the
system (`fl.defaults`).  Settings that were made are consistent: no key contradicts another, and
none is without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal

from ..accountant.records import Relation, Unit
from .observers import MODEL, NAMED
from .sealed_items import sealed_items

Fsync = Literal["records", "always", "never"]

UNLOGGED: Final = ("path", "fsync", "sign_key", "save_models", "keep_transcripts", "processes")
"""Keys that never reach the log: a path may name a person, the others change nothing in a run."""

ONLY_IF_TRUE: Final = ("accept_delta",)
"""Keys that earlier versions lack: they reach the log where they are true, and no other."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """`[run]`: what is run, how long, and on what.

    `seed` makes the whole run repeatable, its protective randomness included: it protects nobody
    then.  Keys and masks, which leave no trace in a result, are drawn afresh.  Training repeats to
    the last bit on one machine with the same versions; other processors round otherwise, which an
    `mlp` or a `cnn` amplifies.
    """

    system: str
    rounds: int
    seed: int | None = None
    device: str = "cpu"
    evaluate_every: int = 1
    trials: int = 1


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """`[data]`: which data set, and how it is dealt to users and silos.  `seed` is public."""

    name: str
    path: Path | None = None
    users: int
    silos: int | None = None
    allocation: Literal["uniform", "zipf"] = "zipf"
    labels_per_user: int | None = None
    normalisation: Literal["public", "none", "private"] = "public"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class PrivacySettings:
    """`[privacy]`: what is promised.  `unit` is None for a system that promises nothing.

    `group` is the number of records of one user that take part, where noise protects records;
    `normalisation_noise` the noise multiplier of the moments that features are normalised by.
    Noise and claim are made for `observer`; `observers` are those whose numbers a verdict is about.
    `accept_delta` says that a delta of 1 / units or more is meant.
    """

    unit: Unit | None = "user"
    neighbours: Relation = "add-remove"
    delta: float = 1e-5
    epsilon: float | None = None
    noise_multiplier: float | None = None
    normalisation_noise: float | None = None
    sampling_rate: float = 1.0
    group: int = 1
    observer: str = MODEL
    observers: tuple[str, ...] = NAMED
    accept_delta: bool = False


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """`[training]`: how models are trained.  `seed` (first model, order of batches) is public."""

    weighting: Literal["uniform", "records"] = "uniform"
    clip: float
    local_rate: float
    global_rate: float
    local_epochs: int
    batch: int
    model: str
    dropout: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """`[security]`: what the server sees, and by which protocol it is kept from the rest.

    `dropouts` is how many silos may be missing from a masked sum, `colluders` how many may tell
    the server all they know.  For private weighting:
    `count_limit` bounds a user's count over all silos, `records_per_count` records of it count
    once, and `slots` are those of the oblivious transfer by which users are sampled (None: the
    server samples).  `keep_transcripts` keeps what each party saw; `processes` share the work.
    """

    aggregation: Literal["plain", "masked", "private-weighting", "shares", "shuffle"] = "plain"
    dropouts: int = 0
    colluders: int = 0
    key_bits: int = 3072
    count_limit: int = 40
    records_per_count: int = 1
    slots: int | None = None
    keep_transcripts: bool = False
    processes: int = 1


@dataclass(frozen=True, kw_only=True)
class UldpSettings:
    """`[uldp]`: what only Uldp-FL's systems have."""

    as_published: bool = False
    group_records: int | None = None
    record_rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """`[evaluation]`: whether test data are public, and who says so; see `fl.evaluation`.

    `test` is None where nothing is said: then bundled data are public, and no others.
    """

    test: Literal["public", "none"] | None = None
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """`[log]`: how the log is kept, and with `save_models` every released model beside it."""

    fsync: Fsync = "records"
    sign_key: Path | None = None
    save_models: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a run, by table."""

    run: RunSettings
    data: DataSettings
    privacy: PrivacySettings
    training: TrainingSettings
    security: SecuritySettings = SecuritySettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    uldp: UldpSettings = UldpSettings()
    log: LogSettings = LogSettings()

    def to_json(self) -> dict[str, dict[str, object]]:
        """Return what a log may say of the settings: all but `UNLOGGED`; floats as texts."""
        found = {item.name: _table_json(getattr(self, item.name)) for item in fields(self)}
        return {name: table for name, table in found.items() if table}

    def sealed_items(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of the items that each release of the run seals, by phase."""
        return sealed_items(lambda table, key: getattr(getattr(self, table), key))


def read_settings(path: str | Path) -> Settings:
    """Return the settings that a TOML file describes.

    Raises `InvalidInput`, which names the file, the table and the key, for whatever is no
    configuration, and `Unsupported` for what has a name but does not exist yet.
    """
    from .settings_file import read

    return read(Path(path))


def _table_json(table: object) -> dict[str, object]:
    pairs = {item.name: getattr(table, item.name) for item in fields(table)}  # type: ignore[arg-type]
    return {
        name: _json(value)
        for name, value in pairs.items()
        if name not in UNLOGGED and (value or name not in ONLY_IF_TRUE)
    }


def _json(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return repr(value) if isinstance(value, float) else value


__all__ = [
    "DataSettings",
    "EvaluationSettings",
    "LogSettings",
    "PrivacySettings",
    "RunSettings",
    "SecuritySettings",
    "Settings",
    "TrainingSettings",
    "UldpSettings",
    "read_settings",
]
