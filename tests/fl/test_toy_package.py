"""A package of 60 lines brings a system: run, killed, resumed, audited, attacked and reported.

It is installed as pip would install it; a run is made, and killed, in a process of its own.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.canaries import MemoryLog
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, MODELS_FOLDER, Checkpoint
from privplan.fl.running.preparation import prepare
from privplan.fl.settings.toml_file import read_settings

from ..cases import for_each
from ..packages.inside import command, packages_of, privplan
from ..sweeps import sweep
from . import foreign
from .extras import needs
from .foreign import ROOT, as_pip, started

pytestmark = needs("sklearn", "cryptography")

PROJECT = ROOT / "tests" / "packages" / "toy_mean"

NOISE, ROUNDS, SEED = 2.0, 4, 7

RUN = f"""
[run]
system = "toy-mean"
rounds = {ROUNDS}

[data]
name = "breast-cancer"
users = 100
silos = 3

[privacy]
noise_multiplier = {NOISE}
delta = 0.001

[toy]
clip = 3.0

[log]
save_models = true
"""

WITHOUT_TORCH = """
import sys
from privplan.cli.__main__ import main
try:
    main()
finally:
    print("torch" if "torch" in sys.modules else "no torch", file=sys.stderr)
"""


def packed(where: Path, text: str = RUN) -> Path:
    where.mkdir()
    (where / "run.toml").write_text(text)
    return as_pip(where, PROJECT)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return packed(tmp_path / "package")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a run was made, in a process that loaded no torch: what it said is in `said`."""
    place = packed(tmp_path_factory.mktemp("made") / "package")
    program = [sys.executable, "-c", WITHOUT_TORCH, "run", "run.toml", "--out", "out"]
    done = started(place, program)
    assert done.stderr.split("\n")[-2] == "no torch"
    (place / "said").write_text(done.stdout)
    return place


def audited(place: Path, code: int = 0) -> Any:
    done = command(place, "audit", "budget", "out", "--json", code=code)
    return json.loads(done.stdout)["result"]


def killed(place: Path, number: int) -> None:
    """Begin the run in `out`; its process is killed after a round."""
    program = f"""
        import os, signal
        import privplan as pp
        def kill(measured, _):
            if measured.round == {number}:
                print("killed", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
        pp.run("run.toml", "out", report=kill)
    """
    assert foreign.python(place, program, check=False) == "killed\n"
    assert Checkpoint.read(place / "out" / CHECKPOINT_FILE).round == number


def uninterrupted(place: Path, cut: int) -> Any:
    """Return model and velocity of a run that takes other streams after round `cut`."""
    with packages_of(place):
        prepared = prepare(read_settings(Path("run.toml")))
        odometer = Odometer.for_plan(prepared.plan)
        gates = [Gate(odometer, MemoryLog(), Streams.seeded(SEED, part)) for part in (0, 1)]
        model, state = prepared.system.initial(), prepared.system.initial_state()
        (phase,) = prepared.system.phases
        assert phase.make is not None
        for number in range(1, ROUNDS + 1):
            moved = phase.make(number, model, gates[number > cut], state)
            model, state = moved.parameters, moved.state
    return model, state["velocity"]


def test_the_package_has_60_lines() -> None:
    files = [*PROJECT.rglob("*.py")]
    assert sum(len(file.read_text().splitlines()) for file in files) <= 60
    for file in files:
        imported = [line for line in file.read_text().splitlines() if "import" in line]
        assert {line.split()[1].partition(".")[0] for line in imported} <= {
            "dataclasses",
            "numpy",
            "privplan",
        }


def test_it_is_listed_planned_and_run(place: Path, made: Path) -> None:
    shown = command(place, "explain", "run").stdout
    assert "toy-mean" in shown
    assert "[toy]  what only toys have" in shown
    assert "toy-mean 1.0" in privplan(place, "doctor").stdout
    planned = command(place, "run", "run.toml", "--dry-run").stdout
    assert "epsilon" in planned
    assert not (place / "out").exists()
    said = (made / "said").read_text()
    assert "released" in said
    assert "trained" not in said
    assert "31 numbers" in said
    assert "parameters" not in said
    models = sorted((made / "out" / MODELS_FOLDER).iterdir())
    assert len(models) == ROUNDS
    kept = Checkpoint.read(made / "out" / MODEL_FILE)
    assert set(kept.arrays()) == {"features", "label"}
    assert (kept.parameters == kept.state["velocity"]).all()
    measured = json.loads((made / "out" / "metrics.json").read_text())
    assert [set(one["metrics"]) for one in measured["rounds"]] == ROUNDS * [{"distance"}]


