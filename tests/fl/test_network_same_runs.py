"""Over real Flower a run with a seed is the run in one process: three systems over one superlink.

In the second environment, with the extra `flower`; elsewhere this is skipped.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import privplan as pp
from privplan.audit.reconciliation import reconcile
from privplan.fl.network.demo import Demonstration
from privplan.fl.network.demo_hospitals import HOSPITALS
from privplan.fl.network.flower_app import PLAN_FILE
from privplan.fl.network.guard_log import FILE
from privplan.fl.network.plan import NetworkPlan
from privplan.fl.network.wire import CONFIRM, FINISH, HELLO, KEYS, RECOVER, SHARES, VECTOR, WORDS

from .extras import needs
from .network_parties import config
from .same_runs import require_same_run

pytestmark = [needs("flwr", "cryptography", "msgpack"), pytest.mark.slow]

MASKED = (KEYS, SHARES, WORDS, CONFIRM, RECOVER)

RUNS = (
    ("uldp-avg", "masked", 2, MASKED),
    ("delm-linear", "plain", 1, (VECTOR,)),
    ("statistics", "masked", 1, MASKED),
)


class Rehearsals(Demonstration):
    """Runs with a seed one after the other, each with guards and folders of its own."""

    def begin(self, folder: Path, text: str) -> None:
        """Have new guards take a plan; superlink and supernodes stay as they are."""
        if not self._running:
            self.agree(text, insecure=True)
            self.start()
            return
        for name in HOSPITALS:
            guard = self._running.pop(f"guard-{name}")
            guard.terminate()
            assert guard.wait(60) == 0
        folder.mkdir()
        shutil.copytree(self.folder / "home", folder / "home")
        secret, self.folder = self.folder / "secret", folder
        self.agree(text, insecure=True)
        shutil.copy(secret, folder / "secret")
        for name in HOSPITALS:
            self.start_guard(name)

    def data_options(self, name: str) -> list[str]:
        del name
        return ["--insecure-seed"]


def given_out(folder: Path) -> Counter[tuple[int, str]]:
    """Return how often a guard answered, by round and phase."""
    lines = map(json.loads, (folder / FILE).read_text().splitlines())
    return Counter((line["round"], line["phase"]) for line in lines if line["what"] == "given-out")


def test_models_facts_vectors_and_epsilon_are_those_of_one_process(tmp_path: Path) -> None:
    said: list[str] = []
    with Rehearsals(tmp_path, said.append) as network:
        for system, aggregation, rounds, phases in RUNS:
            text = config(system, aggregation).replace("rounds = 3", f"rounds = {rounds}")
            network.begin(tmp_path / system, text)
            assert network.make_rounds(), (system, said)
            silos = [network.silo(name) for name in HOSPITALS]
            plan = NetworkPlan.read(network.folder / "app" / PLAN_FILE)
            whole = pp.run(tomllib.loads(text), network.folder / "whole")
            require_same_run(network.server_run, silos, whole.folder, plan.digest)
            assert reconcile(network.server_run, silos).problems == ()
            # One hello, at most five exchanges a sum, one finish.
            asked = [(1, HELLO), *((n + 1, each) for n in range(rounds) for each in phases)]
            for name in HOSPITALS:
                answers = given_out(network.folder / name)
                assert answers == Counter([*asked, (rounds, FINISH)])
