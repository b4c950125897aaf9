"""How many claims a second the budget ledger takes over HTTP, and how long the slowest waits.

    python bench/ledger.py                        SQLite, 64 clients, 20 event shapes, 10 s
    python bench/ledger.py --database postgresql://...
    python bench/ledger.py --hostile              with a client whose events are slow to price
    python bench/ledger.py --filled 1000000       one claim at a time, in a data set of a million

Clients run in a process of their own on the same machine; they share its processors with the
service.  At the end the history is audited, and each block must be within its cap.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from privplan.accountant import events as ev
from privplan.audit.budget_service import tokens
from privplan.audit.budget_service.audited import audit_history
from privplan.audit.budget_service.balances import stored, texts
from privplan.audit.budget_service.claims import Actor
from privplan.audit.budget_service.database import Database
from privplan.audit.budget_service.service import LedgerService, claim_request
from privplan.audit.budget_service.signer import Signer
from privplan.audit.budget_service.tables import claims as claim_rows
from privplan.audit.budget_service.tables import data_sets, entries
from privplan.fl.log.hash_chain import chained

SHAPES: Final = [ev.Gaussian(2000.0 + shape) for shape in range(20)]
"""Events so cheap that the cap is not reached while the clock runs."""

HOLDERS: Final = 8


def terms(name: str) -> dict[str, Any]:
    """Return the terms of a data set of four blocks."""
    return {
        "name": name,
        "unit": "user",
        "neighbours": "add-remove",
        "epsilon": 8.0,
        "delta": 1e-6,
        "blocks": ["2023", "2024", "2025", "2026"],
    }


class Client:
    """A connection that is kept open; it speaks just enough HTTP for one service."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token

    async def open(self) -> None:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def post(self, path: str, body: bytes, key: str) -> int:
        """Return the status of an answer, which is read whole."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\n"
            f"Idempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        length = next(
            int(each[15:]) for each in lines if each.lower().startswith(b"content-length:")
        )
        await self.reader.readexactly(length)
        return int(lines[0].split()[1])


async def _drive(port: int, secret: list[str], clients: int, seconds: float) -> dict[str, Any]:
    bodies = [
        json.dumps(
            {"data_set": "ward", "project": "load", "event": shape.to_json(), "begin": True}
        ).encode()
        for shape in SHAPES
    ]
    opened = [Client(port, secret[number % len(secret)]) for number in range(clients)]
    await opened[0].open()
    for body in bodies:  # priced beforehand
        await opened[0].post("/v1/claims", body, secrets.token_hex(8))
    for client in opened[1:]:
        await client.open()
    waited: list[float] = []
    codes: dict[int, int] = {}
    end = time.perf_counter() + seconds

    async def spend(number: int, client: Client) -> None:
        turn = number
        while time.perf_counter() < end:
            started = time.perf_counter()
            body = bodies[turn % len(bodies)]
            code = await client.post("/v1/claims", body, f"{number}-{turn}-{secrets.token_hex(4)}")
            waited.append(time.perf_counter() - started)
            codes[code] = codes.get(code, 0) + 1
            turn += 1

    started = time.perf_counter()
    await asyncio.gather(*(spend(number, client) for number, client in enumerate(opened)))
    wall = time.perf_counter() - started
    waited.sort()
    return {
        "claims_per_s": round(codes.get(201, 0) / wall, 1),
        "p50_ms": round(1e3 * statistics.median(waited), 1),
        "p99_ms": round(1e3 * waited[int(0.99 * len(waited))], 1),
        "codes": codes,
    }


async def _hostile(port: int, secret: str, seconds: float) -> dict[str, int]:
    """Send events that take too long, each one new."""
    client, codes, number = Client(port, secret), {}, 0
    await client.open()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        steps = [
            ev.FixedSize(2 + number + step, 10**6 + step, ev.Gaussian(0.5 + step * 1e-3))
            for step in range(2000)
        ]
        event = ev.Compose(tuple(steps)).to_json()
        body = json.dumps({"data_set": "ward", "project": "hostile", "event": event}).encode()
        code = await client.post("/v1/claims", body, secrets.token_hex(8))
        codes[code] = codes.get(code, 0) + 1
        number += 1
    return codes


def _clients(port: int, secret: list[str], clients: int, seconds: float, answer: Any) -> None:
    answer.put(asyncio.run(_drive(port, secret, clients, seconds)))


def _strangers(port: int, secret: str, seconds: float, answer: Any) -> None:
    answer.put({"hostile": asyncio.run(_hostile(port, secret, seconds))})


def load(database: str, clients: int, seconds: float, *, hostile: bool) -> dict[str, Any]:
    """Return what 64 clients measure, and what the history says afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "ledger.pem"
        issued = _prepared(database, key)
        command = [sys.executable, "-m", "privplan.cli", "serve", database, "--key", str(key)]
        service = subprocess.Popen(
            [*command, "--port", "0", "--json"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert service.stdout is not None
            port = int(json.loads(service.stdout.readline())["url"].rpartition(":")[2])
            idle = _cpu_seconds(service.pid)
            answers: Any = multiprocessing.Queue()
            running = [
                multiprocessing.Process(
                    target=_clients, args=(port, issued[:HOLDERS], clients, seconds, answers)
                )
            ]
            if hostile:
                running.append(
                    multiprocessing.Process(
                        target=_strangers, args=(port, issued[HOLDERS], seconds, answers)
                    )
                )
            for process in running:
                process.start()
            result: dict[str, Any] = {}
            for process in running:
                result |= answers.get(timeout=seconds + 120)
                process.join()
            result["service_cpu_s"] = _cpu_seconds(service.pid)
            taken = result["codes"].get(201, 0)
            result["cpu_ms_of_a_claim"] = round(1e3 * (result["service_cpu_s"] - idle) / taken, 2)
        finally:
            service.terminate()
            service.wait()
        result |= _after(database)
    result["load_average"] = [round(each, 2) for each in os.getloadavg()]
    return result


def _prepared(database: str, key: Path) -> list[str]:
    from privplan.audit.budget_service.serving import _key

    service = LedgerService(Database(database), Signer(_key(key)))
    service.open_data_set(terms("ward"), Actor("owner", "owner"))
    issued = [
        str(
            service.wrote(
                lambda each, number=number: tokens.issue(each, f"a{number}", "analyst", 1.0, None)
            )["token"]
        )
        for number in range(HOLDERS + 1)
    ]
    service.close()
    return issued


def _after(database: str) -> dict[str, Any]:
    """Audit the history."""
    service = LedgerService(Database(database), Signer.fresh())
    lines: list[bytes] = []
    while True:
        part = service.lines("ward", len(lines))
        lines += [line.encode() + b"\n" for line in part]
        if not part:
            break
    audited = audit_history(lines, service.head("ward")["hash"])
    service.close()
    return {"entries": audited.entries, "problem": audited.problem}


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def filled(database: str, count: int) -> dict[str, Any]:
    """Return how long a claim takes in a data set that has so many already."""
    service = LedgerService(Database(database), Signer.fresh())
    service.open_data_set(terms("ward"), Actor("owner", "owner"))
    actor = Actor("a", "analyst")
    source = {"data_set": "ward", "project": "load", "event": SHAPES[0].to_json()}
    first = service.claim(claim_request(source), actor)
    before = _one_at_a_time(service, source, actor)
    first = service.claim(claim_request(source), actor)
    request, price = service.priced(claim_request(source), actor)
    with service.database.engine.connect() as connection:
        if service.database.is_sqlite:
            connection.exec_driver_sql("PRAGMA cache_size=-400000")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if service.database.is_sqlite else "SELECT 1")
        head, seq = first["receipt"]["hash"], int(first["receipt"]["seq"])
        for start in range(0, count, 10_000):
            rows, lines = [], []
            for _ in range(start, min(start + 10_000, count)):
                seq += 1
                claim = secrets.token_hex(16)  # as the service draws them: in no order
                record = {
                    "type": "claim",
                    "claim": claim,
                    "project": "load",
                    "blocks": list(terms("ward")["blocks"]),
                    "event": dict(request.event),
                    "price": texts(price),
                    "begun": True,
                    "by": "a",
                    "at": "2026-01-01T00:00:00+00:00",
                }
                line, head = chained(record, seq, head)
                lines.append({"data_set_id": 1, "seq": seq, "line": line, "hash": head})
                rows.append(
                    {
                        "id": claim,
                        "data_set_id": 1,
                        "project_id": 1,
                        "holder": "a",
                        "key": claim,
                        "content": request.content,
                        "answer": json.dumps(first),
                        "state": "begun",
                        "block_ids": "[1, 2, 3, 4]",
                        "price": stored(price),
                    }
                )
            connection.execute(claim_rows.insert(), rows)
            connection.execute(entries.insert(), lines)
        connection.execute(data_sets.update().values(seq=seq, head=head))
        if service.database.is_sqlite:
            connection.exec_driver_sql("COMMIT")
        else:
            connection.commit()
    after = _one_at_a_time(service, source, actor)
    service.close()
    return {
        "claims_in_data_set": count,
        "empty": before,
        "filled": after,
        "load_average": [round(each, 2) for each in os.getloadavg()],
    }


def _one_at_a_time(
    service: LedgerService, source: dict[str, Any], actor: Actor, times: int = 1000
) -> dict[str, float]:
    """Return how long claims take one after the other, and how much of the processors."""
    waited, used = [], []
    for _ in range(times):
        started, before = time.perf_counter(), time.process_time()
        service.claim(claim_request(source), actor)
        waited.append(time.perf_counter() - started)
        used.append(time.process_time() - before)
    waited.sort()
    used.sort()
    return {
        "claim_p50_ms": round(1e3 * statistics.median(waited), 2),
        "claim_p99_ms": round(1e3 * waited[int(0.99 * times)], 2),
        "claim_most_ms": round(1e3 * waited[-1], 2),
        "cpu_mean_ms": round(1e3 * sum(used) / times, 2),
        "cpu_p99_ms": round(1e3 * used[int(0.99 * times)], 2),
        "cpu_most_ms": round(1e3 * used[-1], 2),
    }


def main() -> None:
    """Read the arguments, measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", default=None)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--filled", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = asked.database or str(Path(folder) / "ledger.db")
        if asked.filled:
            print(json.dumps(filled(database, asked.filled)))
        else:
            measured = load(database, asked.clients, asked.seconds, hostile=asked.hostile)
            print(
                json.dumps({"store": "sqlite" if asked.database is None else "given", **measured})
            )


if __name__ == "__main__":
    main()
