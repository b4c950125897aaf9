"""Accountant states inside what a checkpoint holds: where they may lie, and which these are.

`PrivacyEngine.save_checkpoint` puts the state under `privacy_accountant_state_dict`; people put it
under names of theirs, a level or two deeper, or save the accountant itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import InvalidInput
from .inert_values import Inert

SEARCHED_LEVELS: Final = 3
"""Levels below the top in which a state is looked for."""

MAX_TABLES: Final = 100_000
MAX_KEY_CHARACTERS: Final = 100

_TELLING_KEY: Final = re.compile(r"accountant|privacy|opacus", re.IGNORECASE)
_ENGINE_KEY: Final = re.compile(r"accountant|privacy_engine|opacus", re.IGNORECASE)
_ACCOUNTANT: Final = re.compile(r"opacus\.accountants\.(\w+)\.(\w+)Accountant")
_MECHANISMS: Final = {"RDP": "rdp", "PRV": "prv", "Gaussian": "gdp"}

OLD_KEYS: Final = frozenset({"steps", "noise_multiplier", "sample_rate", "mechanism"})
"""What a state without `history` may hold."""


@dataclass(frozen=True)
class AccountantState:
    """A table that an accountant wrote, the path of keys under which it lies, and its mechanism."""

    path: str
    table: Mapping[object, object]
    mechanism: str | None


def accountant_states(content: object) -> list[AccountantState]:
    """Return the accountant states in a checkpoint.

    Raises `InvalidInput` for a checkpoint of too many tables to look into.

    >>> [state.path for state in accountant_states({"accountant": {"history": [[1.0, 0.1, 5]]}})]
    ['accountant']
    """
    return [
        AccountantState(path, table, word or mechanism_of(table.get("mechanism")))
        for path, table, word in _tables(content)
        if _is_state(path, table, word is not None)
    ]


def mechanism_of(value: object) -> str | None:
    """Return the word that names an accountant; None where nothing does.

    Opacus up to 1.5 saved the method `RDPAccountant.mechanism` in the place of its word.
    """
    if isinstance(value, str):
        return value.strip()[:200] or None
    match = _ACCOUNTANT.match(value.name) if isinstance(value, Inert) else None
    return None if match is None else _MECHANISMS.get(match[2], match[2])


def _tables(content: object) -> Iterator[tuple[str, Mapping[object, object], str | None]]:
    """Yield tables with their paths, those nearest to the top first.

    A table that many keys share is looked into once, so that a short file is soon done.
    """
    level = [("", content)]
    entered: set[int] = set()
    count = 0
    for _ in range(SEARCHED_LEVELS + 1):
        deeper: list[tuple[str, object]] = []
        for path, value in level:
            table, word = _table(value)
            if table is None:
                continue
            yield path, table, word
            if id(table) in entered:
                continue
            entered.add(id(table))
            inner = [
                (f"{path}.{key}" if path else key, part)
                for key, part in table.items()
                if isinstance(key, str)
                and len(key) <= MAX_KEY_CHARACTERS
                and isinstance(part, (dict, Inert))
            ]
            count += len(inner)
            if count > MAX_TABLES:
                raise InvalidInput(
                    f"The file holds more than {MAX_TABLES:,} tables.",
                    "An accountant's state is looked for in each of them.",
                    "Save the state by itself: json.dump(accountant.state_dict(), file).",
                )
            deeper += inner
        level = deeper


def _table(value: object) -> tuple[Mapping[object, object] | None, str | None]:
    """Return a table, and the mechanism of an accountant that was saved itself."""
    if isinstance(value, dict):
        return value, None
    if isinstance(value, Inert) and isinstance(value.state, dict):
        return value.state, mechanism_of(value)
    return None, None


def _is_state(path: str, table: Mapping[object, object], is_accountant: bool) -> bool:
    history = table.get("history", table.get("steps"))
    if isinstance(history, (list, tuple)):
        telling = not path or _TELLING_KEY.search(path) is not None
        return is_accountant or "mechanism" in table or (telling and _is_triple(history))
    # A number of steps stands in many files: it is a state where nothing else is beside it.
    if "steps" not in table or not table.keys() <= OLD_KEYS:
        return False
    return "noise_multiplier" in table if not path else _ENGINE_KEY.search(path) is not None


def _is_triple(history: Sequence[object]) -> bool:
    first = history[0] if history else None
    return isinstance(first, (list, tuple)) and len(first) == 3
