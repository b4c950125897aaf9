"""Runs of FLAME whose users are held out, and that are cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.mechanisms import Ticket
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.ledger.phases import score_of
from privplan.fl.flame.votes import ShuffledVotes
from privplan.fl.shuffling import Shuffling
from privplan.fl.shuffling.ideal import IdealShuffling

from ...cases import for_each
from ..extras import needs
from .held_out_flame import (
    IDEAL,
    SETTINGS,
    UNPROVEN,
    Tables,
    configured,
    ran,
)
from .held_out_runs import (
    Stop,
    ledger_of,
    measured,
    never_voted_again,
    resumed,
    stopped,
    votes_in,
)

pytestmark = needs("torch", "pyarrow", "cryptography", "nacl")


def cut(folder: Path, tables: Tables, owner: Any, name: str, *, before: bool) -> None:
    """Begin a run, and cut it off before or after a function of its votes."""
    known = getattr(owner, name)

    def stopping(first: Any, *args: Any, **named: Any) -> Any:
        ticket = first if isinstance(first, Ticket) else next(iter(args[1:2]), None)
        if isinstance(ticket, Ticket) and ticket.intent.phase != "held-out":
            return known(first, *args, **named)
        if not before:
            known(first, *args, **named)
        raise Stop

    stopped(folder, tables, owner, name, stopping)


@pytest.mark.quick(5)
@for_each("system, tables", [*SETTINGS, *UNPROVEN])
def test_votes_that_were_not_begun_are_made_after_a_kill(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    """The resumed run is that which was not cut off: model, plan, price, and one vote."""
    tables = configured(system, tables, run={"seed": 5, "rounds": 2})
    whole, uncut = ran(tmp_path / "whole", tables)
    folder = tmp_path / "cut"
    folder.mkdir()
    cut(folder, tables, ShuffledVotes, "values", before=False)
    assert votes_in(folder / "out") == (0, 0, 0)
    outcome = resumed(folder)
    assert votes_in(folder / "out") == votes_in(whole) == (1, 1, 1)
    assert outcome.result.model == uncut.result.model
    assert outcome.result.guarantees == uncut.result.guarantees
    assert outcome.result.held_out is not None
    assert outcome.result.held_out.deviation == uncut.result.held_out.deviation
    assert outcome.result.held_out == score_of(ledger_of(folder / "out"))
    if (system, tables) not in UNPROVEN:
        assert audit_budget(folder / "out").total == audit_budget(whole).total
    assert not edits_of(folder / "out")


@for_each(
    "owner, name, table",
    [
        (IdealShuffling, "round", IDEAL),
        (Shuffling, "round", {}),
        (Ticket, "close", IDEAL),
        (Ticket, "close", {}),
    ],
)
def test_votes_that_were_cut_off_are_spent_and_never_made_again(
    tmp_path: Path, owner: Any, name: str, table: dict[str, Any]
) -> None:
    """The noise was drawn, and perhaps kept: nothing of it counts, and the run has an end."""
    tables = configured("flame-simple", {"flame": table})
    cut(tmp_path, tables, owner, name, before=owner is Ticket)
    folder = never_voted_again(tmp_path)
    assert "held_out" not in measured(folder)
    budget = audit_budget(folder)
    assert budget.ok
    assert budget.spent == 3
    assert not edits_of(folder)


def test_a_training_whose_only_round_is_lost_costs_what_was_charged_beside_votes(
    tmp_path: Path,
) -> None:
    tables = configured("flame-simple", {"flame": IDEAL}, run={"seed": 5, "rounds": 1})

    def stopping(*_: Any, **__: Any) -> Any:
        raise Stop

    stopped(tmp_path, tables, Ticket, "close", stopping)
    resumed(tmp_path)
    ledger = ledger_of(tmp_path / "out")
    assert [bool(spent.releases) for spent in ledger.spent] == [False, True]
    assert ledger.closed is not None
    budget = audit_budget(tmp_path / "out")
    assert "close-under-reports" not in {hazard.id for hazard in budget.hazards}
    charged = ledger.closed.epsilon["analyzer"]
    assert budget.total.upper == pytest.approx(charged, rel=1e-9)
