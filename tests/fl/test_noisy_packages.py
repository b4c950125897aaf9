"""Packages that print, or end the program, when they are imported or asked."""

from __future__ import annotations

import json
from pathlib import Path

from ..cases import for_each
from ..packages.inside import privplan
from .foreign import HEAD, install


def test_what_a_package_prints_is_no_answer_of_ours(tmp_path: Path) -> None:
    install(tmp_path, "toy-system", HEAD + "print('HELLO')\nSYSTEMS = (system(),)\n")
    done = privplan(tmp_path, "doctor", "--json")
    assert "toy-avg" in json.dumps(json.loads(done.stdout))
    assert "HELLO" in done.stderr


@for_each(
    "source",
    ["raise GeneratorExit\n", HEAD + "SYSTEMS = (system(name='a' * 100),)\n"],
    ids=["an end", "a long name"],
)
def test_it_is_named_and_stops_nothing(tmp_path: Path, source: str) -> None:
    install(tmp_path, "toy-system", source)
    done = privplan(tmp_path, "doctor")
    assert "CANNOT BE USED" in done.stdout
    assert "Traceback" not in done.stderr
