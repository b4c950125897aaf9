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
from typer.testing import CliRunner

import privplan as pp
from privplan.cli.main import app
from privplan.fl.ledger_client.connection import LedgerRefused, LedgerUnreachable

from ..cases import for_each
from .ledger_services import LAPLACE, Ledger, answering, served, token


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
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


CLAIM = {"id": "c1", "state": "begun", "receipt": {"claim": "c1"}}


@for_each(
    "answer",
    [
        {},
        {"state": "begun"},
        {**CLAIM, "state": "claimed"},
        {**CLAIM, "state": "released"},
        {**CLAIM, "receipt": None},
        {**CLAIM, "receipt": {"claim": "c2"}},
        {**CLAIM, "id": ["c1"]},
        [],
        "hello",
    ],
)
def test_nothing_is_spent_by_an_answer_that_is_none(answer: object) -> None:
    with answers(answer) as url:
        odometer = pp.Ledger(url, "t").odometer("ward", project="x")
        with pytest.raises(LedgerUnreachable):
            odometer.spend(LAPLACE)


@for_each("answer", [{}, {"state": "begun"}, {**CLAIM, "state": "claimed"}, {**CLAIM, "id": "c2"}])
def test_a_step_is_taken_by_an_answer_about_it_alone(answer: object) -> None:
    with answers(CLAIM) as url:
        claim = pp.Ledger(url, "t").odometer("ward", project="x").spend(LAPLACE)
        assert (claim.id, claim.state) == ("c1", "begun")
    with answers(answer) as url:
        object.__setattr__(claim, "_connection", pp.Ledger(url, "t").connection)
        with pytest.raises(LedgerUnreachable):
            claim.begin()


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
