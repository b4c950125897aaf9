"""Reading `plan.toml`: a target, a way to split it, and phases; every key is checked.

A misspelt key would silently change a number, so it is refused, with the nearest key that exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from ...accountant import validate
from ...accountant.delta_checks import delta_below_half
from ...accountant.neighbours import NEIGHBOURS
from ...fl.declarations.toml_key import TableReader, key, keys_of, text
from .options import COSTS, PLAN_EXAMPLE, REASON_BY_OPTION, SPLITS
from .plan_design import Design, PhaseDesign


@dataclass(frozen=True, kw_only=True)
class TargetTable:
    """`[target]`: what the plan has to meet, and for whom."""

    epsilon: float | None = key(
        "privacy loss", validate.positive, default=None, why=REASON_BY_OPTION["epsilon"]
    )
    delta: float | None = key(
        "slack", delta_below_half, default=None, why=REASON_BY_OPTION["delta"]
    )
    neighbours: str | None = key(
        "the neighbouring relation",
        words=NEIGHBOURS,
        default=None,
        why=REASON_BY_OPTION["neighbours"],
    )
    group: int = key(
        "records of one unit", validate.count, default=1, why=REASON_BY_OPTION["group"]
    )
    unit: str = key("what one unit is called", text, default="record")


@dataclass(frozen=True, kw_only=True)
class SplitTable:
    """`[split]`: how noise is divided among the phases."""

    how: str = key(
        "the rule",
        words=SPLITS,
        default=SPLITS[0],
        why="It says how noise is divided among the phases.",
    )
    cost: str = key(
        "what the cheapest split makes small",
        words=COSTS,
        default=COSTS[0],
        why="It is what the cheapest split makes small, and what designs are compared by.",
    )


_TABLES: Final = ("target", "split", "phase")
"""The tables of a plan; `phase` is a list of tables."""


def read_design(source: str) -> Design:
    """Return the design in the file `source`.

    Raises `InvalidInput`, which names the file, the phase and the key, for whatever is no plan.
    """
    reader = _Reader(Path(source).name or source)
    return reader.design(reader.tables(reader.content(source)))


@dataclass(frozen=True)
class _Reader(TableReader):
    """Reads a plan."""

    noun: ClassVar[str] = "A plan"
    reason: ClassVar[str] = "A plan is a TOML file."
    help: ClassVar[str] = f"Try: {PLAN_EXAMPLE}"

    def design(self, content: Mapping[str, Any]) -> Design:
        """Return what the file says."""
        for name in content:
            if name not in _TABLES:
                raise self.unknown(f"has an unknown table or key `{name}`", name, _TABLES)
        target = TargetTable(**self._table(content, "target", TargetTable))
        split = SplitTable(**self._table(content, "split", SplitTable))
        phases = content.get("phase")
        if not isinstance(phases, list) or not phases:
            raise self.refusal(
                "has no phase",
                "A plan is about what is released; each kind of release is a phase.",
                "Write a table [[phase]] with a name, a mechanism and its rounds.",
            )
        designed = tuple(self._phase(number, table) for number, table in enumerate(phases, 1))
        return Design(designed, **vars(target), split=split.how, cost=split.cost)

    def _table(self, content: Mapping[str, Any], name: str, kind: type[Any]) -> dict[str, Any]:
        table = content.get(name, {})
        if not isinstance(table, dict):
            raise self.refusal(f"needs [{name}] to be a table", "", f"Write [{name}] on a line.")
        return self.values(table, f"[{name}]", keys_of(kind))

    def _phase(self, number: int, table: object) -> PhaseDesign:
        if not isinstance(table, dict):
            raise self.refusal("needs [[phase]] to be a list of tables", "", "Write [[phase]].")
        label = table.get("name")
        where = f"phase {label!r}" if isinstance(label, str) else f"phase number {number}"
        values = self.values(table, where, keys_of(PhaseDesign))
        if "name" not in values:
            raise self.refusal(f"lacks `name` in {where}", "", "Give `name` a value.")
        phase = PhaseDesign(**values)
        # Exactly one of both: noise is either sought or fixed.
        if (phase.event is None) == (phase.mechanism is None):
            raise self.refusal(
                f"needs either `mechanism` or `event` in {where}",
                "A mechanism's noise is found by the plan; an event's noise is fixed.",
                'Write mechanism = "gaussian", for example.',
            )
        for name in ("weight", "scale"):
            if phase.event is not None and name in values:
                raise self.refusal(
                    f"gives `{name}` to {where}, whose noise is fixed",
                    "Weights and scales share out noise that the plan is free to choose.",
                    f"Leave out `{name}`, or write mechanism instead of event.",
                )
        if (complaint := phase.complaint()) is not None:
            what, why, step = complaint
            raise self.refusal(f"{what} in {where}", why, step)
        return phase
