"""The verdict about one run for a person: in words first, then the numbers, causes and facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...accountant import rounding
from ...accountant.errors import counted
from ...audit.reproduction.reproduction import SAME
from ..terminal.text import paragraph, plain, table, wrapped

if TYPE_CHECKING:
    from ...accountant.guarantee import Bounds
    from ...audit.check.check_result import Cause, CheckResult
    from ...audit.description.fact import Fact

MAX_REPRODUCTIONS_SHOWN: Final = 3
"""Most accountants that are named as giving the claimed number; `--json` holds all."""

WORDS: Final = {
    "holds": "HOLDS: what was described proves the claim",
    "holds-not-from-these-settings": (
        "HOLDS, but the number does not come from these settings: other ones give it"
    ),
    "unproven": "UNPROVEN: the claim lies below what is proven, and above what is shown at least",
    "false": "FALSE: the run that was described has a larger epsilon, by any accounting",
    "unverifiable": "UNVERIFIABLE: what was described does not decide about the claim",
}
"""Each verdict in words."""


def text(result: CheckResult) -> str:
    """Return the report for a person."""
    parts = [table(_rows(result))]
    parts += [_cause(cause) for cause in result.causes]
    if result.conditions:
        parts.append(f"it rests on\n{_listed(result.conditions)}")
    if result.missing:
        asked = "\n".join(paragraph(f"  {fact.key}  ", fact.asks) for fact in result.missing)
        parts.append(f"not stated; say it with --set KEY=VALUE, or in a file\n{asked}")
    if result.doubts:
        parts.append(f"in doubt\n{_listed(result.doubts)}")
    if result.facts:
        shown = [(f"  {key}", _fact(fact)) for key, fact in result.facts.items()]
        parts.append("facts\n" + table(shown))
    return "\n\n".join(parts)


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(paragraph("  -  ", sentence) for sentence in sentences)


def brief(result: CheckResult) -> str:
    """Return the verdict, its numbers and conditions, and the causes that are no mere notes."""
    rows = _rows(result)
    if result.missing:
        asked = counted(len(result.missing), "fact")
        rows.append(("asks", f"for {asked} that nobody stated: leave out --brief to see them"))
    parts = [table(rows), *map(_cause, grave(result))]
    if result.conditions:
        parts.append(f"it rests on\n{_listed(result.conditions)}")
    return "\n\n".join(parts)


def beside_a_proof(result: CheckResult) -> str:
    """Return what a verdict adds to a report that says by itself what is proven."""
    rows = [*_verdict_rows(result), *_reproduction_rows(result)]
    return "\n\n".join([table(rows), *map(_cause, grave(result))])


def grave(result: CheckResult) -> list[Cause]:
    """Return the causes that are no mere notes."""
    return [cause for cause in result.causes if cause.severity != "info"]


def claim_words(result: CheckResult) -> str:
    """Return the claimed number, as it is printed, with its delta."""
    if result.claimed is None:
        return "nothing"
    words = f"epsilon {printed(result.claimed.value, result.claimed.half_unit)}"
    if result.delta is not None:
        words += f" at delta {rounding.as_given(result.delta)}"
    return words


def printed(value: float, half_unit: float) -> str:
    """Return a number with the digits that were printed of it.

    >>> printed(1.2, 0.005), printed(3.0, 0.0)
    ('1.20', '3')
    """
    if half_unit <= 0.0:
        return rounding.as_given(value)
    return f"{value:.{max(0, round(-math.log10(2.0 * half_unit)))}f}"


def bounds_words(bounds: Bounds | None) -> str:
    """Return what is proven, and what is shown at least."""
    if bounds is None:
        return "nothing: no sound bound is known, or what it needs was not stated"
    least = ""
    if bounds.lower > 0.0:
        least = f"at least {rounding.down(bounds.lower)}, by any accounting"
    if math.isinf(bounds.upper):
        return f"no number; epsilon is {least}" if least else "no number"
    most = f"epsilon {rounding.up(bounds.upper)}"
    return f"{most}; {least}" if least else most


def _rows(result: CheckResult) -> list[tuple[str, str]]:
    proven = wrapped("proven", bounds_words(result.proven))
    return [*_verdict_rows(result), *proven, *_reproduction_rows(result)]


def _verdict_rows(result: CheckResult) -> list[tuple[str, str]]:
    rows = wrapped("verdict", WORDS[result.verdict])
    return [*rows, ("claimed", plain(claim_words(result)))]


def _reproduction_rows(result: CheckResult) -> list[tuple[str, str]]:
    """Return who gives the claimed number: for these settings, and for others with what differs."""
    shown = result.reproduced_by[:MAX_REPRODUCTIONS_SHOWN]
    same = [each.accountant for each in shown if each.change == SAME]
    said = [f"{'; '.join(same)}, for these settings"] if same else []
    said += [f"{each.accountant}: {each.says}" for each in shown if each.change != SAME]
    more = len(result.reproduced_by) - len(shown)
    said += [f"and {more} more (--json)"] if more else []
    return [
        row
        for number, sentence in enumerate(said)
        for row in wrapped("" if number else "given by", sentence)
    ]


def _cause(cause: Cause) -> str:
    lines = [f"{cause.severity} {cause.id}", paragraph("  ", cause.says)]
    if cause.epsilon is not None:
        lines.append(paragraph("  then: ", bounds_words(cause.epsilon)))
    if cause.next_step:
        lines.append(paragraph("  next: ", cause.next_step))
    return "\n".join(lines)


def _fact(fact: Fact) -> str:
    value = plain(_value(fact.value))
    short = value if len(value) <= 40 else value[:36] + " ..."
    return f"{short:<16}  {plain(fact.text())}"


def _value(value: object) -> str:
    from ...audit.description.printed_number import PrintedNumber

    if isinstance(value, PrintedNumber):
        return printed(value.value, value.half_unit)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return f"{len(value):,} row" + "s" * (len(value) != 1)
    return str(value)
