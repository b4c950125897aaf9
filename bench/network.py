"""A run over Flower next to an app of Flower's own, and what a long vector takes on the way.

    python bench/network.py --exchanges    short messages: seconds of an exchange
    python bench/network.py --long         a masked sum of 10^6 numbers: bytes and memory

In an environment with Flower 1.42 (constraints-flower.txt).  Superlink, three supernodes and all
else are processes of their own on loopback, as `privplan network demo` starts them.  An exchange is
a message to each of three silos, and their replies: timed at the server, for privplan with all that
server and guards compute.  The app of Flower answers what it was sent, as it is installed by
default but for the interval of its executors, .1 s in place of 1 s.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from privplan.fl.network.demo import Demonstration
from privplan.fl.network.demo_hospitals import HOSPITALS
from privplan.fl.network.flower_app import BUNDLE_FOLDER, PACKAGE
from privplan.fl.network.guard_log import SERVER_FILE
from privplan.fl.network.plan import NetworkPlan

SHORT: Final = """[run]
system = "fedpower-power"
rounds = 3
[data]
name = "breast-cancer"
users = 20
silos = 3
[privacy]
unit = "record"
noise_multiplier = 5.0
delta = 1e-5
[fedpower]
row_norm = 6.0
rank = 2
[security]
aggregation = "masked"
"""

FEATURES: Final = 1412
"""Features of the long run, whose statistics are a million numbers."""

ROWS: Final = 40

MASKED_EXCHANGES: Final = 5

SERVER: Final = """
import time
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < 3:
        time.sleep(0.1)
    for number in range(6):
        messages = [
            Message(RecordDict({"a": ConfigRecord({"a": b"a" * 400})}), node, "query")
            for node in grid.get_node_ids()
        ]
        start = time.time()
        replies = list(grid.send_and_receive(messages))
        assert len(replies) == 3 and not any(each.has_error() for each in replies)
        print(f"An exchange took {time.time() - start} s", flush=True)
"""

CLIENT: Final = """
from flwr.app import Message
from flwr.clientapp import ClientApp

app = ClientApp()

@app.query()
def query(message, context):
    return Message(message.content, reply_to=message)
"""


class Network(Demonstration):
    """A network of privplan: own executors, and supernodes that never sleep long."""

    config = SHORT

    def prepare(self) -> None:
        self.agree(self.config, seconds=600)

    def data_options(self, _: str) -> list[str]:
        return []

    def exchanges(self) -> list[float]:
        """Make the run; return the seconds of its exchanges behind the first one."""
        assert self.make_rounds()
        lines = map(json.loads, (self.server_run.parent / SERVER_FILE).read_text().splitlines())
        asked = [
            datetime.fromisoformat(line["time"]).timestamp()
            for line in lines
            if "waiting for" in line.get("sentence", "")
        ]
        return [end - start for start, end in pairwise(asked[1:])]


class PlainSupernodes(Network):
    """The same with supernodes as Flower has them, which sleep for three seconds."""

    def start_supernode(self, name: str) -> None:
        self._run(
            f"node-{name}",
            ["flower-supernode", "--isolation", "process"],
            ["--port", str(self._port(f"node-{name}"))],
            ["--superexec-auth-secret-file", str(self.folder / "secret")],
            self.supernode_options(name),
        )


class PlainFlower(Network):
    """An app of Flower's own: its executors, its server's loop, its supernodes."""

    def prepare(self) -> None:
        super().prepare()
        package = self.folder / "app" / BUNDLE_FOLDER / PACKAGE
        (package / "server.py").write_text(SERVER)
        (package / "client.py").write_text(CLIENT)

    def start_guard(self, _: str) -> None:
        pass

    def await_guard(self, _: str) -> None:
        pass

    def start_supernode(self, name: str) -> None:
        port = str(self._port(f"node-{name}"))
        self._run(
            f"node-{name}", ["flower-supernode", "--port", port], self.supernode_options(name)
        )

    def exchanges(self) -> list[float]:
        taken = [re.match(r"An exchange took (\S+) s", line) for line in self.said_by_server()]
        return [float(each[1]) for each in taken if each is not None][1:]


class CountingProxy:
    """Stands between a supernode and the superlink, and counts the bytes of each direction."""

    def __init__(self, upstream: int) -> None:
        self.up = self.down = 0
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    @staticmethod
    def _start(work: Callable[..., None], *given: Any) -> None:
        threading.Thread(target=work, args=given, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._upstream))
                self._start(self._pump, near, far, "up")
                self._start(self._pump, far, near, "down")

    def _pump(self, source: socket.socket, target: socket.socket, way: str) -> None:
        with suppress(OSError):
            while raw := source.recv(2**16):
                setattr(self, way, getattr(self, way) + len(raw))
                target.sendall(raw)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


class LongVectors(Network):
    """A masked sum of a million numbers; what passes each silo's line, and what memory it takes."""

    def prepare(self) -> None:
        names = [f"f{number}" for number in range(FEATURES)]
        columns = "".join(
            f'[columns.{name}]\nkind = "number"\nrange = [0, 1]\nsource = "a bench"\n'
            for name in names
        )
        label = '[label]\nkind = "binary"\nvalues = ["no", "yes"]\nsource = "a bench"\n'
        (self.folder / "schema.toml").write_text(label + columns)
        for silo, hospital in enumerate(HOSPITALS):
            with (self.folder / f"{hospital}.csv").open("w") as file:
                print("patient", *names, "label", sep=",", file=file)
                for row in range(ROWS):
                    values = (f"{(row * n + silo) % 97 / 96:.3f}" for n in range(FEATURES))
                    label = ("no", "yes")[row % 2]
                    print(f"{hospital}{row}", *values, label, sep=",", file=file)
        silos = ", ".join(f'{name} = "{name}.csv"' for name in HOSPITALS)
        self.agree(
            f'[run]\nsystem = "statistics"\n[data]\nname = "table"\nsilos = {{ {silos} }}\n'
            f'user = "patient"\nlabel = "label"\nschema = "{self.folder / "schema.toml"}"\n'
            f'users_at_most = {3 * ROWS}\n[privacy]\nunit = "record"\nnoise_multiplier = 5.0\n'
            'delta = 1e-5\n[statistics]\nrow_norm = 6.0\n[security]\naggregation = "masked"\n',
            seconds=600,
        )

    def data_options(self, name: str) -> list[str]:
        return ["--data", str(self.folder / f"{name}.csv")]

    def supernode_options(self, name: str) -> list[str]:
        self.proxies: dict[str, CountingProxy] = getattr(self, "proxies", {})
        self.proxies[name] = CountingProxy(self._port("superlink"))
        return ["--insecure", "--superlink", f"127.0.0.1:{self.proxies[name].port}"]

    def measured(self) -> dict[str, object]:
        """Make the run, of one round, and return what it took."""
        plan = NetworkPlan.read(self.folder / "app" / "plan.toml")
        numbers = int(plan.promise["values"])
        before = {name: (proxy.up, proxy.down) for name, proxy in self.proxies.items()}
        with PeakMemory() as memory:
            start = time.monotonic()
            assert self.make_rounds()
            seconds = time.monotonic() - start
        ways = [
            (proxy.up - before[name][0], proxy.down - before[name][1])
            for name, proxy in self.proxies.items()
        ]
        for proxy in self.proxies.values():
            proxy.close()
        up, down = max(way[0] for way in ways), max(way[1] for way in ways)
        return {
            "numbers": numbers,
            "bytes up, of 8 a number": round(up / (8 * numbers), 4),
            "bytes down, of 8 a number": round(down / (8 * numbers), 4),
            "MB at most, by process": memory.megabytes,
            "seconds with the server's start": round(seconds, 1),
            "load average": os.getloadavg()[0],
        }


