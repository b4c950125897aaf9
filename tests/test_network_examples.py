"""The set-up in `examples/network`: what silos reach, and units that systemd takes."""

from __future__ import annotations

import http.client
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from privplan.cli.main import app

from .fl.fleet_proxy import Nginx, certificate_in, has_nginx

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
    # A supernode ends without a failure, and waits without end for a guard that was killed.
    for line in ("PartOf=privplan-guard.service", "Restart=always"):
        assert line in commands["privplan-supernode"].splitlines()
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


class Superlink:
    """Answers every path, as the superlink does on the port that silos reach."""

    def __init__(self, certificate: Path, key: Path) -> None:
        superlink = self
        self.asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                superlink.asked.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[tuple[Superlink, Nginx, ssl.SSLContext]]:
    """A superlink behind nginx with the shipped configuration."""
    if not has_nginx():
        pytest.skip("nginx is not installed: apt-get install nginx")
    certificate, key = certificate_in(tmp_path)
    superlink = Superlink(certificate, key)
    folder = tmp_path / "nginx"
    folder.mkdir()
    proxy = Nginx(folder, superlink.server.server_address[1], certificate, key)
    yield superlink, proxy, ssl.create_default_context(cafile=str(certificate))
    proxy.close()
    superlink.server.shutdown()
    superlink.server.server_close()


FLEET: Final = "/v1/fleet/pull-messages"
REFUSED: Final = (
    *("/", "/docs", "/openapi.json", "/v1/control/list-runs"),
    *("/v1/control/start-run", "/v1/control/stop-run", "/v1/control/register-node"),
    *("/v1/runtime/acquire-task", "//v1//control/list-runs", "/V1/fleet/x", "/v1/fleetx/y"),
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/x/..%2f..%2fcontrol/list-runs",
    "/v1/fleet/./.././control/list-runs",
)
"""Paths that no silo is to reach, some of them in disguise."""


def test_nginx_takes_the_configuration_and_refuses_all_but_the_fleet(
    behind: tuple[Superlink, Nginx, ssl.SSLContext],
) -> None:
    superlink, proxy, trusted = behind

    def status(path: str) -> int:
        there = http.client.HTTPSConnection("127.0.0.1", proxy.port, context=trusted, timeout=30)
        there.request("POST", path, b"x" * 100, {"Content-Type": "application/x-protobuf"})
        answer = there.getresponse().status
        there.close()
        return answer

    assert status(FLEET) == 200
    let_through = {path: code for path in REFUSED if (code := status(path)) != 403}
    assert let_through == {}
    assert superlink.asked == [FLEET]
