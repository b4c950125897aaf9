"""The table of `five_systems.json` in Markdown, as it stands in the documentation."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from privplan.accountant import rounding

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "five-systems.md"
BEGIN: Final = "<!-- five systems: written by `make systems` -->"
END: Final = "<!-- five systems: end -->"

TITLES: Final = {
    "uldp-fl": "Uldp-FL",
    "flame": "FLAME",
    "disco": "DISCO",
    "fedpower": "FedPower",
    "delm": "DELM",
}

_HEAD: Final = (
    "| {data} | reaches | claimed | proven before each observer | measured | seconds | bytes |",
    "|---|---|---|---|---|---|---|",
)


def number(value: float | str | None, *, up: bool) -> str:
    """Return a number, proven ones rounded up and others down."""
    if value is None:
        return "-"
    given = float(value)
    if math.isinf(given):
        return "infinite"
    return rounding.up(given, 3) if up else rounding.down(given, 3)


def reached(row: dict[str, Any]) -> str:
    """Return the accuracy, or the distance of FedPower's subspace, with its standard error."""
    metrics = row["metrics"]
    if "accuracy" in metrics:
        key, before = "accuracy", ""
    else:
        key, before = "projector_distance", "distance "
    spread = metrics[key]
    return f"{before}{spread['mean']:.3f} ± {spread['standard_error']:.3f}"


def proven(row: dict[str, Any]) -> str:
    """Return what is proven before each observer; those with one number together."""
    observers: dict[str, list[str]] = {}
    for observer, value in row["proven"].items():
        shown = number(value, up=True)
        observers.setdefault("none" if shown == "infinite" else shown, []).append(observer)
    if set(observers) == {"none"}:
        return "no guarantee"
    return "; ".join(f"{shown} {', '.join(names)}" for shown, names in observers.items())


def measured(row: dict[str, Any]) -> str:
    """Return what was measured, marked where a demonstration stands for an attack on the run."""
    found = row["measured"]
    mark = "" if found["by"].startswith("privplan audit attack") else "*"
    shown = number(found["value"], up=False)
    return (
        f"{shown}{mark}" if found["quantity"] == "epsilon" else f"{found['quantity']} {shown}{mark}"
    )


def size(value: int) -> str:
    """Return a number of bytes with three digits."""
    for unit, limit in (("MB", 1e6), ("kB", 1e3)):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value} B"


def lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table: a part for each data set."""
    for data in dict.fromkeys(row["data"] for row in rows):
        if data != rows[0]["data"]:
            yield ""
        yield _HEAD[0].format(data=data)
        yield _HEAD[1]
        for row in (row for row in rows if row["data"] == data):
            cells = (
                f"{TITLES[row['paper']]} {row['form']}: `{row['system']}`, {row['unit']}",
                reached(row),
                "-" if row["claimed"] is None else f"{float(row['claimed']):.3g}",
                proven(row),
                measured(row),
                f"{row['processor_seconds']['mean']:.2g}",
                size(row["bytes_of_client"]),
            )
            yield f"| {' | '.join(cells)} |"


def table(file: Path) -> str:
    """Return the table of a file in Markdown."""
    return "\n".join(lines(json.loads(file.read_text())["rows"]))


def write_table(file: Path, page: Path = PAGE) -> None:
    """Put the table between its marks in the page, where they are."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        return
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n\n{table(file)}\n\n{END}{after}", encoding="utf-8")
