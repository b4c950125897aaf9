"""Runs of the published algorithms that are cut off: aborted, logged and spent, or taken up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import MissingParty
from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.fl.parties.network import Message

from ...cases import for_each
from ..small_runs import interrupted, of, require_whole, resumed
from .published_small import SYSTEMS, EachInTurn, built, settings

PUBLISHED = {"as_published": True, "largest_element": 3.0, "synchronise_every": 2}


class Lost(Exception):
    """What a test raises."""


def stopped(system: Any, log: Any, error: type[BaseException]) -> tuple[Odometer | None, Any]:
    """Make a round that must fail; return the budget's keeper and the log."""
    odometer = None if system.as_published else Odometer.for_plan(system.plan())
    kept = log()
    gate = Gate(odometer, kept, Streams.seeded(1))
    with pytest.raises(error):
        system.round(1, system.initial(), gate)
    return odometer, kept


def require_spent(odometer: Odometer | None, log: Any, reason: str) -> None:
    """Require an intent without a release, aborted for this reason, and paid for."""
    (intent,) = log.intents
    assert not log.releases
    (abort,) = [one for one in log.records if isinstance(one, records.RoundAbort)]
    assert (abort.intent, abort.reason) == (log.records.index(intent), reason)
    if odometer is not None:
        assert odometer.reading("model").epsilon > 0.0


@for_each("table", [{}, PUBLISHED], ids=["for a row", "as published"])
@for_each("algorithm", SYSTEMS)
def test_a_node_that_draws_no_noise_ends_the_round(
    algorithm: str, table: dict[str, Any], tiny: Any, log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.accountant.mechanisms import NoisyProduct

    honest = NoisyProduct.share_steps

    def failing(self: Any, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        if name == "noise/silo-1":
            raise Lost
        return honest(self, ticket, total, name, part)

    monkeypatch.setattr(NoisyProduct, "share_steps", failing)
    system = built(algorithm, tiny(features=5), **table)
    require_spent(*stopped(system, log, Lost), "error")


@for_each("algorithm", [one for one in SYSTEMS if one != "original"])
def test_a_node_whose_messages_are_lost_ends_the_round(algorithm: str, tiny: Any, log: Any) -> None:
    system = built(algorithm, tiny(features=5))

    def lost(message: Message) -> tuple[Message, ...]:
        return () if message.sender == "silo-1" else (message,)

    system.aggregator.network._meddling = lost  # type: ignore[union-attr]
    require_spent(*stopped(system, log, MissingParty), "missing-party")


@pytest.mark.skipif("utility" not in SYSTEMS, reason="masked sums need the extra `fl`")
class TestRemoval:
    def test_a_node_missing_from_the_removal_ends_the_round(self, tiny: Any, log: Any) -> None:
        class Absent(EachInTurn):
            def removed(self, *_: Any, **__: Any) -> Any:
                raise MissingParty("silo-2 did not answer.")

        system = built("utility", tiny(features=5), Absent)
        require_spent(*stopped(system, log, MissingParty), "missing-party")

    def test_keys_that_cannot_be_made_cost_nothing(self, tiny: Any, log: Any) -> None:
        def none(*_: Any) -> Any:
            raise MissingParty("silo-2 sent no key.")

        odometer, kept = stopped(built("utility", tiny(features=5), none), log, MissingParty)
        (abort,) = kept.records
        assert (abort.intent, abort.reason) == (None, "missing-party")
        assert odometer is not None
        assert odometer.reading("model").epsilon == 0.0

    def test_keys_are_made_once(self, tiny: Any, run: Any) -> None:
        calls = []

        def noted(posts: Any, nodes: int) -> EachInTurn:
            calls.append(nodes)
            return EachInTurn(posts, nodes)

        run(built("utility", tiny(features=5), noted))
        assert calls == [3]


@for_each("table", [{}, PUBLISHED], ids=["for a row", "as published"])
@for_each("algorithm", [one for one in SYSTEMS if one != "utility"])
def test_a_run_is_taken_up_where_it_stopped(
    algorithm: str,
    table: dict[str, Any],
    tiny: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped after the intent of its second round: that is spent, and the third is made."""
    from privplan.fl.running import preparation

    federation = tiny(features=6)
    digests = {"records": "0" * 64, "allocation": "0" * 64}
    monkeypatch.setattr(preparation, "federation_of", lambda _: (federation, digests))
    given_settings = settings(algorithm, federation, rounds=3, **table)
    folder = tmp_path / "run"
    interrupted(given_settings, folder, after=5)
    assert len(of(folder, records.RoundRelease)) == 1
    resumed(given_settings, folder)
    require_whole(folder)
    intents, releases = of(folder, records.RoundIntent), of(folder, records.RoundRelease)
    assert len(releases) == 2
    assert intents[2].model_in == releases[0].model_out
    published = bool(table)
    assert all(
        intent.noise.draws == (2 if published and algorithm == "private" else 1)
        for intent in intents
    )


def test_the_iterate_and_its_singular_values_are_all_that_is_kept(tiny: Any, log: Any) -> None:
    """From the same model another system makes the same round: nothing else is remembered."""
    for algorithm in SYSTEMS:
        models = []
        for _ in range(2):
            system = built(algorithm, tiny(features=6), as_published=True)
            start = np.linspace(-0.5, 0.5, 12)
            gate = Gate(None, log(), Streams.seeded(4))
            round_made = system.round(2, start, gate, {})
            assert set(round_made.state) == {"singular_values"}
            models.append(round_made.parameters)
        assert np.array_equal(*models)
