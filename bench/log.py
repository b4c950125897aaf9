"""The audit log: how long 10,000 lines take to write, and a stranger to verify."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Literal

import timing
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter
from privplan.fl.log.hash_chain import canonical

VERIFIED_LINES, MAX_VERIFY_SECONDS = 10_000, 1.0
MAX_RATIO = 1.5

EVENT = ev.Poisson(0.1, ev.Gaussian(5.0))

NOTE = """\
Lines are intents and releases of rounds, with a sealed item each. `never` leaves the lines to the
system; `records`, the default, has each on the disk before anything is drawn or released."""


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid("Audit log", "<what", "<asked", "median", "per line", "runs", "<reached")
    with tempfile.TemporaryDirectory() as directory:
        for policy, lines in (("never", VERIFIED_LINES), ("records", VERIFIED_LINES // 10)):
            progress(f"writing {lines} lines, fsync {policy}")
            wrote = timing.call_once(lambda: _write(Path(directory) / policy, policy, lines))  # noqa: B023
            what = f"write {lines:,} lines, fsync {policy}"
            table.add_row(what, "", *_cells(wrote, lines), "")
        size = (Path(directory) / "never" / "log.jsonl").stat().st_size / 1e6
        progress(f"verifying {VERIFIED_LINES} lines")
        verified = timing.timed(lambda: verify(Path(directory) / "never"), 3 if quick else 7)
        text = (Path(directory) / "never" / "log.jsonl").read_text().splitlines()
        written_again = timing.timed(lambda: [canonical(json.loads(line)) for line in text], 3)
    reached = (
        verified.result.complete
        and verified.result.records == VERIFIED_LINES
        and verified.seconds < MAX_VERIFY_SECONDS
    )
    limit = f"< {MAX_VERIFY_SECONDS:g} s"
    table.add_row(
        f"verify {VERIFIED_LINES:,} lines ({size:.1f} MB)",
        limit,
        *_cells(verified, VERIFIED_LINES),
        yes(reached),
    )
    ratio = verified.seconds / written_again.seconds
    near = ratio <= MAX_RATIO
    times = f"<= {MAX_RATIO:g} x"
    what = "verify, over parsing each line and writing it again"
    table.add_row(what, times, f"{ratio:.2f} x", "", "", yes(near))
    console.print(table, NOTE, "", sep="\n")
    return [
        Verdict(what, times, f"{ratio:.2f} x", near),
        Verdict(
            f"verify a log of {VERIFIED_LINES:,} lines", limit, seconds(verified.seconds), reached
        ),
    ]


def _cells(timed: timing.Timing[object], lines: int) -> tuple[str, str, str]:
    return seconds(timed.seconds), f"{timed.seconds / lines * 1e6:.3g} us", f"{timed.runs}"


def _write(folder: Path, policy: Literal["records", "never"], lines: int) -> None:
    rounds = (lines - 2) // 2
    plan = {"model": ev.Repeat(rounds, EVENT)}
    with LogWriter.create(folder, fsync=policy) as writer:
        writer.append(
            records.RunOpen(
                run_id="bench",
                system="bench",
                claim=records.Claim("user", "add-remove", 1e-5, None),
                plan=records.Planned(rounds, plan),
                population=records.Population(1000, 5),
                randomness=records.Randomness("operating-system"),
            )
        )
        for number in range(1, rounds + 1):
            seq = writer.append(_intent(number))
            writer.append(_release(number, seq, writer.seal({"batch": number})))
        writer.append(
            records.RunClose(rounds, "finished", plan, {"model": 9.9}, 1e-5, "pld", "d" * 64)
        )


def _intent(number: int) -> records.RoundIntent:
    return records.RoundIntent(
        number,
        "training",
        EVENT,
        records.Contribution(1.0, "l2", "user"),
        records.Noise("gaussian", 5.0, 5, 2.25, grid=2.0**-20),
        1.0,
        records.Weights("records", 1.0),
        records.Sampling("poisson", "user", 0.1, "server"),
        {"server": ev.Gaussian(2.25)},
        f"{number:064x}",
    )


def _release(number: int, seq: int, sealed: dict[str, str]) -> records.RoundRelease:
    streams = [records.StreamRange("ab" * 16, 4096 * number, 4096 * number + 4096)] * 5
    return records.RoundRelease(
        number,
        seq,
        tuple(streams),
        shares=5,
        normaliser=records.Normaliser("constant", 100.0),
        aggregate="c" * 64,
        model_out=f"{number + 1:064x}",
        sealed=sealed,
    )
