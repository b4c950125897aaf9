"""Reading `plan.toml`: a target, a way to split it, and phases; every key is checked.

A misspelt key would silently change a number, so it is refused, with the nearest key that exists.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from . import options
from .plan_design import COSTS, MECHANISMS, PLAN_EXAMPLE, SAMPLERS, SPLITS, Design, PhaseDesign

T = TypeVar("T")

MAX_PLAN_BYTES: Final = 1024 * 1024
"""Most bytes that are read as a plan."""

_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "target": ("epsilon", "delta", "neighbours", "group", "unit"),
    "split": ("how", "cost"),
    "phase": (
        *("name", "mechanism", "event", "rounds", "rate", "records", "batch", "epochs"),
        *("sampling", "observers", "weight", "scale", "views"),
    ),
}
"""The tables of a plan, and the keys of each; `phase` is a list of tables."""

MISSPELT_KEY_REASON: Final = "A misspelt name would silently change a number."

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
    return _Reader(source).design()


@dataclass(frozen=True)
class _Reader:
    """Reads one file; every complaint starts with its name."""

    source: str
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", Path(self.source).name or self.source)

    def design(self) -> Design:
        """Return what the file says."""
        content = self._content()
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
            epsilon=self._given(target, "[target]", "epsilon", "positive"),
            delta=self._slack(target),
            neighbours=self._word(target, "[target]", "neighbours", options.NEIGHBOURS),
            group=self._given(target, "[target]", "group", "count") or 1,
            unit=self._text(target, "[target]", "unit") or "record",
            split=self._word(split, "[split]", "how", SPLITS) or SPLITS[0],
            cost=self._word(split, "[split]", "cost", COSTS) or COSTS[0],
            phases=tuple(self._phase(number, table) for number, table in enumerate(phases, 1)),
        )

    def _content(self) -> dict[str, Any]:
        import tomllib

        try:
            with Path(self.source).open("rb") as file:
                content = file.read(MAX_PLAN_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise self.refusal(
                f"cannot be read: {reason}", "A plan is a TOML file.", f"Try: {PLAN_EXAMPLE}"
            ) from None
        if len(content) > MAX_PLAN_BYTES:
            raise self.refusal("is larger than 1 MiB", "A plan is a short description.")
        try:
            return tomllib.loads(content.decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise self.refusal("is not UTF-8 text", "TOML is UTF-8.", "Save it so.") from None
        except (ValueError, RecursionError) as error:  # also for an integer of too many digits
            raise self.refusal("is not TOML", f"{error}.", "Correct the line.") from None

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
            raise self.missing(where, "name")
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
            rounds=self._given(table, where, "rounds", "count"),
            rate=self._given(table, where, "rate", "probability"),
            records=self._given(table, where, "records", "count"),
            batch=self._given(table, where, "batch", "count"),
            epochs=self._given(table, where, "epochs", "positive"),
            sampling=self._word(table, where, "sampling", SAMPLERS),
            observers=self._observers(table, where),
            weight=self._given(table, where, "weight", "positive") or 1.0,
            scale=self._given(table, where, "scale", "positive") or 1.0,
            views=self._views(table, where),
        )
        self._complaints(phase.complaint(), where)
        return phase

    def _complaints(self, complaint: tuple[str, str, str] | None, where: str) -> None:
        if complaint is not None:
            what, why, step = complaint
            raise self.refusal(f"{what} in {where}", why, step)

    def _known(self, where: str, table: Mapping[str, Any], keys: Sequence[str]) -> None:
        for key in table:
            if key not in keys:
                close = difflib.get_close_matches(key, keys, n=1)
                kind = "key" if where else "table or key"
                raise self.refusal(
                    f"has an unknown {kind} `{key}`" + (f" in {where}" if where else ""),
                    MISSPELT_KEY_REASON,
                    f"Did you mean `{close[0]}`?" if close else f"Known: {', '.join(keys)}.",
                )

    def _given(self, table: Mapping[str, Any], where: str, key: str, check: str) -> Any:
        """Return the value of a key as `validate` makes it, or None."""
        from ...accountant import validate

        if key not in table:
            return None
        return self._checked(getattr(validate, check), where, **{key: table[key]})

    def _slack(self, target: Mapping[str, Any]) -> float | None:
        from ...accountant.delta_checks import delta_below_half

        if "delta" not in target:
            return None
        return self._checked(delta_below_half, "[target]", delta=target["delta"])

    def _checked(self, check: Callable[..., T], where: str, **given: object) -> T:
        from ...accountant.errors import InvalidInput

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
        close = difflib.get_close_matches(str(value).lower(), words, n=1)
        raise self.refusal(
            f"needs `{key}` in {where} to be one of {', '.join(words)}; it is {value!r:.60}",
            _REASON_BY_KEY.get(key, ""),
            f'Did you mean {key} = "{close[0]}"?' if close else f'Write {key} = "{words[0]}".',
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
        from ...accountant import validate

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

        if "event" not in table:
            return None
        return self._checked(lambda **given: from_json(given["event"]), where, event=table["event"])

    def missing(self, where: str, key: str) -> Exception:
        """Return the complaint about a key that is not there."""
        return self.refusal(f"lacks `{key}` in {where}", "", f"Give `{key}` a value.")

    def refusal(self, what: str, why: str = "", step: str = "") -> Exception:
        """Return a complaint about the file."""
        from ...accountant.errors import InvalidInput

        return InvalidInput(f"{self.name} {what}.", why, step or f"Try: {PLAN_EXAMPLE}")
