"""The picture of one run: what it claims, what is proven, what an attack shows at least.

python docs/one_run.py        runs the tutorial's `ward.toml`, attacks it, writes the picture
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).resolve().parent
TUTORIAL: Final = DOCS / "tutorials" / "run-and-audit.md"
PICTURE: Final = DOCS / "images" / "one-run.svg"

LEFT: Final = 190
UNIT: Final = 55.0
"""Pixels left of the bars, and of one epsilon."""

Row = tuple[str, str, float, str, str]
"""A name, what it is, its epsilon, its colour, and what is written behind the bar."""


def picture(rows: Sequence[Row], caption: str) -> str:
    """Return an SVG with a bar for each row, and a title and a description for screen readers."""
    height = 70 * len(rows) + 60
    said = "; ".join(f"{name}: {label}" for name, _, _, _, label in rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {height}" role="img" '
        'aria-labelledby="title description" font-family="sans-serif">',
        '<title id="title">Claimed, proven and measured epsilon of one run</title>',
        f'<desc id="description">{escape(f"{caption} {said}.")}</desc>',
        f'<rect width="860" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    for number, (name, what, epsilon, colour, label) in enumerate(rows):
        top = 22 + 70 * number
        width = UNIT * epsilon
        parts += [
            f'<text x="20" y="{top + 22}" font-size="19" font-weight="bold">{name}</text>',
            f'<text x="20" y="{top + 42}" font-size="13" fill="#444444">{escape(what)}</text>',
            f'<rect x="{LEFT}" y="{top + 4}" width="{width:.1f}" height="40" fill="{colour}"/>',
            f'<text x="{LEFT + 8 + width:.1f}" y="{top + 30}" font-size="16">{label}</text>',
        ]
    parts.append(
        f'<text x="20" y="{height - 18}" font-size="13" fill="#444444">{escape(caption)}</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


def rows_of(budget: Any, attack: Any) -> list[Row]:
    """Return the rows of a run, from what `audit budget` and `audit attack` say in JSON."""
    lower, upper = budget["epsilon"]["lower"], budget["epsilon"]["upper"]
    measured = {tier["tier"]: tier["value"] for tier in attack["tiers"]}
    least, most = min(measured.values()), max(measured.values())
    return [
        ("claimed", "by the run", budget["claimed"], "#999999", f"{budget['claimed']:.2f}"),
        ("proven", "from its log", upper, "#0072b2", f"{_down(lower)} to {_up(upper)}"),
        ("measured", "by attacks", most, "#d55e00", f"at least {_down(least)}, {_down(most)}"),
    ]


def _up(epsilon: float) -> str:
    return f"{math.ceil(100 * epsilon) / 100:.2f}"


def _down(epsilon: float) -> str:
    return f"{math.floor(100 * epsilon) / 100:.2f}"


def main() -> None:
    """Run, audit, attack and draw."""
    described = re.search(r"```toml\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    assert described is not None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ward.toml").write_text(described[1], encoding="utf-8")

        def answer(*words: str) -> Any:
            command = [sys.executable, "-m", "privplan", *words, "--json"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            return json.loads(done.stdout)["result"]

        answer("run", "ward.toml", "--out", "ward")
        budget = answer("audit", "budget", "ward")
        tiers = ("--tier", "claim", "--tier", "robust", "--seed", "1")
        attack = answer("audit", "attack", "ward", *tiers)
    caption = "20 rounds over 5 silos, for one user, at delta 1e-05; two tiers of attack, 95 %."
    PICTURE.write_text(picture(rows_of(budget, attack), caption), encoding="utf-8")
    print(f"{PICTURE} is written")


if __name__ == "__main__":
    main()
