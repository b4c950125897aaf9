"""A chart as a picture in a file: SVG or PNG, by its suffix, the same bytes for the same chart.

An SVG has a title and a description, which a screen reader reads; a PNG holds both as text.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from ...accountant.errors import InvalidInput
from ...accountant.regular_file import first_bytes
from ...fl.files import atomic
from ...fl.log.hash_chain import LOG
from .axes import SETTINGS, drawn, require_matplotlib, size
from .chart import Chart

SUFFIXES: Final = (".svg", ".png")
PIXELS_AN_INCH: Final = 200
"""Of a PNG: 1,280 pixels across."""

_BEGINNINGS: Final = {".svg": (b"<svg", b"<?xml"), ".png": (b"\x89PNG",)}
"""How a picture of each kind begins."""

EXAMPLE: Final = "privplan plot noise --epsilon 1,2,4,8 --rate 0.01 --rounds 1000 -o noise.svg"


def require_picture(path: Path) -> str:
    """Return the suffix of a picture that can be written there.

    A file is replaced where it is a picture of that kind.  Raises `InvalidInput` for another
    suffix, a folder, a link, a file that is something else, and inside of a run's folder any file;
    and `MissingExtra` without matplotlib.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidInput(
            f"{path} cannot be written: a plot is a file whose name ends with .svg or .png.",
            "The suffix says what kind of picture it is.",
            EXAMPLE,
        )
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(
            f"{path} cannot be written: it is a folder, or its folder does not exist.",
            "A plot is one file.",
            EXAMPLE,
        )
    if (path.exists() or path.is_symlink()) and not _is_replaceable(path, suffix):
        raise InvalidInput(
            f"{path} is there, and is no plot.",
            "It is not written over: what is in it would be lost.",
            "Give another file.",
        )
    require_matplotlib()
    return suffix


def _is_replaceable(path: Path, suffix: str) -> bool:
    """Return whether a file is a picture of its suffix, and none that a run left."""
    if path.is_symlink() or not path.is_file() or (path.parent / LOG).exists():
        return False
    return first_bytes(str(path), 5).startswith(_BEGINNINGS[suffix])


def save(chart: Chart, path: Path) -> int:
    """Write a picture of a chart, at once, and return its size in bytes.

    Raises as `require_picture` does, and `InvalidInput` where the disk takes no more.
    """
    content = rendered(chart, require_picture(path))
    try:
        atomic.write(path, content)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}.",
            "What was there before is still there.",
            "Give another file.",
        ) from None
    return len(content)


def rendered(chart: Chart, suffix: str) -> bytes:
    """Return a picture of a chart; the same chart and matplotlib give the same bytes."""
    require_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    out = io.BytesIO()
    # A figure of its own, without a window; a name may hold characters that no font has.
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=size(chart), layout="constrained")
        drawn(chart, figure.subplots())
        if suffix == ".png":
            raster: Any = FigureCanvasAgg(figure)
            figure.set_dpi(PIXELS_AN_INCH)
            said = {"Title": chart.title, "Description": chart.description, "Software": None}
            raster.print_png(out, metadata=said)
            return out.getvalue()
        vector: Any = FigureCanvasSVG(figure)
        vector.print_svg(out, metadata={"Date": None, "Creator": None})
    return _titled(out.getvalue().decode(), chart).encode()


def _titled(text: str, chart: Chart) -> str:
    """Return an SVG with title and description as its first elements."""
    begin = text.index("<svg")
    end = text.index(">", begin)
    said = (
        f'<title id="title">{escape(chart.title)}</title>\n'
        f'<desc id="description">{escape(chart.description)}</desc>'
    )
    opening = f'{text[begin:end]} role="img" aria-labelledby="title description">'
    return f"{text[:begin]}{opening}\n{said}{text[end + 1 :]}"
