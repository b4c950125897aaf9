"""A whole network on one machine, in which a guard is killed and comes back.

Every party is a process of its own, with its own folder, and talks to the others over loopback
alone.  What is shown: that the killed guard's round is spent and the run goes on without it, and
that the logs of all parties fit together.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE
from typing import IO, Final

from ...accountant.errors import MissingExtra, PrivplanError
from ..files import atomic
from .demo_hospitals import HOSPITALS, write_hospitals
from .flower_app import BUNDLE_FOLDER, PLAN_FILE, SERVER_FOLDER, write_app
from .journal import RUN_FOLDER, identity_in, state_folder

Tell = Callable[[str], None]

_PHASE_SECONDS: Final = 30
_START_SECONDS: Final = 90.0
_WAIT_SECONDS: Final = 0.1
_KILLED: Final = "south"
_KILLED_AFTER: Final = "Round 1 of"
"""What the server says before the guard is killed."""

_SUPERNODE: Final = (
    "import sys; from privplan.fl.network.flower import supernode; supernode(sys.argv[1:])"
)


@dataclass
class Demonstration:
    """The processes of a network in one folder; leaving the context ends all of them."""

    folder: Path
    tell: Tell
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _files: list[IO[bytes]] = field(default_factory=list)
    _ports: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Demonstration:
        if find_spec("flwr") is None:
            raise MissingExtra(
                "The demonstration needs Flower 1.42, which is not installed.",
                "It carries the messages between the server and the silos.",
                'Install the extra: pip install "privplan[fl,flower]"',
            )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
        for file in self._files:
            file.close()

    @property
    def server_run(self) -> Path:
        """The folder of the server's run."""
        return self.folder / "app" / SERVER_FOLDER / RUN_FOLDER

    def silo(self, name: str) -> Path:
        """Return the folder of a silo's run."""
        return self.folder / name / RUN_FOLDER

    def prepare(self) -> None:
        """Write the hospitals' files, the keys and the plan, and have every silo sign it."""
        config = write_hospitals(self.folder)
        self.agree(config.read_text("utf-8"))

    def agree(self, config: str, *, seconds: int = _PHASE_SECONDS, insecure: bool = False) -> None:
        """Write a plan of a configuration, and have every silo sign it."""
        identities = {
            name: identity_in(state_folder(self.folder / name), make=True) for name in HOSPITALS
        }
        plan = write_app(
            config,
            self.folder / "app",
            {name: each.public for name, each in identities.items()},
            seconds=seconds,
            insecure=insecure,
        )
        for each in identities.values():
            plan = plan.signed_by(each)
        plan.write(self.folder / "app" / PLAN_FILE)
        atomic.write(self.folder / "secret", secrets.token_bytes(32), private=True)
        self.tell(f"All silos have signed the plan {plan.digest.hex()[:16]}.")

    def start(self) -> None:
        """Start the superlink, and a supernode and a guard for each silo."""
        address = f"127.0.0.1:{self._port('superlink')}"
        home = self.folder / "home"
        home.mkdir()
        connection = f'[superlink.here]\naddress = "{address}"\n{self.connection()}\n'
        (home / "config.toml").write_text(f'[superlink]\ndefault = "here"\n{connection}', "utf-8")
        for name in HOSPITALS:
            self.start_guard(name)
        self.start_superlink()
        for name in HOSPITALS:
            self.start_supernode(name)
        for name in HOSPITALS:
            self.await_guard(name)
        self.tell("Superlink, three supernodes and three guards are running.")

    def start_superlink(self) -> None:
        """Start the superlink, or start it again, and wait until it listens."""
        port = self._port("superlink")
        self._run(
            "superlink",
            ["flower-superlink", "--disable-runtime-dependency-installation"],
            ["--host", "127.0.0.1", "--port", str(port)],
            self.superlink_options(),
        )
        self._until("superlink", lambda: _listens(port))

    def start_supernode(self, name: str) -> None:
        """Start the supernode of a silo, or start it again."""
        self._run(
            f"node-{name}",
            [sys.executable, "-c", _SUPERNODE, "--isolation", "process"],
            ["--port", str(self._port(f"node-{name}"))],
            ["--superexec-auth-secret-file", str(self.folder / "secret")],
            self.supernode_options(name),
        )

    def await_guard(self, name: str) -> None:
        """Wait until a guard is ready to take requests."""
        self._until(f"guard-{name}", lambda: self._said(f"guard-{name}", '"ready"'))

    def connection(self) -> str:
        """Return how the server's operator reaches the superlink, as Flower's file says it."""
        return "insecure = true"

    def superlink_options(self) -> list[str]:
        """Return how the superlink is protected: not at all, as all is on loopback."""
        return ["--insecure"]

    def supernode_options(self, name: str) -> list[str]:
        """Return how the supernode of a silo reaches the superlink."""
        del name
        return ["--insecure", "--superlink", f"127.0.0.1:{self._port('superlink')}"]

    def start_guard(self, name: str) -> None:
        """Start the guard of a silo, or start it again."""
        self._run(
            f"guard-{name}",
            self.guard_command(name),
            ["--plan", str(self.folder / "app" / PLAN_FILE), "--state", str(self.folder / name)],
            ["--secret", str(self.folder / "secret")],
            ["--supernode", f"127.0.0.1:{self._port(f'node-{name}')}"],
            self.data_options(name),
        )

    def guard_command(self, name: str) -> list[str]:
        """Return the command of a silo's guard, without its options."""
        del name
        return [sys.executable, "-m", "privplan.cli", "guard"]

    def data_options(self, name: str) -> list[str]:
        """Return the options by which a guard finds its data."""
        return ["--data", str(self.folder / f"{name}.csv")]

    def make_rounds(self, kill: str | None = None) -> bool:
        """Start the server's application, and return whether it came to the end of the run.

        `kill` is a silo whose guard is killed once a round was released, and started again.
        """
        with contextlib.closing(self.said_by_server()) as lines:
            for line in lines:
                if line.startswith(("Round", "The run")) and "waiting for" not in line:
                    self.tell(line)
                if kill is not None and line.startswith(_KILLED_AFTER):
                    self.kill(f"guard-{kill}")
                    self.start_guard(kill)
                    self.tell(f"The guard of {kill} was killed, and started again.")
                    kill = None
                if line.startswith("privplan.accountant.errors"):
                    self.tell(line.partition(": ")[2])
                if line.startswith("The run is closed"):
                    return True
        return False

    def said_by_server(self) -> Generator[str]:
        """Start the server's application, and yield what it says, line by line, until it ends."""
        app = self.folder / "app" / BUNDLE_FOLDER
        process = self._run("run", ["flwr", "run", str(app), "here", "--stream"], stdout=PIPE)
        assert process.stdout is not None
        try:
            for raw in process.stdout:
                line = raw.decode("utf-8", "replace").strip()
                yield line
                if "exited with" in line or line.startswith("Run finished"):
                    break
        finally:
            process.terminate()
            process.wait(10)

    def kill(self, name: str) -> None:
        """Kill a process, with no time to tidy up."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def _run(
        self, name: str, *words: Sequence[str], stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        if stdout is None:
            log = (self.folder / f"{name}.log").open("ab")
            self._files.append(log)
        environment = {
            **os.environ,
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "FLWR_TELEMETRY_ENABLED": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        process = subprocess.Popen(
            [word for part in words for word in part],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=subprocess.STDOUT,
        )
        self._running[name] = process
        return process

    def _port(self, name: str) -> int:
        if name not in self._ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self._ports[name] = free.getsockname()[1]
        return self._ports[name]

    def _said(self, name: str, words: str) -> bool:
        return words in (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def _until(self, name: str, there: Callable[[], bool]) -> None:
        """Wait until a process is ready; raise `PrivplanError` where it ends, or takes too long."""
        end = time.monotonic() + _START_SECONDS
        while not there():
            if self._running[name].poll() is not None or time.monotonic() > end:
                raise PrivplanError(
                    f"The process {name} did not start.",
                    "Every party of the demonstration is a process of its own.",
                    f"See what it said: {self.folder / f'{name}.log'}",
                )
            time.sleep(_WAIT_SECONDS)


def demonstrate(folder: Path, tell: Tell) -> Mapping[str, Path]:
    """Make a run over a network in a folder; return the folders of the parties' runs by name.

    Raises `MissingExtra` without Flower, and `PrivplanError` where a process does not start or the
    run does not come to its end.
    """
    with Demonstration(folder, tell) as network:
        network.prepare()
        network.start()
        if not network.make_rounds(kill=_KILLED):
            tell("The server gave the round up, as a silo was missing; it is started again.")
            if not network.make_rounds():
                raise PrivplanError(
                    "The run did not come to its end.",
                    "A party was missing for longer than a phase may take.",
                    f"See what the parties said: {folder}",
                )
    return {"server": network.server_run, **{name: network.silo(name) for name in HOSPITALS}}


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False
