"""`privplan audit demo`: published claims against simulations of their own mechanisms."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...accountant import rounding
from ..inputs.options import option_group
from ..inputs.request import OutputOptions, takes
from ..reports.claims import SYSTEM_TITLES
from ..terminal.output import Report, paragraph

if TYPE_CHECKING:
    from ...audit.demos import Demo, Weakness
    from ...audit.measurement import Measurement

DEFAULT_SEED: Final = 0
"""Of the runs whose numbers are kept for the table of claims."""

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="A demonstration; without it, they are listed.", show_default=False
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="Run all of them, one after another.")]
Seed = Annotated[
    int, typer.Option(metavar="N", help="Of all the randomness; the same seed, the same result.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print how many contradict a published claim.")
]

DEMO_ASSUMPTIONS: Final = (
    "Each demonstration simulates the mechanism as it is published, not as privplan would run it; "
    "its randomness comes from a seed and protects nobody.",
    "A measured number is a bound from below, fixed before its data were drawn, that is wrong with "
    "probability at most 1 - confidence; trying many seeds and quoting the best voids that.",
    "That holds for each number by itself: of twenty numbers at 95 % confidence one may be wrong.",
    "`exact` is what theory gives for the very test that was made; the mechanism may lose more.",
    "An infinite value rests on `assumes`: what was seen cannot happen at all on the neighbouring "
    "data.  Only how often it was seen is counted; counting alone shows no infinite value.",
    "A demonstration proves that one claim fails in its setting. Where none is contradicted, "
    "nothing is proven.",
)


@option_group
class DemoRequest(OutputOptions):
    """Which demonstrations, from which seed."""

    name: Name = None
    everything: Everything = False
    seed: Seed = DEFAULT_SEED
    quiet: Quiet = False


@takes(DemoRequest)
def demo(_: typer.Context, asked: DemoRequest) -> Report:
    """Attack published mechanisms, each in a small simulation, and measure what they lose.

    Without NAME, lists the demonstrations.  What was claimed stands next to what theory says of
    the attack and what it measured.  Exit code 0 also where a claim is contradicted, as that is
    what they are for.
    """
    from ...accountant import validate
    from ...accountant.errors import InvalidInput, MissingExtra
    from ...audit.demos import DEMOS, NAMES, as_name
    from ..cache import measured_rows

    name, everything, seed = asked.name, asked.everything, asked.seed
    validate.count_from(0, seed=seed)
    if name is not None and everything:
        raise InvalidInput(
            f"NAME ({name}) and --all exclude each other.",
            "--all runs every demonstration.",
            "privplan audit demo --all",
        )
    if name is None and not everything:
        return _list([DEMOS[demo_name] for demo_name in NAMES])
    chosen = NAMES if name is None else (as_name(name),)
    version = measured_rows.current()  # before the code is loaded that measures
    results: list[tuple[Demo, Weakness]] = []
    warnings: list[str] = []
    for demo_name in chosen:
        try:
            results.append((DEMOS[demo_name], run_and_cache(demo_name, version, seed)))
        except MissingExtra as error:
            if not everything:
                raise
            warnings.append(f"{demo_name} was not run: {error.what} {error.next_step}")
    return Report(
        result={
            "demos": [_json(shown, weakness, seed) for shown, weakness in results],
            "contradicted": _contradicted(results),
        },
        text="\n\n\n".join(text(shown, weakness) for shown, weakness in results),
        number=str(_contradicted(results)),
        assumptions=DEMO_ASSUMPTIONS,
        warnings=tuple(warnings),
    )


def run_and_cache(name: str, version: str | None, seed: int = DEFAULT_SEED) -> Weakness:
    """Run a demonstration; keep what it says of the table of claims, if the seed is the default."""
    from ...audit.demos import DEMOS, run_demo
    from ..cache import measured_rows

    if sys.stderr is not None and sys.stderr.isatty():
        typer.echo(f"{name}: running ...", err=True)
    weakness = run_demo(name, seed)
    # Other seeds are not kept: the best of many seeds is no bound at its confidence.
    if seed == DEFAULT_SEED:
        measured_rows.keep(name, measured_rows.rows_of(DEMOS[name], weakness), version)
    return weakness


def text(demo: Demo, weakness: Weakness) -> str:
    """Return one demonstration for a person: the claim, the numbers, the story, what it proves."""
    blocks = [
        paragraph("", f"{demo.name}: {demo.title}"),
        paragraph(f"{SYSTEM_TITLES[demo.system]} claims: ", demo.claim),
        _table(weakness),
        paragraph("", _confidence_text(weakness)),
        paragraph("", " ".join(weakness.story)),
        _bullet_list(
            "What it proves:",
            _distinct([measurement.proves for measurement in weakness.measurements]),
        ),
    ]
    rests_on = _rests_on(weakness)
    return "\n\n".join(
        blocks + ([_bullet_list("What that rests on:", rests_on)] if rests_on else [])
    )


def _confidence_text(weakness: Weakness) -> str:
    """Return what the columns mean, of the kinds of numbers that stand in them."""
    sentences = []
    bounds = [bound for bound in weakness.measurements if bound.kind == "lower-bound"]
    if bounds:
        sure = min(bound.confidence for bound in bounds)
        each = ", each by itself" if len(bounds) > 1 else ""
        sentences.append(f"Measured: bounds from below at {100.0 * sure:g} % confidence{each}.")
    if any(math.isinf(bound.value) for bound in bounds):
        sentences.append(
            "Infinite: seen, and impossible on the neighbouring data; the latter is no count, but "
            "rests on what is named below."
        )
    if any(exact is not None for exact in weakness.exact):
        sentences.append(
            "Exact: what theory gives for this very test; the mechanism may lose more."
        )
    return " ".join(sentences)


def _rests_on(weakness: Weakness) -> Sequence[str]:
    """Return what is assumed, and of which lines of the table if not of all."""
    every = range(1, len(weakness.measurements) + 1)
    lines: dict[str, list[int]] = {}
    # Assumptions are collected once, each with the lines that need it.
    for number, measurement in zip(every, weakness.measurements, strict=True):
        for assumed in dict.fromkeys(measurement.assumes):
            lines.setdefault(assumed, []).append(number)
    return [
        assumed
        if len(numbers) == len(every)
        else f"line{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}: {assumed}"
        for assumed, numbers in lines.items()
    ]


def _bullet_list(heading: str, sentences: Sequence[str]) -> str:
    return "\n".join([heading, *(paragraph("  - ", sentence) for sentence in sentences)])


def _list(demos: Sequence[Demo]) -> Report:
    width = max(len(demo.name) for demo in demos) + 3
    lines = [paragraph(f"{demo.name:<{width}}", demo.title) for demo in demos]
    closing = "Run one with privplan audit demo NAME, or all with privplan audit demo --all."
    return Report(
        result={"demos": [_demo_json(demo) for demo in demos]},
        text="\n".join([*lines, "", closing]),
        number=str(len(demos)),
    )


def _demo_json(demo: Demo) -> dict[str, object]:
    return {
        "name": demo.name,
        "system": demo.system,
        "title": demo.title,
        "claim": demo.claim,
        "rows": list(demo.rows),
    }


def _json(demo: Demo, weakness: Weakness, seed: int) -> Mapping[str, object]:
    measurements: list[dict[str, Any]] = [
        measurement.to_json() for measurement in weakness.measurements
    ]
    for measurement, exact in zip(measurements, weakness.exact, strict=True):
        measurement["exact"] = exact
    return {
        **_demo_json(demo),
        "seed": seed,
        "contradicted": weakness.contradicted,
        "measurements": measurements,
        "story": list(weakness.story),
    }


def _contradicted(results: Sequence[tuple[Demo, Weakness]]) -> int:
    return sum(weakness.contradicted for _, weakness in results)


def _cells(measurement: Measurement, exact: float | None) -> tuple[str, str, str]:
    """Return what was claimed, what is exact (rounded down), and what was measured."""
    claimed = (
        "-"
        if measurement.claimed is None
        else rounding.as_given(float(f"{measurement.claimed:.4g}"))
    )
    known = "-" if exact is None else rounding.down(exact)
    mark = {
        "lower-bound": "" if math.isinf(measurement.value) else ">= ",
        "estimate": "~ ",
        "test": "p = ",
    }[measurement.kind]
    # A p-value is rounded up and a bound from below down: both err against the attack.
    value = (
        rounding.up(measurement.value)
        if measurement.kind == "test"
        else rounding.down(measurement.value)
    )
    return claimed, known, mark + value


def _verdict_line(measurement: Measurement) -> str:
    slack = (
        f" at delta {measurement.delta:g}"
        if measurement.quantity == "epsilon" and measurement.delta
        else ""
    )
    verdict = "contradicted" if measurement.contradicted else "not contradicted"
    return f"{measurement.what}{slack}: {verdict}"


def _table(weakness: Weakness) -> str:
    """Return a line of numbers for each measurement, and what they are of behind them."""
    headings = ("claimed", "exact", "measured")
    cells = [
        _cells(measurement, exact)
        for measurement, exact in zip(weakness.measurements, weakness.exact, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    lines = [_line(headings, widths)]
    lines += [
        paragraph(_line(row, widths) + "   ", _verdict_line(measurement))
        for row, measurement in zip(cells, weakness.measurements, strict=True)
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "   ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _distinct(sentences: Sequence[str]) -> Sequence[str]:
    return tuple(dict.fromkeys(sentences))
