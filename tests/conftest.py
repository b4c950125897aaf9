"""Settings for all tests: one thread for algebra each, and no clock on Hypothesis' examples."""

from __future__ import annotations

import os
from collections import defaultdict

import pytest
from hypothesis import settings

# Before numpy is loaded: several workers share the machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("privplan", deadline=None)  # times belong to a machine, not to a test
settings.load_profile("privplan")


@pytest.hookimpl(tryfirst=True)  # before `-m 'not slow'` is looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but `quick(n)` cases of a test slow; those that stay are spread evenly."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("quick"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for same in cases.values():
        (quick,) = same[0].get_closest_marker("quick").args
        stay = {index * len(same) // quick for index in range(quick)}
        for index, item in enumerate(same):
            if index not in stay:
                item.add_marker(pytest.mark.slow)
