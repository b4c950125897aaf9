"""DISCO's peers on small federations, for tests: settings, systems, and rounds computed again."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.disco.settings import DiscoSettings
from privplan.fl.disco.system import Disco, disco
from privplan.fl.settings import schema
from privplan.fl.settings.toml_file import parse

from .conftest import Log, Plain, make_federation

TRAINING: Final = schema.TrainingSettings(
    clip=0.25, local_rate=0.5, global_rate=2.0, local_epochs=2, batch=4, model="logistic"
)

VARIANTS: Final = {
    "shared": ("shared", "shares"),
    "local by shares": ("local", "shares"),
    "local masked": ("local", "masked"),
    "local in the clear": ("local", "plain"),
}
"""Noise and aggregation, by what tests call them."""


class Parts:
    """The parts of a model, by name and shape."""

    def __init__(self, parts: dict[str, tuple[int, ...]]) -> None:
        self.parts = parts


class InTensors(Plain):
    """Plain training of a model of 4 numbers that has two tensors, of 3 and of 1."""

    model = Parts({"weight": (1, 3), "bias": (1,)})


class Given:
    """Training whose updates are given: (silos, D) in each round, whatever the model is."""

    def __init__(self, rows: Any) -> None:
        self.rows = np.asarray(rows, np.float64)

    def initial(self) -> Any:
        return np.zeros(self.rows.shape[1])

    def silo_deltas(self, parameters: Any, number: int) -> Any:
        return self.rows.copy()


def settings(
    noise: str = "shared",
    aggregation: str = "shares",
    *,
    silos: int = 3,
    rounds: int = 3,
    colluders: int = 0,
    unit: str = "silo",
    privacy: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    **table: Any,
) -> schema.Settings:
    """Return settings of DISCO's peers as a configuration would."""
    given = {"unit": unit, "neighbours": "replace-one", "observer": "peer", **(privacy or {})}
    if "epsilon" not in given:
        given = {"noise_multiplier": 3.0, **given}
    if unit == "record":
        table = {"divisor": 40, **table}
    return schema.Settings(
        run=schema.RunSettings(system="disco", rounds=rounds),
        data=schema.DataSettings(name="breast-cancer", users=6, silos=silos),
        privacy=replace(schema.PrivacySettings(delta=1e-5), **given),
        training=replace(TRAINING, **(training or {})),
        security=schema.SecuritySettings(aggregation=aggregation, colluders=colluders),  # type: ignore[arg-type]
        table=DiscoSettings(noise=noise, **table),  # type: ignore[arg-type]
    )


def built(own: schema.Settings, *, rows: Any = None, local: type[Plain] = Plain) -> Disco:
    """Return the system, which trains on a tiny federation, or is given its peers' updates."""
    silos = own.data.silos
    assert silos is not None
    federation = make_federation(silos=silos)
    trained = local(federation, own.training) if rows is None else Given(rows)
    made = disco(own, federation, trained, Streams.seeded(0))  # type: ignore[arg-type]
    assert isinstance(made, Disco)
    return made


def gate_of(system: Disco, seed: int = 1) -> tuple[Gate, Log, Odometer]:
    """Return what a system's rounds are made with: the gate, its log and its odometer."""
    log, odometer = Log(), Odometer.for_plan(system.plan())
    return Gate(odometer, log, Streams.seeded(seed)), log, odometer


def models_of(system: Disco, seed: int = 1, rounds: int | None = None) -> tuple[list[Any], Log]:
    """Return the models of a run in memory, the first one included, with each state, and its log.

    An item is (parameters, state).
    """
    gate, log, _ = gate_of(system, seed)
    kept: list[Any] = [(system.initial(), dict(system.initial_state()))]
    for number in range(1, (rounds or system.setup.rounds) + 1):
        made = system.round(number, kept[-1][0], gate, kept[-1][1])
        kept.append((made.parameters, dict(made.state)))
    return kept, log


def integers_of(row: Any, bound: float, grid: float) -> Any:
    """Return a row clipped to `bound` on a grid, in whole steps: a formula of its own.

    z = trunc(k r / g), with k = min(1, L (1 - m) / |r|) and L the steps below the bound.
    """
    if not np.isfinite(row).all():
        return np.zeros(len(row), np.int64)
    largest = math.floor(math.nextafter(bound, 0.0) / grid)
    up = math.frexp(np.abs(row).max())[1]
    scaled = row * 2.0**-up
    size = math.sqrt(np.einsum("i,i->", scaled, scaled))
    margin = (len(row) + 16) * 2.0**-52
    factor = min(2.0**up / grid, largest * (1.0 - margin) / size) if size else 0.0
    steps = [math.trunc(factor * value) for value in scaled]
    # What the privacy rests on, in Python's integers: no row is longer than the bound.
    assert sum(step * step for step in steps) <= largest * largest
    return np.array(steps, np.int64)


_FILE: Final = {
    "run": {"system": '"disco"', "rounds": "3", "seed": "5"},
    "data": {"name": '"breast-cancer"', "silos": "3"},
    "privacy": {"noise_multiplier": "3.0"},
    "training": {"clip": "0.3"},
}


def text(*without: str, **tables: dict[str, str]) -> str:
    """Return a configuration as a file has it, with some keys changed and some left out."""
    config = {name: dict(keys) for name, keys in _FILE.items()}
    for name, keys in tables.items():
        config[name] = {**config.get(name, {}), **keys}
    for name in without:
        config["run"].pop(name)
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        for name, keys in config.items()
    )


def configuration(*without: str, **tables: dict[str, str]) -> schema.Settings:
    """Return what a file says; see `text`."""
    return parse(text(*without, **tables).encode(), "run.toml")
