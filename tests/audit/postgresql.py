"""A private PostgreSQL on the loopback address, run as `nobody`, gone at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VERSIONS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


class Cluster:
    """A cluster in a folder of its own; `kill` ends it as a power failure would."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:
            # The server refuses to run as root.
            self._as = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(folder, "nobody", "nogroup")
        folder.chmod(0o755)
        self._binaries = VERSIONS[0]
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-A", "trust", "-U", "ledger", "-D", str(self.data), "--no-sync")
        self.start()

    def start(self) -> None:
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "max_connections": 40}
        options["unix_socket_directories"] = ""  # whose paths may be too long for a socket
        # After a kill it would otherwise force every file to the disk, one by one.
        options["recovery_init_sync_method"] = "syncfs"
        given = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._binaries / "postgres"), "-D", str(self.data), *given]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **self._as
        )
        asked = ("-h", "127.0.0.1", "-p", str(self.port), "-q")
        for _ in range(300):
            if self._run("pg_isready", *asked, check=False) == 0:
                return
            time.sleep(0.1)
        raise RuntimeError("PostgreSQL does not answer")

    def kill(self) -> None:
        """End the server and all its backends at once."""
        assert self._process is not None
        own = self._process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        for process in (own, *map(int, children)):
            os.kill(process, 9)
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(3)  # the immediate shutdown: the folder is removed anyway
        self._process.wait(timeout=60)

    def database(self, name: str) -> str:
        """Return the URL of a new database."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "ledger", name)
        return f"postgresql://ledger@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str, check: bool = True) -> int:
        done = subprocess.run(
            [str(self._binaries / program), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            check=check,
            timeout=120,
            **self._as,
        )
        return done.returncode


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Yield a running cluster; skip the test, with a notice, where PostgreSQL is not installed."""
    if not VERSIONS:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="privplan-pg-", ignore_cleanup_errors=True) as folder:
        running = Cluster(Path(folder))
        try:
            yield running
        finally:
            running.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
