"""A budget ledger whose service, clients, disk and clock fail: what it acknowledged is kept.

Each test drives a data set to its cap while something fails.  At the end every claim that was
acknowledged stands in the history, nothing is charged twice, no block is above its cap, not one
more claim fits, and each balance is at or above what its units lost, and close to it.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded
from privplan.audit.budget_service import books, tokens
from privplan.fl.ledger_client.connection import Connection, LedgerRefused, LedgerUnreachable

from .ledger_processes import (
    BLOCKS,
    TERMS,
    Clients,
    KilledClient,
    ServiceProcess,
    claim_body,
    serving,
)
from .ledger_services import SMALL, Ledger, answering, served, token
from .ledger_truth import SHAPES, require_true
from .postgresql import Cluster, cluster

PRICED = (ev.Gaussian(15.0), ev.Laplace(15.0))
"""About a hundred of them fit."""


@contextmanager
def store(kind: str, folder: Path) -> Iterator[tuple[str, Cluster | None]]:
    """Yield the address of an empty database, and the cluster that has it, if any."""
    if kind == "sqlite":
        yield str(folder / "ledger.db"), None
        return
    with cluster() as running:
        yield running.database("ledger"), running


def require_kept(
    service: ServiceProcess, clients: Clients, events: Sequence[ev.Event], noted: int = 0
) -> None:
    """Assert that what was acknowledged is all there is, and that not one more claim fits.

    `noted` claims were acknowledged to others.
    """
    assert clients.troubles == [], clients.troubles
    audited = service.audited([each["receipt"] for each in clients.answers])
    require_true(audited, service.lines(), TERMS)
    ids = {each["id"] for each in clients.answers}
    assert len(ids) == len(clients.answers) == sum(audited.claims.values()) - noted
    assert audited.claims.keys() == {"begun"}
    for number, event in enumerate(events):
        for blocks in BLOCKS:
            with pytest.raises(BudgetExceeded):
                service.client().post("/v1/claims", claim_body(event, blocks), f"more {number}")


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("sqlite", 1),
        pytest.param("sqlite", 20, marks=pytest.mark.slow),
        pytest.param("postgresql", 20, marks=pytest.mark.slow),
    ],
)
def test_a_service_that_is_killed_keeps_what_it_acknowledged(
    kind: str, kills: int, tmp_path: Path
) -> None:
    chance = random.Random(kills)
    (tmp_path / "keys").mkdir()
    events = PRICED if kills < 5 else SHAPES
    with store(kind, tmp_path) as (database, _), serving(database, tmp_path / "keys") as service:
        clients = Clients(service, events)
        for _ in range(kills):
            clients.wait_for(10)
            time.sleep(chance.random() * 0.1)
            service.kill()
            service.start()
        clients.join()
        require_kept(service, clients, events)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_client_that_is_killed_leaves_its_claims_spent(kills: int, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    events = PRICED if kills < 5 else SHAPES
    chance, acknowledged = random.Random(kills), tmp_path / "acknowledged"
    acknowledged.touch()
    with serving(str(tmp_path / "ledger.db"), tmp_path / "keys") as service:
        for number in range(1, kills + 1):
            client = KilledClient(service, events, acknowledged)
            while acknowledged.read_text().count("\n") < 3 * number:
                time.sleep(0.01)
            time.sleep(chance.random() * 0.1)
            client.kill()
        noted = set(acknowledged.read_text().split())
        clients = Clients(service, events, 2)
        clients.join()
        ids = {each["id"] for each in clients.answers}
        written = service.audited([]).claims["begun"] - len(ids)
        # What a client was about to note when it was killed was acknowledged as well.
        assert len(noted) <= written <= len(noted) + kills
        text = b"".join(service.lines()).decode()
        assert all(each in text for each in noted)
        require_kept(service, clients, events, written)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_clients_service_and_database_are_killed_in_any_order(kind: str, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    chance, acknowledged = random.Random(41), tmp_path / "acknowledged"
    acknowledged.touch()
    with (
        store(kind, tmp_path) as (database, running),
        serving(database, tmp_path / "keys") as service,
    ):
        order = ["client", "service", *(["database"] if running else [])] * 20
        chance.shuffle(order)
        clients = Clients(service, SHAPES)
        for killed in order:
            stranger = KilledClient(service, SHAPES, acknowledged) if killed == "client" else None
            clients.wait_for(5)
            time.sleep(chance.random() * (1.0 if stranger else 0.1))
            if stranger is not None:
                stranger.kill()
            elif killed == "service":
                service.kill()
                service.start()
            else:
                assert running is not None
                running.kill()
                time.sleep(chance.random() * 0.2)
                running.start()
        clients.join()
        ids = {each["id"] for each in clients.answers}
        noted = set(acknowledged.read_text().split())
        written = service.audited([]).claims["begun"] - len(ids)
        assert len(noted) <= written <= len(noted) + 20
        text = b"".join(service.lines()).decode()
        assert all(each in text for each in noted)
        require_kept(service, clients, SHAPES, written)


def _claim_until_refused(client: Connection, answers: list[dict[str, Any]]) -> None:
    """Claim until the disk is full."""
    for number in range(2000):
        answers.append(client.post("/v1/claims", claim_body(SHAPES[0]), f"{number}"))


def test_a_full_disk_acknowledges_nothing_that_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    database = tmp_path / "ledger.db"
    with serving(str(database), tmp_path / "keys") as service:
        client = service.client()
        client._attempts = 1  # a full disk does not mend itself
        body = claim_body(PRICED[0])
        answers: list[dict[str, Any]] = [client.post("/v1/claims", body, "first")]
        assert service.process is not None
        journal = database.with_name(database.name + "-wal")
        limit = journal.stat().st_size + 2**16
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (limit, limit + 2**30))
        with pytest.raises(LedgerUnreachable, match="503"):
            _claim_until_refused(client, answers)
        assert len(answers) > 1
        # What is committed can be read, and is what was acknowledged.
        assert sum(service.audited([each["receipt"] for each in answers]).claims.values()) == len(
            answers
        )
        room = (limit + 2**30, limit + 2**30)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, room)
        clients = Clients(service, PRICED, 2)
        clients.join()
        require_kept(service, clients, PRICED, len(answers))


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Yield a file system of its own; skip, with a notice, where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(file: Path, leave: int) -> None:
    """Fill the disk of a file, but for some bytes."""
    free = os.statvfs(file.parent)
    with file.open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, free.f_bavail * free.f_frsize - leave)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_disk_that_is_full_for_all_acknowledges_nothing_that_is_not_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").mkdir()
    with ExitStack() as stack:
        megabytes = 8 if kind == "sqlite" else 200
        disk = stack.enter_context(small_disk(tmp_path / "disk", megabytes))
        with monkeypatch.context() as patch:
            for folder in (disk, *disk.parents):
                if Path(tempfile.gettempdir()) in folder.parents:
                    folder.chmod(0o755)  # PostgreSQL is run by somebody else
            patch.setattr("tempfile.tempdir", str(disk))
            database, _ = stack.enter_context(store(kind, disk))
        service = stack.enter_context(serving(database, tmp_path / "keys"))
        client = service.client()
        client._attempts = 1
        answers: list[dict[str, Any]] = []
        _fill(disk / "ballast", 2**17)
        with pytest.raises(LedgerUnreachable, match="503"):
            _claim_until_refused(client, answers)
        assert answers
        # The service ends while the disk is full, and starts when there is room again.
        service.kill()
        (disk / "ballast").unlink()
        service.start()
        clients = Clients(service, PRICED, 2)
        clients.join()
        kept = service.audited([each["receipt"] for each in answers])
        assert kept.problem is None
        written = sum(kept.claims.values()) - len(clients.answers)
        # The last may have been written before the disk was full, and not been acknowledged.
        assert len(answers) <= written <= len(answers) + 1
        require_kept(service, clients, PRICED, written)


def test_a_clock_that_jumps_changes_no_balance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Jumping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            days = chance.randrange(-5000, 5000)
            return datetime(2026, 11, 30, tzinfo=tz or UTC) + timedelta(days=days)

    chance = random.Random(7)
    monkeypatch.setattr(books, "datetime", Jumping)
    with served(tmp_path / "ledger.db") as service:
        jumping = Ledger(service, epsilon=2.0)
        count = jumping.fill(SMALL)
        monkeypatch.undo()
        steady = Ledger(service, epsilon=2.0)
        assert steady.fill(SMALL) == count
        assert jumping.balances() == steady.balances()
        require_true(jumping.audited(), jumping.lines(), jumping.terms)


def test_a_clock_that_jumps_makes_a_token_invalid_and_charges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, now = random.Random(8), time.time()
    monkeypatch.setattr("privplan.audit.budget_service.app._TOKEN_SECONDS", 0.0)
    with served(tmp_path / "ledger.db") as service, answering(service) as url:
        ledger = Ledger(service, epsilon=2.0)
        client = Connection(url, token(service, "ana", "analyst"), attempts=1)
        monkeypatch.setattr(tokens.time, "time", lambda: now + chance.choice((-1e8, 0.0, 1e8)))
        body = {**claim_body(PRICED[0]), "data_set": ledger.name}
        answers, said = [], []
        for number in range(1000):
            try:
                answers.append(client.post("/v1/claims", body, f"{number - len(said)}"))
            except BudgetExceeded:
                break
            except LedgerRefused as refusal:
                said.append(refusal.status)
        assert len(said) > 5
        assert set(said) == {401}
        receipts = [each["receipt"] for each in answers]
        assert ledger.audited(*receipts).claims == {"begun": len(answers)}
        require_true(ledger.audited(), ledger.lines(), ledger.terms)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_sixty_four_clients_spend_to_the_cap_and_not_beyond(kind: str, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    with store(kind, tmp_path) as (database, _), serving(database, tmp_path / "keys") as service:
        clients = Clients(service, SHAPES, 64)
        clients.join()
        require_kept(service, clients, SHAPES)
