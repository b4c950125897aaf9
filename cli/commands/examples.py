"""`privplan examples`: the configurations and files that the documentation uses, in a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from ...accountant.errors import InvalidInput
from ..inputs.options import option_group
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, table

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@option_group
class ExamplesRequest(OutputOptions):
    """Where the examples go."""

    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new folder.", show_default=False)
    ] = Path("privplan-examples")


@takes(ExamplesRequest)
def examples(_: typer.Context, asked: ExamplesRequest) -> Report:
    """Write the examples into a folder: runs of each system, hospitals' files, a network's set-up.

    Nothing that is there is written over.
    """
    folder = asked.folder
    if folder.exists() or folder.is_symlink():
        raise InvalidInput(
            f"{folder} is there already.",
            "What is in it would be mixed with the examples, or written over.",
            "Give a folder that is new: privplan examples DIR",
        )
    try:
        shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be written: {error.strerror}.") from None
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.toml")
        if "[run]" in path.read_text(encoding="utf-8")  # others are schemas, and a Flower app
    )
    rows = [
        ("written", str(folder)),
        *(("" if n else "runs", name) for n, name in enumerate(names)),
    ]
    return Report(
        result={"folder": str(folder), "configurations": names},
        text=table([*rows, ("next", f"cd {folder} && privplan run breast-cancer.toml --dry-run")]),
        number=str(folder),
    )
