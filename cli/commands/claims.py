"""`privplan claims`: what five published systems claim, and what can be proven."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...accountant.claims.table import SYSTEMS
from ..inputs.options import option_group
from ..inputs.plot_target import PlotOptions
from ..inputs.request import OutputOptions, takes
from ..reports import claims as claims_report
from ..reports.claims import noise_json, noise_text, run_json, runs_text
from ..terminal.output import Report
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...accountant.claims.table import Claim, Noise
    from ...audit.measurement import ExampleResult
    from ..cache.measured_rows import Rows

System = Annotated[
    str | None,
    typer.Argument(
        metavar="[SYSTEM]",
        help=f"One of {', '.join(SYSTEMS)}; without it, all of them.",
        show_default=False,
    ),
]

Measure = Annotated[
    bool,
    typer.Option(
        "--measure",
        help="Run the demonstrations, and attack a small run of each system, that were not yet on "
        "this machine; takes minutes.",
    ),
]

MIN_TABLE_COLUMNS, MAX_TABLE_COLUMNS = 80, 100

CLAIMS_ASSUMPTIONS: Final = (
    "`claimed` is the published formula, mistakes included, in the published setting; nothing is "
    "derived from it.",
    "`proven` is an upper bound on the truth, computed by privplan; none is known where it is "
    "missing, and none is finite where it is inf.",
    "`lower` is a number that the truth is not below: a test on concrete neighbouring data, or the "
    "lower end of the exact curve.",
    "A claim is `false` where `lower` exceeds it, `unproven` where `proven` does, `loose` where "
    "it is true and over 5 per cent above `proven`, `no-guarantee` where no number holds.",
    "`measured` is what a simulation of the published mechanism showed of the same quantity, a "
    "bound from below that is wrong with probability at most 1 - confidence, each row by itself; "
    "the verdict does not rest on it, and where it is low or missing that is no proof of privacy.",
    "`noise` holds standard deviations of the noise on each number, in units of `length`, with the "
    "epsilon that they prove; what a text or a program has is `published`, and what a proof asks "
    "for is rounded up.",
    "`runs` are small runs of each system on bundled data: `claimed` by the run, `proven` from its "
    "log before the same observer, `measured` by the tier claim of an attack on it, a bound from "
    "below.",
    "An infinite `measured` rests on `measured_by.assumes`: what was seen cannot happen at all on "
    "the neighbouring data.  Only how often it was seen is counted.",
)


@option_group
class ClaimsRequest(OutputOptions, PlotOptions):
    """Which systems, and whether what is missing is measured."""

    system: System = None
    measure: Measure = False


@takes(ClaimsRequest)
def claims(_: typer.Context, asked: ClaimsRequest) -> Report:
    """Put the privacy numbers of five published systems next to what can be proven.

    Every number is computed here: the claim by the published formula, mistakes included, and the
    bounds by privplan.  The first run takes a while and is kept.  With SYSTEM, each row says whom
    it protects, and why.  A column `measured` appears where a demonstration has been run here
    (--measure, or privplan audit demo), and small runs of the systems below it, with what an attack
    on each measured.  --quiet prints how many claims are false or no guarantee.  --plot draws a row
    for each claim of an epsilon.
    """
    from ...accountant.claims.table import as_system

    with naming_install_command("plots"):
        asked.require_plot()
    chosen = SYSTEMS if asked.system is None else (as_system(asked.system),)
    rows = [claim for name in chosen for claim in claims_of(name)]
    noise = [line for name in chosen for line in _noise_of(name)]
    measured, unknown, warnings = _measured_rows(chosen, measure=asked.measure)
    runs, unknown_runs, run_warnings = _measured_runs(chosen, measure=asked.measure)
    counts = Counter(claim.verdict for claim in rows)
    # As wide as the terminal, within what a table can be read at.
    width = min(
        max(shutil.get_terminal_size((MIN_TABLE_COLUMNS, 24)).columns, MIN_TABLE_COLUMNS),
        MAX_TABLE_COLUMNS,
    )
    report = Report(
        result={
            "rows": [
                claims_report.row_json(claim, claims_report.measured_of(claim, measured))
                for claim in rows
            ],
            "verdicts": dict(counts),
            "noise": [noise_json(line) for line in noise],
            "runs": [run_json(result) for result in runs],
        },
        text=claims_report.text(
            rows,
            width,
            detailed=asked.system is not None,
            measured=measured,
            hint=unknown or unknown_runs,
            noise=noise_text(noise, width) if asked.system is not None and noise else "",
            runs=runs_text(runs, width) if runs else "",
        ),
        number=str(counts["false"] + counts["no-guarantee"]),
        assumptions=CLAIMS_ASSUMPTIONS,
        warnings=warnings + run_warnings,
    )
    if asked.plot is None:
        return report
    from ...audit.plots.comparisons import claims_chart
    from ..reports import plots

    return plots.with_plot(report, claims_chart([*rows, *runs]), asked.plot)


def _measured_rows(systems: Sequence[str], *, measure: bool) -> tuple[Rows, bool, tuple[str, ...]]:
    """Return what is known by row, whether some is not known, and what could not be measured."""
    from ...audit.demos import DEMOS, MEASURES
    from ..cache import measured_rows

    version = measured_rows.current()  # before the code is loaded that measures
    names = [name for name, system in MEASURES.items() if system in systems]
    known = {name: measured_rows.recall(name, version) for name in names}
    missing = [name for name in names if known[name] is None]
    warnings: list[str] = []
    if measure:
        from ...accountant.errors import MissingExtra
        from .audit_demo import run_and_cache

        # One demonstration that lacks a package does not hold up the others.
        for name in missing:
            try:
                known[name] = measured_rows.rows_of(DEMOS[name], run_and_cache(name, version))
            except MissingExtra as error:
                warnings.append(f"{name} was not measured: {error.what} {error.next_step}")
    return measured_rows.joined(known.values()), bool(missing) and not measure, tuple(warnings)


def _measured_runs(
    systems: Sequence[str], *, measure: bool
) -> tuple[list[ExampleResult], bool, tuple[str, ...]]:
    """Return what is known of example runs, whether some is not, and what could not be measured."""
    from ...fl.declarations.packages import built_in
    from ..cache import measured_rows

    version = measured_rows.current()  # before the code is loaded that measures
    papers = {name: each.example.paper for name, each in built_in().items() if each.example}
    names = [name for paper in systems for name in papers if papers[name] == paper]
    known = {name: measured_rows.recall_run(name, version) for name in names}
    missing = [name for name in names if known[name] is None]
    warnings: list[str] = []
    if measure and missing:
        from ...accountant.errors import MissingExtra
        from ...audit.attack.example_runs import run_example

        for name in missing:
            if sys.stderr is not None and sys.stderr.isatty():
                typer.echo(f"{name}: running, and attacking it ...", err=True)
            try:
                known[name] = result = run_example(name)
            except MissingExtra as error:
                warnings.append(f"{name} was not run: {error.what} {error.next_step}")
                continue
            measured_rows.keep_run(result, version)
    results = [result for result in known.values() if result is not None]
    return results, bool(missing) and not measure, tuple(warnings)


def claims_of(system: str) -> tuple[Claim, ...]:
    """Return the claims of one system, computed once on a machine."""
    from ...accountant.claims.table import Claim, table
    from ..cache.computed_claims import kept

    def computed() -> tuple[Claim, ...]:
        if sys.stderr is not None and sys.stderr.isatty():
            title = claims_report.SYSTEM_TITLES[system]
            typer.echo(f"{title}: computing, to be kept for later ...", err=True)
        return table(system)

    return kept("claims", system, Claim, computed)


def _noise_of(system: str) -> tuple[Noise, ...]:
    from ...accountant.claims.table import NOISE_MODULES, Noise, noise
    from ..cache.computed_claims import kept

    return kept("noise", system, Noise, partial(noise, system)) if system in NOISE_MODULES else ()
