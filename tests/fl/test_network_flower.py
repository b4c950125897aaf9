"""Flower carries the messages between processes: superlink, supernodes and guards on loopback.

In the second environment, with the extra `flower`; elsewhere these are skipped.
"""

from __future__ import annotations

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
from privplan.fl.network.demo import Demonstration, demonstrate
from privplan.fl.network.demo_hospitals import HOSPITALS
from privplan.fl.network.flower_app import BUNDLE_FOLDER, PACKAGE
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint

from .extras import needs
from .network_parties import config

pytestmark = [needs("flwr", "cryptography", "msgpack"), pytest.mark.slow]


class Rehearsal(Demonstration):
    """The network of a small run with a seed, whose bundle would leave a mark where it ran."""

    @property
    def mark(self) -> Path:
        return self.folder / "the-bundle-ran"

    def prepare(self) -> None:
        self.agree(config("statistics"), insecure=True)
        client = self.folder / "app" / BUNDLE_FOLDER / PACKAGE / "client.py"
        mark = f'\nopen({str(self.mark)!r}, "a").close()\n'
        client.write_text(client.read_text() + mark)

    def data_options(self, name: str) -> list[str]:
        del name
        return ["--insecure-seed"]


def test_over_flower_it_is_the_run_in_one_process_and_no_bundle_runs(tmp_path: Path) -> None:
    said: list[str] = []
    with Rehearsal(tmp_path, said.append) as network:
        network.prepare()
        network.start()
        assert network.make_rounds(), said
    whole = pp.run(tomllib.loads(config("statistics")), tmp_path / "whole")
    model = Checkpoint.read(network.server / MODEL_FILE)
    assert np.array_equal(model.parameters, whole.result.parameters)
    (release,) = [x.record for x in read(network.server) if isinstance(x.record, RoundRelease)]
    assert release.shares == 3
    silos = [network.silo(name) for name in HOSPITALS]
    assert reconcile(network.server, silos).problems == ()
    for run in (network.server, *silos):
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
