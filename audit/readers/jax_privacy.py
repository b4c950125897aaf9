"""jax_privacy: configurations of banded matrix factorisation, and execution plans.

The library writes no file; whoever trains dumps its dataclasses.  Read are

    {"iterations": 1000, "expected_participations": 100, "strategy": [1.0], ...}      JSON, TOML
    BandMFConfig(iterations=1000, expected_participations=100, strategy=array([1.]), ...)
    {"dp_event": ..., "neighboring_relation": "ADD_OR_REMOVE_ONE"}                     JSON
    DPExecutionPlan(clipped_grad=<function ...>, ..., dp_event=..., neighboring_relation=<...>)

with `dp_event` as a named tuple or as it is printed.  Printed text is parsed in a closed grammar
(`dp_accounting_events.py`), never evaluated.

Versions: 2.2 and the head of August 2026; until 2.2 `BandMFExecutionPlanConfig` with
`sampling_prob` in the place of `expected_participations`.  Fields that are left out have the
library's defaults; unknown ones are refused.
Source: jax_privacy, module execution_plan (`BandMFConfig`, `DPExecutionPlan`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.toml_source import MAX_TOML_BYTES, toml_tables
from ..description.run_description import Reading
from .band_mf import CONFIG_NAMES, RATES, checked, event_of, printed_fields
from .content import json_of, known_fields, read_facts, text_of
from .dp_accounting_events import (
    NEVER_SAID,
    event_doubts,
    event_of_named_tuple,
    event_of_text,
    is_named_tuple,
    looks_like_event_text,
    outside,
    schedule_of,
)

CONFIGURATION: Final = "jax_privacy BandMF configuration"
PLAN: Final = "jax_privacy execution plan"

PLAN_FIELDS: Final = (
    "clipped_grad",
    "batch_selection_strategy",
    "noise_addition_transform",
    "dp_event",
    "neighboring_relation",
)
RELATIONS: Final = {
    "ADD_OR_REMOVE_ONE": "add-remove",
    "REPLACE_ONE": "replace-one",
    "REPLACE_SPECIAL": "zero-out",
    "1": "add-remove",
    "2": "replace-one",
    "3": "zero-out",
}
"""Names and numbers of dp_accounting's `NeighboringRelation`."""

CONFIG_DOUBTS: Final = (
    "The configuration does not say delta, the unit, where the clipping norm came from, or whether "
    "the plan's own sampler (cyclic Poisson) chose the batches.",
)
PLAN_DOUBTS: Final = (
    *NEVER_SAID,
    "The plan holds its sampler, its clipping and its event together; whether the training used "
    "the first two is not said.",
)

_PRINTED_CONFIG: Final = re.compile(r"\s*(?:\w+\.)*(?:" + "|".join(CONFIG_NAMES) + r")\s*\(")
_PRINTED_PLAN: Final = re.compile(r"\s*(?:\w+\.)*DPExecutionPlan\s*\(")
_RELATION_WORD: Final = re.compile(r"(?:<?NeighboringRelation\.)?([A-Z_]+|[123])(?::\s*[123]>)?")
_PRINTED_EVENT: Final = re.compile(r"\bdp_event\s*=\s*(?=(?:\w+\.)*[A-Z]\w*DpEvent\s*\()")
_PRINTED_RELATION: Final = re.compile(r"\bneighboring_relation\s*=\s*(<?[\w.]+(?::\s*\d>)?)")


def recognises(content: bytes, name: str) -> bool:
    """Return whether a content is a configuration or a plan of jax_privacy."""
    del name
    text = text_of(content)
    if text is None:
        return False
    if _PRINTED_CONFIG.match(text) or _PRINTED_PLAN.match(text):
        return True
    value = json_of(content)
    if isinstance(value, dict):
        return _is_plan(value) or _configuration_in(value) is not None
    return b"iterations" in content and _configuration_in(_tables(content)) is not None


def read(content: bytes, name: str) -> Reading:
    """Return what a configuration or a plan says of its run.

    Raises `InvalidInput` for an unknown field or relation, text outside the grammar, and a value
    outside its range.
    """
    try:
        return _reading(content, name)
    except RecursionError:
        raise outside("it is nested too deeply") from None


