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
from .pickle_calls import Inert

SEARCHED_LEVELS: Final = 20
"""Levels below the top, of tables and lists, in which states are looked for."""

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

    @property
    def history(self) -> object:
        """Return the rows that it counts, or the number of steps of an old state."""
        return self.table.get("history", self.table.get("steps"))

    @property
    def unread(self) -> list[object]:
        """Return the keys that no accountant of Opacus writes besides what this one says."""
        known = OLD_KEYS
        if isinstance(self.history, (list, tuple)):
            known = frozenset({"mechanism", "history" if "history" in self.table else "steps"})
        return [key for key in self.table if key not in known]


def accountant_states(content: object) -> list[AccountantState]:
    """Return the accountant states in a checkpoint; one that lies in two places only once.

    Raises `InvalidInput` for a checkpoint of too many tables to look into, or too deep a one.

    >>> [state.path for state in accountant_states({"accountant": {"history": [[1.0, 0.1, 5]]}})]
    ['accountant']
    """
    states: dict[int, AccountantState] = {}
    for path, table, word in _tables(content):
        if _is_state(path, table, word is not None):
            mechanism = word or mechanism_of(table.get("mechanism"))
            states.setdefault(id(table), AccountantState(path, table, mechanism))
    return list(states.values())


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

    A table or list that many keys share is looked into once, so that a short file is soon done.
    """
    level = [("", content)]
    entered: set[int] = set()
    count = 0
    for _ in range(SEARCHED_LEVELS + 1):
        deeper: list[tuple[str, object]] = []
        for path, value in level:
            table, word = _table(value)
            if table is not None:
                yield path, table, word
            whole = value if table is None else table
            if id(whole) in entered:
                continue
            entered.add(id(whole))
            inner = list(_parts(path, whole))
            count += sum(isinstance(part, (dict, Inert)) for _, part in inner)
            if count > MAX_TABLES:
                raise _too_much(f"more than {MAX_TABLES:,} tables")
            deeper += inner
        level = deeper
    if any(id(_table(value)[0] or value) not in entered for _, value in level):
        raise _too_much(f"tables or lists that are nested more than {SEARCHED_LEVELS} deep")


def _parts(path: str, whole: object) -> Iterator[tuple[str, object]]:
    """Yield what may hold a state in a table or list, with its path."""
    if isinstance(whole, Mapping):
        for key, part in whole.items():
            if isinstance(part, (dict, Inert, list, tuple)):
                name = str(key)[:MAX_KEY_CHARACTERS] if isinstance(key, (str, int)) else "?"
                yield (f"{path}.{name}" if path else name), part
    elif isinstance(whole, (list, tuple)):
        below = f"{path}[]"
        for part in whole:
            if isinstance(part, (dict, Inert, list, tuple)):
                yield below, part


def _too_much(what: str) -> InvalidInput:
    return InvalidInput(
        f"The file holds {what}.",
        "An accountant's state is looked for in each of them.",
        "Save the state by itself: json.dump(accountant.state_dict(), file).",
    )


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
    # A number of steps stands in many files: it is a state where nothing else is with it.
    if "steps" not in table or not table.keys() <= OLD_KEYS:
        return False
    return "noise_multiplier" in table if not path else _ENGINE_KEY.search(path) is not None


def _is_triple(history: Sequence[object]) -> bool:
    first = history[0] if history else None
    return isinstance(first, (list, tuple)) and len(first) == 3
