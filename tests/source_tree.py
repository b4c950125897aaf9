"""The source files of the four floors as tests read them: parsed, and joined by their imports."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

Node = TypeVar("Node", bound=Hashable)

ROOT: Final = Path(__file__).parents[1]
FLOORS: Final = ("accountant", "audit", "fl", "cli")


@cache
def modules() -> Mapping[str, Path]:
    """Return every module of the floors: its name below `privplan`, and its file."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for floor in FLOORS
        for path in sorted((ROOT / floor).rglob("*.py"))
    }


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def folders() -> list[str]:
    """Return every folder of the floors that is a package, as `floor/room`."""
    return sorted(
        path.parent.relative_to(ROOT).as_posix()
        for path in modules().values()
        if path.name == "__init__.py"
    )


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return what each module imports of the floors.

    Imports inside a function and under `TYPE_CHECKING` count like any other.
    """
    return {name: imports_of(name) for name in modules()}


def imports_of(name: str) -> frozenset[str]:
    """Return what one module imports of the floors."""
    return frozenset(_imported(name)) - {name}


def circles(arrows: Mapping[Node, Iterable[Node]]) -> set[frozenset[Node]]:
    """Return the largest sets of two or more nodes that all reach one another.

    >>> [sorted(circle) for circle in circles({1: [2], 2: [3], 3: [2], 4: [1]})]
    [[2, 3]]
    """
    reached = {node: _reachable(node, arrows) for node in arrows}
    strong = {
        frozenset(other for other in reached[node] if node in reached.get(other, ()))
        for node in arrows
    }
    return {circle for circle in strong if len(circle) > 1}


def _reachable(start: Node, arrows: Mapping[Node, Iterable[Node]]) -> set[Node]:
    seen: set[Node] = set()
    waiting = list(arrows[start])
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += arrows.get(node, ())
    return seen


def _imported(name: str) -> Iterable[str]:
    for node in _statements(parsed(modules()[name])):
        if isinstance(node, ast.Import):
            absolute = (alias.name.removeprefix("privplan.") for alias in node.names)
            yield from (target for target in absolute if target in modules())
        elif isinstance(node, ast.ImportFrom):
            source = _source(name, node)
            for alias in node.names:
                # `from .room import module` means the module, any other name the room's `__init__`.
                module = f"{source}.{alias.name}".lstrip(".")
                target = module if module in modules() else source
                if target in modules():
                    yield target


def _statements(tree: ast.AST) -> Iterable[ast.stmt]:
    """Yield every statement: what holds statements is one, a handler or a case, or the module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _statements(node)


def _source(name: str, node: ast.ImportFrom) -> str:
    """Return where an import looks, as a module name below `privplan`."""
    if not node.level:
        return (node.module or "").removeprefix("privplan.")
    parts = name.split(".")
    inside = len(parts) - node.level + (modules()[name].name == "__init__.py")
    return ".".join([*parts[:inside], *([node.module] if node.module else [])])
