"""Parties of a network in one process, each an object of its own, with its own folder and records.

Bytes go from the hub to the guards and back by calls; tests put themselves in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from privplan.fl.network.guard import Guard
from privplan.fl.network.hub import Hub
from privplan.fl.network.journal import identity_in, state_folder
from privplan.fl.network.plan import NetworkPlan, SiloKey, code_version
from privplan.fl.network.planned_run import configuration_of, party, promise_of
from privplan.fl.network.server_seat import planning_seat
from privplan.fl.running.preparation import prepare

Meddling = Callable[[int, bytes], bytes | None]


_TABLES: Final = {
    "statistics": "[statistics]\nrow_norm = 6.0\n",
    "delm-linear": "[delm]\nrow_norm = 6.0\n",
    "fedpower-one-shot": "[fedpower]\nrow_norm = 6.0\nrank = 2\n",
    "fedpower-power": "[fedpower]\nrow_norm = 6.0\nrank = 2\n",
}
"""The own table of each system that has one."""


def config(system: str = "uldp-avg", aggregation: str = "masked", more: str = "") -> str:
    """Return a small configuration with a seed."""
    trains = system not in _TABLES
    lines = [
        f'[run]\nsystem = "{system}"\nseed = 7',
        "" if system in ("statistics", "delm-linear", "fedpower-one-shot") else "rounds = 3",
        '[data]\nname = "breast-cancer"\nusers = 20\nsilos = 3',
        f'[security]\naggregation = "{aggregation}"',
        _TABLES.get(system, ""),
    ]
    if system != "fedavg":
        unit = "user" if trains else "record"
        lines.append(f'[privacy]\nunit = "{unit}"\nnoise_multiplier = 5.0\ndelta = 1e-5')
    if system in ("uldp-avg", "uldp-sgd"):
        lines.append('[training]\nweighting = "uniform"')
    if system == "uldp-avg":
        lines.append("local_epochs = 1")
    return "\n".join([*lines, more])


def planned(folder: Path, text: str, seconds: int = 5) -> NetworkPlan:
    """Return a plan that all of its silos have signed; keys and folders are made in a folder."""
    names = ("north", "south", "east")
    silos = [identity_in(state_folder(folder / name), make=True) for name in names]
    server = identity_in(state_folder(folder / "server"), make=True)

    def plan_with(promise: Mapping[str, str]) -> NetworkPlan:
        keys = tuple(SiloKey(n, i.public) for n, i in zip(names, silos, strict=True))
        return NetworkPlan(
            text, "", code_version(), promise, server.public, keys, seconds, insecure=True
        )

    draft = plan_with({})
    settings = configuration_of(draft, folder / "server").settings
    plan = plan_with(
        promise_of(prepare(settings, seat=planning_seat(party("server", draft, ""), draft.roster)))
    )
    for identity in silos:
        plan = plan.signed_by(identity)
    return plan


@dataclass
class Loopback:
    """Carries requests by calls; `meddling` may change, drop or repeat them.  Silos may be away."""

    guards: dict[int, Guard]
    meddling: Meddling | None = None
    carried: list[tuple[int, bytes, bytes]] = field(default_factory=list)

    def carry(self, requests: Mapping[int, bytes], seconds: float) -> Mapping[int, bytes]:
        del seconds
        replies = {}
        for silo, request in requests.items():
            sent: bytes | None = request
            if self.meddling is not None:
                sent = self.meddling(silo, request)
            guard = self.guards.get(silo)
            if sent is None or guard is None:
                continue
            replies[silo] = guard.handle(sent)
            self.carried.append((silo, sent, replies[silo]))
        return replies


@dataclass
class Parties:
    """A hub and three guards under one plan."""

    folder: Path
    plan: NetworkPlan
    courier: Loopback
    files: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, text: str, meddling: Meddling | None = None) -> Parties:
        plan = planned(folder, text)
        parties = cls(folder, plan, Loopback({}, meddling))
        for silo in range(3):
            parties.restart(silo)
        return parties

    def restart(self, silo: int) -> Guard:
        """Kill a guard, if there is one, and start it anew from its folder."""
        self.kill(silo)
        name = self.plan.silos[silo].name
        files = [self.files[name]] if name in self.files else []
        guard = Guard(self.plan, self.folder / name, files)
        self.courier.guards[silo] = guard
        return guard

    def kill(self, silo: int) -> None:
        old = self.courier.guards.pop(silo, None)
        if old is not None:
            old.close()

    def hub(self) -> Hub:
        return Hub(self.plan, self.folder / "server", self.courier)

    def run_folder(self, silo: int | None) -> Path:
        name = "server" if silo is None else self.plan.silos[silo].name
        return self.folder / name / "run"

    def close(self) -> None:
        for silo in list(self.courier.guards):
            self.kill(silo)
