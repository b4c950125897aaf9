"""Runs of FLAME that are cut off: what was begun is spent, and goes on under fresh noise."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant import records
from privplan.audit.budget import audit_budget
from privplan.audit.derivation.messages import is_number
from privplan.audit.edits import edits_of
from privplan.audit.evidence.evidence import Evidence
from privplan.audit.verify import verify
from privplan.fl.settings.schema import Settings

from ..cases import for_each
from ..cli.killing import at_each_write, gone_on
from .configured import written
from .extras import needs
from .flame_runs import flame
from .small_runs import interrupted, of, require_whole, resumed, started
from .tables.held_out_runs import ledger_of

pytestmark = needs("sklearn", "nacl", "torch")

SEEDED_ONLY = {"seeded"}

WAYS = {
    "simple, ideal": ("flame-simple", {"transport": '"ideal"'}),
    "double, sealed": ("flame-double", {"padded_to": "12"}),
    "double, capped": ("flame-double", {"padded_to": "3", "overflow": '"cap"'}),
    "topk with decoys": ("flame-topk", {"decoys": "2"}),
}
"""The system and its table."""


def require_fresh_streams(folder: Path) -> None:
    """Require that no two releases use the same part of a stream: noise, choice and order."""
    reached: dict[str, int] = {}
    for release in of(folder, records.RoundRelease):
        assert release.streams
        for used in release.streams:
            assert used.first >= reached.get(used.stream, 0)
            reached[used.stream] = used.last


def require_sound(folder: Path, rounds: int) -> None:
    """Require what holds of every closed run, however often it was cut off."""
    require_whole(folder, rounds)
    assert edits_of(folder) == ()
    require_fresh_streams(folder)
    report = audit_budget(folder)
    assert {one.id for one in report.hazards if one.severity == "error"} <= SEEDED_ONLY
    assert report.spent == rounds
    (close,) = of(folder, records.RunClose)
    assert report.total.upper == pytest.approx(close.epsilon["analyzer"], rel=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork")
@for_each("way", ["simple, ideal", "double, capped", "topk with decoys"])
def test_a_run_goes_on_after_a_kill_at_any_write(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    system, table = WAYS[way]
    config = tmp_path / "run.toml"
    config.write_bytes(text(system, table, rounds=2))
    lost = 0
    for folder in gone_on(at_each_write(config, tmp_path / "runs"), 20):
        require_sound(folder, 2)
        lost += bool(of(folder, records.RoundAbort) or of(folder, records.RunRecover))
    assert lost > 5


def text(system: str, table: dict[str, str], rounds: int) -> bytes:
    """Return the configuration of a small run, as a file."""
    chosen = {} if system == "flame-simple" else {"chosen": "5"}
    return written(
        system,
        run={"system": f'"{system}"', "rounds": str(rounds), "seed": "7"},
        data={"name": '"breast-cancer"', "users": "12"},
        training={"model": '"logistic"', "local_epochs": "1"},
        flame={**chosen, **table},
    )


def lost(way: str) -> Settings:
    """Return settings of a run of three rounds, of which one is to be lost."""
    system, table = WAYS[way]
    return flame(system, flame=table, run={"rounds": "3"})


@pytest.fixture(scope="module")
def whole_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Return the last records of runs that were not cut off."""
    place, closes = tmp_path_factory.mktemp("whole"), {}
    for way in ("double, sealed", "topk with decoys"):
        started(lost(way), place / way)
        closes[way] = of(place / way, records.RunClose)
    return closes


# The lines of a run: opening, then for each round intent, release and evaluation.
@pytest.mark.quick(4)
@for_each(
    "way, after, written",
    [
        (("double, sealed", "topk with decoys")[number % 2], after, written)
        for number, after in enumerate((2, 3, 5, 6, 8, 9))
        for written in (False, True)
    ],
)
def test_a_round_that_is_lost_is_paid_for(
    way: str, after: int, written: bool, whole_runs: dict[str, list[Any]], tmp_path: Path
) -> None:
    own, folder = lost(way), tmp_path / "run"
    interrupted(own, folder, after=after, written=written)
    begun = len(of(folder, records.RoundIntent))
    done = resumed(own, folder)
    require_sound(folder, 3)
    (recovery,) = of(folder, records.RunRecover)
    assert recovery.next_round == begun + 1
    (close,), (whole,) = of(folder, records.RunClose), whole_runs[way]
    assert close.epsilon == whole.epsilon  # whatever was lost is charged
    if done.rounds < 3:  # under other noise than in the run that was not cut off
        assert close.model == done.model != whole.model
    assert verify(folder).complete


@for_each("way", sorted(WAYS))
def test_a_run_whose_only_round_is_lost_has_the_number_that_was_charged(
    way: str, tmp_path: Path
) -> None:
    """No release says how many numbers it was: the model of the configuration does."""
    system, table = WAYS[way]
    own, folder = flame(system, flame=table, run={"rounds": "1"}), tmp_path / "run"
    interrupted(own, folder, after=2, written=True)
    resumed(own, folder)
    assert not of(folder, records.RoundRelease)
    require_sound(folder, 1)


def test_a_lost_message_of_fewer_draws_than_the_model_has_is_no_number(tmp_path: Path) -> None:
    """It would hold several numbers, and a mix of those hides less."""
    own = flame("flame-simple", flame={"transport": '"ideal"'}, run={"rounds": "1"})
    interrupted(own, tmp_path / "run", after=2, written=True)
    ledger = ledger_of(tmp_path / "run")
    (lost,) = ledger.spent
    for draws, number in ((31, True), (30, False)):
        noise = replace(lost.intent.noise, draws=draws)
        drawn = replace(lost, intent=replace(lost.intent, noise=noise))
        (kind,) = Evidence.of(replace(ledger, spent=(drawn,))).kinds
        assert is_number(kind.facts) is number
