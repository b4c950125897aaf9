"""Budgets derived again from logs of 10,000 lines: checked, read, accounted by two engines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import timing
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

from privplan import events as ev
from privplan.accountant import records as rec
from privplan.audit.budget import audit_budget
from privplan.fl.log.hash_chain import LOG, START, chained

LOG_LINES = 10_000
MAX_AUDIT_SECONDS, MAX_SECONDS_DIFFERENT_ROUNDS = 2.0, 10.0

NOTE = """\
A log of ULDP-AVG: every line is checked against the chain, every sensitivity, noise and sample is
read from it, and the model, the server and a silo are accounted for by two engines each, from below
too. With other noise in every round no two rounds share any work; their events are rounded by at
most 1e-4 of the noise, down for the upper end and up for the lower one."""


def rounds(rate: float, noise: Callable[[int], float]) -> list[rec.Record]:
    """Return a log of `LOG_LINES` records; `noise` is the noise multiplier of a round."""
    count = LOG_LINES // 2 - 1
    event = ev.Poisson(rate, ev.Gaussian(noise(0))) if rate < 1.0 else ev.Gaussian(noise(0))
    records: list[rec.Record] = [
        rec.RunOpen(
            "bench",
            "uldp-avg",
            rec.Claim("user", "add-remove", 1e-5, None),
            rec.Planned(count, {"model": ev.Repeat(count, event)}),
            rec.Population(50, 5),
            rec.Randomness("operating-system"),
        )
    ]
    sampling = rec.Sampling("poisson", "user", rate, "server") if rate < 1.0 else rec.Sampling()
    first = rec.RoundIntent(
        0,
        "train",
        event,
        rec.Contribution(0.1, "l2", "user"),
        rec.Noise("gaussian", 0.0, 5, 0.0, 0, 1, 2.0**-24),
        0.1,
        rec.Weights("uniform"),
        sampling,
    )
    for number in range(1, count + 1):
        std = noise(number)
        spread = replace(first.noise, std=0.1 * std, share_std=0.1 * std / 5**0.5 * (1 + 1e-15))
        base = ev.Gaussian(std * (1 - 1e-15))
        stated = ev.Poisson(rate, base) if rate < 1.0 else base
        records.append(
            replace(first, round=number, event=stated, noise=spread, model_in=f"{number:064x}")
        )
        records.append(
            rec.RoundRelease(
                number,
                len(records) - 1,
                tuple(
                    rec.StreamRange(f"{s:032x}", 99 * number, 99 * number + 99) for s in range(5)
                ),
                5,
                1,
                14,
                normaliser=rec.Normaliser("constant", 50.0),
                model_out=f"{number + 1:064x}",
            )
        )
    return [*records, rec.RunRecover(0, (), count + 1, rec.Randomness("operating-system"))]


def written(folder: Path, records: list[rec.Record]) -> Path:
    """Write a chained log."""
    folder.mkdir()
    prev, lines = START, []
    for seq, record in enumerate(records):
        line, prev = chained(record.to_json(), seq, prev)
        lines.append(line + "\n")
    (folder / LOG).write_text("".join(lines))
    return folder


DIFFERENT = "sampled, other noise in every round"

LOGS: dict[str, Callable[[], list[rec.Record]]] = {
    "all users in every round": lambda: rounds(1.0, lambda _: 50.0),
    "users sampled, rate .1": lambda: rounds(0.1, lambda _: 5.0),
    DIFFERENT: lambda: rounds(0.1, lambda n: 5.0 + n / 1e4),
}


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid("A log of 10,000 lines", "<log", "<asked", "time", "epsilon", "<reached")
    verdicts = []
    with tempfile.TemporaryDirectory() as folder_name:
        for number, (name, make) in enumerate(LOGS.items()):
            progress(f"auditing {name}")
            folder = written(Path(folder_name) / str(number), make())
            timed = timing.timed(lambda folder=folder: audit_budget(folder), 1 if quick else 3)
            asked = MAX_SECONDS_DIFFERENT_ROUNDS if name == DIFFERENT else MAX_AUDIT_SECONDS
            reached, limit = timed.seconds < asked, f"< {asked:g} s"
            upper = f"{timed.result.total.upper:.4f}"
            table.add_row(name, limit, seconds(timed.seconds), upper, yes(reached))
            what = f"audit of 10,000 lines, {name}"
            verdicts.append(Verdict(what, limit, seconds(timed.seconds), reached))
    console.print(table, NOTE, "", sep="\n")
    return verdicts
