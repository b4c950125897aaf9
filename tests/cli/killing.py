"""Runs that are killed: at every write, and at any moment.  `python killing.py CONFIG FOLDER`.

Each run is a child of its own, so that it can be killed as a whole.
Prints one JSON object a line: what was done, and how often a run was killed.

`at_each_write` needs no process that dies: it copies a run's folder just before each write, which
is what a kill there leaves on the disk.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from privplan.accountant.errors import InvalidInput
from privplan.fl.running import Configuration, ReadyRun, ready_new_run, ready_to_resume
from privplan.fl.running.session import execute


def attempt(config: Path, folder: Path) -> None:
    """Begin the run in the folder, or go on with it."""
    source = Configuration.read(config)
    fresh = not folder.exists() or not any(folder.iterdir())
    ready: ReadyRun = ready_new_run(source, folder) if fresh else ready_to_resume(source, folder)
    with ready.writer:
        execute(ready.prepared, folder, ready.writer, progress=ready.progress)


WRITES = [
    *((os, name) for name in ("write", "fsync", "ftruncate", "fdopen")),
    *((Path, name) for name in ("replace", "unlink", "mkdir")),
]
"""What changes the disk, or comes right after what did: a file that is opened anew is empty."""


def before_each_write(called: Callable[[], None]) -> Callable[[], None]:
    """Call a function before each write from now on; return what ends that."""

    def preceded(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*values: Any, **named: Any) -> Any:
            called()
            return call(*values, **named)

        return wrapped

    def replaced(calls: list[Callable[..., Any]]) -> None:
        for (owner, name), call in zip(WRITES, calls, strict=True):
            setattr(owner, name, call)

    honest = [getattr(owner, name) for owner, name in WRITES]
    replaced([preceded(call) for call in honest])
    return lambda: replaced(honest)


def left_by_kills(config: Path, folder: Path, before: Path | None = None) -> list[Path]:
    """Make a run in `folder/whole`; return folders with what a kill at each write would have left.

    Of a kill before its folder was made nothing is left.  `before` is a folder that the run begins
    with.
    """
    whole, left = folder / "whole", []

    def copied() -> None:
        copy = folder / str(len(left) + 1)
        left.append(copy)
        if whole.exists():
            shutil.copytree(whole, copy)

    folder.mkdir()
    if before is not None:
        shutil.copytree(before, whole)
    end = before_each_write(copied)
    try:
        attempt(config, whole)
    finally:
        end()
    return left


def at_each_write(config: Path, folder: Path) -> list[dict[str, Any]]:
    """Go on with a run from what a kill at each of its writes would have left.

    Return, for each, the folder, whether it was killed, and why it did not go on, "" if it did; the
    last one is of the run that was not killed.
    """
    whole, left = folder / "whole", left_by_kills(config, folder)
    tried = [{"folder": str(copy), "killed": 1, "refused": refusal(config, copy)} for copy in left]
    return [*tried, {"folder": str(whole), "killed": 0, "refused": ""}]


def gone_on(tried: Sequence[Mapping[str, Any]], least: int) -> list[Path]:
    """Return the folders of the runs that went on; the others were closed, and files still there.

    `least` is how many tries there are at least.
    """
    assert len(tried) > least
    assert all("is closed" in each["refused"] for each in tried if each["refused"])
    return [Path(each["folder"]) for each in tried if not each["refused"]]


def refusal(config: Path, folder: Path) -> str:
    """Begin the run in the folder, or go on with it; return why that was refused, or ""."""
    try:
        attempt(config, folder)
    except InvalidInput as error:
        return str(error)
    return ""


def child(config: Path, folder: Path, armed: Callable[[], None] | None = None) -> int:
    """Start a run in a process of its own; return its id."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        if armed is not None:
            armed()
        attempt(config, folder)
        code = 0
    except BaseException:
        if "is closed" not in str(sys.exc_info()[1]):
            sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(number: int) -> int:
    """Wait for a child; return its exit code, negative if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def at_write(index: int) -> Callable[[], None]:
    """Return what arms a process to kill itself just before its write with that number.

    Just after it would be the same as just before the next one: nothing else changes the disk.
    """

    def arm() -> None:
        count = 0

        def counted() -> None:
            nonlocal count
            count += 1
            if count == index:
                os.kill(os.getpid(), signal.SIGKILL)

        before_each_write(counted)

    return arm


def every_write(config: Path, folder: Path) -> None:
    """Kill a run at every write, each in a folder of its own, and let it go on."""
    index = 1
    while True:
        attempt_folder = folder / str(index)
        code = ended(child(config, attempt_folder, at_write(index)))
        killed = code == -signal.SIGKILL
        if killed:
            code = ended(child(config, attempt_folder))
        print(
            json.dumps({"folder": str(attempt_folder), "killed": int(killed), "code": code}),
            flush=True,
        )
        if not killed:
            return
        index += 1


def any_moment(config: Path, folder: Path, kills: int, seed: int) -> None:
    """Kill runs at random moments, each again and again until it comes to its end."""
    moment = random.Random(seed)
    number, killed, whole = 0, 0, 0.0
    while killed < kills:
        number += 1
        attempt_folder, code, here = folder / str(number), -1, 0
        if not whole:
            start = time.perf_counter()
            code = ended(child(config, attempt_folder))
            whole = time.perf_counter() - start
        while code == -1:
            process = child(config, attempt_folder)
            if here < 5:
                time.sleep(moment.uniform(0.0, whole))
                os.kill(process, signal.SIGKILL)
            code = ended(process)
            if code == -signal.SIGKILL:
                here, killed, code = here + 1, killed + 1, -1
        print(json.dumps({"folder": str(attempt_folder), "killed": here, "code": code}), flush=True)


if __name__ == "__main__":
    config, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True)
    attempt(config, folder / "first")  # a child starts with everything imported
    os.fsync = lambda _: None  # a kill spares what was written, forced to the disk or not
    every_write(config, folder / "write")
    any_moment(config, folder / "moment", kills=21, seed=1)
