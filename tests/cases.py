"""One test for many cases: all of them run, and every one that fails is reported.

A parametrised test makes an item of every case, with fixtures, reports and messages between
workers of its own.  `for_each` goes over the cases inside one item.  Slow cases make a second
item, which the default run leaves out; `--case TEXT` runs only cases whose name holds TEXT.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

SHARE: Final = "case_share"
"""The argument of an item that says which cases it goes over; `tests/conftest.py` fills it."""

STARTED_IN: Final = Path.cwd()

SHOWN_FAILURES: Final = 8
"""How many failing cases are shown with their tracebacks; all are named."""


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """One set of arguments.

    Its name is made only where a report or `--case` asks for it: some values are long to write.
    """

    arguments: dict[str, Any]
    slow: bool = False
    parts: tuple[Callable[[], str], ...] = ()

    @property
    def name(self) -> str:
        """What reports call it."""
        return "-".join(part() for part in self.parts)


def for_each(
    names: str | Sequence[str],
    values: Sequence[Any],
    *,
    ids: Sequence[str] | Callable[[Any], Any] | None = None,
    items: int = 1,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every case, in `items` items, as `pytest.mark.parametrize` writes cases.

    Each case has a `tmp_path` and a `monkeypatch` of its own; other fixtures are made once for an
    item, so a test whose fixtures remember what was done to them stays parametrised.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    new = [_case(columns, value, ids, index) for index, value in enumerate(values)]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        body = getattr(test, "case_body", test)
        inner = getattr(test, "cases", [Case({})])
        cases = [_joined(before, case) for before, case in itertools.product(inner, new)]

        @functools.wraps(body)
        def run(*args: Any, **fixtures: Any) -> None:
            _run_all(body, args, fixtures.pop(SHARE), fixtures)

        run.__dict__.update(test.__dict__)  # marks, of decorators below too
        run.__dict__.update(
            case_body=body, cases=cases, case_items=max(items, getattr(test, "case_items", 1))
        )
        run.__signature__ = _signature(body, cases[0].arguments if cases else columns)  # type: ignore[attr-defined]
        return run

    return decorate


def shares(test: Any, *, quick: int | None, holding: str | None) -> list[tuple[str, list[Case]]]:
    """Return the items of a test: a name, slow ones beginning with `slow`, and the cases of each.

    With `quick`, that many cases are not slow, spread evenly; with `holding`, only cases whose
    name holds this text are left.
    """
    cases: list[Case] = test.cases
    if quick is not None:
        stay = {index * len(cases) // quick for index in range(quick)}
        cases = [
            replace(case, slow=case.slow or index not in stay) for index, case in enumerate(cases)
        ]
    if holding is not None:
        cases = [case for case in cases if holding in case.name]
    parts = []
    for name, slow in (("quick", False), ("slow", True)):
        some = [case for case in cases if case.slow is slow]
        size = -(-len(some) // test.case_items) or 1
        pieces = [some[start : start + size] for start in range(0, len(some), size)]
        parts += [
            (name if len(pieces) == 1 else f"{name}-{number}", piece)
            for number, piece in enumerate(pieces, 1)
        ]
    return parts


def _case(columns: list[str], value: Any, ids: Any, index: int) -> Case:
    marked = isinstance(value, type(pytest.param()))
    slow = False
    if marked:
        slow = any(mark.name == "slow" for mark in value.marks)
        others = {mark.name for mark in value.marks} - {"slow"}
        if others:
            raise ValueError(f"a case is marked slow or not at all, here {sorted(others)}")
    plain = value.values if marked else ((value,) if len(columns) == 1 else tuple(value))
    if len(plain) != len(columns):
        raise ValueError(f"case {index} has {len(plain)} values for {len(columns)} names")
    arguments = dict(zip(columns, plain, strict=True))
    return Case(arguments, slow, (functools.partial(_name, value, plain, ids, index),))


def _name(value: Any, plain: Sequence[Any], ids: Any, index: int) -> str:
    if isinstance(value, type(pytest.param())) and value.id is not None:
        return str(value.id)
    if ids is not None:
        return str(ids[index]) if not callable(ids) else "-".join(str(ids(part)) for part in plain)
    return "-".join(_shown(part) for part in plain)


def _shown(value: Any) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _joined(before: Case, case: Case) -> Case:
    arguments = {**case.arguments, **before.arguments}
    return Case(arguments, before.slow or case.slow, (*case.parts, *before.parts))


def _signature(body: Callable[..., None], given: Any) -> inspect.Signature:
    """Return the signature that pytest sees: the fixtures, and which cases an item goes over."""
    whole = inspect.signature(body)
    for name in given:
        if name not in whole.parameters:
            raise ValueError(f"{body.__name__} has no argument {name!r}")
    left = [parameter for name, parameter in whole.parameters.items() if name not in given]
    share = inspect.Parameter(SHARE, inspect.Parameter.KEYWORD_ONLY)
    return whole.replace(parameters=[*left, share])


def _run_all(
    body: Callable[..., None], args: Any, cases: list[Case], fixtures: dict[str, Any]
) -> None:
    failures: list[BaseException] = []
    names: list[str] = []
    skipped: list[BaseException] = []
    work = Path.cwd()
    # Where a fixture moved the test into an empty folder, each case works below it.
    moved = work != STARTED_IN and not any(work.iterdir())
    for number, case in enumerate(cases):
        try:
            with _fresh(fixtures, number, work if moved else None, alone=len(cases) == 1) as fresh:
                body(*args, **fresh, **case.arguments)
        except pytest.skip.Exception as reason:
            skipped.append(reason)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"in case [{case.name}] of {body.__name__}")
            names.append(case.name)
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        listed = "\n  ".join(names)
        raise BaseExceptionGroup(
            f"{len(failures)} of {len(cases)} cases failed:\n  {listed}", failures[:SHOWN_FAILURES]
        )
    if cases and len(skipped) == len(cases):
        raise skipped[0]


@contextmanager
def _fresh(
    fixtures: dict[str, Any], number: int, work: Path | None, *, alone: bool
) -> Iterator[dict[str, Any]]:
    """Give a case a folder and patches that no other case sees, and nothing printed before it."""
    with ExitStack() as stack:
        fresh = dict(fixtures)
        if "monkeypatch" in fresh:
            fresh["monkeypatch"] = stack.enter_context(fresh["monkeypatch"].context())
        if not alone:
            if "tmp_path" in fresh:
                fresh["tmp_path"] = _subfolder(fresh["tmp_path"], number)
            if work is not None:
                stack.enter_context(chdir(_subfolder(work, number)))
        if "capsys" in fresh:
            fresh["capsys"].readouterr()
        for name in ("caplog", "recwarn"):
            if name in fresh:
                fresh[name].clear()
        yield fresh


def _subfolder(folder: Path, number: int) -> Path:
    below = folder / f"case-{number}"
    below.mkdir(exist_ok=True)
    return below
