"""Flower carries the messages between processes: superlink, supernodes and guards on loopback.

In the second environment, with the extra `flower`; elsewhere these are skipped.
"""

from __future__ import annotations

import http.client
import ssl
import tomllib
from pathlib import Path

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.records import RoundRelease
from privplan.audit.edits import edits_of
from privplan.audit.reconciliation import reconcile
from privplan.audit.verify import verify
from privplan.fl.log import read
from privplan.fl.network.demo import demonstrate
from privplan.fl.network.demo_hospitals import HOSPITALS
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint

from .extras import needs
from .fleet_proxy import certificate_in, node_key_in, proxy_in
from .network_parties import config
from .rehearsals import Rehearsal

pytestmark = [needs("flwr", "cryptography", "msgpack"), pytest.mark.slow]


class WithKeys(Rehearsal):
    """The same with TLS and node keys; silos reach a proxy, and the superlink is on loopback."""

    def __enter__(self) -> WithKeys:
        super().__enter__()
        self.certificate, key = certificate_in(self.folder)
        self.key = key
        self.proxy = proxy_in(self.folder, self._port("superlink"), self.certificate, key)
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.proxy.close()

    def connection(self) -> str:
        return f'root-certificates = "{self.certificate}"'

    def superlink_options(self) -> list[str]:
        files = ["--ssl-certfile", str(self.certificate), "--ssl-keyfile", str(self.key)]
        return [*files, "--ssl-ca-certfile", str(self.certificate), "--enable-supernode-auth"]

    def supernode_options(self, name: str) -> list[str]:
        private, public = node_key_in(self.folder, name)
        self.register(public)
        reach = ["--superlink", f"127.0.0.1:{self.proxy.port}"]
        trust = ["--root-certificates", str(self.certificate)]
        return [*reach, *trust, "--auth-supernode-private-key", str(private)]

    def register(self, public: Path) -> None:
        """Register a node key, where the operator may: on the superlink's own port."""
        command = ["flwr", "supernode", "register", str(public), "here"]
        self._run("register", command).wait(120)

    def asked(self, port: int, path: str) -> int:
        """Return the status of a request to the superlink, or to the proxy."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        there = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
        there.request("POST", path, b"", {"Content-Type": "application/x-protobuf"})
        status = there.getresponse().status
        there.close()
        return status


def test_with_tls_and_keys_silos_reach_the_fleet_and_nothing_else(tmp_path: Path) -> None:
    said: list[str] = []
    with WithKeys(tmp_path, said.append) as network:
        network.prepare()
        network.start()
        ways = ("list-runs", "start-run", "stop-run", "register-node")
        for way in ways:
            for path in (f"/v1/control/{way}", f"/v1/fleet/../control/{way}"):
                assert network.asked(network.proxy.port, path) == 403
            assert network.asked(network.proxy.port, f"/v1/fleet/%2e%2e/control/{way}") == 403
            assert network.asked(network.proxy.port, f"/v1/runtime/{way}") == 403
        # Which is why: the superlink itself answers them on the port that supernodes use.
        assert network.asked(network._port("superlink"), "/v1/control/list-runs") != 403
        assert network.make_rounds(), said
        assert len(network.proxy.refused) == 4 * len(ways)  # supernodes ask for nothing else
    silos = [network.silo(name) for name in HOSPITALS]
    assert reconcile(network.server_run, silos).problems == ()


def test_over_flower_it_is_the_run_in_one_process_and_no_bundle_runs(tmp_path: Path) -> None:
    said: list[str] = []
    with Rehearsal(tmp_path, said.append) as network:
        network.prepare()
        network.start()
        assert network.make_rounds(), said
    whole = pp.run(tomllib.loads(config("statistics")), tmp_path / "whole")
    model = Checkpoint.read(network.server_run / MODEL_FILE)
    assert np.array_equal(model.parameters, whole.result.parameters)
    (release,) = [x.record for x in read(network.server_run) if isinstance(x.record, RoundRelease)]
    assert release.shares == 3
    silos = [network.silo(name) for name in HOSPITALS]
    assert reconcile(network.server_run, silos).problems == ()
    for run in (network.server_run, *silos):
        assert verify(run).complete
        assert edits_of(run) == ()
    assert not network.mark.exists()


def test_a_killed_guard_comes_back_and_the_logs_fit_together(tmp_path: Path) -> None:
    said: list[str] = []
    runs = demonstrate(tmp_path, said.append)
    together = reconcile(runs["server"], [runs[name] for name in HOSPITALS])
    assert together.problems == ()
    assert (together.spent, together.released) == (3, 2)
    assert any("was killed" in line for line in said)
    assert all(verify(run).complete for run in runs.values())
    for name in HOSPITALS:  # each silo read its own file, and there alone it lies
        assert not list((tmp_path / name).rglob("*.csv"))
        keys = (tmp_path / name / "identity.key").stat().st_mode
        assert keys & 0o777 == 0o600
