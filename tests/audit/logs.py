"""Small logs to read, to tear and to tamper with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from privplan.accountant import events as ev
from privplan.accountant.records import (
    Claim,
    Contribution,
    Noise,
    Planned,
    Population,
    Randomness,
    RoundIntent,
    RoundRelease,
    RunClose,
    RunOpen,
    Sampling,
    StreamRange,
)
from privplan.fl.log import LogWriter
from privplan.fl.log.hash_chain import LOG, START, chained

EVENT = ev.Poisson(0.5, ev.Gaussian(5.0))
SECURE = Randomness("operating-system")


def opening(rounds: int = 3, run_id: str = "run-1") -> RunOpen:
    """Return the opening of a run of `rounds` rounds."""
    return RunOpen(
        run_id=run_id,
        system="uldp-avg",
        claim=Claim("user", "add-remove", 1e-5, 2.0),
        plan=Planned(rounds, {"model": ev.Repeat(rounds, EVENT)}),
        population=Population(50, 4),
        randomness=SECURE,
        configuration={"run": {"system": "uldp-avg", "rounds": rounds}, "lr": 0.1},
        opened="2026-01-01T00:00:00+00:00",
    )


def intent(number: int) -> RoundIntent:
    """Return the intent of a round."""
    return RoundIntent(
        number,
        "training",
        EVENT,
        Contribution(1.0, "l2", "user"),
        Noise("gaussian", 5.0, 4, 2.5),
        1.0,
        sampling=Sampling("poisson", "user", 0.5, "server"),
        views={"server": ev.Gaussian(5.0)},
        model_in=f"{number:064x}",
    )


def release(number: int, seq: int, sealed: dict[str, str] | None = None) -> RoundRelease:
    """Return the release of a round under the intent with `seq`."""
    return RoundRelease(
        number,
        seq,
        (StreamRange("ab" * 16, 100 * number - 100, 100 * number),),
        aggregate=f"c{number:063x}",
        model_out=f"{number + 1:064x}",
        sealed=sealed or {},
    )


def closing(rounds: int = 3) -> RunClose:
    """Return the close of a run."""
    return RunClose(
        rounds, "finished", {"model": ev.Repeat(rounds, EVENT)}, {"model": 1.9}, 1e-5, "pld"
    )


def rounds_of(writer: LogWriter, numbers: range, *, seal: bool = False) -> None:
    """Write an intent and a release for each number."""
    for number in numbers:
        seq = writer.append(intent(number))
        sealed = writer.seal({"batch": 17 + number}) if seal else None
        writer.append(release(number, seq, sealed))


def small_log(folder: Path, rounds: int = 3, *, close: bool = True, **options: Any) -> Path:
    """Write a whole run into a folder, and return it."""
    options.setdefault("fsync", "never")
    with LogWriter.create(folder, **options) as writer:
        writer.append(opening(rounds))
        rounds_of(writer, range(1, rounds + 1), seal=True)
        if close:
            writer.append(closing(rounds))
    return folder


def lines_of(folder: Path) -> list[str]:
    """Return the lines of a log."""
    return (folder / LOG).read_text().splitlines()


def write_lines(folder: Path, lines: list[str]) -> None:
    """Put lines in the place of a log."""
    (folder / LOG).write_text("".join(line + "\n" for line in lines))


def rechained(folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the records of a log, and build the whole chain anew, as its writer could."""
    records = [json.loads(line) for line in lines_of(folder)]
    for record in records:
        for name in ("seq", "prev", "hash"):
            del record[name]
    change(records)
    prev, lines = START, []
    for seq, record in enumerate(records):
        line, prev = chained(record, seq, prev)
        lines.append(line)
    write_lines(folder, lines)


def lost(_: int) -> None:
    """Fail as a disk that lost what it was given."""
    raise OSError(5, "Input/output error")
