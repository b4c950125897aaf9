"""One command of `privplan` in this process, away from the machine's own habits."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from . import masks

WIDTH: Final = "80"
"""Columns of the terminal that answers are printed for."""

_FONTS: Final = Path(__file__).parents[2] / "build" / "referee" / "matplotlib"
"""Where matplotlib keeps its list of fonts, which takes it seconds to make."""

_SETTINGS: Final = {
    "COLUMNS": WIDTH,
    "LINES": "24",
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
    "MPLCONFIGDIR": str(_FONTS),
}


def settle() -> None:
    """Set width, locale, time zone and colours, and leave out what a user has set for privplan."""
    _FONTS.mkdir(parents=True, exist_ok=True)
    os.environ.update(_SETTINGS)
    for name in [name for name in os.environ if name.startswith("PRIVPLAN_")]:
        del os.environ[name]
    warnings.simplefilter("ignore")  # a library's warning is printed once in a process


@contextlib.contextmanager
def clean_folder() -> Iterator[Path]:
    """Work in a new folder that is also home and cache; it is gone afterwards."""
    before, home = Path.cwd(), {name: os.environ.get(name) for name in ("HOME", "XDG_CACHE_HOME")}
    with tempfile.TemporaryDirectory(prefix="referee-") as name:
        folder = Path(name).resolve()
        (folder / "home").mkdir()
        (folder / "work").mkdir()
        os.environ.update({"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "home")})
        os.chdir(folder / "work")
        try:
            yield folder / "work"
        finally:
            os.chdir(before)
            for key, value in home.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value


def written(files: Mapping[str, str], folder: Path) -> None:
    """Write the files that a case needs."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def outcome(
    words: Sequence[str], folder: Path, *, stdin: str = "", mask: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the exit code of a command and what it printed; JSON is read.

    Paths of the folder, which is a temporary one, are left out of the texts.
    """
    from typer.testing import CliRunner

    from privplan.cli.main import app

    if words[:1] == ["report"]:
        import matplotlib.font_manager  # noqa: F401 - says so, where it must make its list
    result = CliRunner().invoke(app, list(words), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return {"exit": result.exit_code, "raised": type(result.exception).__name__}

    def said(text: str) -> str:
        return masks.masked(text.replace(str(folder.parent), "<folder>"), list(mask))

    out: object = said(result.stdout)
    if "--json" in words:
        with contextlib.suppress(json.JSONDecodeError):
            out = masks.without_fields(json.loads(said(result.stdout)))
    return {"exit": result.exit_code, "out": out, "err": said(result.stderr)}
