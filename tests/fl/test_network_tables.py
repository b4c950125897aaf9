"""Hospitals' own files over a network: each silo reads its own, and the server none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput, PrivplanError
from privplan.audit.reconciliation import reconcile
from privplan.fl.network.demo_hospitals import HOSPITALS, write_hospitals
from privplan.fl.network.flower_app import PLAN_FILE, SERVER_FOLDER, write_app
from privplan.fl.network.guard import Guard
from privplan.fl.network.hub import Hub
from privplan.fl.network.journal import RUN_FOLDER, identity_in, state_folder
from privplan.fl.network.plan import NetworkPlan

from .network_parties import Loopback


def hospitals(folder: Path) -> tuple[str, NetworkPlan]:
    """Write three hospitals' files in folders of their own, and a plan that all have signed."""
    config = write_hospitals(folder).read_text()
    config = config.replace("rounds = 3", "rounds = 2\nseed = 7")
    identities = {}
    for name in HOSPITALS:
        state_folder(folder / name)
        (folder / f"{name}.csv").rename(folder / name / f"{name}.csv")
        identities[name] = identity_in(folder / name, make=True)
    keys = {name: each.public for name, each in identities.items()}
    plan = write_app(config, folder / "app", keys, insecure=True)
    for each in identities.values():
        plan = plan.signed_by(each)
    plan.write(folder / "app" / PLAN_FILE)
    return config, NetworkPlan.read(folder / "app" / PLAN_FILE)


def test_each_silo_reads_its_own_file_and_the_run_is_that_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, plan = hospitals(tmp_path)
    assert ".csv" not in plan.config  # where a silo keeps its file is nobody's business
    guards = {
        number: Guard(plan, tmp_path / name, [tmp_path / name / f"{name}.csv"])
        for number, name in enumerate(HOSPITALS)
    }
    server = tmp_path / "app" / SERVER_FOLDER
    result = Hub(plan, server, Loopback(guards)).run()
    for guard in guards.values():
        guard.close()
    silos = [tmp_path / name / RUN_FOLDER for name in HOSPITALS]
    assert reconcile(server / RUN_FOLDER, silos).problems == ()
    together = tmp_path / "together"
    together.mkdir()
    for name in HOSPITALS:
        (tmp_path / name / f"{name}.csv").rename(together / f"{name}.csv")
    monkeypatch.chdir(together)
    (together / "run.toml").write_text(config)
    whole = pp.run("run.toml", "out")
    assert np.array_equal(result.parameters, whole.result.parameters)
    for who, proven in result.guarantees.items():
        assert proven.epsilon == whole.guarantees[who].epsilon


def test_a_silo_without_its_file_is_refused_before_any_request(tmp_path: Path) -> None:
    _, plan = hospitals(tmp_path)
    with pytest.raises(InvalidInput, match="file of this silo is missing"):
        Guard(plan, tmp_path / "north")
    with pytest.raises(InvalidInput):
        Guard(plan, tmp_path / "north", [tmp_path / "nowhere.csv"])


def test_silos_are_those_that_the_configuration_names(tmp_path: Path) -> None:
    config = write_hospitals(tmp_path).read_text()
    keys = {name: bytes([n]) * 32 for n, name in enumerate(("north", "south", "west"))}
    with pytest.raises(InvalidInput, match="names the silos north, south, east"):
        write_app(config, tmp_path / "app", keys)


def test_what_cannot_be_planned_leaves_no_folder_behind(tmp_path: Path) -> None:
    config = write_hospitals(tmp_path).read_text()
    keys = {name: bytes([n]) * 32 for n, name in enumerate(HOSPITALS)}
    with pytest.raises(PrivplanError):
        write_app(config.replace("uldp-avg", "disco"), tmp_path / "app", keys)
    assert not (tmp_path / "app").exists()
    write_app(config, tmp_path / "app", keys)  # and so the folder may be named again
