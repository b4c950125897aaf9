"""Budget ledgers for tests: a service over a file or over PostgreSQL, and what is asked of it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from privplan.accountant import events as ev
from privplan.audit.budget_service import claims, owners, tokens
from privplan.audit.budget_service.audited import LedgerAudit, audit_history
from privplan.audit.budget_service.claiming import BudgetRefusal
from privplan.audit.budget_service.claims import Actor
from privplan.audit.budget_service.database import Database
from privplan.audit.budget_service.pricer import Pricer
from privplan.audit.budget_service.service import LedgerService, claim_request
from privplan.audit.budget_service.signer import SignedStatement, Signer

OLGA = Actor("olga", "owner")
OTTO = Actor("otto", "owner")
ANA = Actor("ana", "analyst")
EVE = Actor("eve", "analyst")
AUDITOR = Actor("aud", "auditor")

LAPLACE = ev.Laplace(2.0)
SMALL = ev.Gaussian(8.0)
TRAINING = ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(1.0)))

_names = itertools.count()


@cache
def pricer() -> Pricer:
    """Return one pricer for all tests of a process: its own process takes a second to start."""
    return Pricer(1)


class Ledger:
    """A service with one data set, asked in few words."""

    def __init__(self, service: LedgerService, **terms: Any) -> None:
        self.service = service
        self.name = f"ward{next(_names)}"
        self.terms = {
            "name": self.name,
            "unit": "user",
            "neighbours": "add-remove",
            "epsilon": 4.0,
            "delta": 1e-6,
            "blocks": ["a", "b"],
            **terms,
        }
        service.open_data_set(self.terms, OLGA)

    def claim(
        self,
        event: ev.Event = LAPLACE,
        *,
        blocks: object = "all",
        begin: bool = False,
        actor: Actor = ANA,
        key: str | None = None,
        project: str = "sepsis",
        data_set: str | None = None,
        **stated: object,
    ) -> dict[str, Any]:
        source = {
            "data_set": data_set or self.name,
            "blocks": blocks,
            "project": project,
            "event": event.to_json(),
            "begin": begin,
            **stated,
        }
        return self.service.claim(claim_request(source), actor, key)

    def fill(self, event: ev.Event = SMALL, **where: Any) -> int:
        """Claim until the first refusal, and return how many fitted."""
        for count in range(10_000):
            try:
                self.claim(event, **where)
            except BudgetRefusal:
                return count
        raise AssertionError("nothing is ever refused")

    def step(self, step: str, claim: str, *arguments: Any, actor: Actor = ANA) -> dict[str, Any]:
        operation = getattr(claims, step)
        signer = self.service.signer
        return self.service.step(
            claim, lambda connection: operation(connection, signer, claim, actor, *arguments)
        ).result()

    def owner(self, step: str, *arguments: Any, actor: Actor = OLGA) -> Any:
        operation: Callable[..., Any] = getattr(owners, step)
        signer = self.service.signer
        return self.service.wrote(
            lambda connection: operation(connection, signer, self.name, *arguments, actor)
        )

    def shown(self) -> dict[str, Any]:
        return self.service.shown(self.name)

    def balances(self) -> dict[str, list[int]]:
        head = self.service.head(self.name)
        return {name: list(map(int, units)) for name, units in head["balances"].items()}

    def lines(self) -> list[bytes]:
        """Return the whole history."""
        lines: list[str] = []
        for first in itertools.count(step=1000):
            part = self.service.lines(self.name, first)
            lines += part
            if len(part) < 1000:
                return [line.encode() + b"\n" for line in lines]
        raise AssertionError

    def audited(self, *receipts: dict[str, Any]) -> LedgerAudit:
        signed = [SignedStatement.from_json(each) for each in receipts]
        head = SignedStatement.from_json(self.service.head(self.name))
        return audit_history(self.lines(), head, signed)


@contextmanager
def served(address: str | Path, signer: Signer | None = None) -> Iterator[LedgerService]:
    """Yield a service over a database, closed at the end."""
    service = LedgerService(Database(str(address)), signer or Signer.fresh(), pricer())
    try:
        yield service
    finally:
        service.close()


@contextmanager
def answering(service: LedgerService) -> Iterator[str]:
    """Yield the address at which a service answers, from a thread of this process."""
    import uvicorn

    from privplan.audit.budget_service import slow_senders
    from privplan.audit.budget_service.app import application

    config = uvicorn.Config(
        application(service),
        port=0,
        log_level="error",
        lifespan="off",
        http=slow_senders.ImpatientProtocol,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def token(service: LedgerService, holder: str, role: str) -> str:
    """Return a new token."""
    return str(service.wrote(lambda each: tokens.issue(each, holder, role, 1.0, None))["token"])
