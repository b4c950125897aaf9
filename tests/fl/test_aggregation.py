"""Sums in the clear and under masks are the same, bit for bit, and the log says which they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault, Unsupported
from privplan.accountant.mechanisms import Gate, Gaussian, RoundDescription
from privplan.accountant.randomness import Streams
from privplan.audit.budget import audit_budget
from privplan.audit.verify import verify
from privplan.fl.aggregation.choice import aggregator
from privplan.fl.aggregation.sums import PlainAggregator, Sum, float_sum, noisy_sum
from privplan.fl.log import LogWriter
from privplan.fl.parties.network import SERVER, Message
from privplan.fl.parties.transcripts import FOLDER, read_transcript
from privplan.fl.running.preparation import prepare
from privplan.fl.running.session import execute
from privplan.fl.settings.schema import SecuritySettings, Settings
from privplan.fl.uldp.settings import UldpSettings

from ..cases import for_each
from .conftest import Log
from .extras import needs
from .small_runs import changed, of, started

pytestmark = needs("torch", "sklearn", "cryptography", "msgpack")

SMALL = changed(run={"seed": 11}, data={"users": 9, "silos": 3})
MASKED = SecuritySettings(aggregation="masked")


@for_each(
    "settings",
    [
        SMALL,
        changed(SMALL, training={"weighting": "records"}),
        changed(SMALL, privacy={"sampling_rate": 0.5}),
        changed(SMALL, run={"system": "uldp-sgd"}),
        changed(SMALL, run={"system": "uldp-naive"}),
        changed(SMALL, data={"normalisation": "private"}, privacy={"normalisation_noise": 2.0}),
    ],
    ids=["avg", "records", "sampled", "sgd", "naive", "normalised"],
)
def test_masked_runs_release_the_same_bits(settings: Settings, whole: Any, tmp_path: Path) -> None:
    folder, plain = whole(settings)
    masked = started(replace(settings, security=MASKED), tmp_path / "masked")
    assert plain.model == masked.model
    assert verify(tmp_path / "masked").complete
    clear, hidden = (
        [one.aggregate for one in of(where, records.RoundRelease)]
        for where in (folder, tmp_path / "masked")
    )
    assert clear == hidden


@for_each(
    "settings",
    [
        changed(SMALL, run={"system": "fedavg"}, privacy={"unit": None, "noise_multiplier": None}),
        changed(
            SMALL,
            run={"system": "uldp-group"},
            privacy={"group": 3},
            table={"group_records": 3},
        ),
    ],
    ids=["fedavg", "group"],
)
def test_masked_floats_are_the_same_to_what_is_stated(settings: Settings, tmp_path: Path) -> None:
    plain = started(settings, tmp_path / "plain")
    masked = started(replace(settings, security=MASKED), tmp_path / "masked")
    assert np.abs(plain.parameters).max() > 1e-3
    np.testing.assert_allclose(masked.parameters, plain.parameters, rtol=0, atol=1e-8)
    assert (masked.parameters != plain.parameters).any()  # it did go through the ring


def test_the_log_says_what_the_server_sees(whole: Any) -> None:
    folder, _ = whole(replace(SMALL, security=MASKED))
    (opened,) = of(folder, records.RunOpen)
    assert opened.aggregation == "masked"
    assert opened.security is not None
    assert opened.security.protocol == "pairwise-masks"
    assert (opened.security.parties, opened.security.fewest) == (3, 3)
    assert opened.plan.events["server"] == opened.plan.events["model"]
    assert not (folder / FOLDER).exists()  # no transcript is kept unasked
    report = audit_budget(folder)
    found = {one.observer: one.total.epsilon for one in report.rows}
    assert found["server"].upper == report.total.epsilon.upper


def test_what_sends_updates_in_the_clear_does_not_say_that_weights_are_hidden() -> None:
    for system in ("fedavg", "uldp-naive"):
        own = changed(SMALL, run={"system": system}, security={"aggregation": "private-weighting"})
        with pytest.raises(Unsupported):
            prepare(own)


def test_masks_need_two_silos_that_stay() -> None:
    assert isinstance(aggregator(SecuritySettings(), 1), PlainAggregator)
    with pytest.raises(InvalidInput, match="two silos"):
        aggregator(MASKED, 1)
    with pytest.raises(InvalidInput, match="two silos"):
        aggregator(replace(MASKED, dropouts=2), 3)


def meddled(monkeypatch: pytest.MonkeyPatch, meddling: Any) -> None:
    """Let every network that is made from now on meddle with its messages."""
    from privplan.fl.parties.network import Network

    made = Network.__init__

    def init(self: Network, names: Any, *, keep: bool = False, **_: Any) -> None:
        made(self, names, keep=keep, meddling=meddling)

    monkeypatch.setattr(Network, "__init__", init)


def silenced(message: Message) -> tuple[Message, ...]:
    """Lose all that silo 1 says from round 2 on."""
    gone = message.sender == "silo-1" and message.round >= 2
    return () if gone else (message,)


def test_a_silo_that_is_missing_aborts_the_round(tmp_path: Path, monkeypatch: Any) -> None:
    meddled(monkeypatch, silenced)
    with pytest.raises(MissingParty):
        started(replace(SMALL, security=MASKED), tmp_path)
    assert len(of(tmp_path, records.RoundRelease)) == 1
    (abort,) = of(tmp_path, records.RoundAbort)
    assert (abort.round, abort.reason) == (2, "missing-party")
    assert [one.round for one in of(tmp_path, records.RoundIntent)] == [1, 2]


def test_silos_that_may_be_missing_are_left_out(tmp_path: Path, monkeypatch: Any) -> None:
    allowed = replace(SMALL, security=replace(MASKED, dropouts=1))
    whole = started(allowed, tmp_path / "whole")
    meddled(monkeypatch, silenced)
    lacking = started(allowed, tmp_path / "lacking")
    assert whole.model != lacking.model
    shares = [one.shares for one in of(tmp_path / "lacking", records.RoundRelease)]
    assert shares == [3, 2, 2]
    (opened,) = of(tmp_path / "lacking", records.RunOpen)
    assert opened.security is not None
    assert opened.security.fewest == 2
    intents = of(tmp_path / "lacking", records.RoundIntent)
    assert all(one.noise.tolerated_dropouts == 1 for one in intents)
    assert all(one.noise.share_std**2 * 2 >= one.noise.std**2 for one in intents)
    (only,) = audit_budget(tmp_path / "lacking").hazards
    assert only.id == "seeded"


def test_moments_are_summed_like_the_rest(tmp_path: Path) -> None:
    settings = changed(
        SMALL, data={"normalisation": "private"}, privacy={"normalisation_noise": 2.0}
    )
    started(replace(settings, security=replace(MASKED, dropouts=1)), tmp_path)
    first, second = of(tmp_path, records.RoundIntent)[:2]
    assert (first.phase, second.phase) == ("normalise", "train")
    assert first.noise.tolerated_dropouts == second.noise.tolerated_dropouts == 1
    assert first.views["server"] == first.event
    report = audit_budget(tmp_path)
    assert [one.id for one in report.hazards] == ["seeded"]


def test_a_message_that_is_sent_twice_aborts_the_round(tmp_path: Path, monkeypatch: Any) -> None:
    meddled(monkeypatch, lambda message: (message, message))
    with pytest.raises(ProtocolFault):
        started(replace(SMALL, security=MASKED), tmp_path)
    assert not of(tmp_path, records.RoundRelease)


def test_transcripts_hold_what_each_party_received(tmp_path: Path) -> None:
    security = replace(MASKED, keep_transcripts=True)
    started(replace(SMALL, security=security), tmp_path)
    server = list(read_transcript(tmp_path, SERVER))
    assert {one.round for one in server} == {1, 2, 3}
    assert {one.sender for one in server} == {"silo-0", "silo-1", "silo-2"}
    assert ((tmp_path / FOLDER / "server.jsonl").stat().st_mode & 0o777) == 0o600
    assert all(one.sender != "silo-1" for one in read_transcript(tmp_path, "silo-1"))
    path = tmp_path / FOLDER / "silo-1.jsonl"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InvalidInput, match="is no message"):
        list(read_transcript(tmp_path, "silo-1"))


def test_transcripts_that_cannot_be_kept_cost_no_round(tmp_path: Path) -> None:
    own = prepare(replace(SMALL, security=replace(MASKED, keep_transcripts=True)))
    with LogWriter.create(tmp_path) as writer:
        (tmp_path / FOLDER).write_text("in the way")
        with pytest.raises(FileExistsError):
            execute(own, tmp_path, writer)
    assert not of(tmp_path, records.RoundIntent)


def test_floats_that_do_not_fit_the_ring_are_refused() -> None:
    by = aggregator(MASKED, 2)
    rows = np.array([[1.0, 2.0**17], [0.0, 0.0]])
    with pytest.raises(InvalidInput, match="not finite, or beyond 65,536") as caught:
        float_sum(by, 1, rows)
    assert "`local_rate`" in caught.value.next_step
    assert str(2**17) not in str(caught.value)
    assert float_sum(PlainAggregator(), 1, rows).tolist() == [1.0, 2.0**17]


@for_each("sent", [np.array([1]), np.array([1.0, 2.0]), np.array([[1, 2]])])
def test_plain_stretches_nothing(sent: Any) -> None:
    with pytest.raises(ProtocolFault, match="silo-1 did not send 2 integers"):
        PlainAggregator().total(1, [lambda: np.array([1, 2]), lambda: sent], 2)


@for_each(
    "totals",
    [
        [np.arange(3), np.arange(1)],
        [np.full(3, 2**61), np.full(3, 2**61 + 1)],
        [np.zeros(3), np.zeros(3)],
        [],
    ],
    ids=["lengths", "room", "floats", "none"],
)
def test_what_cannot_be_summed_is_refused_before_anything_is_drawn(totals: Any) -> None:
    own = Gaussian(1.0, 4.0, shares=2)
    about = RoundDescription(1, "test", event_override=ev.NoGuarantee("a test"))
    ticket = Gate(None, Log(), Streams.seeded(1)).open(own.intent(about, "add-remove"))
    with pytest.raises(InvalidInput):
        noisy_sum(PlainAggregator(), 1, own, ticket, totals)
    assert ticket.stream("noise/silo-0").position == 0


@for_each("silos", [127, 128, 300])
def test_floats_of_many_silos_fit_the_ring(silos: int) -> None:
    class Ring(PlainAggregator):
        """Adds as masks do, without any."""

        network: Any = object()

    rows = np.full((silos, 2), [2.0**16, -1.0 / 3.0])
    found = float_sum(Ring(), 1, rows)
    assert found[0] == silos * 2.0**16
    assert 0 <= found[1] + silos / 3.0 <= silos * 2.0**-37


def test_plain_adds_integers() -> None:
    found = PlainAggregator().total(1, [lambda: np.array([1, 2]), lambda: np.array([3, -5])], 2)
    assert isinstance(found, Sum)
    assert (found.total.tolist(), found.silos) == ([4, -3], (0, 1))
    assert UldpSettings().as_published is False


@for_each(
    ("silos", "dropouts", "server", "colluders"),
    [
        (2, 0, "malicious", 0),
        (3, 0, "malicious", 1),
        (3, 1, "malicious", 0),
        (4, 2, "honest-but-curious", 0),
        (5, 0, "malicious", 3),
        (5, 2, "malicious", 0),
        (6, 3, "honest-but-curious", 1),
        (100, 10, "malicious", 79),
    ],
)
def test_masks_hide_from_as_many_as_they_can(
    silos: int, dropouts: int, server: str, colluders: int
) -> None:
    """Whatever is stated, and accounted: the masks are made for `colluders`."""
    found = aggregator(replace(MASKED, dropouts=dropouts), silos).security
    assert found is not None
    assert (found.server, found.colluders) == (server, 0)
    assert colluders < found.threshold <= found.fewest == silos - dropouts
    stated = aggregator(replace(MASKED, dropouts=dropouts, colluders=colluders), silos).security
    assert stated == replace(found, colluders=colluders)


def test_masks_that_cannot_bear_so_many_are_refused() -> None:
    for silos, dropouts, colluders in ((3, 0, 2), (5, 2, 2), (2, 0, 1)):
        with pytest.raises(InvalidInput, match="stay and tell nothing"):
            aggregator(replace(MASKED, dropouts=dropouts, colluders=colluders), silos)


def test_masks_for_more_colluders_than_a_lying_server_allows_hold_against_one_that_looks() -> None:
    """Five silos: with one missing and two that tell, a server that lies is borne, with two not."""
    for dropouts, colluders, server in ((1, 2, "malicious"), (2, 1, "honest-but-curious")):
        borne = aggregator(replace(MASKED, dropouts=dropouts, colluders=colluders), 5).security
        assert borne is not None
        assert (borne.server, borne.colluders) == (server, colluders)
