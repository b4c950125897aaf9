"""Runs of earlier versions, unpacked, and logs that several files of tests write to or read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from privplan.fl.log import LogWriter

from . import logs
from .forging import EARLIER, EarlierRun, earlier


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the folders of all runs."""
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(EARLIER) as packed:
        packed.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def earlier_run(tmp_path_factory: pytest.TempPathFactory) -> EarlierRun:
    """Return a function that gives the folder of an earlier run."""
    unpacked = tmp_path_factory.mktemp("earlier")

    def folder(name: str) -> Path:
        return unpacked / name if (unpacked / name).exists() else earlier(name, unpacked)

    return folder


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    """A writer of an open run."""
    found = LogWriter.create(tmp_path / "run", fsync="never")
    found.append(logs.opening())
    return found


@pytest.fixture(params=[True, False], ids=["closed", "unfinished"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The log of a run, closed or cut off."""
    return logs.small_log(tmp_path / "run", close=request.param)


@pytest.fixture(scope="session")
def key() -> tuple[int, int]:
    """A Paillier key of 512 bits, as (p, q)."""
    paillier = pytest.importorskip("phe.paillier")
    _, private = paillier.generate_paillier_keypair(n_length=512)
    return int(private.p), int(private.q)
