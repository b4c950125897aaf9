"""The reports on one run or many: what is read, the verdict of each, a table, and the exit code."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant import rounding
from ..inputs.run_files import Grouping, runs_in, stated_facts
from ..terminal.exit_codes import CHECK_FAILED, NOT_COMPUTABLE, OK, USAGE
from ..terminal.output import Report, paragraph, plain
from . import check as check_report
from .plan import columns
from .statement import statement

if TYPE_CHECKING:
    from ...accountant.errors import PrivplanError
    from ...audit.check.check_result import CheckResult
    from ...audit.description.run_description import Reading

WORST_FIRST: Final = (CHECK_FAILED, USAGE, NOT_COMPUTABLE, OK)
"""Exit codes of several runs: the first that one of them has."""

NOT_FROM_THESE: Final = "holds-not-from-these-settings"

CONTRADICTION: Final = "contradiction"
"""The id of the cause that names facts that cannot both be true."""

HEADS: Final = ("run", "verdict", "epsilon", "delta", "unit", "proven", "why")
"""What the columns of the table are called."""

MAX_CAUSES_SHOWN: Final = 2
"""Most causes that stand in a row of the table."""


@dataclass(frozen=True)
class RunRow:
    """The verdict about one run, or the reason why it was not read."""

    sources: tuple[str, ...]
    result: CheckResult | None
    refusal: PrivplanError | None = None

    @property
    def name(self) -> str:
        """The files of the run."""
        return ", ".join(self.sources) or "what was said"

    @property
    def code(self) -> int:
        """The exit code that the run alone would have."""
        if self.result is None:
            return USAGE
        return exit_code(self.result)

    def json(self) -> dict[str, object]:
        """Return the run's row for a program."""
        from ...audit.check.result_json import result_json

        if self.result is None:
            assert self.refusal is not None
            error = {
                "what": self.refusal.what,
                "why": self.refusal.why,
                "next": self.refusal.next_step,
            }
            return {"files": list(self.sources), "verdict": None, "error": error}
        return {"files": list(self.sources), **result_json(self.result)}

    def cells(self) -> tuple[str, ...]:
        """Return the run's row of the table."""
        if self.result is None:
            assert self.refusal is not None
            return (plain(self.name), "not read", *["-"] * 4, plain(self.refusal.what))
        result = self.result
        claimed = delta = "-"
        if result.claimed is not None:
            claimed = check_report.printed(result.claimed.value, result.claimed.half_unit)
            if result.currency != "epsilon":
                claimed = f"{result.currency} {claimed}"
        if result.delta is not None and result.currency == "epsilon":
            delta = rounding.as_given(result.delta)
        unit = result.facts.get("claim.unit")
        return (
            plain(self.name),
            _verdict(result),
            claimed,
            delta,
            "record" if unit is None else plain(str(unit.value)),
            _interval(result),
            _reasons(result),
        )


def exit_code(result: CheckResult) -> int:
    """Return 0 where a claim holds, 1 where it is false or contradicted, 3 where it is open."""
    contradicted = any(cause.id == CONTRADICTION for cause in result.causes)
    if result.verdict == "false" or contradicted:
        return CHECK_FAILED
    return OK if result.verdict.startswith("holds") else NOT_COMPUTABLE


def runs_in_files(
    files: Sequence[str],
    *,
    stated: Sequence[str] = (),
    claimed: str | None = None,
    delta: str | None = None,
    grouping: Grouping = "usual",
    strict: bool = False,
) -> tuple[RunRow, ...]:
    """Return the runs that files and options describe, each with its verdict, in their order.

    Raises `InvalidInput` for what cannot be read, where it is one run; of many, that is a row.
    """
    from ...accountant.errors import InvalidInput
    from ..inputs.run_files import expanded

    said = stated_facts(stated, claimed, delta)
    given, files = files, expanded(files)
    if len(files) > len(set(given)) and grouping == "usual":
        grouping = "each"  # a folder holds runs of their own
    if not files and not said:
        raise InvalidInput(
            "There is nothing to check: neither a FILE nor --set is given.",
            "A verdict needs a claim, and the settings that it was made for.",
            "privplan explain check",
        )
    read = [_read(file) for file in dict.fromkeys(files)]
    refused = [item for item in read if isinstance(item, RunRow)]
    readings = [item for item in read if not isinstance(item, RunRow)]
    groups = runs_in(readings, grouping) if readings or not files else ()
    # Of one run nothing is said unless all its files are read.
    single = len(read) == 1 or grouping == "together" or _is_single(groups, files)
    if refused and single and grouping != "each":
        raise _refusal(refused[0])
    runs = [*(_checked(group, said, strict=strict) for group in groups), *refused]
    if len(runs) == 1 and runs[0].result is None:
        raise _refusal(runs[0])
    order = {file: number for number, file in enumerate(dict.fromkeys(files))}
    runs.sort(key=lambda run: min((order.get(n, len(order)) for n in run.sources), default=0))
    return tuple(runs)


