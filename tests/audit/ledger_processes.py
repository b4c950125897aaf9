"""A budget ledger as a process that can be killed, and clients that drive it to its cap."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
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

BLOCKS = (["a"], ["b"], "all")


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

    def lines(self) -> list[bytes]:
        """Return the whole history."""
        lines: list[bytes] = []
        while text := self.owner.text(f"/v1/data-sets/ward/entries?first={len(lines)}"):
            lines += [f"{line}\n".encode() for line in text.splitlines()]
        return lines

    def audited(self, receipts: list[dict[str, Any]]) -> LedgerAudit:
        """Audit the history against its head and these receipts."""
        head = SignedStatement.from_json(self.owner.get("/v1/data-sets/ward/head"))
        signed = [SignedStatement.from_json(each) for each in receipts]
        return audit_history(self.lines(), head, signed)


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
    """Threads that claim events until none fits any more, and keep what was acknowledged."""

    def __init__(self, service: ServiceProcess, events: Sequence[ev.Event], count: int = 8) -> None:
        self.answers: list[dict[str, Any]] = []
        self.troubles: list[str] = []
        self._service = service
        self._bodies = [claim_body(event, blocks) for event in events for blocks in BLOCKS]
        self._threads = [
            threading.Thread(target=self._spend, args=(number,)) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def wait_for(self, more: int) -> None:
        """Wait until so many more claims are acknowledged, or none of the clients runs."""
        before = len(self.answers)
        while self.running and len(self.answers) < before + more:
            time.sleep(0.01)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _spend(self, number: int) -> None:
        client, chance = self._service.client(), random.Random(number)
        # Nothing is cancelled, so what does not fit never will.
        fitting, attempt = list(self._bodies), 0
        while fitting:
            body = chance.choice(fitting)
            try:
                self.answers.append(client.post("/v1/claims", body, f"{number}-{attempt}"))
                attempt += 1
            except BudgetExceeded:
                fitting.remove(body)
            except PrivplanError as error:
                self.troubles.append(str(error))
                return


def claim_body(event: ev.Event, blocks: Sequence[str] | str = "all") -> dict[str, Any]:
    """Return the body of a claim that is begun at once."""
    said = {"data_set": "ward", "project": "x", "event": event.to_json(), "begin": True}
    return {**said, "blocks": blocks}


class KilledClient:
    """A process that claims and notes what was acknowledged, until it is killed."""

    def __init__(
        self, service: ServiceProcess, events: Sequence[ev.Event], acknowledged: Path
    ) -> None:
        # Not forked here, where threads are running.
        context = multiprocessing.get_context("forkserver")
        bodies = [claim_body(event, blocks) for event in events for blocks in BLOCKS]
        self._process = context.Process(
            target=_claim_for_ever, args=(service.port, service.analyst, bodies, acknowledged)
        )
        self._process.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _claim_for_ever(
    port: int, token: str, bodies: list[dict[str, Any]], acknowledged: Path
) -> None:
    chance = random.Random()
    with suppress(PrivplanError), acknowledged.open("a", encoding="ascii") as file:
        client = Connection(f"http://127.0.0.1:{port}", token, timeout=10.0, attempts=40)
        while bodies:
            body = chance.choice(bodies)
            try:
                answer = client.post("/v1/claims", body, os.urandom(8).hex())
            except BudgetExceeded:
                bodies.remove(body)
                continue
            file.write(answer["id"] + "\n")
            file.flush()
