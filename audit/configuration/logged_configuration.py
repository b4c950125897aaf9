"""Typed values of the configuration in a first line, read as a stranger's."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from ...accountant import validate
from ...accountant.decoding import field_types
from ...accountant.errors import InvalidInput, PrivplanError
from ...accountant.records import RoundIntent, RunOpen
from ...accountant.records.field_codec import value_of
from ...fl.declarations.own_code import code_digest
from ...fl.declarations.registry import declaration_of, exactly_named, keys_by_table
from ...fl.declarations.toml_keys import CODE_DIGESTS, UNLOGGED_KEYS, may_be_unlogged
from ...fl.frame import expected_log, expected_opening
from ...fl.frame.expected_log import NotStated
from ...fl.settings.logged_tables import idle_tables, is_of_loop, tables_in
from .first_line import ADDED_KEYS, MAX_VALUE_CHARACTERS, is_current, missing_from_first_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WHY_REFUSED: Final = "An attack repeats a run as it was configured, and judges what it promised."


def logged_value(where: str, source: object, hint: Any) -> object:
    """Return a value of its field's type; numbers with a fraction stand there as texts."""
    try:
        return value_of(hint, source, where)
    except InvalidInput as error:
        raise refused(f"In the log's configuration: {error.what}") from None


def in_range(table: str, name: str, value: object, opened: RunOpen) -> None:
    """Raise `InvalidInput` for a value that no configuration may have."""
    if value is None or (value == math.inf and _unused(table, name, opened)):
        return  # what clips nothing has an infinite bound
    keys = keys_by_table(everywhere=table not in keys_by_table())
    key = next((declared for declared in keys[table] if declared.name == name), None)
    try:
        if name in CODE_DIGESTS:
            code_digest(**{name: value})
        elif key is None:
            validate.count(**{name: value})  # `group`, which a file says under [uldp]
        else:
            key.check(**{name: value})
    except InvalidInput as error:
        raise refused(f"In [{table}] of the log's configuration: {error.what}") from None


def _unused(table: str, name: str, opened: RunOpen) -> bool:
    """Return whether the system of a log has no use for a key."""
    try:
        return not declaration_of(opened.system).has_use_for(table, name)
    except InvalidInput:
        return False


def refused(what: str, why: str = WHY_REFUSED) -> InvalidInput:
    return InvalidInput(what, why, "Give the folder of a run as privplan left it.")


def target_of(opened: RunOpen) -> float | None:
    """Return the epsilon that noise was searched for; None where none was, or none is stated."""
    given = LoggedConfiguration(opened)
    try:
        target, noise = given("privacy", "epsilon"), given("privacy", "noise_multiplier")
        system = expected_log.system_of(given)
        searched = noise is None and system.promises
        if searched and system.noise_given is not None:
            searched = not system.noise_given(given)
    except NotStated:
        return None
    return target if searched else None


def first_of(opened: RunOpen) -> NDArray[np.float64] | None:
    """Return what the first round starts from, (D,), where the system of a run says that itself.

    None where that is the first model of `[training]`.  Raises `expected_log.NotStated` where the
    system that ran has none, does not say, or is not known here.
    """
    try:
        return expected_log.first_of(LoggedConfiguration(opened))
    except PrivplanError:
        raise NotStated(f"what {opened.system:.60} starts from") from None


@exactly_named()
def values_of(opened: RunOpen, intents: Sequence[RoundIntent]) -> tuple[int | None, ...]:
    """Return how many values each round releases, by the configuration and by its intent.

    None where only a release of its phase says so, or the configuration does not say enough.
    """
    given = LoggedConfiguration(opened)

    def values(intent: RoundIntent) -> int | None:
        try:
            return expected_log.values_of(given, intent)
        except (NotStated, PrivplanError):
            return None

    return tuple(map(values, intents))


class LoggedConfiguration:
    """Typed values of a logged configuration.

    Every run states all keys of its version; a key that is `lacking` was taken out.  An earlier
    version may have had fewer: then what it lacks is not stated, and has no default.
    """

    def __init__(self, opened: RunOpen) -> None:
        self._opened = opened
        self._values: dict[tuple[str, str], Any] = {}
        self.not_stated: list[str] = []
        self.absurd: list[tuple[str, str]] = []
        self.lacking = missing_from_first_line(opened)
        source = {} if is_of_loop(opened) else opened.configuration
        tables, idle = tables_in(source), idle_tables(source)
        if not source:
            if not self.lacking:
                self.not_stated.append("configuration")
            return
        self.not_stated += [
            f"[{name:.40}]" for name in sorted(source) if name not in (*tables, *idle)
        ]
        for name, cls in tables.items():
            self._table(name, cls, source.get(name, {}))

    def __call__(self, table: str, key: str) -> Any:
        """Return the value of a key; raise `NotStated` where there is none."""
        if not self._opened.configuration or is_of_loop(self._opened):
            raise NotStated("configuration")
        if (table, key) not in self._values:
            raise NotStated(f"[{table}] {key}")
        value = self._values[table, key]
        if (table, key) == ("data", "silos") and value is None:
            return self._opened.population.silos  # the data fixes them
        return value

    def _table(self, name: str, cls: type[Any], source: object) -> None:
        assert is_dataclass(cls)
        if not isinstance(source, Mapping):
            self.absurd.append((f"[{name}]", f"{source!r:.{MAX_VALUE_CHARACTERS}}"))
            return
        known = {item.name: item for item in fields(cls) if item.name not in UNLOGGED_KEYS}
        for key in sorted(map(str, source.keys() - known.keys())):
            if (name, key) in expected_opening.LATER:
                self._values[name, key] = source[key]
            else:
                self.not_stated.append(f"[{name}] {key:.40}")
        hints = field_types(cls)
        for key, item in known.items():
            if key in source:
                self._key(name, key, source[key], hints[key])
            elif may_be_unlogged(name, key):
                self._values[name, key] = item.default
            elif (name, key) not in ADDED_KEYS and not is_current(self._opened):
                self.not_stated.append(f"[{name}] {key}")

    def _key(self, table: str, key: str, source: object, hint: Any) -> None:
        where = f"[{table}] {key}"
        try:
            # Unknown words may be of a newer version; other values that do not fit are absurd.
            value = logged_value(where, source, hint)
            in_range(table, key, value, self._opened)
        except InvalidInput:
            if isinstance(source, str) and source.replace("-", "").isalpha() and _is_word(hint):
                return  # a word of a newer version: what depends on it is not stated
            self.absurd.append((where, f"{source!r:.{MAX_VALUE_CHARACTERS}}"))
            return
        self._values[table, key] = value


def _is_word(hint: Any) -> bool:
    kinds = typing.get_args(hint) or (hint,)
    return (
        hint is str
        or str in kinds
        or typing.get_origin(hint) is typing.Literal
        or any(typing.get_origin(kind) is typing.Literal for kind in kinds)
    )
