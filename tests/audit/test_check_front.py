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
from privplan.audit.check.log_verdict import COUNTERPARTS, NOT_APPLICABLE
from privplan.audit.check.result_json import result_json
from privplan.audit.hazards import RULES

from ..cases import for_each
from . import ledgers
from .described import ids
from .fault_table import TABLE

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
    assert result.proven is not None
    assert result.proven.upper == pp.account(event, delta=1e-5).epsilon.upper
    # A mechanism of which only a bound is known may release nothing, so it refutes nothing.
    known = pp.account(event.events[0], delta=1e-5).epsilon
    assert 0.99 * known.lower <= result.proven.lower <= known.upper
    mixed = ev.Compose((ev.Poisson(0.1, ev.Laplace(2.0)), ev.Gaussian(4.0)))
    assumed = pp.check(mixed.to_dp_event(), claimed=1, delta=1e-5)
    assert assumed.alternatives is not None
    assert {"poisson", "full"} <= set(assumed.alternatives)
    assert (assumed.verdict, assumed.missing[0].key) == ("unverifiable", "sampling.method")


@for_each("bad", [3, None, [DP_SGD], b"x"])
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


def test_a_note_of_an_audit_is_an_info_of_a_check(tmp_path: Path) -> None:
    make, fault, _ = TABLE["dangling"]
    folder = ledgers.written(tmp_path / "run", fault(make()))
    (note,) = [each for each in audit_budget(folder).hazards if each.id == "dangling"]
    (info,) = [each for each in pp.check(folder).causes if each.id == "dangling"]
    assert (note.severity, info.severity) == ("note", "info")
    assert (info.says, info.next_step, info.epsilon) == (note.says, note.next_step, None)


def test_every_rule_of_logs_is_answered_for() -> None:
    assert set(COUNTERPARTS) <= set(RULES)
    assert set(COUNTERPARTS.values()) <= set(CAUSE_RULES)
    result = pp.check(claimed=1.83, delta=1e-5, noise_multiplier=1.0, rate=0.01, steps=1000)
    rules = result_json(result)["rules"]
    assert isinstance(rules, dict)
    assert set(rules) == set(RULES)
    assert rules["shuffled-as-poisson"] == "shuffled-loader"
    assert rules["weak-key"] == NOT_APPLICABLE


def test_of_a_log_every_rule_stands_for_itself(folder: Path) -> None:
    rules = result_json(pp.check(folder))["rules"]
    assert rules == {name: name for name in RULES}


STATE = {"history": [(1.1, 1 / 235, 3525)], "mechanism": "rdp"}
"""What `state_dict()` of an accountant of Opacus returns."""


def test_the_state_of_an_accountant_is_taken_as_it_is() -> None:
    result = pp.check(STATE, claimed=1.28, delta=1e-5, records=60000, method="poisson")
    assert result.verdict == "holds"
    assert result.facts["noise.noise_multiplier"].provenance == "read"


@for_each(
    ("library", "kept"), [("opacus 1.5", "opacus 1.5"), ("Opacus", "Opacus"), ("opacus", "opacus")]
)
def test_a_library_agrees_with_its_own_file(library: str, kept: str) -> None:
    stated = {"claim": {"epsilon": 1.28, "delta": 1e-5, "library": library}}
    result = pp.check(STATE, stated, records=60000, method="poisson")
    assert result.verdict == "holds"
    assert result.facts["claim.library"].value == kept
    other = pp.check(STATE, stated | {"claim": {"library": "flower"}}, claimed=1.28, delta=1e-5)
    assert "contradiction" in ids(other)


def test_what_an_event_says_is_among_the_facts_and_in_doubt() -> None:
    result = pp.check(DP_SGD.to_dp_event(), claimed=2, delta=1e-5)
    assert result.facts["schedule.steps"].value == 1000
    assert any("which sampler ran" in doubt for doubt in result.doubts)


def test_a_result_prints_as_one_line() -> None:
    said = str(
        pp.check(
            STATE,
            claimed=1.28,
            delta=1e-5,
            records=60000,
            method="shuffled",
            neighbours="add-remove",
        )
    )
    assert said.startswith("FALSE: ")
    assert "error shuffled-loader" in said
    assert "\n" not in said
