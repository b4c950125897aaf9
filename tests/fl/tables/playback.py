"""Runs whose clock, seeds and run id are fixed, and whose noised vectors are those of another run.

A run is made twice on neighbouring files.  Whatever noise was added to in the first, or leaves a
run without any, takes the place of the same in the second: so all that leaves the second can depend
on its files only by ways that no noise is on.  Before each of these the number, size and order of
what noise is added to are noted, which the noise does not hide.

    one = played(folder, tables)
    two = played(other, tables, edited, noised=one.noised)      left(one) == left(two)

A run may be cut off after any of what it noises, and goes on then; what audits print of a folder
and the page of a report are read from it, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privplan.accountant.mechanisms.fine_grid_gaussian import FineGaussian
from privplan.accountant.mechanisms.gaussian import Gaussian
from privplan.accountant.mechanisms.gram_noise import NoisyGram
from privplan.accountant.mechanisms.laplace import Laplace
from privplan.accountant.mechanisms.messages import ResponseMessages, _NumberMessages
from privplan.accountant.mechanisms.noisy_product import NoisyProduct
from privplan.accountant.mechanisms.noisy_sums import NoisySums
from privplan.accountant.mechanisms.wishart_gram import WishartGram
from privplan.cli.main import app
from privplan.fl.disco import published as disco_published
from privplan.fl.fedavg import averaging
from privplan.fl.fedpower.utility import FedPowerUtility
from privplan.fl.parties.transcripts import FOLDER, read_transcript
from privplan.fl.running import run_records, session
from privplan.fl.running.toml_writer import toml_bytes
from privplan.fl.shuffling import Shuffling
from privplan.fl.shuffling.ideal import IdealShuffling
from privplan.fl.uldp import group
from privplan.fl.uldp.weighting.protocol import PrivateWeighting

from .hospitals import write

NOISED: tuple[tuple[Any, str], ...] = (
    (Gaussian, "share_steps"),
    (Gaussian, "noisy_steps"),
    (NoisySums, "noisy"),
    (FineGaussian, "share"),
    (NoisyGram, "share_steps"),
    (NoisyProduct, "share_steps"),
    (NoisyProduct, "extra_steps"),
    (WishartGram, "share_steps"),
    (Laplace, "noisy"),
    (Laplace, "share_steps"),
    (_NumberMessages, "messages"),
    (ResponseMessages, "messages"),
    (PrivateWeighting, "round"),
    (FedPowerUtility, "released"),
    (Shuffling, "round"),
    (IdealShuffling, "round"),
    (averaging, "float_sum"),
    (group, "float_sum"),
    (disco_published, "float_sum"),
)
"""What returns noised vectors, or what a run that promises nothing leaves without noise."""

WITHIN_PARTIES = ("PrivateWeighting.round", "FedPowerUtility.released", "Shuffling.round")
"""What takes rows or noise that no party sends: what they send is in the transcripts."""

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clock(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        """Return the same moment always."""
        return NOW.astimezone(tz)


class Ids:
    """Run ids that are all the same, in place of the module `secrets`."""

    @staticmethod
    def token_hex(count: int) -> str:
        """Return the same id always."""
        return "5a" * count


class CutOff(BaseException):
    """A run ends here, as where its process is killed."""


@dataclass(eq=False)
class Tape:
    """What was noised in a run, in its order.

    - `noised`: what was returned, and in a run that is played, what took its place.
    - `cut_after`: after so many noised values the run is cut off; None: never.
    - `before`: where, by which names, and of which sizes and types what noise is added to was.
    """

    playing: Sequence[Any] | None = None
    cut_after: int | None = None
    noised: list[Any] = field(default_factory=list)
    before: list[tuple[Any, ...]] = field(default_factory=list)

    def of(self, where: str, made: Callable[..., Any]) -> Callable[..., Any]:
        """Return what does as `made`, and is noted, and played."""

        def noted(*given: Any, **named: Any) -> Any:
            value = made(*given, **named)
            given_shapes = (
                () if where in WITHIN_PARTIES else map(shape_of, (*given, *named.values()))
            )
            self.before.append((where, *given_shapes, shape_of(value)))
            if self.playing is not None and len(self.noised) < len(self.playing):
                value = deepcopy(self.playing[len(self.noised)])
            self.noised.append(deepcopy(value))
            if len(self.noised) == self.cut_after:
                raise CutOff
            return value

        return noted


def shape_of(value: Any) -> Any:
    """Return what of an argument does not depend on its numbers: of arrays type and shape."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, (list, tuple)):
        # Of arrays their shapes, of names the names; numbers are what may be noised.
        return [0 if isinstance(each, int) else shape_of(each) for each in value]
    return type(value).__name__


