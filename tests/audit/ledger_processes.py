"""A budget ledger as a process that can be killed, and clients that drive it to its cap."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, PrivplanError
from privplan.audit.budget_service.audited import LedgerAudit, audit_history
from privplan.audit.budget_service.signer import SignedStatement
from privplan.fl.ledger_client.connection import Connection

TERMS = {
    "name": "ward",
    "unit": "user",
    "neighbours": "add-remove",
    "epsilon": 2.0,
    "delta": 1e-6,
    "blocks": ["a", "b"],
}


class ServiceProcess:
    """`privplan serve` over a database; it answers at one port, however often it is killed."""

    def __init__(self, database: str, folder: Path) -> None:
        self.database, self.key = database, folder / "ledger.pem"
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        said = self.start("--owner", "olga")
        self.owner = Connection(said["url"], said["tokens"]["olga"], timeout=10.0, attempts=8)
        self.owner.post("/v1/data-sets", TERMS)
        body = {"holder": "ana", "role": "analyst", "days": 1}
        self.analyst = str(self.owner.post("/v1/tokens", body)["token"])

    def start(self, *more: str) -> dict[str, Any]:
        """Start it, and return what it prints when it answers."""
        command = [sys.executable, "-m", "privplan.cli", "serve", self.database, "--json"]
        self.process = subprocess.Popen(
            [*command, "--key", str(self.key), "--port", str(self.port), *more],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        said: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.port = int(said["url"].rpartition(":")[2])
        return said

    def kill(self) -> None:
        """End it as a power failure would."""
        assert self.process is not None
        self.process.kill()
        self._reap()

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self._reap()

    def _reap(self) -> None:
        assert self.process is not None
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def client(self) -> Connection:
        """Return a connection that asks again for as long as a restart takes."""
        url = f"http://127.0.0.1:{self.port}"
        return Connection(url, self.analyst, timeout=10.0, attempts=40)

    def audited(self, receipts: list[dict[str, Any]]) -> LedgerAudit:
        """Audit the history against its head and these receipts."""
        lines: list[bytes] = []
        while True:
            text = self.owner.text(f"/v1/data-sets/ward/entries?first={len(lines)}")
            if not text:
                break
            lines += [f"{line}\n".encode() for line in text.splitlines()]
        head = SignedStatement.from_json(self.owner.get("/v1/data-sets/ward/head"))
        return audit_history(lines, head, [SignedStatement.from_json(each) for each in receipts])


@contextmanager
def serving(database: str, folder: Path) -> Iterator[ServiceProcess]:
    """Yield a running service, stopped at the end."""
    service = ServiceProcess(database, folder)
    try:
        yield service
    finally:
        with suppress(ProcessLookupError):
            service.stop()


class Clients:
    """Threads that claim one event until it no longer fits, and keep what was acknowledged."""

    def __init__(self, service: ServiceProcess, event: ev.Event, count: int = 8) -> None:
        self.answers: list[dict[str, Any]] = []
        self.troubles: list[str] = []
        self._event, self._service = event, service
        self._threads = [
            threading.Thread(target=self._spend, args=(number,)) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _spend(self, number: int) -> None:
        client = self._service.client()
        for attempt in range(10_000):
            body = claim_body(self._event)
            try:
                self.answers.append(client.post("/v1/claims", body, f"{number}-{attempt}"))
            except BudgetExceeded:
                return
            except PrivplanError as error:
                self.troubles.append(str(error))
                return


def claim_body(event: ev.Event) -> dict[str, Any]:
    """Return the body of a claim that is begun at once."""
    return {"data_set": "ward", "project": "x", "event": event.to_json(), "begin": True}


def killed_client(port: int, token: str, event: ev.Event, acknowledged: Path) -> int:
    """Return the process of a client that claims and notes what was acknowledged, until killed."""
    child = os.fork()
    if child:
        return child
    with suppress(BaseException), acknowledged.open("a", encoding="ascii") as file:
        client = Connection(f"http://127.0.0.1:{port}", token, attempts=1)
        while True:
            answer = client.post("/v1/claims", claim_body(event), os.urandom(8).hex())
            file.write(answer["id"] + "\n")
            file.flush()
    os._exit(0)
