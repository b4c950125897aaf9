"""Where a plot goes: into a file (`--plot FILE`, `--out FILE`), or onto the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from . import options

TERMINAL: Final = "-"
"""Stands for the terminal in the place of a file."""

Plot = Annotated[
    str | None,
    options.optional(
        "FILE",
        "Draw it into FILE.svg or FILE.png; - draws it in characters below the answer (privplan "
        "explain plots).",
        "--plot",
    ),
    options.PER_CALL,
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Draw it into FILE.svg or FILE.png; without, in characters.",
        show_default=False,
    ),
]


def require_target(target: str | None) -> None:
    """Raise before anything is computed: `InvalidInput`, or `MissingExtra` without matplotlib."""
    if target is None or target == TERMINAL:
        return
    from ...audit.plots.picture import require_picture

    require_picture(Path(target))


@options.option_group
class PlotOptions:
    """Whether the answer is drawn as well, and where."""

    plot: Plot = None

    def require_plot(self) -> None:
        """Raise where a file is named that no plot can be written to."""
        require_target(self.plot)
