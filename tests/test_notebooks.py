"""The small settings of notebooks: `metadata.nbmake.mock` of a cell, which nbmake sets after it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[1]
NOTEBOOKS: Final = sorted((ROOT / "notebooks").glob("*.ipynb"))


def _code(notebook: Path) -> Iterator[tuple[ast.Module, dict[str, Any]]]:
    """Return the code of each cell, without shell commands, and its small settings."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            lines = [line for line in cell["source"] if not line.startswith("!")]
            mocks = cell["metadata"].get("nbmake", {}).get("mock", {})
            yield ast.parse("".join(lines)), mocks


def _names(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, context)
    }


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_small_settings_are_of_settings(notebook: Path) -> None:
    """A name is set by its cell, read by later cells only, and never set again."""
    cells = list(_code(notebook))
    for index, (tree, mocks) in enumerate(cells):
        set_here = {name for node in tree.body for name in _names(node, ast.Store)}
        assert set(mocks) <= set_here
        assert set(mocks) & _names(tree, ast.Load) == set()
        later = [code for code, _ in cells[index + 1 :]]
        for name in mocks:
            assert any(name in _names(code, ast.Load) for code in later), name
            assert not any(name in _names(code, ast.Store) for code in later), name


def test_every_notebook_has_small_settings() -> None:
    assert [path.stem for path in NOTEBOOKS if not any(mocks for _, mocks in _code(path))] == []
