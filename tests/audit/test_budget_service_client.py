"""The client believes no answer that is not one: without it, noise would be drawn unpaid."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget_service import owners
from privplan.audit.budget_service.startup_check import require_consistent
from privplan.cli.main import app
from privplan.fl.ledger_client.connection import LedgerRefused, LedgerUnreachable
from privplan.fl.ledger_client.ledger import LedgerClaim
from privplan.fl.ledger_client.receipts import STATEMENT_PREFIX, content_of, request_of
from privplan.fl.log.hash_chain import canonical

from ..cases import for_each
from .ledger_services import LAPLACE, OLGA, Ledger, answering, served, token


@contextmanager
def answers(body: object) -> Iterator[str]:
    """Yield the address of a server that answers the same to everything."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


KEY, OTHER_KEY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
REQUEST = request_of(content_of("ward", None, "x", LAPLACE.to_json(), True, None), "k")


def receipt(by: Ed25519PrivateKey = KEY, **said: object) -> dict[str, object]:
    """Return a receipt of the claim that the tests make, signed."""
    statement = {"claim": "c1", "state": "begun", "request": REQUEST, **said}
    signature = by.sign(STATEMENT_PREFIX + canonical(statement).encode("ascii"))
    key = by.public_key().public_bytes_raw()
    return {**statement, "key": key.hex(), "signature": signature.hex()}


CLAIM: dict[str, Any] = {"id": "c1", "state": "begun", "receipt": receipt()}
UNSIGNED = {**receipt(), "signature": "00" * 64}
FORGED = {**receipt(state="claimed"), "state": "begun"}


def spend(url: str, key: str | None = None) -> LedgerClaim:
    odometer = pp.Ledger(url, "t", key=key).odometer("ward", project="x")
    return odometer.spend(LAPLACE, key="k")


@for_each(
    "answer",
    [
        {},
        {"state": "begun"},
        {**CLAIM, "state": "claimed"},
        {**CLAIM, "state": "released"},
        {**CLAIM, "receipt": None},
        {**CLAIM, "receipt": receipt(claim="c2")},
        {**CLAIM, "receipt": receipt(state="claimed")},
        {**CLAIM, "receipt": receipt(request="5f" * 32)},
        {**CLAIM, "receipt": {"claim": "c1"}},
        {**CLAIM, "receipt": UNSIGNED},
        {**CLAIM, "receipt": FORGED},
        {**CLAIM, "receipt": {**receipt(), "key": "zz"}},
        {**CLAIM, "id": ["c1"]},
        [],
        "hello",
    ],
)
def test_nothing_is_spent_by_an_answer_that_is_none(answer: object) -> None:
    with answers(answer) as url, pytest.raises(LedgerUnreachable):
        spend(url)


@for_each(
    "answer",
    [
        {},
        {"state": "begun"},
        {**CLAIM, "state": "claimed"},
        {**CLAIM, "receipt": receipt(state="claimed")},
        {**CLAIM, "receipt": receipt(request="5f" * 32)},
        {**CLAIM, "receipt": receipt(OTHER_KEY)},
        {**CLAIM, "id": "c2"},
    ],
)
def test_a_step_is_taken_by_an_answer_about_it_alone(answer: object) -> None:
    public = str(CLAIM["receipt"]["key"])
    with answers(CLAIM) as url:
        claim = spend(url, public)
        assert (claim.id, claim.state) == ("c1", "begun")
    with answers(answer) as url:
        object.__setattr__(claim, "_connection", pp.Ledger(url, "t", key=public).connection)
        with pytest.raises(LedgerUnreachable):
            claim.begin()


