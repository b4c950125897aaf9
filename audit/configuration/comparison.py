"""The configuration in a log's first line, held against all that the log states as facts.

One place for every command: what differs is a `Difference` that names both values, and what cannot
be read, or is not determined here, is named as not stated, which is neither right nor wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ...accountant.errors import InvalidInput, PrivplanError
from ...accountant.records import Reach, RoundIntent, RoundRelease
from ...accountant.records.field_codec import LATER
from ...fl.declarations.declaration import HELD_OUT, NORMALISE
from ...fl.frame import expected_log, expected_opening
from ...fl.frame.expected_log import NotStated
from ...fl.frame.expected_opening import AtMost
from ...fl.settings.logged_tables import is_of_loop
from ..ledger.entries import Ledger, SpentIntent
from .first_line import Comparison, Difference, sentence_of, shown
from .logged_configuration import LoggedConfiguration

if TYPE_CHECKING:
    pass

FACT_TOLERANCE_RELATIVE: Final = 1e-9
"""Relative difference of two numbers that rounding explains."""

_CONFIGURED_NAMES: Final[Mapping[str, str]] = {
    "claim.unit": "unit",
    "claim.neighbours": "neighbours",
    "claim.delta": "delta",
    "claim.epsilon": "epsilon",
    "claim.observer": "observer",
    "claim.group": "group_records",
    "plan.rounds": "rounds",
    "population.users": "users",
    "population.silos": "silos",
    "randomness.source": "randomness",
    "tuning.trials": "trials",
    "contribution.bound": "clip",
    "weights.rule": "weighting",
    "sampling.rate": "rate",
    "noise.std": "noise",
}
"""How a fact is called where a configuration has a word for it; else by its path in the record."""


def compared(ledger: Ledger) -> Comparison:
    """Return the configuration of a run against the facts of its log.

    No difference are: fewer rounds than planned; fewer planned than configured where a budget cuts
    them; the noise that was found for a target; a key that the log does not hold; the last digit of
    a number.
    """
    comparing = _LogComparison(ledger, LoggedConfiguration(ledger.opened))
    comparing.everything()
    not_stated = dict.fromkeys((*comparing.given.not_stated, *comparing.missing))
    return Comparison(tuple(comparing.differences), tuple(name for name in not_stated if name))


def require_as_configured(ledger: Ledger) -> None:
    """Raise `InvalidInput`, naming both values, where a log is not what its configuration makes."""
    differences = compared(ledger).differences
    if differences:
        raise InvalidInput(
            sentence_of(differences[:1]),
            "One of them was edited, or they are of two runs.",
            "Give the folder of a run as privplan left it.",
        )


class _LogComparison:
    """Compares line by line, every distinct round once."""

    def __init__(self, ledger: Ledger, given: LoggedConfiguration) -> None:
        self.ledger, self.given = ledger, given
        self.differences: list[Difference] = []
        self.missing: list[str] = []
        self._seen: set[object] = set()
        self._scheduled = any(spent.intent.silos is not None for spent in ledger.spent)
        self._values: dict[str, int] = {}  # of each phase: one model has one length

    def everything(self) -> None:
        """Compare the first line, the recoveries, the phases, and every round."""
        self.differences += self.given.lacking
        opened = self.ledger.opened
        if not opened.configuration or is_of_loop(opened):
            return
        for where, source in self.given.absurd:
            self.differences.append(Difference(where, "what no run can have", source, 1))
        self._opening()
        self._recoveries()
        self._phases()
        self._evaluations()
        for spent in self.ledger.spent:
            self._round(spent)

    def _opening(self) -> None:
        opened = self.ledger.opened
        for path, fact in expected_opening.OPENING:
            if path in ("sealed", "study") and _at(opened, path) is None:
                continue  # an earlier version did not say; else `sealed` is `lacking`
            try:
                expected = fact(self.given)
            except NotStated as missing:
                self.missing.append(str(missing))
                continue
            self._differs(path, expected, _at(opened, path), 1)
        try:
            security = expected_opening.security_of(self.given)
        except NotStated as missing:
            self.missing.append(str(missing))
        except PrivplanError as error:
            self._impossible("security", error, 1)
        else:
            self._parts("security", security, opened.security, 1)

    def _recoveries(self) -> None:
        """Compare where randomness comes from after each recovery."""
        try:
            expected = expected_opening.source(self.given)
        except NotStated:
            return
        for recovery in self.ledger.recoveries:
            stated = recovery.record.randomness.source
            self._differs("randomness.source", expected, stated, recovery.number)

    def _evaluations(self) -> None:
        """Find measurements of test data that no configuration, or another one, declares public."""
        try:
            expected = expected_opening.test_source(self.given)
        except NotStated:
            return  # an earlier version had no such key
        for number, record in self.ledger.evaluations:
            if record.data == "declared-public" and expected is None:
                self._once("evaluation", "none", "one of test data", number)
            elif record.data == "released" and not expected_log.holds_out(self.given):
                self._once("evaluation", "none", "one of users who are held out", number)
            elif record.data == "declared-public":
                self._differs("evaluation.source", expected, record.source, number)

    def _phases(self) -> None:
        """Find rounds of a phase that is not configured, and training without what precedes it."""
        try:
            names = expected_log.phase_names(self.given)
        except NotStated as missing:
            self.missing.append(str(missing))
            return
        logged = {spent.intent.phase for spent in self.ledger.spent}
        for spent in self.ledger.spent:
            if spent.intent.phase not in names:
                self._once("phase", " and ".join(names), spent.intent.phase, spent.number)
        if self.ledger.spent and names[0] not in logged and not self._lost_all(names[0]):
            first = self.ledger.spent[0]
            self._once("phase", f"{names[0]} first", first.intent.phase, first.number)
        self._lacking_with_models()

    def _lacking_with_models(self) -> None:
        """Find rounds that trained, and lack what their system releases with a model."""
        system = expected_log.system_of(self.given)
        training, with_model = system.phase_names(self.given), system.names_with_model(self.given)
        if len(training) > 1:
            return  # which of them have it is for the system to say
        there = {(spent.intent.round, spent.intent.phase) for spent in self.ledger.spent}
        for spent in self.ledger.spent:
            intent = spent.intent
            lacking = [name for name in with_model if (intent.round, name) not in there]
            if intent.phase in training and lacking:
                due = f"{' and '.join(lacking)} with {intent.phase}"
                self._once("phase", due, f"{intent.phase} alone", spent.number)

    def _lost_all(self, first: str) -> bool:
        """Return whether each start of the run was cut off in its first round, before its model.

        Then the log may know what stands with a model, and no model.
        """
        ledger = self.ledger
        with_model = expected_log.system_of(self.given).names_with_model(self.given)
        starts_cut_off = len(ledger.recoveries) + (ledger.closed is None)
        return (
            first != NORMALISE
            and len(ledger.spent) <= starts_cut_off
            and all(spent.intent.phase in with_model for spent in ledger.spent)
        )

    def _round(self, spent: SpentIntent) -> None:
        intent = spent.intent
        for number, release in spent.releases:
            self._release(spent, number, release)
        values = max((release.values for _, release in spent.releases), default=None)
        # Rounds repeat the same facts thousands of times; each different set is compared once.
        # What moves from round to round does not yet in the first one.
        begins = intent.round <= 1
        facts = (*(getattr(intent, name) for name in _COMPARED_FACTS), values)
        reaches = frozenset((intent.reaches or {}).items())
        key: tuple[object, ...] = (
            intent.phase,
            begins,
            *facts,
            intent.event,
            reaches,
            intent.block,
        )
        if self._scheduled:
            key = (*key, intent.silos, intent.round)  # each round has silos of its own
        if key in self._seen:
            return
        self._seen.add(key)
        phase = self._expected(intent, values, spent.number)
        if phase is not None:
            if phase.silos is not None or intent.silos is not None:
                there = range(self.ledger.opened.population.silos)
                self._differs(
                    "silos",
                    _shown_silos(phase.silos, there),
                    _shown_silos(intent.silos, there),
                    spent.number,
                )
            for name in _COMPARED_FACTS:
                self._parts(name, getattr(phase, name), getattr(intent, name), spent.number)
            self._parts("block", phase.block, intent.block, spent.number)
            if phase.event is not None:
                self._differs("event", phase.event, intent.event, spent.number)
            if phase.reaches is not None:
                self._reaches(phase.reaches, intent, spent.number)

    def _reaches(self, expected: Mapping[str, Reach], intent: RoundIntent, line: int) -> None:
        """Compare what reaches each observer; what that rests on, of votes alone.

        Of rounds of training earlier versions stated that in other words.
        """
        stated = intent.reaches or {}
        self._differs("reaches", ", ".join(sorted(expected)), ", ".join(sorted(stated)), line)
        for observer in sorted(set(expected) & set(stated)):
            for name in _REACH_FIELDS:
                pair = getattr(expected[observer], name), getattr(stated[observer], name)
                self._differs(f"reaches.{observer}.{name}", *pair, line)
            if intent.phase == HELD_OUT:
                rests = expected[observer].rests_on, stated[observer].rests_on
                self._differs(f"reaches.{observer}.rests_on", *rests, line)

    def _release(self, spent: SpentIntent, number: int, release: RoundRelease) -> None:
        intent = spent.intent
        facts = (release.normaliser, release.clip_enforced, release.shares, release.draws)
        key: tuple[object, ...] = (intent.phase, *facts, release.values, intent.noise)
        if self._scheduled:
            key = (*key, intent.silos, intent.round)
        if key in self._seen:
            return
        self._seen.add(key)
        values = self._values.setdefault(intent.phase, release.values)
        self._differs("values", values, release.values, number)
        phase = self._expected(intent, release.values, number)
        if phase is None:
            return
        if phase.values is not None:
            self._differs("values", phase.values, release.values, number)
        self._parts("normaliser", phase.normaliser, release.normaliser, number)
        self._differs("clip_enforced", phase.clip_enforced, release.clip_enforced, number)
        self._differs("draws", phase.noise.draws, release.draws, number)
        most, fewest = phase.noise.shares, phase.noise.shares - phase.noise.tolerated_dropouts
        if not fewest <= release.shares <= most:
            self._once("shares", f"{fewest} to {most}", str(release.shares), number)

    def _expected(
        self, intent: RoundIntent, values: int | None, number: int
    ) -> expected_log.ExpectedPhase | None:
        try:
            if intent.phase not in expected_log.phase_names(self.given):
                return None
            phase = expected_log.phase_of(self.given, intent, values)
            return self._with_reaches(phase, intent) if intent.phase == HELD_OUT else phase
        except NotStated as missing:
            self.missing.append(str(missing))
        except PrivplanError as error:
            self._impossible(intent.phase, error, number)
        return None

    def _with_reaches(
        self, phase: expected_log.ExpectedPhase, intent: RoundIntent
    ) -> expected_log.ExpectedPhase:
        """Return what votes state with what of them reaches whom, where that is known."""
        try:
            reaches = expected_opening.reaches_of_votes(self.given, intent, phase)
        except NotStated as missing:
            self.missing.append(f"reaches of {intent.phase}: {missing}")
            return phase
        return replace(phase, reaches=reaches)

    def _impossible(self, what: str, error: PrivplanError, number: int) -> None:
        self._once(what, f"what cannot be ({error.what.rstrip('.')})", "it", number)

    def _parts(self, path: str, expected: Any, stated: Any, line: int) -> None:
        """Compare a fact with all of its fields."""
        if is_dataclass(expected) and is_dataclass(stated):
            for item in fields(expected):
                pair = getattr(expected, item.name), getattr(stated, item.name)
                if item.metadata != LATER or None not in pair:  # else one version does not say
                    self._parts(f"{path}.{item.name}", *pair, line)
        else:
            self._differs(path, expected, stated, line)

    def _differs(self, path: str, expected: object, stated: object, line: int) -> None:
        if not _agree(expected, stated):
            self._once(_CONFIGURED_NAMES.get(path, path), _shown(expected), _shown(stated), line)

    def _once(self, fact: str, expected: str, stated: str, line: int) -> None:
        """Keep a difference, of each fact the first line and of each value that is stated."""
        if not any((known.fact, known.stated) == (fact, stated) for known in self.differences):
            self.differences.append(Difference(fact, expected, stated, line))


def _shown_silos(silos: tuple[int, ...] | None, there: range) -> str:
    """Return the silos that take part as text; all of them read the same, named or not."""
    if silos is None or silos == tuple(there[: len(silos) + 1]):
        return "all"
    return ", ".join(map(str, silos))


_COMPARED_FACTS: Final = ("contribution", "noise", "sensitivity", "weights", "sampling")
"""What an intent states as facts; its events and views are conclusions, which audits derive."""

_REACH_FIELDS: Final = tuple(item.name for item in fields(Reach) if item.name != "rests_on")


def _at(record: object, path: str) -> object:
    for name in path.split("."):
        record = getattr(record, name)
    return record


def _agree(expected: object, stated: object) -> bool:
    # A budget may cut rounds, so some facts have an upper bound instead of a value.
    if isinstance(expected, AtMost):
        return _is_number(stated) and stated <= expected.value * (1.0 + FACT_TOLERANCE_RELATIVE)  # type: ignore[operator]
    if isinstance(expected, float) and _is_number(stated):
        return math.isclose(expected, stated, rel_tol=FACT_TOLERANCE_RELATIVE, abs_tol=0.0)  # type: ignore[arg-type]
    return type(expected) is type(stated) and expected == stated


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if isinstance(value, AtMost):
        return f"{shown(value.value)} at most"
    return shown(value)
