"""Flower's accountant state: what `RdpAccountant.state_dict()` returns, saved as JSON.

Versions: `schema_version` 1 with backend `rdp` (Flower 1.42 and the development versions before
it).  Other schemas and backends are refused.

    {"schema_version": 1, "backend": "rdp",
     "config": {"target_delta", "population_size", "neighboring_relation", "sampling_method",
                "max_epsilon"},
     "orders": [...],
     "compositions": [{"event": {"noise_multiplier", "sample_size", "population_size"}, "count"}]}

Words: `neighboring_relation` is `add-or-remove-one` or `replace-one`; `sampling_method` is
`poisson`, `without-replacement` or `no-amplification`.  Flower pairs without-replacement with
replace-one and the others with add-or-remove-one, and the state holds no epsilon.

The accountant counts clients, so the unit is read as `user`.
Source: flwr, `supercore/privacy_accounting` (`RdpAccountant`, `PrivacyConfig`), read 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..description.run_description import Phase, Reading
from .content import (
    checked_field,
    field_of,
    known_fields,
    list_of,
    object_of,
    read_facts,
    schedule_values,
    table_of,
    word_of,
)

FORMAT: Final = "Flower accountant state"

RELATIONS: Final = {"add-or-remove-one": "add-remove", "replace-one": "replace-one"}

METHODS: Final = {
    "poisson": "poisson",
    "without-replacement": "fixed-size",
    "no-amplification": "full",
}
"""Words of `sampling_method`.  Without amplification each client is charged for every round."""

ALWAYS: Final = (
    "Flower counts clients, which are read as users; if a client is a whole site, say "
    "--set claim.unit=silo, and if people have records on several clients, nothing here is per "
    "person.",
    "The state says which sampling its accountant was told, not which one ran.",
    "The state does not say where the clipping norm came from, how updates are weighted, or "
    "whether fewer clients answered than were asked.",
)


def recognises(content: bytes, name: str) -> bool:
    """Return whether a content is such a state, of whatever schema version."""
    del name
    state = object_of(content)
    return state is not None and "compositions" in state and "schema_version" in state


def read(content: bytes, name: str) -> Reading:
    """Return the settings that the state holds; raises `InvalidInput` for other schemas."""
    state = object_of(content) or {}
    _check_version(state)
    config = table_of(field_of(state, "config", ""), "config")
    known = ("target_delta", "population_size", "neighboring_relation", "sampling_method")
    known_fields(config, (*known, "max_epsilon"), "config", "Flower's state")
    delta = checked_field(validate.open_probability, config, "target_delta", "config")
    population = checked_field(validate.count, config, "population_size", "config")
    neighbours = word_of(
        field_of(config, "neighboring_relation", "config"), RELATIONS, "config.neighboring_relation"
    )
    method = word_of(
        field_of(config, "sampling_method", "config"), METHODS, "config.sampling_method"
    )
    phases, batches = _phases(state, population, amplified=method != "full")
    values: dict[str, object] = {
        "claim.delta": delta,
        "claim.unit": "user",
        "claim.neighbours": neighbours,
        "claim.library": "flower",
        "claim.accountant": "rdp",
        "noise.family": "gaussian",
        "data.users": population,
        "sampling.method": method,
        **schedule_values(phases),
    }
    if method != "full" and len(batches) == 1:
        (values["sampling.batch"],) = batches
    doubts = (*ALWAYS, *_config_doubts(config, method, neighbours, batches, population))
    upper_only = ""
    if method == "full" and batches != {population}:
        upper_only = "The accountant counted every client in every round, and fewer took part."
    return Reading(name, FORMAT, read_facts(name, values), doubts, upper_only=upper_only)


def _check_version(state: Mapping[str, Any]) -> None:
    known_fields(
        state,
        ("schema_version", "backend", "config", "orders", "compositions"),
        "",
        "Flower's state",
    )
    version, backend = state.get("schema_version"), state.get("backend")
    if version != 1 or isinstance(version, bool) or backend != "rdp":
        raise InvalidInput(
            f"This is a state of Flower with schema_version {version!r:.40} and backend "
            f"{backend!r:.40}.",
            "Only schema_version 1 with backend 'rdp' is known here, and other versions may mean "
            "other things by the same fields.",
            "Describe the run in a TOML file (privplan explain check).",
        )


def _phases(
    state: Mapping[str, Any], population: int, *, amplified: bool
) -> tuple[list[Phase], frozenset[int]]:
    phases, batches = [], set()
    for index, entry in enumerate(list_of(field_of(state, "compositions", ""), "compositions")):
        where = f"compositions[{index}]"
        table = table_of(entry, where)
        known_fields(table, ("event", "count"), where, "Flower's state")
        event = table_of(field_of(table, "event", where), f"{where}.event")
        fields = ("noise_multiplier", "sample_size", "population_size")
        known_fields(event, fields, f"{where}.event", "Flower's state")
        noise, batch, size = (field_of(event, field, f"{where}.event") for field in fields)
        noise = validate.positive(**{f"{where}.event.noise_multiplier": noise})
        batch = validate.count(**{f"{where}.event.sample_size": batch})
        size = validate.count(**{f"{where}.event.population_size": size})
        count = checked_field(validate.count, table, "count", where)
        if size != population or batch > size:
            raise InvalidInput(
                f"`{where}` samples {batch:,} of {size:,} clients, and `config.population_size` "
                f"is {population:,}.",
                "Flower composes only samples of the population that it was configured with.",
                "Check that the file is whole and nobody edited it.",
            )
        phases.append(Phase(noise, batch / size if amplified else 1.0, count))
        batches.add(batch)
    return phases, frozenset(batches)


def _config_doubts(
    config: Mapping[str, Any],
    method: str,
    neighbours: str,
    batches: frozenset[int],
    population: int,
) -> list[str]:
    doubts = []
    limit = config.get("max_epsilon")
    if limit is not None:
        limit = validate.positive(**{"config.max_epsilon": limit})
        doubts.append(
            f"max_epsilon {limit:g} is where training stops, not what it reports; it is no claim."
        )
    if method == "full" and batches != {population}:
        doubts.append(
            "The accountant was told to count no amplification, and samples are smaller than the "
            "population: each client is charged for all rounds, which is sound."
        )
    if (method == "fixed-size") != (neighbours == "replace-one"):
        doubts.append(
            "Flower accepts without-replacement only with replace-one, and replace-one only with "
            "it: this state was not written by the version that is known here."
        )
    return doubts
