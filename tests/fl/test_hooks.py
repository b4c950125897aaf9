"""Hooks of uldp-avg, in a package of somebody else's: killed and taken up, they lose nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.frame.model import model_digest
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint
from privplan.fl.running.preparation import prepare

from ..cases import for_each
from .extras import needs
from .foreign import BROUGHT, brought

pytestmark = needs("torch", "sklearn", "cryptography")


KILLED = ("fedprox", "server-momentum", "server-adam", "looking-ahead", "hidden-momentum")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of each system, in a process that was killed after a round.

    The last word is the control of tests that look for torch in a process: here it is.
    """
    folder = tmp_path_factory.mktemp("cut")
    program = str(BROUGHT / "conducting.py")
    command = (sys.executable, program, "killed", ",".join(KILLED), str(folder))
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    ends = [f"{system} {-signal.SIGKILL}" for system in KILLED]
    assert done.stdout.split("\n")[:-1] == [*ends, "torch"]
    return folder


@for_each("system", KILLED[:-1])
def test_killed_and_taken_up_it_ends_where_it_would_have(
    system: str, cut: Path, tmp_path: Path
) -> None:
    with brought() as conducting:
        folder = shutil.copytree(cut / system, tmp_path / "run")
        assert Checkpoint.read(folder / CHECKPOINT_FILE).round == conducting.CUT
        result = conducting.resumed(system, folder)
        parameters, state = conducting.uninterrupted(system, conducting.CUT)
        stated = prepare(conducting.settings_of(system)).system.initial_state()
    assert result.parameters.tobytes() == parameters.tobytes()
    last = Checkpoint.read(folder / MODEL_FILE)
    assert last.state.keys() == state.keys() == stated.keys()
    assert all(last.state[name].tobytes() == array.tobytes() for name, array in state.items())
    assert model_digest(last.parameters) == result.model


def test_momentum_without_its_velocity_would_end_elsewhere(conducting: Any) -> None:
    """What the tests above would miss if the state did not matter."""
    prepared = prepare(conducting.settings_of("server-momentum"))
    whole, _ = conducting.uninterrupted("server-momentum", conducting.CUT)
    plain, _ = conducting.uninterrupted("uldp-avg", conducting.CUT)
    assert whole.tobytes() != plain.tobytes()
    noisy = type("Noisy", (), {"mean": np.ones(prepared.width)})()
    first = prepared.system.initial()
    with_, _ = prepared.system.server_step(first, noisy, {"velocity": np.ones_like(first)}, 3)
    without, _ = prepared.system.server_step(first, noisy, {"velocity": 0.0 * first}, 3)
    assert np.abs(with_ - without).min() > 0.5


def test_momentum_that_is_not_stated_is_refused_on_resume(
    conducting: Any, cut: Path, tmp_path: Path
) -> None:
    shutil.copytree(cut / "hidden-momentum", tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "log.jsonl").read_bytes()
    with pytest.raises(InvalidInput, match="keeps values between rounds that nobody saved") as why:
        conducting.resumed("hidden-momentum", tmp_path)
    assert "hidden-momentum (package numpy)" in why.value.what
    assert "class Hidden does not state" in why.value.why
    assert Checkpoint.read(tmp_path / CHECKPOINT_FILE).state == {}
    assert (tmp_path / "log.jsonl").read_bytes().startswith(before)


@pytest.mark.parametrize("model", ["mlp", "logistic"])
def test_the_pull_is_that_of_the_proximal_term(model: str, conducting: Any) -> None:
    """Against the formula by hand: with one batch and two epochs, in one silo, for each user."""
    prepared = prepare(conducting.settings_of("fedprox", model=model))
    free = prepare(conducting.settings_of("uldp-avg", model=model))
    assert prepared.system.setup.local.proximal == 1.5
    x, users = prepared.system.initial(), [np.arange(6)] * 2
    for pulled, plain in zip(
        prepared.system.setup.local.user_deltas(x, users, 1),
        free.system.setup.local.user_deltas(x, users, 1),
        strict=False,
    ):
        assert pulled.rows.shape == plain.rows.shape
        assert not np.array_equal(pulled.rows, plain.rows)


def test_two_steps_pull_back_by_hand() -> None:
    from privplan.fl.models import model_named
    from privplan.fl.training.deltas import gradients, local_deltas
    from privplan.fl.training.units import Recipe, Units

    rng = np.random.default_rng(3)
    features, labels = rng.normal(size=(5, 3)).astype(np.float32), np.array([0, 1, 1, 0, 1])
    index = np.arange(5)
    units = Units(features, labels, index, np.array([0, 5]), np.array([0]), np.array([0]))
    rate, mu = 0.3, 0.7
    for name in ("logistic", "mlp"):
        model = model_named(name, 3, 2)
        start = model.initial(1)
        recipe = Recipe(rate, 2, 5, proximal=mu)
        (moved,) = local_deltas(model, start, units, recipe)
        first = start - rate * gradients(model, start, units)[0]
        two = first - rate * (gradients(model, first, units)[0] + mu * (first - start))
        np.testing.assert_allclose(moved, two - start, rtol=1e-9, atol=1e-13)
        (unpulled,) = local_deltas(model, start, units, Recipe(rate, 2, 5))
        assert np.linalg.norm(moved) < np.linalg.norm(unpulled)


def test_a_pull_below_zero_is_refused(conducting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import momenta

    monkeypatch.setattr(momenta.FedProx, "proximal", -1.0)
    with pytest.raises(InvalidInput, match="proximal"):
        prepare(conducting.settings_of("fedprox"))


def test_a_step_that_returns_no_model_releases_nothing(
    conducting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import momenta

    monkeypatch.setattr(
        momenta.FedProx, "server_step", lambda _, x, *__: (x.astype(np.float32), {})
    )
    with pytest.raises(InvalidInput, match="next model of fedprox must be a vector"):
        conducting.begun("fedprox", tmp_path)
    assert not (tmp_path / CHECKPOINT_FILE).exists()


def test_hooks_are_those_of_every_way_to_sum(conducting: Any) -> None:
    from dataclasses import replace

    import momenta

    from privplan.fl.frame.state import declared_state
    from privplan.fl.settings.schema import SecuritySettings
    from privplan.fl.uldp.hidden_weights import UldpAvgHiddenWeights
    from privplan.fl.uldp.weighted import UldpAvgKnownWeights

    settings = conducting.settings_of("server-momentum", model="logistic")
    hidden = replace(
        settings,
        training=replace(settings.training, weighting="records"),
        security=SecuritySettings(aggregation="private-weighting", count_limit=100),
    )
    for asked, kind in ((settings, UldpAvgKnownWeights), (hidden, UldpAvgHiddenWeights)):
        system = prepare(asked).system
        assert isinstance(system, kind)
        assert isinstance(system, momenta.Momentum)
        stated = declared_state(system)
        assert stated is not None
        assert stated.shapes == {"velocity": (31,)}
