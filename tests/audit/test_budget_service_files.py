"""The file of a budget ledger: one server's alone, by every name, and never empty by accident."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from privplan.accountant.errors import InvalidInput
from privplan.audit.budget_service.database import Database
from privplan.audit.budget_service.serving import MAX_CONNECTIONS
from privplan.cli.main import app
from privplan.fl.ledger_client.connection import Connection

from .ledger_processes import claim_body, serving
from .ledger_services import LAPLACE, Ledger, served


def test_a_second_server_of_one_file_is_refused_by_every_name(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "ledger.db", tmp_path / "elsewhere"
    elsewhere.mkdir()
    link, hard = elsewhere / "soft.db", elsewhere / "hard.db"
    link.symlink_to(path)
    database = Database(str(path))
    os.link(path, hard)
    for name in (path, link, hard, f"sqlite:///{link}"):
        with pytest.raises(InvalidInput, match="served by another process"):
            Database(str(name))
    database.close()
    # Nobody serves it, and the journal of one name would not be seen by the other.
    for name in (path, hard):
        with pytest.raises(InvalidInput, match="single name"):
            Database(str(name))
    hard.unlink()
    Database(str(link)).close()
    assert not list(elsewhere.glob("soft.db*"))[1:]
    with pytest.raises(InvalidInput, match="address of the database"):
        Database(f"sqlite:///file:{path}?uri=true")


def test_a_file_that_exists_and_holds_no_ledger_is_no_new_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch()
    with pytest.raises(InvalidInput, match="holds no ledger"):
        Database(str(path))
    for file in tmp_path.iterdir():
        file.unlink()
    (tmp_path / "ledger.db-wal").write_bytes(b"lost")
    with pytest.raises(InvalidInput, match="its journal is still there"):
        Database(str(path))
    assert not path.exists()


def test_a_copy_of_the_file_alone_is_no_empty_ledger(tmp_path: Path) -> None:
    """While it is served, what was written last may stand in the journal; the tables never do."""
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    with served(path):
        shutil.copyfile(path, copy)
    Database(str(copy)).close()


def test_half_requests_keep_a_service_neither_from_answering_nor_from_stopping(
    tmp_path: Path,
) -> None:
    keys, path = tmp_path / "keys", tmp_path / "ledger.db"
    keys.mkdir()
    with serving(str(path), keys) as service:
        with ExitStack() as stack:
            for _ in range(MAX_CONNECTIONS + 5):
                half = stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
                half.send(b"GET /v1/data-sets HTTP/1.1\r\nHost:")
            url = f"http://127.0.0.1:{service.port}"
            client = Connection(url, service.analyst, timeout=10.0, attempts=1)
            client.post("/v1/claims", claim_body(LAPLACE), "first")
            service.stop()
        stopped = service.process
    assert stopped is not None
    assert stopped.returncode == 0
    # Everything stands in the file: nothing is left in the journal.
    assert not path.with_name("ledger.db-wal").exists()
    copy = tmp_path / "copy.db"
    shutil.copyfile(path, copy)
    with served(copy) as again:
        assert len(again.lines("ward", 0)) == 2


def _self_signed(folder: Path) -> list[str]:
    """Return the options of a certificate for the loopback address."""
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, None)
    )
    encoding = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(certificate.public_bytes(encoding))
    (folder / "cert.key").write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "cert.key")]


@pytest.mark.slow
def test_a_handshake_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 4096:
        pytest.skip("this process may not open as many connections as it takes")
    command = [sys.executable, "-m", "privplan.cli", "serve", str(tmp_path / "l.db"), "--json"]
    command += ["--port", "0", "--key", str(tmp_path / "keys" / "l.pem"), *_self_signed(tmp_path)]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert service.stdout is not None
        said = json.loads(service.stdout.readline())
        address = ("127.0.0.1", int(said["url"].rpartition(":")[2]))
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, most))
        with ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(address)) for _ in range(1100)]
            silent[0].settimeout(45.0)
            with suppress(ConnectionResetError):
                assert silent[0].recv(1) == b""
            trusting = ssl.create_default_context(cafile=tmp_path / "cert.pem")
            trusting.check_hostname = False
            with urllib.request.urlopen(
                f"{said['url']}/openapi.json", timeout=30, context=trusting
            ) as answer:
                assert answer.status == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))
        service.terminate()
        service.wait(timeout=60)
        service.stdout.close()


def test_a_key_that_exists_begins_no_empty_ledger(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    words = ["serve", str(tmp_path / "a.db"), "--key", str(keys / "l.pem"), "--port", "1"]
    taken = CliRunner().invoke(app, [*words, "--host", "::1", "--witness", "nowhere"])
    assert "no state of a witness" in " ".join(taken.stderr.split())
    for name in ("a.db", "b.db"):  # one that was opened before, and one that is not there
        words[1] = str(tmp_path / name)
        lost = CliRunner().invoke(app, words)
        assert lost.exit_code == 2
        assert "the database has no data set" in " ".join(lost.stderr.split())
    fresh = CliRunner().invoke(app, [*words, "--new", "--witness", "nowhere"])
    assert "no state of a witness" in " ".join(fresh.stderr.split())


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        Database(str(tmp_path))


def test_a_ledger_in_use_is_still_there_after_another_server_was_refused(tmp_path: Path) -> None:
    with served(tmp_path / "ledger.db") as service:
        ledger = Ledger(service)
        with pytest.raises(InvalidInput, match="served by another"):
            Database(str(tmp_path / "ledger.db"))
        assert ledger.claim()["state"] == "claimed"
