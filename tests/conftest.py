"""Settings for all tests: one thread for algebra each, cases, and what a test may compute."""

from __future__ import annotations

import functools
import itertools
import os
from collections import defaultdict
from collections.abc import Generator
from typing import Final

import pytest
from hypothesis import settings
from typer import testing

from .cases import SHARE, shares

# Before numpy is loaded: several workers share the machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The command line is built once, as in a process; for each call that took a fifth of its tests.
testing._get_command = functools.cache(testing._get_command)

settings.register_profile("privplan", deadline=None)  # times belong to a machine, not to a test
settings.load_profile("privplan")

AIMED_CPU_SECONDS: Final = {"default": 10, "slow": 60}
"""What a test may compute, child processes included, on a processor of 2026.

What is above is named at the end of the run and does not fail: older processors take twice as long.
"""


_counted = itertools.count()


@pytest.fixture(autouse=True)
def _keys_of_ledgers(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Remember keys of ledgers for the length of a test: ports are used again by others."""
    folder = tmp_path_factory.getbasetemp() / f"ledger-keys-{next(_counted)}"
    monkeypatch.setenv("PRIVPLAN_LEDGER_KEYS", str(folder))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a person run some cases of a test that goes over many."""
    parser.addoption("--case", metavar="TEXT", help="only cases whose name holds TEXT")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make an item of the quick cases of a test, and one of its slow cases."""
    if not hasattr(metafunc.function, "cases"):
        return
    mark = metafunc.definition.get_closest_marker("quick")
    parts = shares(
        metafunc.function,
        quick=mark.args[0] if mark else None,
        holding=metafunc.config.getoption("--case"),
    )
    single = len(parts) == 1
    metafunc.parametrize(
        SHARE,
        [
            pytest.param(
                cases,
                id=pytest.HIDDEN_PARAM if single else name,
                marks=pytest.mark.slow if name.startswith("slow") else (),
            )
            for name, cases in parts
        ],
    )


@pytest.hookimpl(tryfirst=True)  # before `-m 'not slow'` is looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but `quick(n)` cases of a test slow; those that stay are spread evenly."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("quick") and not hasattr(item.function, "cases"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for same in cases.values():
        (quick,) = same[0].get_closest_marker("quick").args
        stay = {index * len(same) // quick for index in range(quick)}
        for index, item in enumerate(same):
            if index not in stay:
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note what a test computes, whatever else the machine is doing."""
    before = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        item.user_properties.append(("cpu_seconds", round(sum(os.times()[:4]) - before, 2)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that compute for longer than their kind may."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            seconds = dict(report.user_properties).get("cpu_seconds", 0.0)
            kind = "slow" if "slow" in report.keywords else "default"
            if report.when == "call" and seconds > AIMED_CPU_SECONDS[kind]:
                aim = AIMED_CPU_SECONDS[kind]
                terminalreporter.write_line(
                    f"computes for {seconds:.0f} s, more than {aim} s: {report.nodeid}"
                )
