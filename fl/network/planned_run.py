"""The run that a plan describes, as one party makes it: configuration, records, promise."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...accountant import records, rounding
from ...accountant.errors import InvalidInput
from ..data.federation import Federation
from ..declarations.toml_key import TABLE
from ..files import atomic
from ..frame.private_system import PrivateSystem
from ..running.configuration import Configuration
from ..running.prepared_run import PreparedRun
from ..running.run_data import usual_data
from ..settings.schema import Settings
from ..tables.federated_table import digest_of, federation_of_table
from ..tables.row_reading import TableColumns
from ..tables.schema_text import schema_in
from ..tables.table import read_table
from .plan import NetworkPlan
from .supported import require_supported

SCHEMA_FILE: Final = "schema.toml"

_NOWHERE: Final = "held-by-the-silo"
"""What stands in a plan for the name of a file, which is nobody's business but the silo's."""


def configuration_of(plan: NetworkPlan, folder: Path) -> Configuration:
    """Return the configuration of a plan; its schema, if any, is kept in a party's folder.

    Raises `Unsupported` for a run that does not go over a network, and `InvalidInput` for one whose
    number of silos is not that of the plan, or which has a seed without the plan saying so.
    """
    tables: dict[str, Any] = tomllib.loads(plan.config)
    if plan.schema:
        atomic.write(folder / SCHEMA_FILE, plan.schema.encode())
        tables.setdefault("data", {})["schema"] = str(folder / SCHEMA_FILE)
    configuration = Configuration.of(tables)
    settings = configuration.settings
    require_supported(settings)
    if settings.run.seed is not None and not plan.insecure:
        raise InvalidInput(
            "The configuration has a `seed`, and the plan does not say so.",
            "Noise from a seed protects nobody.",
            "Leave it out; for a rehearsal on one machine: privplan flower init --insecure-seed",
        )
    return configuration


def shared_config(content: str) -> tuple[str, str, tuple[str, ...]]:
    """Return what a plan holds of a configuration: it, its schema, and the names of its silos.

    Names of files are left out: each silo says by itself where its file is.
    """
    from ..running.toml_writer import toml_bytes

    tables: dict[str, Any] = tomllib.loads(content)
    data = tables.get("data", {})
    schema, names = "", ()
    if data.get("name") == TABLE:
        said = data.pop("schema", None)
        schema = "" if said is None else Path(said).read_text("utf-8")
        silos = data.get("silos")
        names = tuple(silos) if isinstance(silos, (dict, list)) else ()
        data["silos"] = dict.fromkeys(names, _NOWHERE)
    return toml_bytes(tables).decode(), schema, names


@dataclass(frozen=True)
class HeldRecords:
    """Whose records a party holds: those of one silo, in these files; of no silo at the server."""

    silo: int | None
    files: Sequence[Path] = ()

    def federation(self, settings: Settings) -> tuple[Federation, dict[str, str]]:
        """Return the federation in which only these records are, and their digest.

        Raises `InvalidInput` for files that cannot be read.
        """
        if settings.data.name == TABLE:
            federation = self._of_table(settings)
            return federation, {"records": digest_of(federation)}
        if self.files:
            raise InvalidInput(
                f"Files were given, and the data of the plan are {settings.data.name}.",
                "They come with privplan, and every silo takes its part of them.",
                "Leave the files out, or agree on a plan of a table.",
            )
        whole, digests = usual_data(settings)
        here = np.zeros(whole.records, bool) if self.silo is None else whole.silo == self.silo
        return whole.only(here), {**digests, "silo": str(self.silo)}

    def _of_table(self, settings: Settings) -> Federation:
        data = settings.data
        names = [name for name, _ in data.silo_files or ()]
        files = {
            name: list(self.files) if number == self.silo else []
            for number, name in enumerate(names)
        }
        if self.silo is not None and not self.files:
            raise InvalidInput(
                "The file of this silo is missing.",
                "The plan is of a table, whose rows each silo has by itself.",
                "Give it: privplan guard --data FILE ...",
            )
        columns = TableColumns(user=data.user, label=data.label, silo=None)
        rows = read_table(files, schema_in(data.schema or ""), columns, seed=data.seed)
        return federation_of_table(rows)


def promise_of(prepared: PreparedRun) -> dict[str, str]:
    """Return what a run promises, in words by name: what each party computes, and compares."""
    opening, plan = prepared.opening, prepared.plan
    said = {
        "system": prepared.system.name,
        "rounds": str(opening.plan.rounds),
        "silos": str(opening.population.silos),
        "users": str(opening.population.users),
        "unit": opening.claim.unit,
        "neighbours": opening.claim.neighbours,
        "delta": rounding.as_given(opening.claim.delta),
        "aggregation": opening.aggregation,
        "values": str(prepared.width),
    }
    for phase in plan.phases:
        multiplier = phase.noise_multiplier
        said[f"noise multiplier of {phase.name}"] = (
            "none" if multiplier is None else repr(multiplier)
        )
    if isinstance(prepared.system, PrivateSystem):
        mechanism = prepared.system.mechanism(prepared.system.promise.noise_multiplier)
        noise, contribution = mechanism.noise(), mechanism.contribution
        said["bound on one contribution"] = f"{contribution.bound!r} ({contribution.norm})"
        said["noise of the whole sum"] = f"{noise.family}, deviation or scale {noise.std!r}"
        said["noise of one silo"] = repr(noise.share_std)
        said["silos that may be missing"] = str(noise.tolerated_dropouts)
    for who, proven in plan.guarantees.items():
        said[f"epsilon before {who}"] = repr(proven.epsilon.upper)
    if opening.security is not None:
        for name, value in opening.security.to_json().items():
            said[name if name == "protocol" else f"protocol {name}"] = str(value)
    return said


def require_same_promise(plan: NetworkPlan, prepared: PreparedRun) -> None:
    """Raise `InvalidInput` where the configuration comes to another promise here."""
    computed = promise_of(prepared)
    other = sorted(
        name
        for name in computed.keys() | plan.promise.keys()
        if computed.get(name) != plan.promise.get(name)
    )
    if other:
        raise InvalidInput(
            f"The plan promises something else than its configuration comes to: {other[0]}.",
            "What is signed must be what is run.",
            "Have the plan written again, by the version of privplan that every party runs.",
        )


def party(name: str, plan: NetworkPlan, run: str) -> records.Party:
    """Return whose log it is, as its first line states it."""
    return records.Party(name, plan.digest.hex(), run)


def as_words(promise: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return a promise as rows for a person."""
    return [(name.replace("_", " "), value) for name, value in promise.items()]
