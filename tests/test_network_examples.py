"""The set-up in `examples/network`: what silos reach, and units that systemd takes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
import typer

from privplan.cli.main import app

ROOT: Final = Path(__file__).parents[1]
NETWORK: Final = ROOT / "examples" / "network"
UNITS: Final = sorted(NETWORK.glob("*.service"))


def test_a_proxy_lets_the_fleet_through_and_nothing_else() -> None:
    text = (NETWORK / "nginx.conf").read_text()
    locations = re.findall(r"location (\S+) \{(.*?)\}", text, re.DOTALL)
    assert [name for name, body in locations if "proxy_pass" in body] == ["/v1/fleet/"]
    assert {name: body.strip() for name, body in locations if "proxy_pass" not in body} == {
        "/": "return 403;"
    }
    # A path that came with proxy_pass would be passed on as it was cut, not as it was asked for.
    assert re.findall(r"proxy_pass (\S+);", text) == ["https://127.0.0.1:8000"]


def test_servers_listen_on_loopback_and_supernodes_run_nothing() -> None:
    commands = {unit.stem: unit.read_text() for unit in UNITS}
    assert "--host 127.0.0.1" in commands["privplan-superlink"]
    for option in ("--enable-supernode-auth", "--disable-runtime-dependency-installation"):
        assert option in commands["privplan-superlink"]
    for option in ("--isolation process", "--host 127.0.0.1", "--superexec-auth-secret-file"):
        assert option in commands["privplan-supernode"]
    assert not any("insecure" in text for text in commands.values())
    account = re.compile(r"^User=(\w+)$", re.MULTILINE)
    assert {name: account.findall(text) for name, text in commands.items()} == {
        "privplan-guard": ["privplan"],
        "privplan-superlink": ["flower"],
        "privplan-supernode": ["flower"],
    }


def test_the_guards_options_exist() -> None:
    text = (NETWORK / "privplan-guard.service").read_text()
    guard = typer.main.get_command(app).commands["guard"]  # type: ignore[attr-defined]
    known = {option for parameter in guard.params for option in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", text)) <= known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_units() -> None:
    command = ["systemd-analyze", "verify", *map(str, UNITS)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stderr) == (0, "")
