"""What is rehearsed with canaries: every system, before each observer that its carrier knows.

A case is a configuration, an observer and a number of canaries; it is small, as each is rehearsed
twice, by two trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Tables: TypeAlias = Mapping[str, Mapping[str, Any]]

MODEL: Final = ("model",)
SILOS: Final = ("model", "server", "silo")
PEERS: Final = ("model", "peer", "coordinator")
SENDERS: Final = ("model", "analyzer", "client", "shuffler", "colluding")
CLIENTS: Final = ("model", "server", "shuffler")

TRAINING: Final = {
    "clip": 0.25,
    "local_rate": 0.5,
    "global_rate": 3.0,
    "local_epochs": 1,
    "batch": 4,
    "model": "logistic",
}

UNUSED: Final = {"fedavg": ("clip",), "uldp-sgd": ("local_rate", "local_epochs", "batch")}
"""Keys of training that a system has no use for."""


@dataclass(frozen=True)
class Case:
    """One rehearsal: of these settings, before this observer, with so many canaries."""

    name: str
    tables: Tables
    observer: str
    canaries: int
    real: bool = False


def toml(tables: Tables) -> bytes:
    """Return the tables as the content of a configuration."""
    lines = []
    for name, keys in tables.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_value(value)}" for key, value in keys.items()]
    return "\n".join(lines).encode()


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def cases() -> Iterator[Case]:
    """Yield every case."""
    for name, observers, canaries, tables in (*_users(), *_peers(), *_sums(), *_senders()):
        for observer in observers:
            yield Case(f"{name}, {observer}", tables, observer, canaries)
    public = _tables("uldp-avg", 2, silos=1)
    yield Case("uldp-avg with public records, model", public, "model", 300, real=True)


def _tables(system: str, rounds: int | None, *, silos: int = 4, **tables: Any) -> Tables:
    given: dict[str, dict[str, Any]] = {
        "run": {"system": system} | ({} if rounds is None else {"rounds": rounds}),
        "data": {"name": "breast-cancer", "users": 50, "silos": silos},
        "privacy": {"noise_multiplier": 2.0},
    }
    if system.startswith(("uldp", "fedavg")):
        unused = UNUSED.get(system, ())
        given["training"] = {key: value for key, value in TRAINING.items() if key not in unused}
    for name, keys in tables.items():
        given[name] = {**given.get(name, {}), **keys}
    return {name: keys for name, keys in given.items() if keys}


Given: TypeAlias = Iterator[tuple[str, tuple[str, ...], int, Tables]]


def _users() -> Given:
    replaced, masked = {"neighbours": "replace-one"}, {"aggregation": "masked"}
    free = _tables("fedavg", 3)
    yield "fedavg", MODEL, 400, {name: keys for name, keys in free.items() if name != "privacy"}
    yield "uldp-avg", SILOS, 600, _tables("uldp-avg", 4)
    yield "uldp-sgd, replaced", SILOS, 600, _tables("uldp-sgd", 4, privacy=replaced)
    drawn = {"sampling_rate": 0.5}
    yield "uldp-avg, sampled", SILOS, 600, _tables("uldp-avg", 4, privacy=drawn)
    uniform = {"weighting": "uniform"}
    yield "uldp-avg, uniform", SILOS, 600, _tables("uldp-avg", 3, training=uniform)
    missing = {**masked, "dropouts": 1}
    yield "uldp-avg, dropouts", SILOS, 400, _tables("uldp-avg", 3, security=missing)
    banded = {"noise": "banded", "cohorts": 4, "bands": 3, "blocks": 2}
    yield "uldp-avg, banded", SILOS, 400, _tables("uldp-avg", 8, silos=3, privacy=banded)
    hidden = {"aggregation": "private-weighting", "key_bits": 2048}
    yield "uldp-avg, hidden weights", SILOS, 60, _tables("uldp-avg", 2, silos=3, security=hidden)
    drawn = {**drawn, **replaced}
    hidden_drawn = _tables("uldp-sgd", 2, silos=3, security=hidden, privacy=drawn)
    yield "uldp-sgd, hidden, sampled", SILOS, 60, hidden_drawn
    yield "uldp-naive", SILOS, 60, _tables("uldp-naive", 3)
    printed = {"as_published": True}
    naive = _tables("uldp-naive", 3, uldp=printed, security=masked)
    yield "uldp-naive as published", ("model", "server"), 60, naive
    group = {"uldp": {"group_records": 8}}
    yield "uldp-group", SILOS, 200, _tables("uldp-group", 2, **group)
    yield "uldp-group, masked", SILOS, 200, _tables("uldp-group", 2, security=masked, **group)


def _peers() -> Given:
    for name, aggregation, table, privacy in (
        ("shared", "shares", {"noise": "shared"}, {}),
        ("local, previous clip", "masked", {"noise": "local", "clip": "previous"}, {}),
        ("plain, by tensor", "plain", {"noise": "local", "clip_by": "tensor"}, {}),
        ("quantile", "shares", {"noise": "shared", "clip": "quantile"}, {}),
        ("records", "shares", {"noise": "shared", "divisor": 40}, {"unit": "record"}),
    ):
        relation = {"neighbours": "replace-one", "unit": "silo", "observer": "peer", **privacy}
        given = _tables(
            "disco",
            3,
            silos=5,
            disco=table,
            privacy=relation,
            security={"aggregation": aggregation},
        )
        yield f"disco, {name}", PEERS, 60, given


def _sums() -> Given:
    record, replaced = {"unit": "record"}, {"unit": "record", "neighbours": "replace-one"}
    masked, norm = {"aggregation": "masked"}, {"row_norm": 6.0}
    of_users = {**norm, "rows_per_user": 6, "intercept": 0.1}
    of_silos = {**norm, "silo_rows": 5}
    for name, privacy, table, security in (
        ("records", record, norm, {}),
        ("records, replaced", replaced, {**norm, "intercept": 0.1}, masked),
        ("users", {"unit": "user"}, of_users, {}),
        ("silos", {"unit": "silo", "neighbours": "replace-one"}, of_silos, masked),
    ):
        given = _tables("statistics", 1, privacy=privacy, statistics=table, security=security)
        yield f"statistics, {name}", SILOS, 400, given
    power = {"rank": 5, "row_norm": 4.0}
    changed = {"unit": "entry", "neighbours": "replace-one"}
    for name, system, rounds, privacy, table, security in (
        ("power", "fedpower-power", 3, record, power, {}),
        ("power, replaced", "fedpower-power", 3, replaced, power, {**masked, "dropouts": 1}),
        ("power, silos", "fedpower-power", 2, {"unit": "silo"}, {**power, "silo_rows": 5}, {}),
        ("power, entries", "fedpower-power", 2, changed, {**power, "largest_change": 1.0}, {}),
        ("one release", "fedpower-one-shot", 1, record, power, {}),
        ("chosen design", "fedpower", None, record, power, masked),
    ):
        given = _tables(system, rounds, privacy=privacy, fedpower=table, security=security)
        yield f"fedpower, {name}", SILOS, 300, given
    utility = _tables("fedpower-utility", 3, privacy=record, fedpower=power, security=masked)
    yield "fedpower-utility", ("model", "server"), 200, utility
    delm = {"row_norm": 6.0}
    linear = _tables("delm-linear", None, privacy=record, delm=delm)
    yield "delm-linear", SILOS, 300, linear
    for system, pca, relation in (
        ("delm-basic", "wishart", "add-remove"),
        ("delm-enhanced", "gaussian", "add-remove"),
        ("delm-basic", "gaussian", "replace-one"),
    ):
        given = {
            "run": {"system": system, "rounds": 2},
            "data": {"name": "digits", "users": 50, "silos": 4},
            "privacy": {"epsilon": 12.0, "neighbours": relation, "unit": "record"},
            "training": {"model": "softmax"},
            "delm": {**delm, "pca": pca},
        }
        yield f"{system}, {pca}, {relation}", CLIENTS, 300, given


def _senders() -> Given:
    for system, table in (
        ("flame-simple", {}),
        ("flame-simple", {"randomizer": "responses"}),
        ("flame-double", {"chosen": 5}),
        ("flame-double", {"chosen": 5, "padded_to": 10, "overflow": "cap"}),
        ("flame-topk", {"chosen": 5}),
        ("flame-double", {"chosen": 5, "transport": "sealed"}),
    ):
        given = {
            "run": {"system": system, "rounds": 2},
            "data": {"name": "breast-cancer", "users": 24},
            "privacy": {"noise_multiplier": 3.0, "delta": 1e-5},
            "training": {"model": "logistic", "local_epochs": 1},
            "flame": {"transport": "ideal", **table},
        }
        words = "".join(f", {value}" for value in table.values())
        yield f"{system}{words}", SENDERS, 120, given
