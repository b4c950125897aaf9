"""`privplan serve`: an example that answers, and what it refuses to serve."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privplan.cli.main import app
from privplan.fl.ledger_client.ledger import Ledger

from ..cases import for_each


def command(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_the_example_answers_on_its_first_line(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "privplan.cli", "serve", "--demo", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert set(said) == {"url", "tokens", "data_set"}
        assert set(said["tokens"]) == {"owner", "analyst", "auditor"}
        ledger = Ledger(said["url"], said["tokens"]["analyst"])
        assert ledger.data_set(said["data_set"])["left"]["epsilon"] == 8.0
        claim = ledger.odometer(said["data_set"], project="x").spend(
            {"type": "laplace", "noise_multiplier": 4.0}
        )
        assert claim.state == "begun"
    finally:
        process.terminate()
        left = process.wait(timeout=30)
        process.stdout.close()
    # It was closed in order, and nothing of the example is left.
    assert left == 0
    assert list(tmp_path.iterdir()) == []


@for_each(
    ("words", "says"),
    [
        ((), "needs a database and --key"),
        (("ledger.db",), "needs a database and --key"),
        (("--demo", "ledger.db"), "a database and a key of its own"),
        (("ledger.db", "--key", "ledger.pem"), "lies in the folder of the database"),
        (("ledger.db", "--key", "keys/l.pem", "--host", "0.0.0.0"), "without TLS"),
        (("ledger.db", "--key", "nowhere/l.pem"), "cannot be written"),
        (("mysql://x/y", "--key", "keys/l.pem"), "address of the database"),
        (("keys", "--key", "keys/l.pem"), "cannot be"),
    ],
)
def test_what_would_not_be_safe_is_not_served(
    words: tuple[str, ...], says: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "keys").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        outcome = command("serve", *words)
    assert outcome.exit_code == 2, outcome.output
    assert says in " ".join(outcome.stderr.split())


def test_without_the_extra_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("fastapi", "uvicorn", "sqlalchemy", "alembic"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return whole(name, *rest)

    program = [name for name in sys.modules if name.startswith("privplan.audit.budget_service")]
    for name in [*program, "fastapi", "uvicorn", "sqlalchemy", "alembic"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    outcome = command("serve", "--demo")
    assert outcome.exit_code == 4, outcome.output
    assert "serve]" in outcome.stderr
