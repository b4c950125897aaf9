"""privplan next to its peers, in one run: `python bench/run.py [--quick]`.

Prints tables with times and ratios, then what was asked and whether it was reached.  Every number
is measured in this run on this machine; nothing is asserted, because times belong to a machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from importlib.metadata import version

PACKAGES = ("privplan", "numpy", "scipy", "dp-accounting", "prv-accountant")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    quick = parser.parse_args().quick

    person = dict(os.environ)  # whole processes run in the environment of whoever started this
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: one thread for all parties
    import banded
    import bins
    import bombs
    import bounds
    import calibration
    import canaries
    import check
    import curves
    import disco_accuracy
    import disco_sums
    import disco_timing
    import durations
    import fedpower_accuracy
    import fedpower_timing
    import flame_timing
    import gram
    import grouping
    import log
    import matrix
    import matrix_epsilons
    import membership
    import noise_removal
    import observed_training
    import own_models
    import peers
    import risk
    import runs
    import schedules
    import secagg
    import shares
    import shuffling
    import startup
    import statistics_accuracy
    import statistics_ridge
    import tables
    import training
    import weighting
    from rich.console import Console
    from verdicts import summary

    import audit

    console = Console()
    if not console.is_terminal:
        console = Console(width=170)
    began = time.perf_counter()
    console.print(_machine())
    peers.warm_up()
    verdicts = [
        *calibration.show(console, quick),
        *bounds.show(console, quick),
        *curves.show(console, quick),
        *risk.show(console, quick),
        *grouping.show(console, quick),
        *schedules.show(console, quick),
        *matrix.show(console),
        *matrix_epsilons.show(console),
        *bins.show(console, quick),
        *shuffling.show(console),
        *runs.show(console),
        *log.show(console, quick),
        *audit.show(console, quick),
        *training.show(console, quick),
        *observed_training.show(console, quick),
        *own_models.show(console, quick),
        *secagg.show(console, quick),
        *shares.show(console),
        *disco_sums.show(console),
        *disco_accuracy.show(console, quick=True),
        *disco_timing.show(console),
        *weighting.show(console, quick),
        *noise_removal.show(console, quick),
        *gram.show(console),
        *canaries.show(console, quick),
        *banded.show(console, quick),
        *membership.show(console),
        *statistics_accuracy.show(console, quick),
        *statistics_ridge.show(console, quick=True),
        *fedpower_accuracy.show(console, quick),
        *fedpower_timing.show(console),
        *flame_timing.show(console),
        *check.show(console, person, quick),
        *bombs.show(console, person),
        *tables.show(console, person),
        *startup.show(console, person, quick),
    ]
    durations.show(console)
    console.print(summary(verdicts))
    console.print(f"{_load()}; this run took {time.perf_counter() - began:.0f} s")


def _machine() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"Python {platform.python_version()}, {packages}\n"
        f"{os.cpu_count()} cores, BLAS threads {os.environ['OPENBLAS_NUM_THREADS']}; {_load()}"
    )


def _load() -> str:
    return "load " + ", ".join(f"{each:.2f}" for each in os.getloadavg())


if __name__ == "__main__":
    main()
