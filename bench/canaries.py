"""How much of epsilon 100,000 canaries demonstrate, in one rehearsal, next to real records."""

from __future__ import annotations

import time
from importlib.util import find_spec

from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

from privplan.audit.canaries import claim_tier, rehearse, robust_tier
from privplan.fl.settings.schema import (
    DataSettings,
    PrivacySettings,
    RunSettings,
    Settings,
    TrainingSettings,
)

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


def settings(epsilon: float, rate: float, rounds: int) -> Settings:
    """Return the run: every record is a user of its own."""
    return Settings(
        run=RunSettings(system="uldp-sgd", rounds=rounds),
        data=DataSettings(name="breast-cancer", users=RECORD_COUNT, silos=1, allocation="uniform"),
        privacy=PrivacySettings(epsilon=epsilon, sampling_rate=rate),
        training=TrainingSettings(
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
