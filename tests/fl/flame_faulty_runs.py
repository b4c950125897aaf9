"""Runs of FLAME that end by an error, and what they held before and after the noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import MissingParty
from privplan.accountant.mechanisms import LaplaceMessages
from privplan.fl.frame.model import model_digest
from privplan.fl.log import LogWriter
from privplan.fl.parties.network import Message
from privplan.fl.parties.transcripts import FOLDER, read_transcript
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint
from privplan.fl.running.prepared_run import PreparedRun
from privplan.fl.running.session import execute
from privplan.fl.settings.schema import Settings

from .flame_runs import flame
from .small_runs import of

NOISE = 5.0
"""The noise multiplier of runs here."""

ROUNDS = 3
"""Of each run here: one is released, the next goes wrong, and one is left to go on with."""


def faulty(system: str, **tables: dict[str, str]) -> Settings:
    """Return settings of a run of three rounds, whose transcripts are kept."""
    own = {
        "run": {"rounds": str(ROUNDS)},
        "security": {"keep_transcripts": "true"},
        "training": {"clip": "1.0"},  # so that hardly any two values are equal
    }
    merged = {name: {**own.get(name, {}), **tables.get(name, {})} for name in own | tables}
    return flame(system, **merged)


@dataclass
class Ended:
    """A run that ended by an error, with the numbers of all its users, before and after noise."""

    error: Exception
    prepared: PreparedRun
    values: list[Any]
    messages: list[Any]

    def before_noise(self) -> set[bytes]:
        """Return the numbers that users held, as they could travel: floats, and whole steps."""
        held = np.concatenate([np.ravel(each) for each in self.values])
        grid = self.prepared.system.mechanism(NOISE).grid  # type: ignore[attr-defined]
        return in_bytes(held[held != 0.0].astype("<f8")) | steps_in_bytes(np.trunc(held / grid))

    def after_noise(self) -> set[bytes]:
        """Return what users sent, as a message holds it."""
        return steps_in_bytes(np.concatenate([np.ravel(each) for each in self.messages]))


def in_bytes(numbers: Any) -> set[bytes]:
    """Return each of an array's numbers as its 8 bytes."""
    return {row.tobytes() for row in numbers.reshape(-1, 1)}


def steps_in_bytes(steps: Any) -> set[bytes]:
    """Return the 8 bytes of each integer but the small ones, which stand in anything."""
    return in_bytes(steps[np.abs(steps) >= 2**16].astype("<i8"))


def recorded(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any]]:
    """Keep what users hold before the noise, clipped, and what they send, from now on."""
    honest = LaplaceMessages.messages
    values: list[Any] = []
    messages: list[Any] = []

    def drawn(self: LaplaceMessages, ticket: Any, given: Any, *names: str) -> Any:
        sent = honest(self, ticket, given, *names)
        values.append(np.clip(given, -self.bound, self.bound))
        messages.append(sent.copy())
        return sent

    monkeypatch.setattr(LaplaceMessages, "messages", drawn)
    return values, messages


def run_to_fault(
    prepared: PreparedRun,
    folder: Path,
    raised: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    meddling: Any = None,
) -> Ended:
    """Make a run that raises; `meddling` decides what becomes of messages."""
    values, messages = recorded(monkeypatch)
    network = prepared.system.network
    if network is not None:
        network._meddling = meddling
    with LogWriter.create(folder) as writer, pytest.raises(raised) as caught:
        execute(prepared, folder, writer)
    return Ended(caught.value, prepared, values, messages)


def travelled(folder: Path) -> list[Message]:
    """Return every message that a run has kept."""
    files = sorted((folder / FOLDER).iterdir())
    return [message for file in files for message in read_transcript(folder, file.stem)]


def released(folder: Path) -> list[int]:
    """Return the rounds that released a model."""
    return [one.round for one in of(folder, records.RoundRelease)]


def require_spent(folder: Path, error: Exception) -> None:
    """Require of a run that it stopped in round 2: one round is released, and two are spent."""
    assert released(folder) == [1]
    assert [one.round for one in of(folder, records.RoundIntent)] == [1, 2]
    (abort,) = of(folder, records.RoundAbort)
    reason = "missing-party" if isinstance(error, MissingParty) else "error"
    assert (abort.round, abort.reason) == (2, reason)
    # The model that is kept is the one of round 1.
    (release,) = of(folder, records.RoundRelease)
    kept = Checkpoint.read(folder / CHECKPOINT_FILE)
    assert (kept.round, model_digest(kept.parameters)) == (1, release.model_out)
    assert not (folder / MODEL_FILE).exists()


def require_hidden(folder: Path, ended: Ended) -> None:
    """Require that no value from before the noise stands in any file, and no message in a view."""
    before, after = ended.before_noise(), ended.after_noise()
    assert min(len(before), len(after)) > 50
    bodies = [message.body for message in travelled(folder)]
    assert bodies
    assert not any(number in body for body in bodies for number in before | after)
    shown = {repr(float(value)) for each in ended.values for value in np.ravel(each) if value % 1.0}
    for path in (path for path in folder.iterdir() if path.is_file()):
        raw = path.read_bytes()
        assert not any(number in raw for number in before)
        assert not any(number.encode() in raw for number in shown)
