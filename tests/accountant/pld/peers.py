"""What dp_accounting and prv_accountant say of 480 configurations each, kept in `peers.json`.

Computing them takes a minute, so the default run compares with what is kept, and the slow tests
compute it all again.  `python tests/accountant/pld/peers.py` writes the file anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.errors import Unsupported
from privplan.accountant.guarantee import as_neighbours

CONFIGURATIONS = 480

KINDS = tuple(range(10))
KNOWN_TO_PRV = (0, 1, 2, 4, 5, 9)

WIDTH = 3e-4
"""The width of dp_accounting's grid."""

FILE = Path(__file__).with_name("peers.json")


@dataclass(frozen=True)
class Configuration:
    """A question that is put to everybody."""

    event: ev.Event
    neighbours: str
    delta: float


def _rounded(value: float) -> float:
    """Return nine digits of a value: processors differ in the last ones of an exponential."""
    return float(f"{value:.9g}")


def _configuration(rng: np.random.Generator, kinds: tuple[int, ...]) -> Configuration:
    noise = _rounded(np.exp(rng.uniform(np.log(0.5), np.log(20))))
    rate = _rounded(np.exp(rng.uniform(np.log(1e-3), 0.0)))
    rounds = int(np.exp(rng.uniform(0.0, np.log(3000))))
    kind = int(rng.choice(kinds))
    neighbours = "add-remove"
    if kind <= 3:
        event: ev.Event = ev.Poisson(rate, ev.Gaussian(noise))
        neighbours = ("add-remove", "add-remove", "zero-out", "replace-one")[kind]
    elif kind == 4:
        event = ev.Gaussian(noise)
        neighbours = str(rng.choice(["add-remove", "replace-one"]))
    elif kind == 5:
        event = ev.Laplace(noise)
        neighbours = str(rng.choice(["add-remove", "replace-one"]))
    elif kind == 6:
        event = ev.Poisson(rate, ev.Laplace(noise))
    elif kind == 7:
        event = ev.DiscreteGaussian(noise, int(rng.integers(1, 4)))
    elif kind == 8:
        event = ev.RandomizedResponse(_rounded(1 / noise), int(rng.integers(2, 6)))
        neighbours = "replace-one"
    else:
        event = ev.Compose(
            [
                ev.Repeat(max(rounds // 3, 1), ev.Poisson(rate, ev.Gaussian(noise))),
                ev.Gaussian(noise + 1),
                ev.Laplace(noise + 2),
            ]
        )
        rounds = 1
    return Configuration(ev.Repeat(rounds, event), neighbours, _rounded(10 ** rng.uniform(-9, -3)))


def _drawn(kinds: tuple[int, ...]) -> list[Configuration]:
    """Return the configurations; nothing here depends on chance, because the seed is fixed."""
    rng = np.random.default_rng(20261120)
    return [_configuration(rng, kinds) for _ in range(CONFIGURATIONS)]


def by_dp_accounting(configuration: Configuration) -> float | None:
    """Return dp_accounting's own upper end, without any allowance; None if it has none."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    relation = {
        "add-remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "zero-out": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    }[configuration.neighbours]
    if isinstance(configuration.event, ev.Repeat) and isinstance(
        configuration.event.event, ev.RandomizedResponse
    ):
        return None  # dp_accounting 0.6.0 composes this event once, whatever its count
    accountant = PLDAccountant(relation, value_discretization_interval=WIDTH)
    try:
        accountant.compose(configuration.event.to_dp_event())
    except (Unsupported, dp_accounting.UnsupportedEventError):
        return None
    return float(accountant.get_epsilon(configuration.delta))


def by_prv_accountant(configuration: Configuration) -> tuple[float, float] | None:
    """Return both ends of prv_accountant, as our engine reads them; None if it has none."""
    from privplan.accountant.engines.microsoft import MicrosoftEngine

    engine, neighbours = MicrosoftEngine(eps_error=0.05), as_neighbours(configuration.neighbours)
    try:
        bounds = engine.epsilon(
            Composition.of(configuration.event), configuration.delta, neighbours
        ).bounds
    except Unsupported:
        return None
    return bounds.lower, bounds.upper


@dataclass(frozen=True)
class Peer:
    """Another library: its questions, and how to put one to it."""

    package: str
    configurations: tuple[Configuration, ...]
    ask: Any

    @property
    def digest(self) -> str:
        """Return what tells whether answers are kept of these very questions."""
        return hashlib.sha256(repr(self.configurations).encode()).hexdigest()

    def kept(self) -> list[Any]:
        """Return the answers of the file, in the order of the questions."""
        kept = json.loads(FILE.read_text())[self.package]
        assert kept["questions"] == self.digest, "other questions than those in peers.json"
        return [tuple(answer) if isinstance(answer, list) else answer for answer in kept["answers"]]

    def kept_by(self) -> str:
        """Return the version that gave the answers of the file."""
        return str(json.loads(FILE.read_text())[self.package]["version"])


DP_ACCOUNTING = Peer("dp-accounting", tuple(_drawn(KINDS)), by_dp_accounting)
PRV_ACCOUNTANT = Peer("prv-accountant", tuple(_drawn(KNOWN_TO_PRV)), by_prv_accountant)


def write(peers: Sequence[Peer]) -> None:
    """Put every question to the installed libraries, and keep what they say."""
    kept = {
        peer.package: {
            "version": version(peer.package),
            "questions": peer.digest,
            "answers": [peer.ask(configuration) for configuration in peer.configurations],
        }
        for peer in peers
    }
    FILE.write_text(json.dumps(kept, indent=0) + "\n")


if __name__ == "__main__":
    write([DP_ACCOUNTING, PRV_ACCOUNTANT])
