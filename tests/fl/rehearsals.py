"""Networks of real processes for tests: superlink, supernodes and guards on loopback."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from privplan.fl.network.demo import Demonstration
from privplan.fl.network.flower_app import BUNDLE_FOLDER, PACKAGE
from privplan.fl.network.guard_log import FILE, SERVER_FILE

from .network_parties import config

_KILLING: Final = """
import os, runpy, signal, sys
from pathlib import Path
from flwr.supercore.runtime import RuntimeHttpClient as Client
from privplan.fl.network import flower

trigger, asked = Path(sys.argv.pop(1)), []

def noting(self, message, answered=flower._Executor._answered):
    asked[:] = [flower._request_in(message)]
    return answered(self, message)

flower._Executor._answered = noting

def killing(name):
    call = getattr(Client, name)
    def called(self, request):
        awake = name == "PushMessages" and asked == [flower.NOTHING]
        if not awake and trigger.exists() and trigger.read_text() == name:
            trigger.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return call(self, request)
    return called

for name in ("PullTaskInput", "PullMessages", "PullObject", "PushMessages"):
    setattr(Client, name, killing(name))
sys.argv.insert(1, "guard")
runpy.run_module("privplan.cli", run_name="__main__")
"""
"""A guard that looks for a file before each call of Flower, and kills itself where it says so.

Where it is to push an answer, that is no answer to a message of nothing.
"""


@dataclass
class Rehearsal(Demonstration):
    """The network of a small run with a seed, whose bundle would leave a mark where it ran."""

    text: str = config("statistics")
    seconds: int = 30
    stopped: list[str] = field(default_factory=list)
    """Why the server stopped that was started last; empty where it came to its end."""
    _stops_before: int = 0

    @property
    def mark(self) -> Path:
        return self.folder / "the-bundle-ran"

    def prepare(self) -> None:
        self.agree(self.text, seconds=self.seconds, insecure=True)
        client = self.folder / "app" / BUNDLE_FOLDER / PACKAGE / "client.py"
        mark = f'\nopen({str(self.mark)!r}, "a").close()\n'
        client.write_text(client.read_text() + mark)

    def data_options(self, name: str) -> list[str]:
        del name
        return ["--insecure-seed"]

    def guard_command(self, name: str) -> list[str]:
        """Return the command of a guard that kills itself when the test says so (`kill_at`)."""
        return [sys.executable, "-c", _KILLING, str(self._trigger(name))]

    def _trigger(self, name: str) -> Path:
        return self.folder / f"kill-{name}"

    def kill_at(self, name: str, call: str) -> None:
        """Have the guard of a silo kill itself just before its next call of Flower by that name."""
        self._trigger(name).write_text(call)

    def await_death(self, name: str) -> None:
        """Wait until a process is dead."""
        self.until(lambda: self._running[name].poll() is not None)

    def done(self, name: str) -> list[dict[str, Any]]:
        """Return what a guard did, as its own log says; what the server did, of "server"."""
        path = self.folder / name / FILE
        if name == "server":
            path = self.folder / "app" / "server" / SERVER_FILE
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]

    def await_done(self, name: str, what: str, **about: Any) -> None:
        """Wait until a party did something."""
        wanted = {"what": what, **about}
        self.until(lambda: any(wanted.items() <= each.items() for each in self.done(name)))

    @contextmanager
    def server(self) -> Iterator[None]:
        """Start the server, and let it run in the block, at whose end it is to have ended."""
        said: list[str] = []

        def follow() -> None:
            with contextlib.closing(self.said_by_server()) as lines:
                said.extend(lines)

        self._stops_before = self._stops()
        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield
            thread.join(400)
            assert not thread.is_alive()
        finally:
            if thread.is_alive():
                self._running["run"].terminate()
                thread.join()
        stops = [line["why"] for line in self.done("server") if line["what"] == "stopped"]
        self.stopped = stops[self._stops_before :]

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a process."""
        self._running[name].send_signal(number)

    def await_stop_of_server(self) -> None:
        """Wait until the server that was started last has written why it stopped."""
        self.until(lambda: self._stops() > self._stops_before)

    def server_runs(self) -> bool:
        """Return whether a process of this network's server is there."""
        home = f"FLWR_HOME={self.folder / 'home'}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended meanwhile
                if (
                    b"flwr-serverapp" in (process / "cmdline").read_bytes()
                    and home in (process / "environ").read_bytes()
                ):
                    return True
        return False

    def _stops(self) -> int:
        return sum(line["what"] == "stopped" for line in self.done("server"))

    def seconds_of_last_wait(self) -> float:
        """Return how long the server waited before it stopped, since it last asked for a phase."""
        lines = self.done("server")
        (stop,) = [n for n, line in enumerate(lines) if line["what"] == "stopped"][-1:]
        asked = [line for line in lines[:stop] if "waiting for" in line.get("sentence", "")][-1]
        return (_time_of(lines[stop]) - _time_of(asked)).total_seconds()

    @staticmethod
    def until(there: Callable[[], bool], seconds: float = 240.0) -> float:
        """Wait until something holds; return how long it took."""
        start = time.monotonic()
        while not there():
            assert time.monotonic() - start < seconds
            time.sleep(0.01)
        return time.monotonic() - start


@cache
def usual_limit() -> int:
    """Return a limit of a phase, in seconds, that is kept here: by how long a start takes."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import privplan.fl.network.flower"], check=True)
    return max(20, int(15 * (time.monotonic() - started)))


def _time_of(line: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(line["time"])
