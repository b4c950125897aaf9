"""One shuffled round of Laplace noise, against the closed forms that are in use."""

from __future__ import annotations

import math

import timing
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

import privplan as pp
from privplan import events as ev
from privplan.accountant.amplification.shuffling import closed_forms
from privplan.accountant.amplification.shuffling.randomizers import LaplaceRandomizer
from privplan.accountant.errors import PrivplanError

EXACT = {1_000: 0.10920854, 10_000: 0.03784308, 100_000: 0.01296710, 1_000_000: 0.00440039}
"""Epsilon of Laplace(2.0), which is 1-LDP, at delta .01 / n: the blanket bound, exactly."""

MAX_BLANKET_EXCESS = 1e-3
MAX_SHUFFLE_SECONDS = 2.0

NOTE = """\
Laplace noise 2 on [-1, 1] (1-LDP), n users, delta .01 / n, replace-one. EFMRTT19, BBGN19
(Hoeffding and corrected Bennett, for Laplace noise), FMT21 and FMT23 are closed forms: their time
is nothing, their epsilon is what they cost. A dash is a form outside its range of validity."""


def closed(users: int, delta: float) -> dict[str, float | None]:
    """Return epsilon by each closed form, None where it is outside its range."""
    laplace = LaplaceRandomizer(1.0)
    forms = {
        "EFMRTT19": lambda: closed_forms.efmrtt19_epsilon(1.0, users, delta),
        "Hoeffding": lambda: closed_forms.hoeffding_epsilon(laplace, users, delta),
        "Bennett": lambda: closed_forms.bennett_epsilon(laplace, users, delta),
        "FMT21": lambda: closed_forms.fmt21_epsilon(1.0, users, delta),
        "FMT23": lambda: closed_forms.fmt23_epsilon(1.0, users, delta),
    }
    epsilons: dict[str, float | None] = {}
    for name, form in forms.items():
        try:
            epsilons[name] = form()
        except PrivplanError:
            epsilons[name] = None
    return epsilons


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    names = list(closed(1_000, 1e-5))
    table = grid(
        "One shuffled round",
        *("users", "lower", "upper", "above exact", "time"),
        *names,
        "best / ours",
    )
    worst, slowest, sound, ratios = 0.0, 0.0, True, []
    for users, exact in EXACT.items():
        progress(f"shuffling {users:,}")
        delta = 0.01 / users
        event = ev.Shuffle(users, ev.Laplace(2.0))
        # Once: what a round costs is kept, so a second call would measure something easier.
        mine = timing.call_once(
            lambda event=event, delta=delta: pp.account(
                event, delta=delta, neighbours="replace-one"
            )
        )
        bounds = mine.result.epsilon
        others = closed(users, delta)
        best = min((value for value in others.values() if value is not None), default=math.nan)
        ratios.append(best / bounds.upper)
        above = bounds.upper / exact - 1.0
        sound &= bounds.upper >= exact * (1.0 - 1e-7) >= bounds.lower  # eight printed digits
        worst, slowest = max(worst, above), max(slowest, mine.seconds)
        table.add_row(
            f"{users:,}",
            f"{bounds.lower:.6f}",
            f"{bounds.upper:.7f}",
            f"{above:.1e}",
            seconds(mine.seconds),
            *("-" if value is None else f"{value:.4f}" for value in others.values()),
            f"{ratios[-1]:.2f}x",
        )
    console.print(table, NOTE, "", sep="\n")
    return [
        Verdict(
            "shuffled Laplace noise, at least the exact epsilon and close to it",
            f"0 to {MAX_BLANKET_EXCESS:g} above",
            f"{worst:.1e} at most" if sound else "below the exact value",
            sound and worst <= MAX_BLANKET_EXCESS,
        ),
        Verdict(
            "shuffled Laplace noise, slowest",
            f"< {MAX_SHUFFLE_SECONDS:g} s",
            seconds(slowest),
            slowest < MAX_SHUFFLE_SECONDS,
        ),
        Verdict(
            "closed forms over ours, least",
            "> 1x",
            f"{min(ratios):.2f}x (best of the closed forms)",
            min(ratios) > 1.0,
        ),
    ]
