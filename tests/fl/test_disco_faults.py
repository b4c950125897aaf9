"""Rounds of DISCO's peers in which somebody is missing: logged, spent, and never made smaller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.accountant.mechanisms import Gaussian
from privplan.fl.aggregation.share_sums import ShareAggregator
from privplan.fl.disco.settings import COUNT_PHASE
from privplan.fl.secagg.decentralised import (
    Confirmation,
    Hello,
    PartialSum,
    Share,
    TotalSlice,
)

from ..cases import for_each
from .disco_runs import Log, built, gate_of, settings, text
from .extras import needs
from .small_runs import of

pytestmark = needs("cryptography")

STEPS = {one.kind: one for one in (Hello, Share, PartialSum, TotalSlice, Confirmation)}


def silenced(system: Any, kind: str, sums: int = 1) -> None:
    """Let silo-1 send nothing of this kind, once so many sums were made without that."""
    heard = []

    def lost(message: Any) -> tuple[Any, ...]:
        if message.kind != kind or message.sender != "silo-1":
            return (message,)
        heard.append(message.session)
        return (message,) if len(dict.fromkeys(heard)) < sums else ()

    system.aggregator.network._meddling = lost


def aborts(log: Log) -> list[records.RoundAbort]:
    return [one for one in log.records if isinstance(one, records.RoundAbort)]


@for_each("kind", list(STEPS))
@for_each("number", [1, 2])
def test_a_peer_that_is_missing_ends_the_round(kind: str, number: int) -> None:
    """Whenever it falls silent, after the totals were sent too: spent as if it was released."""
    system = built(settings(silos=4))
    silenced(system, kind, sums=number)
    gate, log, odometer = gate_of(system)
    model = system.initial()
    for earlier in range(1, number):
        model = system.round(earlier, model, gate).parameters
    with pytest.raises(MissingParty, match="silo-1"):
        system.round(number, model, gate)
    assert [one.round for one in log.intents] == list(range(1, number + 1))
    assert len(log.releases) == number - 1  # nothing of three peers, or of anybody
    (abort,) = aborts(log)
    assert (abort.round, abort.reason) == (number, "missing-party")
    assert abort.intent == log.records.index(log.intents[-1])
    # What is spent is what so many whole rounds spend.
    whole = built(settings(silos=4))
    other_gate, _, expected = gate_of(whole)
    model = whole.initial()
    for one in range(1, number + 1):
        model = whole.round(one, model, other_gate).parameters
    for observer in ("model", "peer", "coordinator"):
        assert odometer.reading(observer).epsilon == expected.reading(observer).epsilon > 0.0
    # The peers do not go on with each other.
    with pytest.raises(InvalidInput, match="stopped by an earlier fault"):
        system.round(number + 1, system.initial(), gate)
    assert len(log.releases) == number - 1


@for_each("phase", [COUNT_PHASE, "train"])
def test_a_round_of_two_releases_is_spent_as_a_whole(phase: str) -> None:
    system = built(settings(clip="quantile"))
    silenced(system, Share.kind, sums=1 if phase == COUNT_PHASE else 2)
    gate, log, odometer = gate_of(system)
    with pytest.raises(MissingParty):
        system.round(1, system.initial(), gate)
    assert log.intents[-1].phase == phase
    assert [one.model_out for one in log.releases] == [None] * (phase == "train")
    assert [one.reason for one in aborts(log)] == ["missing-party"]
    whole = built(settings(clip="quantile"))
    other_gate, _, expected = gate_of(whole)
    whole.round(1, whole.initial(), other_gate)
    spent, full = odometer.reading("peer").epsilon, expected.reading("peer").epsilon
    assert 0.0 < spent <= full
    if phase == "train":
        assert spent == full


@for_each("clip", ["fixed", "previous", "quantile"])
def test_a_round_that_is_made_again_has_fresh_noise_and_is_charged(
    clip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer fails after it drew: the others' noise of that round is used nowhere else."""
    system = built(settings("local", "plain", clip=clip, rounds=4))
    gate, log, odometer = gate_of(system)
    honest, failing = Gaussian.share_steps, [True]
    drawn: list[Any] = []

    def share(self: Any, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        sent = honest(self, ticket, total, name, part)
        drawn.append((name, (sent - total).tobytes()))
        if failing and name == "noise/silo-2":
            raise ProtocolFault("silo-2 stopped.")
        return sent

    monkeypatch.setattr(Gaussian, "share_steps", share)
    start = system.initial()
    with pytest.raises(ProtocolFault):
        system.round(1, start, gate)
    after_one = odometer.reading("peer").epsilon
    failing.clear()
    system.round(1, start, gate)
    assert odometer.reading("peer").epsilon > after_one > 0.0
    assert len(set(drawn)) == len(drawn)
    assert len({noise for _, noise in drawn}) == len(drawn)
    again = [one for one in log.intents if one.phase == "train"]
    assert len(again) == 2
    assert again[0].contribution == again[1].contribution
    positions = [used for one in log.releases for used in one.streams if one.model_out]
    # 4 numbers of noise were lost of each stream; what is released begins after them.
    assert all(used.first > 0 for used in positions)


@for_each("aggregation", ["plain", "masked", "shares"])
def test_a_peer_that_makes_no_integers_ends_the_round(
    aggregation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = built(settings("local", aggregation))
    honest = Gaussian.share_steps

    def short(self: Any, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        sent = honest(self, ticket, total, name, part)
        return sent[:1] if name == "noise/silo-2" else sent

    monkeypatch.setattr(Gaussian, "share_steps", short)
    gate, log, _ = gate_of(system)
    with pytest.raises((ProtocolFault, InvalidInput)):
        system.round(1, system.initial(), gate)
    assert not log.releases
    assert len(aborts(log)) == 1


def test_a_command_says_who_was_missing_and_that_the_round_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("sklearn", "torch"):
        pytest.importorskip(needed)
    from typer.testing import CliRunner

    from privplan.audit.budget import audit_budget
    from privplan.cli.main import app

    honest = ShareAggregator.__init__

    def meddled(self: Any, *values: Any, **named: Any) -> None:
        honest(self, *values, **named)

        class Holder:
            aggregator = self

        silenced(Holder, PartialSum.kind, sums=2)

    monkeypatch.setattr(ShareAggregator, "__init__", meddled)
    config, folder = tmp_path / "run.toml", tmp_path / "out"
    config.write_text(text("seed"))
    done = CliRunner().invoke(app, ["run", str(config), "--out", str(folder)])
    assert done.exit_code == 1, done.stderr
    said = " ".join(done.stderr.split())
    assert "silo-1" in said
    assert "The round is spent, and the log says so." in said
    assert "privplan run --resume" in said
    assert [one.round for one in of(folder, records.RoundRelease)] == [1]
    (abort,) = of(folder, records.RoundAbort)
    assert (abort.round, abort.reason) == (2, "missing-party")
    monkeypatch.setattr(ShareAggregator, "__init__", honest)
    resumed = CliRunner().invoke(app, ["run", "--resume", "--out", str(folder)])
    assert resumed.exit_code == 0, resumed.stderr
    assert [one.round for one in of(folder, records.RoundRelease)] == [1, 3]
    report = audit_budget(folder)
    assert report.ok
    (close,) = of(folder, records.RunClose)
    assert report.total.upper == pytest.approx(close.epsilon["peer"], rel=1e-6)
    assert np.isfinite(report.total.upper)
