"""`privplan guard`, `flower init` and `audit log --against`: plans that silos read and sign."""

from __future__ import annotations

import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from ..cases import for_each
from ..fl.network_parties import Parties, config, planned
from .conftest import Refused, Run


def keys(run: Run, *names: str) -> list[str]:
    """Make folders and keys; return the options of flower init that name them."""
    options = []
    for name in names:
        key = run("guard", "key", name, "--quiet").out.strip()
        assert run("guard", "key", name, "--quiet").out.strip() == key  # made once
        assert len(bytes.fromhex(key)) == 32
        options += ["--silo", f"{name}={key}"]
    return options


@pytest.mark.usefixtures("fl")
def test_a_plan_is_written_read_and_signed(run: Run, refused: Refused) -> None:
    Path("run.toml").write_text(config("statistics"))
    silos = keys(run, "north", "south", "east")
    said = refused("flower", "init", "run.toml", "-o", "app", *silos)
    assert "--insecure-seed" in said
    made = run("flower", "init", "run.toml", "-o", "app", *silos, "--insecure-seed")
    assert made.code == 0
    shown = run("guard", "show", "app/plan.toml")
    assert shown.code == 0
    for words in ("not signed", "epsilon before model", "bound on one contribution", "north"):
        assert words in shown.out
    digest = run("guard", "show", "app/plan.toml", "--quiet").out.strip()
    assert digest in made.out
    for name in ("north", "south", "east"):
        signed = run("guard", "sign", "app/plan.toml", "--state", name)
        assert (signed.code, digest in signed.out) == (0, True)
    result = run("guard", "show", "app/plan.toml", "--json").json["result"]
    assert result["signed"] == ["east", "north", "south"]
    assert result["digest"] == digest
    status = run("guard", "status", "north", "--json").json["result"]
    assert (status["spent"], status["closed"]) == (0, False)
    files = {path.name for path in Path("app/flower").rglob("*") if path.is_file()}
    assert files == {"pyproject.toml", "__init__.py", "server.py", "client.py"}


@pytest.mark.usefixtures("fl")
def test_what_is_signed_is_shown_whole_and_commands_no_terminal(run: Run) -> None:
    plan = planned(Path("parties"), config("statistics"))
    replace(plan, config=plan.config + "# \x1b[2K\x1b[1A", schema="[label]\n").write(Path("p.toml"))
    shown = run("guard", "show", "p.toml")
    assert "\x1b" not in shown.out
    assert shown.out.splitlines().count("[label]") == 1
    assert "protocol protocol" not in shown.out


@pytest.mark.usefixtures("fl")
@for_each(
    ("options", "what"),
    [
        (["--silo", "north=00"], "no plan"),
        (["--silo", "north=xyz"], "NAME=KEY"),
    ],
)
def test_silos_are_named_by_their_keys(options: list[str], what: str, refused: Refused) -> None:
    Path("run.toml").write_text(config("statistics"))
    assert what in refused("flower", "init", "run.toml", "-o", "app", *options)


@pytest.mark.usefixtures("fl")
def test_a_stranger_signs_nothing(run: Run, refused: Refused) -> None:
    Path("run.toml").write_text(config("statistics"))
    silos = keys(run, "north", "south", "east")
    run("flower", "init", "run.toml", "-o", "app", *silos, "--insecure-seed")
    keys(run, "stranger")
    assert "not in the plan" in refused("guard", "sign", "app/plan.toml", "--state", "stranger")
    assert "no key" in refused("guard", "sign", "app/plan.toml", "--state", "nowhere")


@pytest.mark.usefixtures("fl")
def test_a_guard_needs_a_plan_a_folder_and_a_secret(refused: Refused) -> None:
    assert "--plan, --state and --secret" in refused("guard", "--plan", "plan.toml")


@pytest.mark.skipif(find_spec("flwr") is not None, reason="Flower is installed")
@pytest.mark.usefixtures("fl")
@for_each(
    "words",
    [
        ["guard", "--plan", "p", "--state", "s", "--secret", "x"],
        ["network", "demo"],
    ],
)
def test_without_flower_the_extra_is_named(words: list[str], run: Run) -> None:
    outcome = run(*words)
    assert outcome.code == 4
    assert "[flower]" in outcome.err


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    parties = Parties.of(tmp_path_factory.mktemp("network"), config("fedpower-power"))
    parties.hub().run()
    parties.close()
    return parties


@pytest.mark.usefixtures("fl")
def test_the_logs_of_all_parties_fit_together(network: Parties, run: Run) -> None:
    server, *silos = (str(network.run_folder(silo)) for silo in (None, 0, 1, 2))
    against = [word for silo in silos for word in ("--against", silo)]
    outcome = run("audit", "log", server, *against, "--json")
    assert outcome.code == 0
    together = outcome.json["result"]["network"]
    assert (together["spent"], together["released"], together["problems"]) == (3, 3, [])
    assert "the server, silo-0, silo-1, silo-2" in run("audit", "log", server, *against).out
    fewer = run("audit", "log", server, *against[:4], "--json").json["result"]["network"]
    assert fewer["notes"] == ["The logs of 1 silo were not given."]
    status = run("guard", "status", str(network.folder / "north"), "--json").json["result"]
    assert (status["spent"], status["released"], status["closed"]) == (3, 3, True)


@pytest.mark.usefixtures("fl")
def test_logs_that_do_not_fit_fail(network: Parties, run: Run, tmp_path: Path) -> None:
    server, north = str(network.run_folder(None)), str(network.run_folder(0))
    other = Parties.of(tmp_path / "other", config("fedpower-power"))
    other.hub().run()
    other.close()
    cases = {
        "another plan, or another run": [str(other.run_folder(0))],
        "each must be of another silo": [north, north],
    }
    for words, silos in cases.items():
        against = [word for silo in silos for word in ("--against", silo)]
        outcome = run("audit", "log", server, *against)
        assert outcome.code == 1
        assert words in " ".join(outcome.out.split())
    outcome = run("audit", "log", north, "--against", server)
    assert outcome.code == 1


@pytest.mark.usefixtures("fl")
def test_a_round_that_a_silo_never_began_is_found(network: Parties, tmp_path: Path) -> None:
    from privplan.audit.reconciliation import PartyLog, reconcile

    server = network.run_folder(None)
    cut = tmp_path / "run"
    shutil.copytree(network.run_folder(1), cut)
    lines = (cut / "log.jsonl").read_text().splitlines(keepends=True)
    second = next(n for n, line in enumerate(lines) if '"round":2' in line)
    (cut / "log.jsonl").write_text("".join(lines[:second]))
    found = reconcile(server, [cut])
    assert [each for each in found.problems if "never began" in each]
    assert found.spent == len(PartyLog.of(server).intents)