def _reading(content: bytes, name: str) -> Reading:
    text = text_of(content) or ""
    if _PRINTED_PLAN.match(text):
        return _plan(_printed_plan(text), name)
    if _PRINTED_CONFIG.match(text):
        return _configuration(printed_fields(text), name)
    value = json_of(content)
    tables: Mapping[str, Any] = value if isinstance(value, dict) else _tables(content)
    if _is_plan(tables):
        return _plan(tables, name)
    fields = _configuration_in(tables)
    if fields is None:
        raise outside("it is neither a configuration nor a plan of jax_privacy")
    return _configuration(fields, name)


# --- configurations -------------------------------------------------------------------------------


def _configuration(fields: Mapping[str, Any], name: str) -> Reading:
    run = checked(fields)
    event, doubts = event_of(run)
    values = {
        "claim.library": "jax_privacy",
        "claim.neighbours": run.neighbours,
        "noise.family": "gaussian",
        "noise.noise_multiplier": run.noise_multiplier,
        "noise.clip": run.clip if run.clip > 0.0 else None,
        "data.records": run.records,
        "sampling.rate": run.rate,
        "schedule.steps": run.turns,
    }
    if run.bands > 1:
        doubts += (
            f"A record can take part in {run.turns:,} of the {run.iterations:,} iterations: the "
            f"strategy has {run.bands:,} bands, so steps and rate are those of one record's turns.",
        )
    facts = read_facts(name, values)
    return Reading(name, CONFIGURATION, facts, (*CONFIG_DOUBTS, *doubts), event, run.upper_only)


def _configuration_in(tables: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the table that is a configuration: the whole, or the only one in it."""
    inner = [table for table in tables.values() if isinstance(table, dict)]
    configurations = [table for table in (tables, *inner) if _is_configuration(table)]
    if len(configurations) > 1:
        raise InvalidInput(
            f"The file holds {len(configurations)} configurations of jax_privacy.",
            "Which of them trained is not said.",
            "Give each in a file of its own.",
        )
    return configurations[0] if configurations else None


def _is_configuration(table: Mapping[str, Any]) -> bool:
    return {"iterations", "strategy"} <= table.keys() and (
        any(key in table for key in RATES) or "column_normalize" in table
    )


def _tables(content: bytes) -> Mapping[str, Any]:
    try:
        return toml_tables(content) if len(content) <= MAX_TOML_BYTES else {}
    except (ValueError, RecursionError):
        return {}


# --- plans ----------------------------------------------------------------------------------------


def _is_plan(value: Mapping[str, Any]) -> bool:
    source = value.get("dp_event")
    if isinstance(source, str):
        return looks_like_event_text(source)
    return is_named_tuple(source)


def _plan(fields: Mapping[str, Any], name: str) -> Reading:
    known_fields(fields, PLAN_FIELDS, "", "jax_privacy")
    source = fields.get("dp_event")
    values: dict[str, object] = {"claim.library": "jax_privacy"}
    doubts = list(PLAN_DOUBTS)
    if fields.get("neighboring_relation") is None:
        doubts.append("The plan's neighbouring relation is missing.")
    else:
        values["claim.neighbours"] = _relation(fields["neighboring_relation"])
    try:
        event = event_of_named_tuple(event_of_text(source) if isinstance(source, str) else source)
    except Unsupported as error:
        return Reading(name, PLAN, read_facts(name, values), (*doubts, str(error)))
    values |= schedule_of(event)
    facts = read_facts(name, values)
    return Reading(name, PLAN, facts, (*doubts, *event_doubts(event)), event)


def _relation(value: object) -> str:
    match = _RELATION_WORD.fullmatch(str(value).strip()[:100])
    relation = RELATIONS.get(match[1]) if match else None
    if relation is None or isinstance(value, bool):
        raise InvalidInput(
            f"`neighboring_relation` is {value!r:.60}, which is not known.",
            "Which data sets count as neighbours decides the number.",
            "Known are ADD_OR_REMOVE_ONE, REPLACE_ONE and REPLACE_SPECIAL.",
        )
    return relation


def _printed_plan(text: str) -> dict[str, object]:
    """Return event and relation of a printed plan, whose functions have no text that is read."""
    starts = list(_PRINTED_EVENT.finditer(text))
    relations = _PRINTED_RELATION.findall(text)
    if len(starts) != 1 or len(relations) > 1:
        raise outside("it is a plan without an event, or with several")
    event = _balanced(text[starts[0].end() :])
    return {"dp_event": event, "neighboring_relation": relations[0] if relations else None}


def _balanced(text: str) -> str:
    """Return the text up to where its first parenthesis is closed."""
    depth = 0
    for match in re.finditer(r"[()]", text):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return text[: match.end()]
    raise outside("its event is cut off")
