"""Runs whose users are held out, and that are cut off: nobody votes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Ticket
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.ledger.phases import score_of
from privplan.fl.frame import held_out_release
from privplan.fl.frame.held_out_release import HeldOutRelease

from ...cases import for_each
from ..extras import needs
from .held_out_runs import (
    DISCO,
    GROUP,
    RECORDS,
    VOTES,
    Stop,
    configured,
    cut,
    ledger_of,
    measured,
    never_voted_again,
    resumed,
    stopped,
    stored,
    votes_in,
)
from .hospitals import configuration

pytestmark = needs("torch", "pyarrow", "cryptography")


@for_each(
    "system, tables",
    [
        ("uldp-avg", {"security": {"aggregation": "plain"}}),
        ("uldp-avg", {"security": {"aggregation": "masked"}}),
        ("uldp-naive", {}),
        ("uldp-group", GROUP),
        ("disco", DISCO),
        ("disco", RECORDS),
    ],
)
def test_votes_that_were_not_begun_are_made_after_a_kill(
    tmp_path: Path, system: str, tables: dict[str, dict[str, Any]]
) -> None:
    tables = configured(system, tables)
    cut(tmp_path, tables, (HeldOutRelease, "totals"), before=False)
    assert votes_in(tmp_path / "out") == (0, 0, 0)
    outcome = resumed(tmp_path)
    assert outcome.result.held_out is not None
    assert votes_in(tmp_path / "out") == (1, 1, 1)
    assert audit_budget(tmp_path / "out").ok


@for_each("where", [(held_out_release, "noisy_sum"), (Ticket, "close")])
@for_each("aggregation", ["plain", "masked"])
def test_votes_that_were_cut_off_are_spent_and_never_made_again(
    tmp_path: Path, aggregation: str, where: tuple[Any, str]
) -> None:
    """The noise was drawn, and perhaps kept: nothing of it counts, and the run has an end."""
    tables = configuration(evaluation=VOTES, security={"aggregation": aggregation})
    owner, name = where
    known = getattr(owner, name)

    def stopping(*args: Any, **named: Any) -> Any:
        if name == "close" and args[0].intent.phase != "held-out":
            return known(*args, **named)
        if name == "noisy_sum":
            known(*args, **named)
        raise Stop

    stopped(tmp_path, tables, owner, name, stopping)
    folder = never_voted_again(tmp_path)
    assert not {"held_out_released", "held_out_deviation"} & stored(folder).keys()
    assert "held_out" not in measured(folder)
    assert not (folder / "checkpoint.npz").exists()
    budget = audit_budget(folder)
    assert budget.supported
    assert budget.ok
    assert budget.spent == 3
    assert not edits_of(folder)


def test_votes_that_were_released_are_kept_and_told_after_a_kill(tmp_path: Path) -> None:
    from privplan.accountant.records import Evaluation
    from privplan.fl.running import session

    cut(tmp_path, configuration(evaluation=VOTES), (session, "Evaluation"), before=True)
    folder = tmp_path / "out"
    assert votes_in(folder) == (1, 1, 0)
    outcome = resumed(tmp_path)
    assert votes_in(folder) == (1, 1, 1)
    assert session.Evaluation is Evaluation
    assert outcome.result.held_out is not None
    assert outcome.result.held_out == score_of(ledger_of(folder))
    assert audit_budget(folder).ok
    assert not edits_of(folder)


def test_votes_that_are_kept_and_not_in_the_log_are_refused(tmp_path: Path) -> None:
    """Who put them there may have seen them without noise."""
    tables = configuration(evaluation=VOTES)
    cut(tmp_path, tables, (HeldOutRelease, "totals"), before=True)
    checkpoint = tmp_path / "out" / "checkpoint.npz"
    with np.load(checkpoint) as kept:
        arrays = {name: kept[name] for name in kept.files}
    np.savez(checkpoint, **arrays, held_out_released=np.ones(2), held_out_deviation=np.ones(1))
    with pytest.raises(InvalidInput, match="never released"):
        resumed(tmp_path)


def stopped_in_block(folder: Path, round_before: int) -> None:
    """Begin a run of two blocks of correlated noise, and stop it after a round."""
    from privplan.fl.uldp.averaging import UldpAvg

    noise = {"noise": "banded", "cohorts": 2, "blocks": 2, "noise_multiplier": 2.0}
    tables = configuration(evaluation=VOTES, privacy=noise, run={"rounds": 8})
    known = UldpAvg.server_step

    def stopping(system: Any, parameters: Any, noisy: Any, state: Any, number: int) -> Any:
        if number == round_before:
            raise Stop
        return known(system, parameters, noisy, state, number)

    stopped(folder, tables, UldpAvg, "server_step", stopping)


def test_rounds_and_votes_of_correlated_noise_go_on_with_the_next_block(tmp_path: Path) -> None:
    stopped_in_block(tmp_path, 2)
    outcome = resumed(tmp_path)
    assert outcome.result.held_out is not None
    assert audit_budget(tmp_path / "out").supported


def test_a_run_that_is_cut_in_its_last_block_does_not_go_on(tmp_path: Path) -> None:
    stopped_in_block(tmp_path, 6)
    with pytest.raises(InvalidInput, match="last block"):
        resumed(tmp_path)
