"""What canaries demonstrate: shares of epsilon, and the powers of all tiers next to another tree's.

`python bench/canaries.py --against FOLDER` rehearses every system before every observer, once by
the package `privplan` that is installed and once by that in FOLDER, by the same seeds, and prints
what each tier demonstrates by both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from canary_cases import Case, cases, toml
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

from privplan.audit.canaries import claim_tier, rehearse, robust_tier
from privplan.fl.settings import schema
from privplan.fl.settings.toml_file import parse

CANARY_COUNT = 100_000
RECORD_COUNT = 455
TARGET_EPSILONS = (1.0, 2.0, 4.0, 8.0)
PLANS = (("full batch", 1.0, 20), ("sampled, rate .1", 0.1, 50))
CLAIM, ROBUST, LONGEST = 0.8, 0.45, 60.0

NOTE = """\
Logistic regression on the 455 training records of breast-cancer by uldp-sgd in one silo, a user a
record, C = 1, delta 1e-5, 95% confidence. Each canary is a user in or out by a fair coin, and goes
through the clip, the sample and the noise of the run. Shares are of the epsilon that the plan
proves: "claim" believes that the mechanism is of the claimed family, "robust" that it keeps the
curve of such a one, and "any" (Steinke) believes nothing. Time is that of the rehearsal and all
tests together, in one process."""


def settings(epsilon: float, rate: float, rounds: int) -> schema.Settings:
    """Return the run: every record is a user of its own."""
    return schema.Settings(
        run=schema.RunSettings(system="uldp-sgd", rounds=rounds),
        data=schema.DataSettings(
            name="breast-cancer", users=RECORD_COUNT, silos=1, allocation="uniform"
        ),
        privacy=schema.PrivacySettings(epsilon=epsilon, sampling_rate=rate),
        training=schema.TrainingSettings(
            weighting="records",
            clip=1.0,
            local_rate=0.5,
            global_rate=0.5,
            local_epochs=1,
            batch=1,
            model="logistic",
        ),
    )


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    missing = [name for name in ("sklearn", "torch") if find_spec(name) is None]
    if missing:
        console.print(f"[yellow]Canaries are skipped: {missing[0]} is not installed.[/]")
        return []
    columns = ("<", "proven", "claim", "robust", "any", "time", "<reached")
    table = grid(f"{CANARY_COUNT:,} canaries in one rehearsal: shares of epsilon", *columns)
    verdicts = []
    for name, rate, rounds in PLANS:
        for epsilon in TARGET_EPSILONS[1:2] if quick else TARGET_EPSILONS:
            progress(f"canaries, {name}, epsilon {epsilon:g}")
            began = time.perf_counter()
            rehearsed = settings(epsilon, rate, rounds)
            rehearsal = rehearse(rehearsed, canaries=CANARY_COUNT, real=True)
            claim, robust = claim_tier(rehearsal), robust_tier(rehearsal)
            spent, proven = time.perf_counter() - began, float(rehearsal.claimed or 0.0)
            of_any = float(robust.sample["epsilon of any mechanism"])
            shares = [value / proven for value in (claim.value, robust.value, of_any)]
            reached = shares[0] >= CLAIM and shares[1] >= ROBUST and spent < LONGEST
            shown = [f"{share:.2f}" for share in shares]
            table.add_row(name, f"{proven:.4f}", *shown, seconds(spent), yes(reached))
            verdicts.append(
                Verdict(
                    f"canaries, {name}, epsilon {epsilon:g}",
                    f"claim >= {CLAIM:g}, robust >= {ROBUST:g}, < {LONGEST:g} s",
                    f"{shown[0]}, {shown[1]}, {seconds(spent)}",
                    reached,
                )
            )
    console.print(table, NOTE, "", sep="\n")
    return verdicts


SEED = 1


def powers(case: Case) -> dict[str, Any]:
    """Return what each tier demonstrates of a case, and what it was shown; or why it cannot be."""
    settings = parse(toml(case.tables), case.name)
    try:
        seen = rehearse(
            settings, canaries=case.canaries, observer=case.observer, seed=SEED, real=case.real
        )
    except Exception as error:  # what one tree refuses, another must refuse in the same words
        return {"refused": f"{type(error).__name__}: {error}"}
    arrays = (seen.coins, np.round(seen.observations, 9) + 0.0, seen.groups)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in arrays))
    pattern = None if seen.pattern is None else np.round(seen.pattern, 12).tolist()
    facts = (seen.rate, seen.looks, seen.partial, pattern, seen.note, seen.claimed, str(seen.event))
    shown: dict[str, Any] = {
        "digest": digest.hexdigest()[:16],
        "exact": hashlib.sha256(seen.observations.tobytes()).hexdigest()[:16],
        "shift": float(f"{seen.shift:.12g}"),
        "facts": repr(facts),
    }
    for tier, test in (("claim", claim_tier), ("robust", robust_tier)):
        try:
            measured = test(seen)
        except Exception as error:
            shown[tier] = f"{type(error).__name__}: {error}"
        else:
            shown[tier] = float(measured.value)
    return shown


def measure(only: str) -> None:
    """Print a line of JSON for every case whose name holds a text."""
    for case in cases():
        if only in case.name:
            began = time.perf_counter()
            line = {"case": case.name, **powers(case)}
            print(json.dumps({**line, "seconds": time.perf_counter() - began}), flush=True)


def compared(old: Path, only: str) -> bool:
    """Print the powers by both trees; return whether none is lower here."""
    installed = Path(sys.modules["privplan"].__file__ or "").parents[1]
    by_tree = [_measured(tree, only) for tree in (old, installed)]
    table = grid("Powers by both trees", "<", "<claim", "", "<robust", "", "<shown")
    lower = 0
    for name, before in by_tree[0].items():
        after = by_tree[1][name]
        if "refused" in before or "refused" in after:
            same = before.get("refused") == after.get("refused")
            lower += not same
            table.add_row(name, "refused by both", "", "", "", "same words" if same else "DIFFERS")
            continue
        row = [name]
        for tier in ("claim", "robust"):
            row += [_figure(each[tier]) for each in (before, after)]
            if before[tier] != after[tier]:
                lower += isinstance(before[tier], str) or not after[tier] >= before[tier]
        differing = [key for key in ("digest", "shift", "facts") if before[key] != after[key]]
        exact = "same bits" if before["exact"] == after["exact"] else "same to 1e-9"
        table.add_row(*row, "DIFFERS: " + ", ".join(differing) if differing else exact)
    Console(width=150).print(table, f"{len(by_tree[0])} cases, lower or refused in {lower}")
    return lower == 0


def _measured(tree: Path, only: str) -> dict[str, dict[str, Any]]:
    command = [sys.executable, __file__, "--measure", only]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    made = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    lines = map(json.loads, made.stdout.decode().splitlines())
    return {line["case"]: line for line in lines}


def _figure(value: float | str) -> str:
    return "refused" if isinstance(value, str) else f"{value:.6f}"


def main() -> None:
    """Compare two trees, or measure by one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="a folder that holds another `privplan`")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--measure", metavar="TEXT", help="print figures of this tree alone")
    given = parser.parse_args()
    if given.against is not None:
        sys.exit(0 if compared(given.against, given.only) else 1)
    if given.measure is not None:
        measure(given.measure)
    else:
        show(Console(), quick=False)


if __name__ == "__main__":
    main()
