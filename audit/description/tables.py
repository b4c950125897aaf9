"""From tables of a description, as TOML and JSON have them, to facts: closed lists throughout."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest, suggestion
from ...accountant.toml_source import WHY_NAMES_ARE_CLOSED
from .keys import DOTTED, KEYS, TABLES
from .printed_number import in_words
from .run_description import Fact, Provenance, Reading

SYNONYMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sigma": "noise.noise_multiplier",
        "noise_scale": "noise.noise_multiplier",
        "z": "noise.noise_multiplier",
        "stddev": "noise.std",
        "l2_norm_clip": "noise.clip",
        "max_grad_norm": "noise.clip",
        "clipping_norm": "noise.clip",
        "mechanism": "noise.family",
        "distribution": "noise.family",
        "n": "data.records",
        "num_examples": "data.records",
        "dataset_size": "data.records",
        "population": "data.records",
        "clients": "data.users",
        "q": "sampling.rate",
        "sample_rate": "sampling.rate",
        "sampling_rate": "sampling.rate",
        "sampling_probability": "sampling.rate",
        "batch_size": "sampling.batch",
        "lot_size": "sampling.batch",
        "sampler": "sampling.method",
        "sampling": "sampling.method",
        "noise": "noise.noise_multiplier",
        "schedule": "schedule.steps",
        "sampling_method": "sampling.method",
        "iterations": "schedule.steps",
        "num_steps": "schedule.steps",
        "rounds": "schedule.steps",
        "t": "schedule.steps",
        "num_microbatches": "schedule.microbatches",
        "accumulation_steps": "schedule.accumulation",
        "relation": "claim.neighbours",
        "adjacency": "claim.neighbours",
        "neighbors": "claim.neighbours",
        "neighboring_relation": "claim.neighbours",
        "privacy_unit": "claim.unit",
        "eps": "claim.epsilon",
        "target_delta": "claim.delta",
    }
)
"""What libraries call a key, for the question whether it was meant."""


def likely_key(word: str) -> str | None:
    """Return the dotted key that a word most likely means; None where none is like it.

    >>> likely_key("epsilon"), likely_key("sigma"), likely_key("noise.noise_multipler")
    ('claim.epsilon', 'noise.noise_multiplier', 'noise.noise_multiplier')
    """
    last = word.rpartition(".")[2].lower()
    return (
        DOTTED.get(last)
        or SYNONYMS.get(last)
        or nearest(word, KEYS, least_ratio=0.75)
        or DOTTED.get(nearest(last, DOTTED, least_ratio=0.75) or "")
    )


RELEASES: Final = "releases"


def reading_of_tables(
    tables: Mapping[str, object],
    source: str,
    provenance: Provenance = "stated",
    format: str = "description",
) -> Reading:
    """Return what nested tables (`{"noise": {"noise_multiplier": 1.1}}`) say of a run.

    Raises `InvalidInput`, which names the source, for an unknown table or key (with the nearest
    known one), and for a value outside its range.

    >>> reading_of_tables({"data": {"records": 60000}}, "run.toml").facts["data.records"].text()
    'stated (run.toml)'
    """
    facts: dict[str, Fact] = {}
    for table, content in tables.items():
        if table == RELEASES:
            facts[RELEASES] = checked_fact(RELEASES, content, provenance, source)
            continue
        if table not in TABLES:
            raise _unknown_table(table, source)
        if not isinstance(content, Mapping):
            raise InvalidInput(
                f"In {source}: `{table}` must be a table; it is {in_words(content)}.",
                next_step=f"Its keys: {', '.join(TABLES[table])}.",
            )
        for key, value in content.items():
            if key not in TABLES[table]:
                raise _unknown_key(table, key, source)
            name = f"{table}.{key}"
            facts[name] = checked_fact(name, value, provenance, source)
    return Reading(source, format, facts)


def reading_of_names(
    values: Mapping[str, object],
    source: str,
    provenance: Provenance = "stated",
    format: str = "facts",
) -> Reading:
    """Return what values under dotted keys, or under their last parts, say of a run.

    >>> reading = reading_of_names({"noise_multiplier": 1.1, "data.records": 60000}, "the call")
    >>> sorted(reading.facts)
    ['data.records', 'noise.noise_multiplier']
    """
    facts: dict[str, Fact] = {}
    for given, value in values.items():
        name = DOTTED.get(given, given)
        if name not in KEYS:
            raise unknown_name(given, source)
        if name in facts:
            raise InvalidInput(f"In {source}: `{name}` is given twice.", next_step="Give it once.")
        facts[name] = checked_fact(name, value, provenance, source)
    return Reading(source, format, facts)


def checked_fact(name: str, value: object, provenance: Provenance, source: str) -> Fact:
    """Return the fact that a source states about a known key; a refusal names the source."""
    try:
        return KEYS[name].fact(value, provenance, source)
    except InvalidInput as error:
        raise InvalidInput(f"In {source}: {error.what}", error.why, error.next_step) from None


def unknown_name(name: object, source: str) -> InvalidInput:
    """Return the complaint about a dotted key that is not known."""
    close = likely_key(str(name)[:80])
    step = f"Known tables: {', '.join((*TABLES, RELEASES))}."
    return InvalidInput(
        f"In {source}: there is no key {in_words(name)}.",
        WHY_NAMES_ARE_CLOSED,
        f"Did you mean `{close}`?" if close else step,
    )


def _unknown_table(table: object, source: str) -> InvalidInput:
    known = (*TABLES, RELEASES)
    word = str(table)[:80]
    # A key at the top belongs into a table; so does a dotted name that stands as one word.
    is_key = word in DOTTED or word in KEYS
    key = None if nearest(word, known) and not is_key else likely_key(word)
    step = suggestion(word, known, f"Known: {', '.join(known)}.")
    return InvalidInput(
        f"In {source}: there is no table {in_words(table)}.",
        WHY_NAMES_ARE_CLOSED,
        step if key is None else _belongs(key, word),
    )


def _unknown_key(table: str, key: object, source: str) -> InvalidInput:
    word = str(key)[:80]
    close = likely_key(word)
    is_known = word in DOTTED or word.lower() in SYNONYMS
    if not is_known and (here := nearest(word, TABLES[table])):
        step = f"Did you mean `{here}`?"
    elif close is not None:
        step = _belongs(close, word)
    else:
        step = f"Known in [{table}]: {', '.join(TABLES[table])}."
    return InvalidInput(
        f"In {source}: [{table}] has no key {in_words(key)}.", WHY_NAMES_ARE_CLOSED, step
    )


def _belongs(key: str, word: str) -> str:
    """Return the table into which a word belongs, or the key that was meant by it."""
    table, dot, name = key.partition(".")
    if word == name and dot:
        return f"`{name}` belongs into [{table}]."
    return f"Did you mean `{key}`?"