class PeakMemory:
    """The largest resident memory of each kind of process below this one, while the block runs."""

    KINDS = ("flower-superlink", "flower-superexec", "serverapp", "supernode(", " guard ")

    def __init__(self) -> None:
        self.megabytes: dict[str, int] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            for command, megabytes in _peaks():
                for kind in self.KINDS:
                    if kind in command:
                        name = kind.strip(" (")
                        self.megabytes[name] = max(megabytes, self.megabytes.get(name, 0))


def _peaks() -> list[tuple[str, int]]:
    """Return command and largest memory of all processes that this one has started."""
    parents, peaks = {}, {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, KeyError):
            status = dict(
                line.split(":\t", 1) for line in (entry / "status").read_text().splitlines()
            )
            number = int(entry.name)
            parents[number] = int(status["PPid"])
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            peaks[number] = command, int(status["VmHWM"].split()[0]) // 1024
    ours = []
    for number, peak in peaks.items():
        above = number
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() != number:
            ours.append(peak)
    return ours


def exchanges() -> dict[str, object]:
    """Return the seconds of an exchange, of privplan and of Flower's own app, in turn."""
    kinds = {
        "an app of Flower's own": PlainFlower,
        "own executor": PlainSupernodes,
        "own executor, supernodes never asleep for long": Network,
    }
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    loads = []
    for name, kind in kinds.items():
        with tempfile.TemporaryDirectory() as folder, kind(Path(folder), print) as network:
            network.prepare()
            network.start()
            taken[name] += network.exchanges()
            loads.append(os.getloadavg()[0])
    median = {name: statistics.median(each) for name, each in taken.items()}
    plain = median["an app of Flower's own"]
    return {
        "median seconds": {name: round(each, 2) for name, each in median.items()},
        "from, to": {name: (round(min(t), 2), round(max(t), 2)) for name, t in taken.items()},
        "of the app of Flower's own": {n: round(each / plain, 3) for n, each in median.items()},
        "exchanges": {name: len(each) for name, each in taken.items()},
        "load average": loads,
    }


def long_vectors() -> dict[str, object]:
    """Return what a masked sum of a million numbers takes."""
    with tempfile.TemporaryDirectory() as folder, LongVectors(Path(folder), print) as network:
        network.prepare()
        network.start()
        return network.measured()


def main() -> None:
    """Read the arguments, measure, and print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--exchanges", action="store_true")
    parser.add_argument("--long", action="store_true")
    asked = parser.parse_args()
    if asked.exchanges or not asked.long:
        print(json.dumps(exchanges(), indent=1))
    if asked.long or not asked.exchanges:
        print(json.dumps(long_vectors(), indent=1))


if __name__ == "__main__":
    main()