def test_the_first_key_of_a_ledger_is_believed_and_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVPLAN_LEDGER_KEYS", str(tmp_path / "keys"))
    answer = dict(CLAIM)
    with answers(answer) as url:
        assert spend(url).state == "begun"
        (kept,) = (tmp_path / "keys").iterdir()
        assert kept.stat().st_mode & 0o077 == 0
        answer["receipt"] = receipt(OTHER_KEY)
        for _ in range(2):
            with pytest.raises(LedgerUnreachable, match=str(kept)):
                spend(url + "/")
        # A key that is given is the one, whatever was seen.
        assert spend(url, str(answer["receipt"]["key"])).state == "begun"
        answer["receipt"] = receipt()
        with pytest.raises(LedgerUnreachable, match="signed by the key"):
            spend(url, receipt(OTHER_KEY)["key"])  # type: ignore[arg-type]
        assert spend(url).state == "begun"
        kept.write_text("{}")
        with pytest.raises(InvalidInput, match="does not hold the key"):
            spend(url)
        kept.unlink()
        (tmp_path / "keys").rmdir()
        (tmp_path / "keys").write_text("")
        with pytest.raises(InvalidInput, match="PRIVPLAN_LEDGER_KEYS"):
            spend(url)
    with pytest.raises(InvalidInput, match="no public key"):
        pp.Ledger(url, "t", key="5f")


def test_receipts_sign_what_is_claimed_however_it_is_asked(tmp_path: Path) -> None:
    """Of a view, in named blocks, stated for records, and asked for again after it was begun."""
    with served(tmp_path / "ledger.db") as service, answering(service) as url:
        ledger = Ledger(service)
        service.wrote(
            lambda each: owners.open_view(each, service.signer, "copy", ledger.name, OLGA)
        )
        opened = pp.Ledger(url, token(service, "ana", "analyst"), key=service.signer.public)
        stated = {"unit": "record", "records_per_unit": 2}
        odometer = opened.odometer("copy", project="x", blocks=["b", "a"], **stated)
        for event in (LAPLACE, ev.Gaussian(9), ev.Repeat(3, ev.Poisson(1, ev.Gaussian(40)))):
            claim = odometer.claim(event, key=f"k{event.type}")
            for _ in range(2):
                claim.begin()
            again = odometer.claim(event, key=f"k{event.type}")
            assert (again.id, again.state) == (claim.id, "begun")
            for _ in range(2):
                claim.release("5f" * 32)
        odometer.spend(LAPLACE, key="k").abandon()
        assert opened.head("copy")["data_set"] == ledger.name
        assert ledger.audited(dict(claim.receipt)).problem is None
        assert require_consistent(service.database, service.signer) == []


@for_each("answer", ["hello", "[]", "{}", '{"hash"', '{"hash": "for ever"}'])
def test_a_history_that_is_none_leaves_no_file(answer: str, tmp_path_factory: Any) -> None:
    out = tmp_path_factory.mktemp("export") / "ward.jsonl"
    with answers(answer) as url:
        outcome = CliRunner(env={"PRIVPLAN_LEDGER_TOKEN": "t"}).invoke(
            app, ["ledger", "export", url, "ward", "--out", str(out)]
        )
    assert outcome.exit_code not in (0, 70)
    assert "no ledger" in outcome.output
    assert not out.exists()


@pytest.mark.parametrize("ended", ["release", "abandon"])
def test_a_key_of_a_claim_that_ended_pays_for_nothing_more(ended: str, tmp_path: Path) -> None:
    """As of a program that runs every night with one key."""
    with served(tmp_path / "ledger.db") as service, answering(service) as url:
        ledger = Ledger(service)
        odometer = pp.Ledger(url, token(service, "ana", "analyst")).odometer(
            ledger.name, project="x"
        )
        claim = odometer.spend(LAPLACE, key="nightly")
        assert odometer.spend(LAPLACE, key="nightly").id == claim.id  # an answer that was lost
        step: Callable[[], None] = getattr(claim, ended)
        step()
        with pytest.raises(LedgerRefused, match="409"):
            odometer.spend(LAPLACE, key="nightly")
        assert odometer.spend(LAPLACE, key="the next night").id != claim.id
