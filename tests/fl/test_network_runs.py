"""A run over a network is the run in one process, bit for bit; each party keeps its own log."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput, PrivplanError
from privplan.audit.hazards import RULES
from privplan.fl.network.hub import Hub
from privplan.fl.network.planned_run import HeldRecords
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .network_parties import Parties, config
from .same_runs import require_same_run

RUNS = [
    ("statistics", "masked", 1),
    ("delm-linear", "plain", 1),
    ("fedpower-power", "masked", 3),
    pytest.param("uldp-avg", "masked", 3),
    pytest.param("fedavg", "plain", 3, marks=pytest.mark.slow),
    pytest.param("fedavg", "masked", 3, marks=pytest.mark.slow),
    pytest.param("uldp-sgd", "plain", 3, marks=pytest.mark.slow),
    pytest.param("uldp-naive", "masked", 3, marks=pytest.mark.slow),
    pytest.param("fedpower-one-shot", "masked", 1, marks=pytest.mark.slow),
]


@for_each(("system", "aggregation", "rounds"), RUNS)
def test_vectors_models_facts_and_epsilon_are_those_of_one_process(
    tmp_path: Path, system: str, aggregation: str, rounds: int
) -> None:
    text = config(system, aggregation)
    parties = Parties.of(tmp_path, text)
    result = parties.hub().run()
    parties.close()
    whole = pp.run(tomllib.loads(text), tmp_path / "whole")
    assert np.array_equal(result.parameters, whole.result.parameters)
    assert result.rounds == whole.result.rounds == rounds
    for who, proven in result.guarantees.items():
        assert proven.epsilon == whole.guarantees[who].epsilon
    silos = [parties.run_folder(silo) for silo in range(3)]
    require_same_run(parties.run_folder(None), silos, whole.folder, parties.plan.digest)


def test_a_masked_round_takes_five_exchanges_and_a_run_two_more(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("fedpower-power"))
    parties.hub().run()
    parties.close()
    assert len(parties.courier.carried) == 3 * (1 + 3 * 5 + 1)


def test_a_party_holds_the_records_of_one_silo_and_the_server_none() -> None:
    settings = parse(config("statistics").encode(), "a configuration")
    held = [HeldRecords(silo).federation(settings)[0] for silo in (None, 0, 1, 2)]
    assert held[0].records == 0
    assert [set(each.silo.tolist()) for each in held[1:]] == [{0}, {1}, {2}]
    digests = [HeldRecords(silo).federation(settings)[1] for silo in (None, 0, 1, 2)]
    assert len({each["silo"] for each in digests}) == 4


def test_another_party_does_not_go_on_with_a_log(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("statistics"))
    stopped = iter(range(5))
    parties.courier.meddling = lambda _, raw: raw if next(stopped, None) is not None else None
    with pytest.raises(PrivplanError):
        parties.hub().run()
    parties.close()
    for silo in (None, 0):
        with pytest.raises(InvalidInput, match="another party"):
            pp.resume(parties.run_folder(silo))


def test_the_server_says_whose_noise_it_was(tmp_path: Path) -> None:
    from privplan.audit.budget import audit_budget

    parties = Parties.of(tmp_path, config("statistics"))
    parties.hub().run()
    parties.close()
    for silo in (None, 1):
        hazards = {one.id for one in audit_budget(parties.run_folder(silo)).hazards}
        assert "noise-drawn-elsewhere" in hazards
        assert {one for one in hazards if RULES[one].severity == "error"} == {"seeded"}


def test_a_server_whose_key_is_not_the_plans_is_refused(tmp_path: Path) -> None:
    parties = Parties.of(tmp_path, config("statistics"))
    with pytest.raises(InvalidInput, match="not that of the plan's server"):
        Hub(parties.plan, tmp_path / "north", parties.courier)
    parties.close()
