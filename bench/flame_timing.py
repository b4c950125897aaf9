"""How long FLAME's rounds take without the training, and what memory: sealed, and on arrays.

    python bench/flame_timing.py            # prints a table
    python bench/flame_timing.py --json     # prints what bench/flame_timing.json holds

Every case is a process of its own, so that the memory and the children's time are its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.data.federation import Federation
from privplan.fl.flame.settings import DOUBLE, SIMPLE, FlameSettings, Protocol
from privplan.fl.flame.system import Flame
from privplan.fl.frame.privacy import PrivacyTarget
from privplan.fl.frame.setup import Setup
from privplan.fl.settings.schema import SecuritySettings, TrainingSettings
from privplan.fl.training.local_training import UpdateBlock

USERS: Final = 1_000
PADDED_TO: Final = 333
CLIP: Final = 0.05
NOISE: Final = 0.5
"""The noise multiplier: each message is 4-local."""

BLOCK_USERS: Final = 50
"""Users whose updates are made at once."""

GIBIBYTE: Final = 2.0**30

NOTE = """\
1,000 users, whose updates are given: nothing is trained.  A round is the choice of coordinates, the
randomised messages, the shuffle and the next model, with a log in memory; n_p = 333 but for Simple.
Laplace noise.  Sealed: libsodium's boxes, a fresh key agreement for each message, with [security]
processes = 2; the first round also starts the processes.  Processor time is that of all processes,
the start of the two among it; the peak is that of the process that holds all parties."""


@dataclass(frozen=True)
class Case:
    """What is timed: `rounds` rounds; or, where `plan` says so, the plan of so many."""

    what: str
    protocol: Protocol
    dimensions: int
    chosen: int | None
    transport: Literal["sealed", "ideal"]
    wall_limit: float
    memory_limit: float | None = None
    rounds: int = 2
    plan: bool = False


CASES: Final = (
    Case("sealed, digits, Double", DOUBLE, 650, 65, "sealed", 25.0),
    Case("ideal, digits, Double", DOUBLE, 650, 65, "ideal", 1.0),
    Case("ideal, d = 7,850, Double", DOUBLE, 7_850, 157, "ideal", 5.0),
    Case("ideal, d = 7,850, Simple", SIMPLE, 7_850, None, "ideal", 10.0),
    Case("ideal, d = 75,755, Double", DOUBLE, 75_755, 1_515, "ideal", 40.0, 2.0, 1),
    Case("plan of 20 rounds, digits, Double", DOUBLE, 650, 65, "ideal", 10.0, None, 20, plan=True),
)


@dataclass(frozen=True)
class Measured:
    """Wall and processor seconds of a round (or plan); peak in bytes; load before."""

    what: str
    wall: float
    processor: float
    peak: int
    load: float
    epsilon: float | None = None


class Given:
    """Training whose updates are given: normal numbers, some beyond the clip."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions

    def initial(self) -> Any:
        return np.zeros(self.dimensions)

    def user_deltas(self, parameters: Any, _: Any, number: int) -> Iterator[UpdateBlock]:
        random = np.random.default_rng(number)
        for first in range(0, USERS, BLOCK_USERS):
            block = np.arange(first, min(first + BLOCK_USERS, USERS))
            rows = random.standard_normal((len(block), len(parameters))) * CLIP
            yield UpdateBlock(block, np.zeros(len(block), np.int64), rows)


class Log:
    """A recorder that keeps nothing but how many records there were."""

    count = 0

    def append(self, _: Any) -> int:
        self.count += 1
        return self.count - 1

    def seal(self, items: Any) -> dict[str, str]:
        return dict.fromkeys(items, "0" * 64)

    def settle(self) -> None:
        """Nothing is kept back."""


