"""`flwr run` of an ordinary app, on Flower's own deployment, leaves logs at the server and clients.

In the second environment, with the extra `flower`; elsewhere these are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

import json

from typer.testing import CliRunner

import privplan as pp
from privplan.accountant import events as ev
from privplan.cli.main import app

from .flower_deployment import EXAMPLE, Deployment
from .judged_trainings import errors, require_found, require_not_accused

pytestmark = pytest.mark.slow

CLIENTS, ROUNDS = 2, 3


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Run Flower's superlink and two supernodes on loopback."""
    with Deployment(tmp_path_factory.mktemp("deployment"), print) as made:
        made.start_clients(CLIENTS)
        yield made


def test_a_run_of_an_ordinary_app_leaves_a_log_that_is_audited(deployment: Deployment) -> None:
    log = deployment.folder / "sound"
    said = deployment.run_app(log)
    assert (log / "log.jsonl").exists(), said
    require_not_accused(log)
    answer = CliRunner().invoke(app, ["audit", "budget", str(log), "--json"])
    assert answer.exit_code == 0, answer.output
    result = json.loads(answer.stdout)["result"]
    event = ev.Repeat(ROUNDS, ev.Gaussian(4.0))
    proven = pp.account(event, delta=1e-3, neighbours="replace-one").epsilon
    assert result["rounds"] == 1  # one intent of three like rounds
    assert result["epsilon"]["upper"] == pytest.approx(proven.upper, rel=1e-6)
    assert (result["unit"], result["neighbours"]) == ("user", "replace-one")
    for number in range(CLIENTS):
        (node,) = (deployment.folder / f"silo-{number}").iterdir()
        assert errors(node) == set()


def test_clients_that_report_their_numbers_of_records_are_found(deployment: Deployment) -> None:
    log = deployment.folder / "weighted"
    weights = {'"num-examples": 1.0': '"num-examples": 50.0 + silo'}
    # What a client planned to send was sent in the run before: this one has another log of it.
    logs = {'context.node_config["logs"]': 'context.node_config["logs"] + "-weighted"'}
    said = deployment.run_app(log, {**weights, **logs})
    assert (log / "log.jsonl").exists(), said
    require_found(log, {"private-bound", "realised-normaliser"})


def test_the_page_shows_the_lines_of_the_example() -> None:
    page = " ".join(CliRunner().invoke(app, ["explain", "libraries"]).stdout.split())
    for name, said in (("server", "pp.logged("), ("client", "logged_mod(MOD,")):
        line = next(
            line.strip()
            for line in (EXAMPLE / "study" / f"{name}.py").read_text("utf-8").splitlines()
            if said in line
        )
        assert line in page
