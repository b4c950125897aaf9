"""Reading `plan.toml`: a target, a way to split it, and phases; every key is checked.

A misspelt key would silently change a number, so it is refused, with the nearest key that exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from ...accountant import validate
from ...accountant.decoding import nearest
from ...accountant.delta_checks import delta_below_half
from ...accountant.errors import InvalidInput
from ...accountant.toml_source import TomlReader
from . import options
from .plan_design import COSTS, MECHANISMS, PLAN_EXAMPLE, SPLITS, Design, PhaseDesign
from .sampling import SAMPLERS

T = TypeVar("T")

_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "target": ("epsilon", "delta", "neighbours", "group", "unit"),
    "split": ("how", "cost"),
    "phase": (
        *("name", "mechanism", "event", "rounds", "rate", "records", "batch", "epochs"),
        *("sampling", "observers", "weight", "scale", "views"),
    ),
}
"""The tables of a plan, and the keys of each; `phase` is a list of tables."""

_REASON_BY_KEY: Final[Mapping[str, str]] = {
    "epsilon": "Epsilon bounds how far one unit can shift the odds of any output.",
    "delta": "Delta is a probability; 1 would permit everything, and few mechanisms reach 0.",
    "neighbours": "A guarantee must say which change of the data it hides.",
    "group": "It is the number of records that one unit holds.",
    "how": "It says how noise is divided among the phases.",
    "cost": "It is what the cheapest split makes small, and what designs are compared by.",
    "mechanism": "It is the shape of the noise that is added.",
    "rounds": "It is how often the phase makes its release.",
    "rate": "It is the probability with which a record joins one round.",
    "records": "It is the number of records in the data set.",
    "batch": "It is the number of records in one round.",
    "epochs": "It is how often, on average, each record is used.",
    "sampling": "How a batch is drawn decides how much it hides.",
    "weight": "It is the noise of this phase, relative to the others.",
    "scale": "It turns a noise multiplier into the noise that the cost counts.",
    "event": "It is what the phase releases, as `privplan account` reads it.",
}


def read_design(source: str) -> Design:
    """Return the design in the file `source`.

    Raises `InvalidInput`, which names the file, the phase and the key, for whatever is no plan.
    """
    reader = _Reader(Path(source).name or source)
    return reader.design(reader.tables(reader.content(source)))


@dataclass(frozen=True)
class _Reader(TomlReader):
    """Reads a plan."""

    noun: ClassVar[str] = "A plan"
    reason: ClassVar[str] = "A plan is a TOML file."
    help: ClassVar[str] = f"Try: {PLAN_EXAMPLE}"

    def design(self, content: Mapping[str, Any]) -> Design:
        """Return what the file says."""
        self._known("", content, tuple(_TABLES))
        target = self._table(content, "target")
        split = self._table(content, "split")
        phases = content.get("phase")
        if not isinstance(phases, list) or not phases:
            raise self.refusal(
                "has no phase",
                "A plan is about what is released; each kind of release is a phase.",
                "Write a table [[phase]] with a name, a mechanism and its rounds.",
            )
        return Design(
            epsilon=self._given(target, "[target]", "epsilon", validate.positive),
            delta=self._given(target, "[target]", "delta", delta_below_half),
            neighbours=self._word(target, "[target]", "neighbours", options.NEIGHBOURS),
            group=self._given(target, "[target]", "group", validate.count) or 1,
            unit=self._text(target, "[target]", "unit") or "record",
            split=self._word(split, "[split]", "how", SPLITS) or SPLITS[0],
            cost=self._word(split, "[split]", "cost", COSTS) or COSTS[0],
            phases=tuple(self._phase(number, table) for number, table in enumerate(phases, 1)),
        )

    def _table(self, content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        table = content.get(name, {})
        if not isinstance(table, dict):
            raise self.refusal(f"needs [{name}] to be a table", "", f"Write [{name}] on a line.")
        self._known(f"[{name}]", table, _TABLES[name])
        return table

    def _phase(self, number: int, table: object) -> PhaseDesign:
        if not isinstance(table, dict):
            raise self.refusal("needs [[phase]] to be a list of tables", "", "Write [[phase]].")
        label = table.get("name")
        where = f"phase {label!r}" if isinstance(label, str) else f"phase number {number}"
        self._known(where, table, _TABLES["phase"])
        name = self._text(table, where, "name")
        if name is None:
            raise self.refusal(f"lacks `name` in {where}", "", "Give `name` a value.")
        event = self._event(table, where)
        mechanism = self._word(table, where, "mechanism", MECHANISMS)
        # Exactly one of both: noise is either sought or fixed.
        if (event is None) == (mechanism is None):
            raise self.refusal(
                f"needs either `mechanism` or `event` in {where}",
                "A mechanism's noise is found by the plan; an event's noise is fixed.",
                'Write mechanism = "gaussian", for example.',
            )
        for key in ("weight", "scale"):
            if event is not None and key in table:
                raise self.refusal(
                    f"gives `{key}` to {where}, whose noise is fixed",
                    "Weights and scales share out noise that the plan is free to choose.",
                    f"Leave out `{key}`, or write mechanism instead of event.",
                )
        phase = PhaseDesign(
            name=name,
            mechanism=mechanism,
            event=event,
            rounds=self._given(table, where, "rounds", validate.count),
            rate=self._given(table, where, "rate", validate.probability),
            records=self._given(table, where, "records", validate.count),
            batch=self._given(table, where, "batch", validate.count),
            epochs=self._given(table, where, "epochs", validate.positive),
            sampling=self._word(table, where, "sampling", SAMPLERS),
            observers=self._observers(table, where),
            weight=self._given(table, where, "weight", validate.positive) or 1.0,
            scale=self._given(table, where, "scale", validate.positive) or 1.0,
            views=self._views(table, where),
        )
        if (complaint := phase.complaint()) is not None:
            what, why, step = complaint
            raise self.refusal(f"{what} in {where}", why, step)
        return phase

    def _known(self, where: str, table: Mapping[str, Any], keys: Sequence[str]) -> None:
        for key in table:
            if key not in keys:
                unknown = f"key `{key}` in {where}" if where else f"table or key `{key}`"
                raise self.unknown(f"has an unknown {unknown}", key, keys)

    def _given(
        self, table: Mapping[str, Any], where: str, key: str, check: Callable[..., T]
    ) -> T | None:
        """Return what `check` makes of the value of a key, or None."""
        return self._checked(check, where, **{key: table[key]}) if key in table else None

    def _checked(self, check: Callable[..., T], where: str, **given: object) -> T:
        ((key, _),) = given.items()
        try:
            return check(**given)
        except InvalidInput as error:
            step = error.next_step or "Correct the value."
            why = error.why or _REASON_BY_KEY.get(key, "")
            raise InvalidInput(f"{self.name}, {where}: {error.what}", why, step) from None

    def _word(
        self, table: Mapping[str, Any], where: str, key: str, words: Sequence[str]
    ) -> str | None:
        if key not in table:
            return None
        value = table[key]
        if isinstance(value, str) and value in words:
            return value
        close = nearest(str(value).lower(), words)
        raise self.refusal(
            f"needs `{key}` in {where} to be one of {', '.join(words)}; it is {value!r:.60}",
            _REASON_BY_KEY.get(key, ""),
            f'Did you mean {key} = "{close}"?' if close else f'Write {key} = "{words[0]}".',
        )

    def _text(self, table: Mapping[str, Any], where: str, key: str) -> str | None:
        value = table.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.refusal(
                f"needs `{key}` in {where} to be a text; it is {value!r:.60}",
                "",
                f'Write {key} = "...".',
            )
        return value

    def _observers(self, table: Mapping[str, Any], where: str) -> tuple[str, ...]:
        value = table.get("observers", ["model"])
        names = [value] if isinstance(value, str) else value
        listed = isinstance(names, list) and names
        if not listed or not all(isinstance(name, str) and name.strip() for name in names):
            raise self.refusal(
                f"needs `observers` in {where} to be one or more names; it is {value!r:.60}",
                "They are all who see the release, or anything that depends on it.",
                'Write observers = ["model", "server"].',
            )
        return tuple(dict.fromkeys(names))

    def _views(self, table: Mapping[str, Any], where: str) -> tuple[tuple[str, float], ...]:
        value = table.get("views", {})
        if not isinstance(value, dict):
            raise self.refusal(
                f"needs `views` in {where} to be a table",
                "It says which share of the noise hides the release from another observer.",
                "Write views = {server = 0.5}.",
            )
        return tuple(
            (name, self._checked(validate.positive, f"`views` of {where}", **{name: share}))
            for name, share in value.items()
        )

    def _event(self, table: Mapping[str, Any], where: str) -> Any:
        from ...accountant.events import from_json

        return self._given(table, where, "event", lambda *, event: from_json(event))
