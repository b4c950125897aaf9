"""`privplan.check`: what it takes, and the verdict about logs of privplan's own."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.audit.check.causes import CAUSE_RULES
from privplan.audit.check.log_rules import COUNTERPARTS, NOT_APPLICABLE, log_rules
from privplan.audit.description.keys import KEYS
from privplan.audit.description.merging import describe
from privplan.audit.description.tables import reading_of_names
from privplan.audit.hazards import RULES

from .described import ids

DP_SGD = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
ANSWER = 1.8283


def test_tables_and_facts_say_the_same() -> None:
    facts = pp.check(
        claimed=Decimal("1.83"),
        delta=1e-5,
        noise_multiplier=1.0,
        rate=0.01,
        steps=1000,
        method="poisson",
    )
    tables = pp.check(
        {
            "claim": {"epsilon": Decimal("1.83"), "delta": 1e-5},
            "noise": {"noise_multiplier": 1.0},
            "sampling": {"method": "poisson", "rate": 0.01},
            "schedule": {"steps": 1000},
        }
    )
    assert facts.verdict == tables.verdict == "holds"
    assert facts.proven == tables.proven
    assert facts.proven is not None
    assert facts.proven.upper == pytest.approx(ANSWER, abs=1e-3)


def test_an_event_of_privplan_states_its_sampler() -> None:
    result = pp.check(DP_SGD, claimed=2, delta=1e-5)
    assert result.verdict == "holds"
    assert "sampling.method" not in {each.key for each in result.missing}


def test_an_event_of_dp_accounting_says_what_an_accountant_assumed() -> None:
    result = pp.check(DP_SGD.to_dp_event(), claimed=2, delta=1e-5)
    assert result.verdict == "unverifiable"
    assert result.missing[0].key == "sampling.method"
    said = pp.check(DP_SGD.to_dp_event(), claimed=2, delta=1e-5, method="poisson")
    assert said.verdict == "holds"
    shuffled = pp.check(DP_SGD.to_dp_event(), claimed=2, delta=1e-5, method="shuffled")
    assert "shuffled-loader" in ids(shuffled)


def test_events_that_no_keys_express() -> None:
    event = ev.Compose((ev.Repeat(10, ev.RandomAllocation(50, 1, ev.Gaussian(1.0))), ev.Pure(0.1)))
    result = pp.check(event, claimed=50, delta=1e-5)
    assert result.verdict == "holds"
    assert result.proven == pp.account(event, delta=1e-5).epsilon
    mixed = ev.Compose((ev.Poisson(0.1, ev.Laplace(2.0)), ev.Gaussian(4.0)))
    assumed = pp.check(mixed.to_dp_event(), claimed=1, delta=1e-5)
    assert assumed.alternatives is not None
    assert {"poisson", "full"} <= set(assumed.alternatives)
    assert (assumed.verdict, assumed.missing[0].key) == ("unverifiable", "sampling.method")


@pytest.mark.parametrize("bad", [3, None, [DP_SGD], b"x"])
def test_other_sources_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInput):
        pp.check(bad)  # type: ignore[arg-type]


def test_nothing_and_unknown_facts_are_refused() -> None:
    with pytest.raises(InvalidInput):
        pp.check()
    with pytest.raises(InvalidInput):
        pp.check(claimed=1.0, noise_multiplyer=1.0)
    with pytest.raises(InvalidInput):
        pp.check(claimed=float("nan"), delta=1e-5)


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        "[claim]\nepsilon = 1.83\ndelta = 1e-5\n[noise]\nnoise_multiplier = 1.0\n"
        '[sampling]\nmethod = "poisson"\nrate = 0.01\n[schedule]\nsteps = 1000\n',
        encoding="utf-8",
    )
    result = pp.check(file)
    assert result.verdict == "holds"
    assert result.facts["schedule.steps"].provenance == "stated"


def test_a_log_has_the_verdict_of_its_audit(folder: Path) -> None:
    result, report = pp.check(folder), audit_budget(folder)
    assert result.proven == report.total.epsilon
    assert ids(result) == {hazard.id for hazard in report.hazards}
    assert (result.verdict == "holds") == bool(report.supported)
    assert pp.check(folder / "log.jsonl").verdict == result.verdict
    with pytest.raises(InvalidInput):
        pp.check(folder, claimed=3)


def test_every_rule_of_logs_is_answered_for() -> None:
    description = describe([reading_of_names({"sampling.method": "poisson"}, "by hand")])
    rules = {each.id: each for each in log_rules(description)}
    assert set(rules) == set(RULES)
    assert set(COUNTERPARTS) <= set(RULES)
    assert {cause for cause, _ in COUNTERPARTS.values()} <= set(CAUSE_RULES)
    assert {key for _, key in COUNTERPARTS.values()} <= set(KEYS)
    assert rules["shuffled-as-poisson"].fed
    assert not rules["private-bound"].fed
    assert rules["weak-key"].says == NOT_APPLICABLE
