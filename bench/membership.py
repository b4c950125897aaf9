"""Membership inference on digits: how long the models take, and who is told by what."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

from privplan.fl.settings.toml_file import parse

if TYPE_CHECKING:
    from privplan.audit.attack_methods.membership import Evidence
    from privplan.audit.measurement import Measurement

MODELS, TARGETS, USERS, SEED = 64, 16, 287, 1
CORES = 2

MAX_ATTACK_SECONDS = 30.0
ASKED_PRIVATE = 0.62
"""Near .5 to .6; the interval of an AUC is some .02 to either side."""

ATTACKS = ("rmia", "ratio", "lira", "lira-offline", "loss")

CONFIGURATION = """\
[run]
system = "{system}"
rounds = {rounds}
[data]
name = "digits"
users = {users}
silos = 5
allocation = "uniform"
[privacy]
{privacy}
"""

SETS = (
    ("central, batched", "fedavg", 50, ""),
    ("fedavg, replicas", "fedavg", 50, ""),
    ("uldp-avg, 50 rounds", "uldp-avg", 50, "noise_multiplier = 2.0"),
    ("uldp-avg, 20 rounds", "uldp-avg", 20, "noise_multiplier = 2.0"),
)

NOTE = """\
64 models of the softmax classifier of digits, 48 shadows and 16 targets, 287 users with 5 records
each, every user in or out by a coin. Central: one place, momentum, 100 epochs, all models at once.
Replicas: runs of the system itself, with 5 silos, on two processes; uldp-avg with noise multiplier
2 and everybody in every round, so a user's loss is that of Gaussian noise with mu = sqrt(rounds)/2.
A record's score is of the same models: its coin is its user's. Intervals are of 95%, clustered by
user and by target; a cell is empty where trials are worth fewer strangers than its rate takes. No
value here is a proof of privacy."""


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    if find_spec("torch") is None or find_spec("sklearn") is None:
        console.print("[yellow]Membership inference is skipped: torch or sklearn is absent.[/]")
        return []
    table = grid(
        "Membership inference",
        *("<models", "trained in", "<attack", "<on", "AUC", "interval"),
        *("TPR at 1%", "interval", "TPR at 0.1%", "interval"),
    )
    values: dict[tuple[str, str, str], float] = {}
    took: dict[str, float] = {}
    for name, system, rounds, privacy in SETS:
        progress(f"membership inference: {name}")
        seen, took[name] = _evidence(name, system, rounds, privacy)
        for level in ("record", "user"):
            for attack in ATTACKS:
                measurements = _measured(seen, attack, level)
                values[name, level, attack] = measurements[0].value
                cells = [cell for measurement in measurements for cell in _cells(measurement)]
                table.add_row(name, seconds(took[name]), attack, level, *cells)
    console.print(table, NOTE, "", sep="\n")
    return _verdicts(values, took)


def _verdicts(values: dict[tuple[str, str, str], float], took: dict[str, float]) -> list[Verdict]:
    central, replica, _, private = (name for name, *_ in SETS)
    verdicts = [
        Verdict(
            f"{MODELS} models of digits, in a batch",
            f"< {MAX_ATTACK_SECONDS:g} s",
            seconds(took[central]),
            took[central] < MAX_ATTACK_SECONDS,
        )
    ]
    for name in (central, replica):
        user, record = (values[name, level, "rmia"] for level in ("user", "record"))
        told = f"{user:.3f}, {record:.3f}"
        verdicts.append(Verdict(f"RMIA, users above records, {name}", "yes", told, user > record))
    for level in ("user", "record"):
        value = values[private, level, "rmia"]
        verdicts.append(
            Verdict(
                f"RMIA under user-level noise, {level}",
                f"<= {ASKED_PRIVATE:g}",
                f"{value:.3f}",
                value <= ASKED_PRIVATE,
            )
        )
    return verdicts


def _evidence(name: str, system: str, rounds: int, privacy: str) -> tuple[Evidence, float]:
    """Return what the attacker sees, and the time that training took."""
    from privplan.audit.attack_methods.membership import evidence_of
    from privplan.audit.shadows import JoblibExecutor, Replica, design, replicas, train_batched
    from privplan.fl.running.preparation import prepare

    text = CONFIGURATION.format(system=system, rounds=rounds, users=USERS, privacy=privacy)
    prepared = prepare(parse(text.encode(), "bench.toml"))
    federation = prepared.federation
    coins = design(USERS, models=MODELS, targets=TARGETS, rng=np.random.default_rng(SEED))
    inside = coins.inside_records(federation.user)
    with _two_cores():
        began = time.perf_counter()
        if name.startswith("central"):
            rows = train_batched(prepared.model, federation.features, federation.labels, inside)
            trained = [Replica(row) for row in rows]
        else:
            trained = replicas(
                prepared.settings, federation, inside, seed=SEED, executor=JoblibExecutor(CORES)
            )
        took = time.perf_counter() - began
    return evidence_of(prepared.model, federation, coins, federation.user, trained), took


def _measured(seen: Evidence, attack: str, level: str) -> tuple[Measurement, ...]:
    from privplan.audit.attack_methods.membership import measurements, trials_of
    from privplan.audit.attack_methods.membership.results import AttackDescription

    return measurements(
        trials_of(seen, attack, level), AttackDescription(attack, level, "add-remove")
    )


def _cells(measurement: Measurement) -> tuple[str, str]:
    return (
        f"{measurement.value:.3f}",
        f"{measurement.sample['lower']:.3f}-{measurement.sample['upper']:.3f}",
    )


@contextmanager
def _two_cores() -> Iterator[None]:
    """Use no more than two cores, where the system lets a process choose."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    if len(allowed) > CORES:
        os.sched_setaffinity(0, set(sorted(allowed)[-CORES:]))
    try:
        yield
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)


if __name__ == "__main__":
    show(Console(width=170))
