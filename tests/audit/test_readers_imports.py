"""Reading files of other libraries loads none of them."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from .named_tuples import DP_SGD, by_position, printed
from .test_readers_jax_privacy import PRINTED
from .test_readers_tf_privacy import line

STATE: Final = {"history": [(1.1, 0.01, 10)], "mechanism": "rdp"}

HEAVY: Final = ("torch", "opacus", "tensorflow", "jax", "jax_privacy", "dp_accounting", "numpy")

SCRIPT: Final = """
import sys
from privplan.audit.readers import dp_accounting_events, jax_privacy, opacus, tf_privacy
for path in sys.argv[2:]:
    content = open(path, "rb").read()
    readers = [r for r in (dp_accounting_events, jax_privacy, opacus, tf_privacy)
               if r.recognises(content, path)]
    (reader,) = readers
    assert reader.read(content, path).facts, path
loaded = sorted(name for name in sys.argv[1].split(",") if name in sys.modules)
print(loaded)
"""


def test_no_other_library_is_loaded(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    files = {
        "state.json": json.dumps(STATE).encode(),
        "state.pkl": pickle.dumps(STATE),
        "event.json": by_position(DP_SGD),
        "event.txt": printed(DP_SGD),
        "config.txt": PRINTED.encode(),
        "out.txt": line().encode(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    torch.save({"w": torch.ones(3), "accountant": STATE}, tmp_path / "run.pt")
    torch.save(
        {"w": torch.ones(3), "accountant": STATE},
        tmp_path / "old.pt",
        _use_new_zipfile_serialization=False,
    )
    paths = sorted(str(path) for path in tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ",".join(HEAVY), *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