def test_it_is_audited_and_nothing_is_left_to_say(made: Path) -> None:
    command(made, "audit", "log", "out")
    result = audited(made)
    assert result["hazards"] == []
    assert result["not_stated"] == []
    rounds = pp.events.Compose((pp.events.Gaussian(NOISE),) * ROUNDS)
    proven = pp.account(rounds, delta=0.001).epsilon
    assert result["epsilon"]["upper"] == pytest.approx(proven.upper, rel=1e-9)
    assert result["claimed"] >= result["epsilon"]["upper"]
    assert result["supported"] is True


@for_each("cut", sweep((1, 2, 3), quick=1))
def test_it_is_killed_ends_where_it_would_have_and_audits_like_any(
    cut: int, tmp_path: Path
) -> None:
    place = packed(tmp_path / "package", RUN.replace("[data]", f"seed = {SEED}\n\n[data]"))
    killed(place, cut)
    command(place, "run", "--resume", "--out", "out")
    kept = Checkpoint.read(place / "out" / MODEL_FILE)
    model, velocity = uninterrupted(place, cut)
    assert kept.parameters.tolist() == model.tolist()
    assert kept.state["velocity"].tolist() == velocity.tolist()
    assert np.abs(velocity).max() > 0.0
    result = audited(place, code=1)  # whose only fault is its seed
    assert (result["rounds"], result["not_stated"]) == (ROUNDS, [])
    assert [one["id"] for one in result["hazards"]] == ["seeded"]


@pytest.mark.slow
def test_it_is_attacked_and_reported(made: Path, tmp_path: Path) -> None:
    place = shutil.copytree(made, tmp_path / "package")
    found = json.loads(command(place, "audit", "attack", "out", "--json").stdout)["result"]
    by_tier = {one["tier"]: one for one in found["tiers"]}
    assert set(by_tier) == {"claim", "robust", "residual"}
    assert found["skipped"] == []
    assert by_tier["claim"]["value"] > 1.0
    assert not any(one["contradicted"] for one in found["tiers"])
    refused = command(place, "audit", "attack", "out", "--tier", "membership", code=3)
    assert "toy-mean (package toy-mean) trains no model" in refused.stderr
    command(place, "report", "out", "-o", "page.html")
    page = (place / "page.html").read_text()
    assert "toy-mean" in page
    assert "released" in page
    assert "trained" not in page


SQUARES = """

class Squares(ToyMean):
    state = ToyMean.state

    def row(self, held):
        return np.append((held.features**2).mean(axis=0), 10_000.0)
"""


@pytest.mark.slow
def test_canaries_whose_row_loses_their_direction_are_refused(place: Path) -> None:
    source = place / "toy_mean" / "system.py"
    source.write_text(source.read_text() + SQUARES)
    declared = place / "toy_mean" / "__init__.py"
    declared.write_text(declared.read_text().replace("system:ToyMean", "system:Squares"))
    command(place, "run", "run.toml", "--out", "out")
    refused = command(place, "audit", "attack", "out", "--tier", "claim", code=3).stderr
    assert "`canary_sum` cannot rehearse toy-mean" in refused


HALF = """

class Half(ToyMean):
    state = ToyMean.state

    def round(self, *given):
        from privplan.accountant.mechanisms import gaussian
        drawn = gaussian.discrete_gaussian
        gaussian.discrete_gaussian = lambda stream, count, scale: drawn(stream, count, scale / 2)
        try:
            return super().round(*given)
        finally:
            gaussian.discrete_gaussian = drawn
"""


@pytest.mark.slow
def test_half_the_noise_is_contradicted(place: Path) -> None:
    module = place / "toy_mean" / "system.py"
    module.write_text(module.read_text() + HALF)
    declared = place / "toy_mean" / "__init__.py"
    declared.write_text(declared.read_text().replace("system:ToyMean", "system:Half"))
    command(place, "run", "run.toml", "--out", "out")
    audited(place)  # what the log says is sound; what was drawn is not
    done = command(place, "audit", "attack", "out", "--json", code=1)
    found = json.loads(done.stdout)["result"]["tiers"]
    assert {one["tier"] for one in found if one["contradicted"]} >= {"claim", "residual"}


def test_it_is_signed(place: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (place / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (place / "public.pem").write_bytes(public)
    (place / "run.toml").write_text(RUN + 'sign_key = "key.pem"\n')
    command(place, "run", "run.toml", "--out", "out")
    words = ("audit", "log", "out", "--public-key", "public.pem", "--json")
    signature = json.loads(command(place, *words).stdout)["result"]["signature"]
    assert signature is not None


@pytest.mark.slow
def test_it_is_run_and_resumed_from_python(place: Path) -> None:
    killed(place, 1)
    program = """
        import sys
        import privplan as pp
        expected = pp.plan_run("run.toml")
        outcome = pp.resume("out")
        print(expected.rounds, outcome.result.rounds, sorted(outcome.metrics))
        print("torch" if "torch" in sys.modules else "no torch")
    """
    assert foreign.python(place, program).split("\n")[:2] == [
        f"{ROUNDS} {ROUNDS} ['distance']",
        "no torch",
    ]
