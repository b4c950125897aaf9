"""The tests of Opacus' own privacy engine, with our observer attached to every engine in them.

They ship in Opacus' wheel, as they stand in its repository at that version.  `python -m
tests.audit.opacus_suite` prints the table: every test, and what became of it.  Tests that
hypothesis repeats are repeated a few times.  Without torchvision those that ask it for a network or
for pictures are not applicable.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal
from unittest import mock

from hypothesis import settings
from opacus import PrivacyEngine

import privplan as pp
from privplan.audit.verify import verify
from privplan.fl.log.hash_chain import LOG

Outcome = Literal["passed", "not applicable", "failed"]

SUITES: Final = ("privacy_engine_test", "privacy_engine_validation_test")

REPETITIONS: Final = 3
"""How often hypothesis repeats a test of theirs: each trains a network."""

PLAN: Final = pp.TrainingPlan(
    steps=10_000,
    noise_multiplier=1.0,
    clip=1.0,
    delta=1e-5,
    neighbours="replace-one",
    records=512,
    batch=64,
)
"""The data of their tests, whose number is public, so that the divisor stays that of Opacus."""

NO_ENGINE: Final = "no training is made private in it"
NO_TORCHVISION: Final = "it needs torchvision, which is not installed"

WITH_PICTURES: Final = ("ConvNet", "test_model_validator", "test_validator_weight_update_check")
"""What stands in the names of tests that need torchvision."""

PARTS: Final = ("torchvision", "torchvision.datasets")
"""The modules of torchvision that they import."""


@dataclass(frozen=True)
class SuiteRow:
    """One test of theirs, what became of it, and how many logs it left."""

    test: str
    outcome: Outcome
    logs: int = 0
    why: str = ""


class _Observers:
    """Attaches an observer to every privacy engine that a test makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._contexts: list[AbstractContextManager[Any]] = []

    def attached(self, init: Callable[..., None]) -> Callable[..., None]:
        """Return an `__init__` of engines that enters `pp.logged` behind it."""

        def around(engine: PrivacyEngine, *arguments: Any, **options: Any) -> None:
            init(engine, *arguments, **options)
            context = pp.logged(engine, self.folder / str(len(self._contexts)), plan=PLAN)
            context.__enter__()
            self._contexts.append(context)

        return around

    def logs(self) -> int:
        """End all observers; return how many complete logs they left."""
        for context in self._contexts:
            context.__exit__(None, None, None)
        folders = [path for path in self.folder.iterdir() if (path / LOG).exists()]
        assert all(verify(path).complete for path in folders)
        return len(folders)


def rows(chosen: str = "") -> Iterator[SuiteRow]:
    """Run their tests whose names hold `chosen`, and yield what became of each."""
    settings.register_profile("repeated a few times", max_examples=REPETITIONS, database=None)
    settings.load_profile("repeated a few times")
    logging.getLogger("opacus").setLevel(logging.ERROR)
    for name in SUITES:
        suite = unittest.defaultTestLoader.loadTestsFromModule(_module(name))
        for case in _cases(suite):
            if chosen in case.id():
                yield _row(case)


def _module(name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if _sees_pictures():
            return importlib.import_module(f"opacus.tests.{name}")
        for part in PARTS:
            sys.modules[part] = mock.MagicMock()
        try:
            return importlib.import_module(f"opacus.tests.{name}")
        finally:
            for part in PARTS:
                del sys.modules[part]


def _sees_pictures() -> bool:
    return importlib.util.find_spec("torchvision") is not None


def _cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestCase):
            yield each
        else:
            yield from _cases(each)


def _row(case: unittest.TestCase) -> SuiteRow:
    name = case.id().removeprefix("opacus.tests.")
    if not _sees_pictures() and any(part in name for part in WITH_PICTURES):
        return SuiteRow(name, "not applicable", 0, NO_TORCHVISION)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        observers, result = _Observers(Path(folder)), unittest.TestResult()
        attached = observers.attached(PrivacyEngine.__init__)
        with mock.patch.object(PrivacyEngine, "__init__", attached):
            case.run(result)
        logs = observers.logs()
    if result.skipped:
        return SuiteRow(name, "not applicable", logs, f"skipped by them: {result.skipped[0][1]}")
    trouble = [text for _, text in (*result.failures, *result.errors)]
    if trouble:
        return SuiteRow(name, "failed", logs, trouble[0].strip().splitlines()[-1])
    if not logs:
        return SuiteRow(name, "not applicable", logs, NO_ENGINE)
    return SuiteRow(name, "passed", logs)


def main(write: Callable[[str], object] = sys.stdout.write) -> None:
    """Print every test whose name holds the first argument, what became of it, and why."""
    for row in rows(*sys.argv[1:2]):
        write(f"{row.test:<95} {row.outcome:<15} {row.logs:>3} logs  {row.why}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
