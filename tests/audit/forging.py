"""Logs of honest runs, edited by somebody who writes the whole chain anew.

Nobody can tell such a log from an honest one by its hashes.  Edits are made on a log's objects, as
they stand in its lines; what refers to a line by its `seq` is put right, as a careful forger does.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from privplan.fl.log.hash_chain import LOG, START, chained

EARLIER: Final = Path(__file__).parent / "earlier" / "runs.zip"

Line: TypeAlias = dict[str, Any]
Lines: TypeAlias = list[Line]
Edit: TypeAlias = Callable[[Lines], Lines]
EarlierRun = Callable[[str], Path]


def earlier(name: str, into: Path) -> Path:
    """Return the folder of an earlier run, unpacked."""
    with zipfile.ZipFile(EARLIER) as packed:
        packed.extractall(into, [one for one in packed.namelist() if one.startswith(f"{name}/")])
    return into / name


def lines_in(folder: Path) -> Lines:
    """Return the lines of a log, each with its old `seq`, which `rewritten` knows."""
    found = []
    for text in (folder / LOG).read_text().splitlines():
        line = json.loads(text)
        del line["prev"], line["hash"]
        found.append(line)
    return found


def rewritten(folder: Path, lines: Lines) -> Path:
    """Write lines as the log of a folder, chained anew; references follow the lines they name."""
    moved = {line["seq"]: seq for seq, line in enumerate(lines)}
    prev, texts = START, []
    for seq, line in enumerate(lines):
        own = {name: value for name, value in line.items() if name != "seq"}
        if own.get("intent") is not None:
            own["intent"] = moved.get(own["intent"], own["intent"])
        if "dangling" in own:
            own["dangling"] = [moved[one] for one in own["dangling"] if one in moved]
        text, prev = chained(own, seq, prev)
        texts.append(text + "\n")
    (folder / LOG).write_text("".join(texts))
    return folder


def forged(folder: Path, into: Path, *edits: Edit) -> Path:
    """Return a copy of a run's folder whose log was edited and chained anew."""
    shutil.copytree(folder, into)
    lines = lines_in(into)
    for edit in edits:
        lines = edit(lines)
    return rewritten(into, lines)


def in_part(part: str, **fields: Any) -> Callable[[Line], object]:
    """Change fields of a part of a line."""
    return lambda line: line[part].update(fields)


# --- edits --------------------------------------------------------------------------------------


def without_rounds(numbers: Sequence[int]) -> Edit:
    """Cut rounds out: their intents, releases, aborts and measurements."""
    return lambda lines: [line for line in lines if line.get("round") not in numbers]


def without(*kinds: str) -> Edit:
    """Cut out all lines of these kinds."""
    return lambda lines: [line for line in lines if line["type"] not in kinds]


def renumbered(lines: Lines) -> Lines:
    """Number the rounds of training anew, without gaps, and let recoveries and the end fit."""
    known: dict[int, int] = {0: 0}
    releases = 0
    for line in lines:
        if line["type"] == "round.intent" and line["round"]:
            known.setdefault(line["round"], len(known))
        if line["type"] == "run.recover":
            line["next_round"] = len(known)
        if line.get("round") is not None:
            line["round"] = known.get(line["round"], line["round"])
        releases += line["type"] == "round.release"
        if line["type"] == "run.close":
            line["rounds"] = releases
    return lines


def relinked(lines: Lines) -> Lines:
    """Let each round start from the model that the one before it released."""
    last = None
    for line in lines:
        if line["type"] == "round.intent" and last is not None and line["model_in"] is not None:
            line["model_in"] = last
        last = line.get("model_out") or last
    return lines


def restreamed(lines: Lines) -> Lines:
    """Let the ranges of every stream begin at 0 and join."""
    reached: dict[str, int] = {}
    for line in lines:
        for own in line.get("streams", ()):
            size, first = own["last"] - own["first"], reached.get(own["stream"], 0)
            own["first"], own["last"] = first, first + size
            reached[own["stream"]] = first + size
    return lines


def each(kind: str, change: Callable[[Line], object]) -> Edit:
    """Change every line of a kind."""

    def edit(lines: Lines) -> Lines:
        for line in lines:
            if line["type"] == kind:
                change(line)
        return lines

    return edit
