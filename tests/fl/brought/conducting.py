"""Runs of systems that another package brings: begun, killed after a round, taken up.

python conducting.py killed SYSTEM,... FOLDER     each is killed, and leaves FOLDER/SYSTEM
python conducting.py ROLE,... SYSTEM FOLDER       takes up FOLDER/SYSTEM, or leaves FOLDER/whole
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.declarations.declaration import SERVER_AGGREGATIONS, Declaration
from privplan.fl.declarations.packages import built_in
from privplan.fl.log import LogWriter
from privplan.fl.log.reader import Scan
from privplan.fl.running.preparation import prepare, randomness
from privplan.fl.running.resumption import prepare_resumption
from privplan.fl.running.run_records import RunResult
from privplan.fl.running.session import execute
from privplan.fl.settings import schema

PACKAGE = "numpy"
"""A distribution that is installed wherever tests run, in the place of one that brings systems."""

ROUNDS, CUT, SEED = 4, 2, 11

SYSTEMS = {
    "fedprox": "momenta:fedprox",
    "server-momentum": "momenta:momentum",
    "server-adam": "momenta:adam",
    "looking-ahead": "momenta:looking",
    "hidden-momentum": "momenta:hidden",
    "means": "means:make",
    "stages": "means:stages",
    "doubled": "means:doubled",
    "counted": "counts:counted",
}

PHASES = {"stages": ("warm", "release")}
"""Names of phases, where they are not one."""


def is_light(make: str) -> bool:
    """Return whether a system trains nothing."""
    return make.startswith(("means", "counts"))


def enter() -> None:
    """Declare these systems, as an entry point of their package would."""
    for name, make in SYSTEMS.items():
        built_in()[name] = Declaration(
            name=name,
            make=make,
            summary="a system of a test",
            package=PACKAGE,
            trains=not is_light(make),
            phases=PHASES.get(name, ("release",) if is_light(make) else ("train",)),
            aggregations=("plain",)
            if is_light(make)
            else (*SERVER_AGGREGATIONS, "private-weighting"),
            measure="means:measure" if is_light(make) else None,
        )


def settings_of(system: str, *, model: str = "mlp", **privacy: Any) -> schema.Settings:
    trains = not is_light(SYSTEMS.get(system, ""))
    return schema.Settings(
        run=schema.RunSettings(system=system, rounds=ROUNDS, seed=SEED),
        data=schema.DataSettings(
            name="breast-cancer",
            users=6,
            silos=2 if trains else 1,
        ),
        privacy=replace(schema.PrivacySettings(noise_multiplier=2.0), **privacy),
        training=schema.TrainingSettings(
            clip=0.2, local_rate=0.1, global_rate=1.0, local_epochs=2, batch=64, model=model
        ),
    )


def progress_of(folder: Path) -> Any:
    scan = Scan(folder)
    for _ in scan:
        pass
    return scan.record_order.progress()


def begun(system: str, folder: Path, cut: int | None = None, **more: Any) -> RunResult:
    """Begin a run; after round `cut` its process is killed."""

    def kill(measured: Any, _: int) -> None:
        if measured.round == cut:
            os.kill(os.getpid(), signal.SIGKILL)

    prepared = prepare(settings_of(system))
    with LogWriter.create(folder) as writer:
        return execute(prepared, folder, writer, report=kill, **more)


def kill_each(systems: list[str], place: Path) -> None:
    """Begin a run of each in a process of its own, and say how these ended."""
    for system in systems:
        prepare(settings_of(system))  # what is loaded once need not be loaded by each
        (place / system).mkdir(parents=True)
        child = os.fork()
        if not child:
            begun(system, place / system, CUT)
            os._exit(0)
        print(system, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def resumed(system: str, folder: Path) -> RunResult:
    settings = settings_of(system)
    prepared = prepare_resumption(settings, progress_of(folder))
    writer, progress = LogWriter.resume(folder, randomness=randomness(settings))
    with writer:
        return execute(prepared, folder, writer, progress=progress)


class Forgets:
    """A recorder that keeps nothing."""

    def append(self, _: Any) -> int:
        return 1

    def seal(self, items: Any) -> dict[str, str]:
        return dict.fromkeys(items, "0" * 64)

    def settle(self) -> None:
        pass


def uninterrupted(system: str, cut: int) -> tuple[Any, Any]:
    """Return the model and the state of one process that made all rounds, never cut off.

    It draws as the run that was cut off does: after round `cut`, from the streams of the next
    segment, since no byte is used twice.
    """
    prepared = prepare(settings_of(system))
    odometer = Odometer.for_plan(prepared.plan)
    gates = [Gate(odometer, Forgets(), Streams.seeded(SEED, segment)) for segment in (0, 1)]
    system_ = prepared.system
    parameters, state = system_.initial(), system_.initial_state()
    (phase,) = system_.phases
    assert phase.make is not None
    for number in range(1, ROUNDS + 1):
        moved = phase.make(number, parameters, gates[number > cut], state)
        parameters, state = moved.parameters, moved.state
    return parameters, state


if __name__ == "__main__":
    enter()
    roles, names, place = sys.argv[1:]
    if "killed" in roles:
        kill_each(names.split(","), Path(place))
    folder = Path(place) / ("whole" if "whole" in roles else names)
    if "whole" in roles:
        folder.mkdir()
        begun(names, folder)
    if "resumed" in roles:
        resumed(names, folder)
    if "audited" in roles:
        from privplan.audit.budget import audit_budget

        print(audit_budget(folder).spent)
    print("torch" if "torch" in sys.modules else "no torch")
