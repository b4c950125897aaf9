"""The verdict about one run for a person: in words first, then the numbers, causes and facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...accountant import rounding
from ...accountant.errors import counted
from ...audit.check.headline import CLAIM_KEYS, headline, protects
from ...audit.description.keys import KEYS
from ...audit.reproduction.reproduction import SAME
from ...audit.reproduction.search import left_out
from ..terminal.output import paragraph, plain, table, wrapped
from .guarantee_words import least_words

if TYPE_CHECKING:
    from ...accountant.guarantee import Bounds
    from ...audit.check.check_result import CheckResult, MissingFact
    from ...audit.description.run_description import Fact
    from ...audit.findings import Finding

ROUNDED_DOWN: Final = "rounded-down"
MAX_COMPLETIONS_SHOWN: Final = 4
"""Most runs that a description allows that are shown from either end; `--json` holds all."""

MAX_REPRODUCTIONS_SHOWN: Final = 3
"""Most accountants that are named as giving the claimed number; `--json` holds all."""


def text(result: CheckResult) -> str:
    """Return the report for a person."""
    parts = [table(_rows(result))]
    parts += [_cause(result, cause) for cause in result.causes]
    parts += _conditions(result)
    parts += _allowed_runs(result)
    if result.deciding:
        parts.append(f"the verdict waits for\n{_asked(result.deciding)}")
    if result.conventions:
        title = "conventions: nobody mentioned these; --strict opens them, --set KEY=VALUE says one"
        said = [
            paragraph(f"  {each.id}  ", f"{each.says} ({each.key})") for each in result.conventions
        ]
        parts.append("\n".join([title, *said]))
    by_convention = {each.key for each in result.conventions}
    usual = [each for each in result.missing if not each.deciding and each.key not in by_convention]
    if usual:
        parts.append(f"not stated; say it with --set KEY=VALUE, or in a file\n{_asked(usual)}")
    if result.doubts:
        parts.append(f"in doubt\n{_listed(result.doubts)}")
    if result.facts:
        shown = [(f"  {key}", _fact(fact)) for key, fact in result.facts.items()]
        parts.append("facts\n" + table(shown))
    return "\n\n".join(parts)


def _conditions(result: CheckResult) -> list[str]:
    parts = []
    if result.by_sampler:
        parts.append(f"by sampler\n{_listed(result.by_sampler)}")
    if result.conditions:
        parts.append(f"it rests on\n{_listed(result.conditions)}")
    return parts


def _allowed_runs(result: CheckResult) -> list[str]:
    """Return the runs that the description allows and that disagree, with what would settle it."""
    if not result.completions or result.by_sampler:
        return []
    shown = result.completions
    if len(shown) > 2 * MAX_COMPLETIONS_SHOWN:
        shown = (*shown[:MAX_COMPLETIONS_SHOWN], *shown[-MAX_COMPLETIONS_SHOWN:])
    lines = [
        paragraph("  -  ", f"{each.says}: {bounds_words(each.bounds, result.currency)}")
        for each in shown
    ]
    settles = next((each.settles for each in shown if each.settles), "")
    if settles:
        options = " ".join(f"--set {option}" for option in settles.split())
        lines.append(paragraph("  ", f"state what ran, such as: {options}"))
    return ["\n".join(["the description allows runs that disagree", *lines])]


def _asked(facts: Sequence[MissingFact]) -> str:
    return "\n".join(paragraph(f"  {_option(fact.key)}  ", fact.asks) for fact in facts)


def _option(key: str) -> str:
    """Return the option that says a fact, with the first of its words as an example."""
    words = KEYS[key].words if key in KEYS else ()
    return f"--set {key}={words[0] if words else '...'}"


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(paragraph("  -  ", sentence) for sentence in sentences)


def brief(result: CheckResult) -> str:
    """Return the verdict, its numbers and conditions, and the causes that are no mere notes."""
    listed = "without --brief they are listed"
    parts = [table([*_rows(result), *_asks_rows(result, listed)]), *_grave_causes(result)]
    parts += _conditions(result)
    if result.overridden:
        parts.append(f"by options\n{_listed(result.overridden)}")
    return "\n\n".join(parts)


def _asks_rows(result: CheckResult, listed: str) -> list[tuple[str, str]]:
    """Return what the verdict waits for, and how many facts are taken to be as usual."""
    rows = []
    for number, fact in enumerate(result.deciding):
        rows += wrapped("" if number else "needs", f"{fact.key}: {fact.asks}")
    count = len(result.conventions)
    if count:
        rows.append(("assumes", f"{counted(count, 'convention')}; {listed}"))
    return rows


def verdict_after_proof(result: CheckResult) -> str:
    """Return what a verdict adds to a report that says by itself what is proven."""
    asked = _asks_rows(result, "--json names them")
    rows = [*_verdict_rows(result), *_reproduction_rows(result), *asked]
    by_sampler = [f"by sampler\n{_listed(result.by_sampler)}"] if result.by_sampler else []
    return "\n\n".join([table(rows), *_grave_causes(result), *by_sampler])


def _grave_causes(result: CheckResult) -> list[str]:
    return [_cause(result, cause) for cause in grave(result)]


def grave(result: CheckResult) -> list[Finding]:
    """Return the causes that are no mere notes, and that of a number that only rounding carries."""
    return [
        cause for cause in result.causes if cause.severity != "info" or cause.id == ROUNDED_DOWN
    ]


def claim_words(result: CheckResult) -> str:
    """Return the claimed number, as it is printed, with its currency and delta."""
    if result.claimed is None:
        return "nothing"
    words = f"{result.currency} {printed(result.claimed.value, result.claimed.half_unit)}"
    if result.delta is not None and result.currency == "epsilon":
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


def proven_words(result: CheckResult) -> str:
    """Return what is proven, and what is shown at least."""
    if result.proven is None:
        if any(cause.id == "contradiction" for cause in result.causes):
            return f"nothing: {result.lacks}"
        needs = ", ".join(fact.key for fact in result.deciding if fact.key not in CLAIM_KEYS)
        if needs:
            return f"nothing without {needs}"
        return f"nothing: {result.lacks or 'no sound bound is known'}"
    words = bounds_words(result.proven, result.currency)
    if result.class_lower > result.proven.lower:
        words += f"; {least_words(result.class_lower, of_class=True)}"
    poisson = (result.alternatives or {}).get("poisson")
    if poisson is not None:
        words += f", whichever sampler ran; {rounding.up(poisson.upper)} if Poisson"
    return words


def bounds_words(bounds: Bounds, currency: str = "epsilon") -> str:
    """Return bounds in words: no number below the upper end is proven, none below the lower true.

    >>> from ...accountant.guarantee import Bounds
    >>> bounds_words(Bounds(1.0, 1.2)), bounds_words(Bounds(0.0, 0.1), "rho")
    ('epsilon 1.200; at least 1.000, by any accounting', 'rho 0.1000')
    """
    least = ""
    if bounds.lower > 0.0:
        least = least_words(bounds.lower)
    if math.isinf(bounds.upper):
        joined = f"no number; {least}" if math.isinf(bounds.lower) else ""
        return joined or (f"no number; {currency} is {least}" if least else "no number")
    most = f"{currency} {rounding.up(bounds.upper)}"
    return f"{most}; {least}" if least else most


def _rows(result: CheckResult) -> list[tuple[str, str]]:
    proven = wrapped("proven", proven_words(result))
    if result.proven is not None:
        proven += wrapped("", f"for {protects(result)}")
    return [*_verdict_rows(result), *proven, *_reproduction_rows(result)]


def _verdict_rows(result: CheckResult) -> list[tuple[str, str]]:
    rows = wrapped("verdict", headline(result))
    rows.append(("claimed", plain(claim_words(result))))
    for other in result.other_claims:
        rows += wrapped("with it", f"{claim_words(other)}: {other.verdict}")
    return rows


def _reproduction_rows(result: CheckResult) -> list[tuple[str, str]]:
    """Return who gives the claimed number: for these settings, and for others with what differs."""
    shown = result.reproduced_by[:MAX_REPRODUCTIONS_SHOWN]
    same = [each for each in shown if each.change == SAME]
    said = []
    if same:
        names = "; ".join(each.accountant for each in same)
        said = [", ".join([names, "for these settings", *left_out(same[0].settings)])]
    said += [f"{each.accountant}: {each.says}" for each in shown if each.change != SAME]
    more = len(result.reproduced_by) - len(shown)
    said += [f"and {more} more that print it (--json)"] if more else []
    return [
        row
        for number, sentence in enumerate(said)
        for row in wrapped("" if number else "given by", sentence)
    ]


def _cause(result: CheckResult, cause: Finding) -> str:
    lines = [f"{cause.severity} {cause.id}", paragraph("  ", cause.says)]
    if cause.epsilon is not None and cause.epsilon != result.proven:
        words = bounds_words(cause.epsilon, result.currency)
        lines.append(paragraph("  then: ", words))
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
