"""The registry of rules: each a function of named facts, tried wherever all of them are known.

The parameters of a rule are the facts that it needs, by the names in `FACTS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, TypeVar

from .finding import Finding, Match, NotStated, Severity

FACTS: Final[Mapping[str, str]] = {
    "case": "a description: the run, what is proven of it and how its claim stands",
    "evidence": "a log: what its facts support for each observer",
    "ledger": "the lines of a log",
    "lineage": "the models of a log, one after the other",
    "entries": "the lines of a log, those too that were added later",
    "verification": "the chain of a log, and the head or key that it is held against",
    "folder": "the files next to a log",
    "file_comparison": "the configuration next to a log",
    "sidecar": "the sealed sidecar of a log",
}
"""What a rule may rest on, by name."""

Check = Callable[..., Match | NotStated | Iterable[Match] | None]
"""A rule as it is written; None where it finds nothing."""

_Check = TypeVar("_Check", bound=Check)


@dataclass(frozen=True)
class Rule:
    """A rule: its stable `id`, how grave a finding is, why it matters, what to do, and the check.

    A finding may be graver or milder than its rule, as its facts say.  `needs` names the facts that
    the check takes.  `explains`: the rule says why a stated event is not what the facts support.
    """

    id: str
    severity: Severity
    why: str
    next_step: str
    check: Check
    needs: tuple[str, ...]
    explains: bool = False

    def apply(self, facts: Mapping[str, Any]) -> tuple[Finding | NotStated, ...]:
        """Return what the check finds in these facts, or that the log does not state enough."""
        outcome = self.check(*(facts[name] for name in self.needs))
        if outcome is None:
            return ()
        several = (outcome,) if isinstance(outcome, Match | NotStated) else outcome
        return tuple(
            each
            if isinstance(each, NotStated)
            else Finding(
                self.id,
                each.severity or self.severity,
                each.says,
                each.why or self.why,
                self.next_step if each.next_step is None else each.next_step,
                each.epsilon,
                each.lines,
                self.needs,
            )
            for each in several
        )


@dataclass(frozen=True)
class Search:
    """The findings of all rules that were tried, and what these needed and a log does not state."""

    findings: tuple[Finding, ...]
    not_stated: tuple[str, ...]


RULES: Final[list[Rule]] = []
"""Every rule, in the order of registration: the packages that hold rules register theirs.

An id may stand for two rules that rest on other facts, as of a description and of a log.
"""


def rule(
    name: str,
    *,
    why: str = "",
    next_step: str = "",
    severity: Severity = "error",
    explains: bool = False,
) -> Callable[[_Check], _Check]:
    """Return a decorator that registers a function of named facts as the rule with this id.

    Without a `why`, the function's docstring says it.
    Raises `TypeError` for a parameter that is no fact, and for an id that such facts have already.
    """

    def register(check: _Check) -> _Check:
        needs = tuple(inspect.signature(check).parameters)
        if not needs or not FACTS.keys() >= set(needs):
            raise TypeError(f"The rule {name} takes {needs}; facts are {', '.join(FACTS)}.")
        if any(each.id == name and each.needs == needs for each in RULES):
            raise TypeError(f"Two rules of the same facts have the id {name}.")
        meaning = why or inspect.getdoc(check) or ""
        RULES.append(Rule(name, severity, meaning, next_step, check, needs, explains))
        return check

    return register


def rules_on(known: Collection[str]) -> dict[str, Rule]:
    """Return the rules whose facts are all known, by id; of two with one id the later."""
    return {each.id: each for each in RULES if set(each.needs) <= set(known)}


def apply_rules(
    facts: Mapping[str, Any], *, about: str | None = None, order: Sequence[ModuleType] = ()
) -> Search:
    """Return what all rules find whose facts are known; `about` a fact, those alone that need it.

    `facts` are values by the names in `FACTS`.  The rules of the modules in `order` come first, in
    that order, and all others as they were registered.
    """
    names = [module.__name__ for module in order]

    def place(each: Rule) -> int:
        module = each.check.__module__
        return names.index(module) if module in names else len(names)

    outcomes = [
        outcome
        for each in sorted(RULES, key=place)
        if set(each.needs) <= facts.keys() and (about is None or about in each.needs)
        for outcome in each.apply(facts)
    ]
    return Search(
        tuple(outcome for outcome in outcomes if isinstance(outcome, Finding)),
        tuple(outcome.what for outcome in outcomes if isinstance(outcome, NotStated)),
    )