@contextmanager
def fixed(tape: Tape) -> Iterator[None]:
    """Fix clock and run id, and note or play what is noised."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session, "secrets", Ids)
        patched.setattr(run_records, "datetime", Clock)
        for owner, name in NOISED:
            where = f"{owner.__name__}.{name}"
            patched.setattr(owner, name, tape.of(where, getattr(owner, name)))
        yield


@dataclass(frozen=True, eq=False)
class Played:
    """A run that was made by the command line: what it left, and what it noised."""

    folder: Path
    code: int
    said: tuple[str, str]
    tape: Tape

    @property
    def noised(self) -> list[Any]:
        """What was noised, in its order."""
        return self.tape.noised


def played(
    folder: Path,
    tables: dict[str, dict[str, Any]],
    edited: Callable[[list[str]], list[str]] | None = None,
    noised: Sequence[Any] | None = None,
    *,
    dry: bool = False,
    cut_after: int | None = None,
) -> Played:
    """Make a run on files in a new folder; `noised` takes the place of what it noises.

    With `dry` it is only forecast.  One that is cut off goes on at once.
    """
    folder.mkdir()
    write(folder, edited)
    (folder / "config.toml").write_bytes(toml_bytes(tables))
    tape = Tape(noised, cut_after)
    with pytest.MonkeyPatch.context() as patched, fixed(tape):
        patched.chdir(folder)
        how = ["--dry-run"] if dry else ["--out", "out"]
        try:
            done = CliRunner().invoke(app, ["run", "config.toml", *how])
        except CutOff:
            done = CliRunner().invoke(app, ["run", "config.toml", *how, "--resume"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Played(folder / "out", done.exit_code, (done.stdout, done.stderr), tape)


COMMITTED = re.compile(r"\b[0-9a-f]{32,64}\b")
"""Heads of logs: they commit to what is sealed, under random numbers that nobody is told."""


AUDITS = (["audit", "budget"], ["audit", "log"], ["report", "--out", "report.html"])


def audited(run: Played) -> dict[str, Any]:
    """Return what audits print of a run, with their exit codes, and the page of its report."""
    said: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(run.folder.parent)
        for command in AUDITS:
            done = CliRunner().invoke(app, [*command, run.folder.name])
            said[" ".join(command)] = (done.exit_code, COMMITTED.sub("HEAD", done.output))
    page = run.folder.parent / "report.html"
    return {**said, "page": COMMITTED.sub("HEAD", page.read_text()) if page.exists() else None}


def left(run: Played, *, after_noise: bool = True) -> dict[str, Any]:
    """Return all that leaves a run, by where it stands; times and commitments taken out.

    Without `after_noise` it is what no noise is on: no number that is made of noised ones.
    """
    seen: dict[str, Any] = {
        "exit code": run.code,
        "before noise": run.tape.before,
    }
    if after_noise:
        for name, text in zip(("stdout", "stderr"), run.said, strict=True):
            seen[name] = COMMITTED.sub("HEAD", text)
    for path in sorted(run.folder.rglob("*")):
        name = path.relative_to(run.folder).as_posix()
        if path.is_dir():
            seen[name] = "folder"
        elif path.parent.name == FOLDER:
            seen[name] = [
                (message.round, message.kind, message.sender, len(message.body))
                for message in read_transcript(run.folder, path.stem)
            ]
        elif name.startswith("sealed"):  # for the auditor alone: how many items, and which
            seen[name] = [
                (line["name"], line["after"])
                for line in map(json.loads, path.read_text().splitlines())
            ]
        elif name == "log.jsonl":
            seen[name] = [_facts(line, after_noise) for line in path.read_text().splitlines()]
        elif after_noise:
            seen[name] = COMMITTED.sub("HEAD", path.read_bytes().decode("latin-1"))
        else:
            seen[name] = "there"
    return seen


AFTER_NOISE = (
    "aggregate",
    "model_in",
    "model_out",
    "model",
    "head",
    "values",
    "state_out",
    "metrics",
)
"""Facts of a log that are made of noised numbers."""


def _facts(line: str, after_noise: bool) -> dict[str, Any]:
    fact = json.loads(line)
    gone = {"hash", "prev", "dataset", *(() if after_noise else AFTER_NOISE)}
    return {
        **{key: value for key, value in fact.items() if key not in gone},
        "keys": sorted(fact),
        "sealed": sorted(fact.get("sealed") or ()),
    }
