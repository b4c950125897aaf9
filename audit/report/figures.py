"""The figures of a report, as SVG.  No text of a log goes into one: labels are written here."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.errors import MissingExtra
from ..measurement import Curve
from .run_facts import SpendingPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK: Final = "#1c2733"
PROVEN: Final = "#1f5fa8"
CLAIMED: Final = "#b3541e"
MEASURED: Final = "#2a7f4f"

MAX_DRAWN_RATIO: Final = 20.0
"""How many times what is proven a number may be, to be drawn next to it."""

MAX_CURVES: Final = 8
"""Most curves of one figure."""

MIN_PLOTTED_RATE: Final = 1e-6
"""Lowest rate of false alarms on an axis."""

_STYLE: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "privplan",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dfe4ea",
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}

Line = Callable[[FloatArray], FloatArray]
"""From false alarms to misses: a trade-off function."""


def spending(
    course: Sequence[SpendingPoint], claimed: float | None, planned: int, stated: float | None
) -> str | None:
    """Return epsilon against rounds with the budget; None where no number is finite.

    `claimed` is the budget, `planned` the number of planned rounds, `stated` what the last line of
    the log says that was spent; neither is drawn where it is more than `MAX_DRAWN_RATIO`
    times what is proven.
    """
    points = [point for point in course if math.isfinite(point.epsilon)]
    if not points:
        return None
    last, top = course[-1].rounds, points[-1].epsilon

    def near(epsilon: float | None) -> bool:
        return epsilon is not None and epsilon <= MAX_DRAWN_RATIO * top

    def draw(axes: Axes) -> None:
        axes.plot(
            [0, *(point.rounds for point in points)],
            [0.0, *(point.epsilon for point in points)],
            color=PROVEN,
            marker=".",
            label="proven, derived from the log",
        )
        end = max(planned, last)
        if len(points) < len(course):
            axes.axvspan(points[-1].rounds, end, color="#f3dcda", label="no finite epsilon")
        if claimed is not None and near(claimed):
            axes.axhline(claimed, color=CLAIMED, linestyle="--", label="claimed")
        if stated is not None and near(stated):
            axes.plot([last], [stated], "x", color=CLAIMED, label="stated at the end")
        axes.set(xlabel="rounds", ylabel="epsilon", xlim=(0, end))
        axes.set_ylim(bottom=0.0)
        axes.locator_params(axis="x", integer=True)
        axes.legend()

    return _drawn(draw)


def trade_off(proven: Line | None, measured: Sequence[Curve]) -> str | None:
    """Return misses against false alarms: below the proven line no attack can come.

    None where there is neither a line nor a point.
    """
    points = [point for curve in measured for point in curve if _is_rates(point)]
    if proven is None and not points:
        return None

    def draw(axes: Axes) -> None:
        alarms = np.linspace(0.0, 1.0, 401)
        axes.plot(alarms, 1.0 - alarms, color="#8b97a5", linewidth=0.8, label="guessing")
        if proven is not None:
            axes.plot(alarms, proven(alarms), color=PROVEN, label="proven", zorder=3)
        if points:
            axes.plot(*zip(*points, strict=True), ".", color=MEASURED, label="measured")
        axes.set(xlabel="false alarms", ylabel="misses", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.legend()

    return _drawn(draw, width=4.2, height=4.0)


def roc(curves: Sequence[tuple[str, Curve]]) -> str | None:
    """Return hits against false alarms on logarithmic axes; None where there is no point.

    Each curve has a name, and begins at its first false alarm: nothing is known left of that.
    Equal ones are drawn once, and of many the last `MAX_CURVES`.
    """
    # Keyed by the curve itself: equal curves of two results are drawn once.
    usable: dict[Curve, str] = {}
    for name, curve in curves:
        known = tuple(point for point in curve if _is_rates(point) and point[0] > 0.0)
        if any(hit > 0.0 for _, hit in known):
            usable.setdefault(known, name)
    if not usable:
        return None
    shown = list(usable.items())[-MAX_CURVES:]
    least = min(alarm for curve, _ in shown for alarm, hit in curve if hit > 0.0)
    left = min(0.1, max(least, MIN_PLOTTED_RATE))

    def draw(axes: Axes) -> None:
        axes.plot([left, 1.0], [left, 1.0], color="#8b97a5", linewidth=0.8, label="guessing")
        for curve, name in shown:
            axes.plot(*zip(*curve, strict=True), label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set(xlabel="false alarms", ylabel="hits", xlim=(left, 1), ylim=(left, 1.05))
        axes.legend()

    return _drawn(draw, width=4.2, height=4.0)


def _is_rates(point: tuple[float, float]) -> bool:
    return all(0.0 <= value <= 1.0 for value in point)


def _drawn(draw: Callable[[Axes], None], width: float = 6.4, height: float = 3.2) -> str:
    """Return what `draw` puts on the axes of a new figure, from its `<svg` on."""
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra(
            "A report needs the package matplotlib, which is not installed.",
            "It draws the figures.",
            'Install the extra: pip install "privplan[report]".',
        ) from None
    # A canvas of its own and no metadata: the same facts give the same bytes.
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        out = io.StringIO()
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(out, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
