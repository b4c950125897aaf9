"""Runs of earlier versions, unpacked, for the tests that read all of them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from .forging import EARLIER


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the folders of all runs."""
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(EARLIER) as packed:
        packed.extractall(folder)
    return folder
