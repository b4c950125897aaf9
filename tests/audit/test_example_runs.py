"""Example runs of the published systems, made, audited and attacked as anybody's would be."""

from __future__ import annotations

import pytest

from privplan.accountant.claims.table import SYSTEMS
from privplan.accountant.errors import Unsupported
from privplan.audit.attack.example_runs import configuration_of, paper_of, run_example
from privplan.fl.declarations.registry import declared
from privplan.fl.running.configuration import Configuration

from ..cases import for_each
from ..sweeps import sweep

EXAMPLES = tuple(name for name, each in declared().items() if each.example is not None)


def test_every_published_system_has_an_example() -> None:
    assert {paper_of(system) for system in EXAMPLES} == set(SYSTEMS)


@for_each("system", EXAMPLES)
def test_an_example_is_a_configuration_of_its_system_on_bundled_data(system: str) -> None:
    settings = Configuration.of(configuration_of(system)).settings
    assert settings.run.system == system
    assert settings.data.path is None
    assert settings.run.seed is None  # its noise would protect nobody


@for_each("system", sweep(EXAMPLES, quick=1))
def test_an_example_run_shows_no_more_than_is_proven(system: str) -> None:
    """A bound is wrong once in 100; the canaries' seed is fixed, and with it most of the chance."""
    result = run_example(system)
    assert result.system == system
    assert result.measured <= result.proven
    assert result.measured > 0.0
    if result.as_published:
        assert result.claimed is None or result.proven > result.claimed
    else:
        assert result.claimed is not None
        assert result.proven <= result.claimed
        assert not result.contradicted


def test_a_system_without_an_example_is_refused() -> None:
    with pytest.raises(Unsupported, match="has no example run"):
        configuration_of("fedavg")