def system_of(case: Case) -> Flame:
    """Return the system, over records that nobody looks at."""
    federation = Federation(
        name="none",
        task="binary",
        classes=2,
        users=USERS,
        silos=1,
        features=np.zeros((USERS, 1), np.float32),
        labels=np.zeros(USERS, np.int64),
        user=np.arange(USERS),
        silo=np.zeros(USERS, np.int64),
        test_features=np.zeros((1, 1), np.float32),
        test_labels=np.zeros(1, np.int64),
    )
    privacy = PrivacyTarget(
        delta=5e-6, neighbours="replace-one", noise_multiplier=NOISE, observer="analyzer"
    )
    training = TrainingSettings(
        clip=CLIP, local_rate=1.0, global_rate=4.0, local_epochs=1, batch=64, model="logistic"
    )
    sealed = case.transport == "sealed"
    security = SecuritySettings(aggregation="shuffle", processes=2 if sealed else 1)
    local: Any = Given(case.dimensions)
    padded_to = None if case.protocol == SIMPLE else PADDED_TO
    name = f"flame-{case.protocol}"
    made = Setup(name, privacy, case.rounds, training, federation, local, security)
    table = FlameSettings(chosen=case.chosen, padded_to=padded_to, transport=case.transport)
    return Flame(made, table, case.protocol)


def processor() -> float:
    """Return the processor seconds of this process, and of the children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def end_children() -> None:
    """End the processes that share the work, so that their time counts."""
    if "joblib" in sys.modules:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)


def measured(case: Case) -> Measured:
    """Measure one case, in this process."""
    load, system = os.getloadavg()[0], system_of(case)
    began, used = time.perf_counter(), processor()
    plan = system.plan()
    wall, spent = time.perf_counter() - began, processor() - used
    if not case.plan:
        wall, spent = fastest_round(case, system)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    epsilon = plan.guarantees["analyzer"].epsilon.upper if case.plan else None
    return Measured(case.what, wall, spent, peak, load, epsilon)


def fastest_round(case: Case, system: Flame) -> tuple[float, float]:
    """Return the wall seconds of the fastest round, and the processor seconds of one."""
    parameters, odometer = system.initial(), Odometer.for_plan(system.plan())
    gate = Gate(odometer, Log(), Streams.seeded(1))
    end_children()
    walls, used = [], processor()
    for number in range(1, case.rounds + 1):
        began = time.perf_counter()
        parameters = system.round(number, parameters, gate).parameters
        walls.append(time.perf_counter() - began)
    end_children()
    return min(walls), (processor() - used) / case.rounds


def in_child(case: Case) -> Measured:
    """Measure one case in a process of its own."""
    progress(f"flame: {case.what}")
    command = [sys.executable, __file__, "--case", case.what]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Measured(**json.loads(said))


def show(console: Console, found: list[Measured] | None = None) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid("FLAME: a round without training", "<what", "wall", "processor", "peak", "asked")
    verdicts = []
    for case, each in zip(CASES, found or map(in_child, CASES), strict=True):
        asked, reached = f"under {case.wall_limit:g} s", each.wall <= case.wall_limit
        if case.memory_limit is not None:
            asked += f" and {case.memory_limit:g} GiB"
            reached &= each.peak <= case.memory_limit * GIBIBYTE
        peak = f"{each.peak / GIBIBYTE:.2f} GiB"
        took = seconds(each.wall)
        table.add_row(case.what, took, seconds(each.processor), peak, asked)
        shown = took if case.memory_limit is None else f"{took} and {peak}"
        verdicts.append(Verdict(f"FLAME, {case.what}", asked, shown, reached))
    console.print(table, NOTE, "", sep="\n")
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print what flame_timing.json holds")
    parser.add_argument("--case", help="measure this one, in this process")
    given = parser.parse_args()
    if given.case is not None:
        (case,) = [case for case in CASES if case.what == given.case]
        print(json.dumps(asdict(measured(case))))
    elif given.json:
        found = [asdict(in_child(case)) for case in CASES]
        print(json.dumps({"cores": os.cpu_count(), "cases": found}, indent=1))
    else:
        show(Console(width=120))


if __name__ == "__main__":
    main()