def report_on(runs: Sequence[RunRow], *, brief: bool = False, as_statement: bool = False) -> Report:
    """Return the report on one run, or the table of several.

    `as_statement` asks for a paragraph about a single run; raises `InvalidInput` for several.
    """
    if len(runs) == 1:
        return _single(runs[0], brief=brief, as_statement=as_statement)
    if as_statement:
        from ...accountant.errors import InvalidInput

        raise InvalidInput(
            f"--statement is about one run, and {len(runs):,} are described.",
            "Each has a guarantee of its own.",
            "Give the files of one run.",
        )
    return _several(runs)


def _is_single(groups: Sequence[Sequence[Reading]], files: Sequence[str]) -> bool:
    """Return whether files, some of them unread, look like those of a single run."""
    if len(groups) != 1:
        return False
    return len(groups[0]) > 1 or len({Path(file).suffix for file in files}) > 1


def _refusal(run: RunRow) -> PrivplanError:
    assert run.refusal is not None
    return run.refusal


def _read(file: str) -> Reading | RunRow:
    from ...accountant.errors import InvalidInput
    from ..inputs.run_files import read_source

    try:
        return read_source(file)
    except InvalidInput as refusal:
        return RunRow((file,), None, refusal)


def _checked(readings: Sequence[Reading], said: Sequence[Reading], *, strict: bool) -> RunRow:
    from ...accountant.errors import InvalidInput
    from ...audit.check.checking import check_readings

    sources = tuple(reading.source for reading in readings)
    try:
        return RunRow(sources, check_readings((*readings, *said), strict=strict))
    except InvalidInput as refusal:
        return RunRow(sources, None, refusal)


def _single(run: RunRow, *, brief: bool, as_statement: bool) -> Report:
    from ...audit.check.result_json import result_json

    assert run.result is not None
    code = run.code
    if as_statement:
        said = statement(run.result)
        return Report({"statement": said}, paragraph("", said), said, ok=code == OK, failure=code)
    return Report(
        result=result_json(run.result),
        text=check_report.brief(run.result) if brief else check_report.text(run.result),
        number=run.result.verdict,
        assumptions=run.result.conditions,
        ok=code == OK,
        failure=code or CHECK_FAILED,
        is_verdict=True,
    )


def _several(ordered: Sequence[RunRow]) -> Report:
    codes = {run.code for run in ordered}
    worst = next(code for code in WORST_FIRST if code in codes)
    counts = Counter("not read" if run.result is None else run.result.verdict for run in ordered)
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common())
    rows = [HEADS, *(run.cells() for run in ordered)]
    return Report(
        result={"runs": [run.json() for run in ordered], "verdicts": dict(counts)},
        text="\n\n".join([columns(rows), *_overridden(ordered), f"{len(ordered):,} runs: {said}"]),
        number="\n".join(
            f"{'not read' if run.result is None else run.result.verdict}  {plain(run.name)}"
            for run in ordered
        ),
        ok=worst == OK,
        failure=worst or CHECK_FAILED,
    )


def _overridden(runs: Sequence[RunRow]) -> list[str]:
    """Return what options say in the place of files, as a paragraph, if they do."""
    says = [
        paragraph("  -  ", each)
        for run in runs
        if run.result is not None
        for each in run.result.overridden
    ]
    return ["\n".join(["by options", *dict.fromkeys(says)])] if says else []


def _interval(result: CheckResult) -> str:
    if result.proven is None:
        return "-"
    least, most = rounding.down(result.proven.lower), rounding.up(result.proven.upper)
    if math.isinf(result.proven.upper):
        return f"at least {least}" if result.proven.lower > 0.0 else "-"
    return f"{least} to {most}" if result.proven.lower > 0.0 else most


def _verdict(result: CheckResult) -> str:
    """Return the verdict in a few letters, with what makes a claim that holds a weak one."""
    words = "holds, not from these" if result.verdict == NOT_FROM_THESE else str(result.verdict)
    return f"{words}, rounded" if result.only_rounded else words


def _reasons(result: CheckResult) -> str:
    """Return the causes that are no mere notes, errors marked; without any, what is waited for."""
    names = [
        f"{cause.id}{'!' if cause.severity == 'error' else ''}"
        for cause in check_report.grave(result)
    ]
    names = names or [f"needs {fact.key}" for fact in result.deciding]
    shown = names[:MAX_CAUSES_SHOWN]
    if len(names) > len(shown):
        shown.append(f"{len(names) - len(shown)} more")
    return ", ".join(shown)
