"""Accountant states inside what a checkpoint holds: where they may lie, and which these are.

`PrivacyEngine.save_checkpoint` puts the state under `privacy_accountant_state_dict`; people put it
under names of theirs, a level or two deeper, or save the accountant itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from .inert_values import Inert

SEARCHED_LEVELS: Final = 3
"""Levels below the top in which a state is looked for."""

MAX_TABLES: Final = 10_000

_TELLING_KEY: Final = re.compile(r"accountant|privacy|opacus", re.IGNORECASE)
_ENGINE_KEY: Final = re.compile(r"accountant|privacy_engine|opacus", re.IGNORECASE)
_ACCOUNTANT: Final = re.compile(r"opacus\.accountants\.(\w+)\.(\w+)Accountant")
_MECHANISMS: Final = {"RDP": "rdp", "PRV": "prv", "Gaussian": "gdp"}

OLD_KEYS: Final = frozenset({"steps", "noise_multiplier", "sample_rate", "mechanism"})
"""What a state without `history` may hold."""


def accountant_states(content: object) -> dict[str, Mapping[object, object]]:
    """Return the accountant states in a checkpoint, by the path of keys under which they lie.

    >>> accountant_states({"epoch": 3, "accountant": {"history": [], "mechanism": "rdp"}})
    {'accountant': {'history': [], 'mechanism': 'rdp'}}
    """
    return {path: state for path, state in _tables(content) if _is_state(path, state)}


def mechanism_of(value: object) -> str | None:
    """Return the word that names an accountant; None where nothing does.

    Opacus up to 1.5 saved the method `RDPAccountant.mechanism` in the place of its word.
    """
    if isinstance(value, str):
        return value.strip()[:200] or None
    match = _ACCOUNTANT.match(value.name) if isinstance(value, Inert) else None
    return None if match is None else _MECHANISMS.get(match[2], match[2])


def _tables(content: object) -> Iterator[tuple[str, Mapping[object, object]]]:
    level = [("", content)]
    seen = 0
    for _ in range(SEARCHED_LEVELS + 1):
        deeper: list[tuple[str, object]] = []
        for path, value in level:
            table = _table(value)
            if table is None:
                continue
            seen += 1
            if seen > MAX_TABLES:
                return
            yield path, table
            deeper += [
                (f"{path}.{key}" if path else key, inner)
                for key, inner in table.items()
                if isinstance(key, str) and isinstance(inner, (dict, Inert))
            ]
        level = deeper


def _table(value: object) -> Mapping[object, object] | None:
    if isinstance(value, dict):
        return value
    # An accountant that was pickled itself: its attributes, and what its class says.
    if isinstance(value, Inert) and isinstance(value.state, dict):
        word = mechanism_of(value)
        return value.state if word is None else {**value.state, "mechanism": word}
    return None


def _is_state(path: str, table: Mapping[object, object]) -> bool:
    history = table.get("history", table.get("steps"))
    if isinstance(history, (list, tuple)):
        telling = not path or _TELLING_KEY.search(path) is not None
        return "mechanism" in table or (telling and _is_triple(history))
    # A number of steps stands in many files: it is a state where nothing else is beside it.
    if "steps" not in table or not table.keys() <= OLD_KEYS:
        return False
    return "noise_multiplier" in table if not path else _ENGINE_KEY.search(path) is not None


def _is_triple(history: Sequence[object]) -> bool:
    first = history[0] if history else None
    return isinstance(first, (list, tuple)) and len(first) == 3
