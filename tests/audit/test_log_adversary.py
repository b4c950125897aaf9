"""The log is itself a release: what it shows of one user is what the noise lets through."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import Gate, Gaussian, RoundDescription
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams, poisson
from privplan.accountant.records import Evaluation, Normaliser, Sampling
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter, Sidecar
from privplan.fl.log.hash_chain import canonical

from ..cases import for_each
from . import logs
from .adversary import FRESH, NOISY, differing_fields, leaks

pytest.importorskip("cryptography")

USERS, LENGTH, ROUNDS = 40, 6, 5
RATE = 0.5

Leak = Callable[[int, np.ndarray], dict[str, object]]


def nothing(_: int, __: np.ndarray) -> dict[str, object]:
    """Leak nothing: the normaliser is a public constant."""
    return {"normaliser": Normaliser("constant", RATE * USERS)}


def a_run(folder: Path, *, user: bool, seed: int = 3, leak: Leak = nothing) -> Path:
    """Make a small run: noisy sums of sampled users, one of whom may be absent."""
    data = np.random.default_rng(0).normal(size=(USERS, LENGTH))
    data[7] = 100.0 if user else 0.0  # as far out as possible; who is absent adds nothing
    present = np.ones(USERS, dtype=bool)
    present[7] = user
    streams = Streams.seeded(seed)
    mechanism = Gaussian(bound=1.0, std=8.0, shares=2)
    sampling = Sampling("poisson", "user", RATE, "server")
    about = RoundDescription(1, "training", sampling)
    event = mechanism.intent(about, "add-remove").event
    odometer = Odometer(8.0, 1e-5, unit="user", currency="rdp", like=event)
    model, public = np.zeros(LENGTH), np.ones(LENGTH)
    with LogWriter.create(folder, fsync="never") as writer:
        gate = Gate(odometer, writer, streams)
        opening = replace(
            logs.opening(ROUNDS, run_id=secrets.token_hex(16)),
            dataset=writer.seal({"dataset": hashlib.sha256(data.tobytes()).hexdigest()})["dataset"],
            randomness=streams.facts,
        )
        writer.append(opening)
        for number in range(1, ROUNDS + 1):
            started_from = hashlib.sha256(model.tobytes()).hexdigest()
            about = RoundDescription(number, "training", sampling, model_in=started_from)
            with gate.open(mechanism.intent(about, "add-remove")) as ticket:
                drawn = poisson(ticket.stream("sampling"), USERS, RATE) & present
                halves = [drawn & (np.arange(USERS) % 2 == half) for half in (0, 1)]
                totals = [mechanism.total(data[half]) for half in halves]
                noisy = np.sum(mechanism.noisy(ticket, totals, ["noise/0", "noise/1"]), axis=0)
                model = model + noisy / (RATE * USERS)
                norms = np.linalg.norm(data[drawn], axis=1)
                ticket.close(
                    aggregate=noisy.tobytes(),
                    model_out=hashlib.sha256(model.tobytes()).hexdigest(),
                    sealed={
                        "batch": int(drawn.sum()),
                        "participants": np.flatnonzero(drawn),
                        "largest_norm": float(norms.max(initial=0.0)),
                        "residual": bool(abs(totals[0]).max() < 10),
                    },
                    **leak(int(drawn.sum()), norms),  # type: ignore[arg-type]
                )
            shown = repr(float(((model - public) ** 2).mean()))
            writer.append(Evaluation(number, "declared-public", {"loss": shown}))
        writer.append(
            replace(
                logs.closing(ROUNDS),
                events={"model": ev.Repeat(ROUNDS, event)},
                model=hashlib.sha256(model.tobytes()).hexdigest(),
            )
        )
    assert verify(folder).complete
    return folder


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    """Return whether one of the patterns names the field."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


@for_each("seed", range(4))
def test_nothing_but_noisy_digests_and_commitments_depends_on_a_user(
    tmp_path: Path, seed: int
) -> None:
    with_user = a_run(tmp_path / "with", user=True, seed=seed)
    without = a_run(tmp_path / "without", user=False, seed=seed)
    assert leaks(with_user, without) == {}
    found = differing_fields(with_user, without)
    # The two worlds are really different, or this test would prove nothing.
    assert {"round.release.aggregate", "round.release.model_out"} <= found.keys()
    sealed_a, sealed_b = (
        [(item.name, item.value) for item in Sidecar.read(folder).items]
        for folder in (with_user, without)
    )
    assert sealed_a != sealed_b


def test_in_one_world_only_what_is_fresh_differs(tmp_path: Path) -> None:
    # So the digests above differ by the user, and not by chance: the noise is the same.
    one, other = (a_run(tmp_path / name, user=True) for name in ("one", "other"))
    found = differing_fields(one, other)
    assert all(matches(path, FRESH) for path in found)
    assert not any(matches(path, NOISY) for path in found)
    commitments = {path for path in found if path.startswith("round.release.sealed.")}
    assert len(commitments) == 4  # fresh blinds, although every value is the same


def realised(batch: int, _: np.ndarray) -> dict[str, object]:
    """Leak the size of the sample."""
    return {"normaliser": Normaliser("realised", float(batch))}


def clipped(_: int, norms: np.ndarray) -> dict[str, object]:
    """Leak whether anybody was clipped."""
    return {"clip_enforced": bool(norms.max(initial=0.0) > 50.0)}


def counted(batch: int, _: np.ndarray) -> dict[str, object]:
    """Leak a count."""
    return {"values": batch}


@for_each(
    ("leak", "field"),
    [
        (realised, "round.release.normaliser.value"),
        (clipped, "round.release.clip_enforced"),
        (counted, "round.release.values"),
    ],
)
def test_a_field_made_before_the_noise_is_found(tmp_path: Path, leak: Leak, field: str) -> None:
    with_user = a_run(tmp_path / "with", user=True, leak=leak)
    without = a_run(tmp_path / "without", user=False, leak=leak)
    assert field in leaks(with_user, without)


def test_another_length_and_other_lines_are_found(tmp_path: Path) -> None:
    one = logs.small_log(tmp_path / "one")
    other = logs.small_log(tmp_path / "other")
    assert leaks(one, other) == {}
    logs.rechained(other, lambda all_: all_[1].update(phase="training2"))
    assert leaks(one, other) == {"round.intent.phase": [2], "length": [2]}
    logs.rechained(other, lambda all_: all_.pop())
    assert leaks(one, other)["lines"] == [8, 7]


def test_commitments_are_not_found_by_trying_every_value(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run", user=True)
    shown = {
        (name, value)
        for line in map(json.loads, logs.lines_of(folder))
        for name, value in line.get("sealed", {}).items()
    }
    assert len(shown) == 4 * ROUNDS
    tried = {
        hashlib.sha256(canonical({"name": name, "value": value, **blind}).encode()).hexdigest()
        for name, _ in shown
        for value in (*range(USERS + 1), True, False)
        for blind in ({}, {"blind": ""}, {"blind": "0" * 64})
    }
    assert not tried & {commitment for _, commitment in shown}
    sizes = {len(commitment) for _, commitment in shown}
    assert sizes == {64}  # whatever is behind it: a bit, a count, a list
