"""What systems state of who sees what is the table's, and changes no number that they promise."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from privplan.audit.derivation.believed_reach import believed_reach
from privplan.audit.derivation.protocol_consistency import reliable_facts
from privplan.audit.derivation.sampling import route_of
from privplan.fl.observers.reaches import reaches_of
from privplan.fl.observers.stated_reaches import checked_reaches

from ..cases import for_each
from ..sweeps import sweep
from .ledgers import Records, audited, evidence, intents, weighted
from .test_budget_coalitions import CASES, log_of, prepared

REACHES = {"reach-contradicted", "reach-of-nobody", "reach-missing", "reach-assumed"}


def both(case: dict[str, Any]) -> tuple[Records, Records]:
    """Return a log of a system without what reaches whom, and with what the system states of it."""
    own = prepared(**case)
    log, system = log_of(own), own.system
    reaches: Any = system.reaches()  # type: ignore[attr-defined]
    assert checked_reaches(reaches, system.name) == reaches
    return intents(reaches=None)(log), intents(reaches=reaches)(log)


@for_each("name", sweep(sorted(CASES), quick=16))
def test_a_system_states_what_the_table_says(name: str) -> None:
    before, after = both(CASES[name])
    old, new = evidence(before), evidence(after)
    ((kind,), (stated,)) = old.kinds, new.kinds
    assert new.observers == old.observers
    for observer in new.observers:
        known = believed_reach(stated.facts, new.setting, observer)
        assert known == believed_reach(kind.facts, old.setting, observer)
        assert new.seen(stated, observer) == old.seen(kind, observer)
        assert new.spent_total(observer).upper == old.spent_total(observer).upper
        assert new.rests_on(observer) == old.rests_on(observer)
    assert not {hazard.id for hazard in audited(after).hazards} & REACHES
    assert audited(after).ok == audited(before).ok


@for_each("drawn_by", ["server", "shared-secret", "oblivious-transfer"])
def test_private_weighting_states_what_the_table_says(drawn_by: str) -> None:
    log = weighted(2, rule="records", aggregation="private-weighting", rate=0.5, drawn_by=drawn_by)
    own = evidence(log)
    (kind,) = own.kinds
    hidden = {name for name, event in kind.stated.items() if event.type == "poisson"}
    found = reaches_of(kind.stated, route_of(*reliable_facts(kind.facts, own.setting)))
    coalitions = {name for name in found if "+" in name}
    assert {name for name, reach in found.items() if not reach.knows_sample} == hidden
    assert coalitions
    assert not coalitions & hidden
