"""Runs whose silos add up among themselves: what they promise, and that they are those of masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.account import account
from privplan.accountant.errors import InvalidInput, ProtocolFault, Unsupported
from privplan.accountant.records import Reach
from privplan.accountant.sensitivity import uldp
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.fl.aggregation.weighted_sum import weighted_views
from privplan.fl.fedavg.averaging import FedAvg
from privplan.fl.log import LogWriter
from privplan.fl.observers.names import PEER_OBSERVERS
from privplan.fl.parties.network import Message, Network
from privplan.fl.running.forecast import forecast
from privplan.fl.running.preparation import prepare, randomness
from privplan.fl.running.prepared_run import PreparedRun
from privplan.fl.running.resumption import prepare_resumption
from privplan.fl.running.session import execute
from privplan.fl.secagg.decentralised import PartialSum
from privplan.fl.settings.schema import PrivacySettings, SecuritySettings, Settings
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .extras import needs
from .small_runs import SMALL, changed, of

SYSTEMS = ("uldp-avg", "uldp-sgd", "uldp-naive", "fedavg")
PROMISING = SYSTEMS[:-1]
ROUNDS, SILOS, SIGMA = 3, 4, 5.0

runs = needs("torch", "sklearn", "cryptography")


def settings_of(
    system: str = "uldp-avg", *, seed: int | None = None, privacy: Any = (), **security: Any
) -> Settings:
    own = replace(PrivacySettings(noise_multiplier=SIGMA, delta=1e-3), **dict(privacy))
    return replace(
        changed(SMALL, run={"system": system, "seed": seed}, data={"silos": SILOS}),
        privacy=PrivacySettings(unit=None) if system == "fedavg" else own,
        security=SecuritySettings(**{"aggregation": "shares", **security}),
    )


def begun(settings: Settings, folder: Path, prepared: PreparedRun | None = None) -> Any:
    folder.mkdir()
    with LogWriter.create(folder) as writer:
        return execute(prepared or prepare(settings), folder, writer)


# --- what is promised -----------------------------------------------------------------------------


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("silos", [3, 5, 20])
def test_a_peer_sees_what_a_silo_sees_under_masks(silos: int, neighbours: str) -> None:
    options: dict[str, Any] = {"silos": silos, "rule": "uniform", "neighbours": neighbours}
    peers = weighted_views(SIGMA, aggregation="shares", **options)
    masked = weighted_views(SIGMA, aggregation="masked", **options)
    assert tuple(peers) == PEER_OBSERVERS
    assert (peers["model"], peers["peer"]) == (masked["model"], masked["silo"])


@for_each("colluders", range(1, 8))
def test_its_row_covers_as_many_colluders_as_there_may_be(colluders: int) -> None:
    """Of what is left to hide, they learn less than one peer does."""
    options: dict[str, Any] = {"silos": 10, "rule": "uniform", "neighbours": "add-remove"}
    stated = weighted_views(SIGMA, aggregation="shares", colluders=colluders, **options)["peer"]
    pooled = uldp.coalition_release(SIGMA, rounds=1, silos=10, colluders=colluders + 1).event
    assert isinstance(stated, ev.Gaussian)
    assert isinstance(pooled, ev.Gaussian)
    assert pooled.noise_multiplier > stated.noise_multiplier
    naive = [
        uldp.naive_release(SIGMA, rounds=1, silos=10, seen=9 - told).event
        for told in (0, colluders)
    ]
    upper = [account(one, delta=1e-5).epsilon.upper for one in naive]
    assert upper[1] < upper[0]


def test_a_sample_hides_from_who_sees_models_and_from_no_peer() -> None:
    options: dict[str, Any] = {"silos": 5, "rule": "uniform", "neighbours": "add-remove"}
    views = weighted_views(
        SIGMA, aggregation="shares", drawn_by="shared-secret", rate=0.2, **options
    )
    assert views["model"] == ev.Poisson(0.2, ev.Gaussian(SIGMA))
    assert views["peer"] == weighted_views(SIGMA, aggregation="shares", **options)["peer"]
    with pytest.raises(InvalidInput, match="no server that could draw"):
        weighted_views(SIGMA, aggregation="shares", rate=0.2, **options)


@for_each(
    ("given", "why"),
    [
        ({"rule": "records"}, "uniform weights"),
        ({"silos": 2}, "3 silos"),
        ({"colluders": 3}, "from 0 to 2"),
        ({"tolerated_dropouts": 1}, "needs every silo"),
        ({"drawn_by": "oblivious-transfer"}, "oblivious transfer"),
    ],
)
def test_what_peers_cannot_have(given: dict[str, Any], why: str) -> None:
    options = {"silos": 5, "rule": "uniform", "neighbours": "add-remove", **given}
    with pytest.raises(InvalidInput, match=why):
        weighted_views(SIGMA, aggregation="shares", **options)


BASE = '[run]\nsystem = "uldp-avg"\n[data]\nname = "digits"\n{data}\n[privacy]\nepsilon = 8\n'
SHARES = '[security]\naggregation = "shares"\n{security}\n[training]\n{training}\n'


def parsed(system: str = "uldp-avg", privacy: str = "", **given: str) -> Settings:
    lines = {"data": "", "security": "", "training": "", **given}
    text = f"{BASE.format(**lines)}{privacy}\n{SHARES.format(**lines)}"
    return parse(text.replace("uldp-avg", system).encode(), "run.toml")


@for_each(
    ("given", "why"),
    [
        ({"privacy": 'observer = "server"'}, "names server .* no server among peers"),
        ({"privacy": 'observers = ["model", "server+1"]'}, r"names server\+1 .* no server"),
        ({"privacy": 'observer = "silo"'}, 'names silo .* Name "model" and "peer"'),
        ({"security": "dropouts = 1"}, "`dropouts` in .security., which .* has no use for"),
        ({"security": "slots = 4"}, "`slots`"),
        ({"data": "silos = 2"}, "silos = 2 .* Of two, each learns what the other sent"),
        ({"data": "silos = 1"}, "silos = 1 .* nobody to add up with"),
        ({"training": 'weighting = "records"'}, 'weighting = "records" .* learn from its weight'),
        ({"system": "uldp-group", "privacy": "[uldp]\ngroup_records = 4"}, "uldp-group cannot sum"),
    ],
)
def test_settings_that_peers_cannot_have_are_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidInput, match=f"(?s).*{why}"):
        parsed(**given)


def test_the_verdict_is_about_those_that_there_are() -> None:
    assert parsed().privacy.observers == PEER_OBSERVERS
    assert parsed(privacy='observers = ["peer"]').privacy.observers == ("peer",)
    assert settings_of().privacy.observers == PEER_OBSERVERS
    assert parsed(privacy='observer = "peer"').privacy.observer == "peer"
    with pytest.raises(InvalidInput, match="no observer 'peer' of its own"):
        prepare(settings_of(privacy={"observer": "peer"}, aggregation="masked"))


# --- runs -----------------------------------------------------------------------------------------


@runs
@for_each("system", SYSTEMS)
def test_the_model_is_that_of_masks_bit_for_bit(system: str, tmp_path: Path) -> None:
    found = [
        begun(settings_of(system, seed=3, aggregation=one), tmp_path / one)
        for one in ("shares", "masked")
    ]
    assert found[0].parameters.tobytes() == found[1].parameters.tobytes()
    assert found[0].rounds == ROUNDS
    shares, masked = (
        {row.observer: row.total.upper for row in audit_budget(tmp_path / one).rows}
        for one in ("shares", "masked")
    )
    assert shares == {"model": masked["model"], "peer": masked["silo"]}


@runs
@for_each("system", PROMISING)
@for_each(
    ("privacy", "security"),
    [({}, {}), ({"neighbours": "replace-one"}, {"colluders": 1}), ({"sampling_rate": 0.5}, {})],
)
def test_the_audit_finds_what_the_run_promised(
    system: str, privacy: Any, security: Any, tmp_path: Path
) -> None:
    if system == "uldp-naive" and "sampling_rate" in privacy:
        pytest.skip("it draws nobody")
    result = begun(settings_of(system, privacy=privacy, **security), tmp_path / "run")
    report = audit_budget(tmp_path / "run")
    assert report.hazards == ()
    assert report.not_stated == ()
    assert report.ok
    assert edits_of(tmp_path / "run") == ()
    rows = {row.observer: row for row in report.rows}
    assert tuple(rows) == PEER_OBSERVERS
    assert report.worst is not None
    assert report.worst.named == 2
    model, peer = (result.guarantees[who].epsilon.upper for who in PEER_OBSERVERS)
    assert rows["model"].total.upper == pytest.approx(model, rel=1e-6)
    # It is about what lies elsewhere, so of even weights it may be below the model's.
    assert rows["peer"].total.upper == pytest.approx(peer, rel=1e-6)
    intents = of(tmp_path / "run", records.RoundIntent)
    drawn = "sampling_rate" in privacy
    told = security.get("colluders", 0)
    for intent in intents:
        assert dict(intent.reaches) == {
            "model": Reach("sum"),
            "peer": Reach("sum-less-own", colluders=told, knows_sample=drawn),
        }
        assert intent.sampling.drawn_by == ("shared-secret" if drawn else "nobody")
    (opened,) = of(tmp_path / "run", records.RunOpen)
    assert opened.security.colluders == told
    if drawn and not told:
        assert rows["peer"].rests_on == (
            "no peer tells it what it knows, beyond those that are counted",
        )


@runs
def test_private_moments_are_summed_among_peers_too(tmp_path: Path) -> None:
    privacy = {"normalisation_noise": 5.0}
    found = []
    for one in ("shares", "masked"):
        own = settings_of("uldp-avg", seed=3, privacy=privacy, aggregation=one)
        own = replace(own, data=replace(own.data, normalisation="private"))
        found.append(begun(own, tmp_path / one))
        rows = {row.observer: row.total.upper for row in audit_budget(tmp_path / one).rows}
        found.append(rows["model"])
    assert found[0].parameters.tobytes() == found[2].parameters.tobytes()
    assert found[1] == found[3]


@runs
@for_each("system", SYSTEMS)
def test_a_run_that_is_killed_goes_on_among_peers(system: str, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(measured: Any, _: int) -> None:
        if measured.round == 2:
            raise Stop

    own, folder = settings_of(system), tmp_path / "run"
    folder.mkdir()
    with LogWriter.create(folder) as writer, pytest.raises(Stop):
        execute(prepare(own), folder, writer, report=stop)
    writer, progress = LogWriter.resume(folder, randomness=randomness(own))
    with writer:
        result = execute(prepare_resumption(own, progress), folder, writer, progress=progress)
    assert result.rounds == ROUNDS
    assert [one.round for one in of(folder, records.RoundIntent)] == [1, 2, 3]
    report = audit_budget(folder)
    assert (report.spent, report.released) == (ROUNDS, ROUNDS)
    assert report.ok == (system != "fedavg")


@runs
def test_transcripts_are_those_of_peers_and_hold_nobodys_vector(tmp_path: Path) -> None:
    own = settings_of(keep_transcripts=True)
    seen: list[Any] = []
    prepared = prepare(own)
    total = prepared.system.setup.aggregator.total  # type: ignore[attr-defined]

    def watched(number: int, silos: Sequence[Callable[[], Any]], length: int) -> Any:
        def kept(silo: Callable[[], Any]) -> Any:
            seen.append(silo())
            return seen[-1]

        return total(number, [lambda one=one: kept(one) for one in silos], length)

    prepared.system.setup.aggregator.total = watched  # type: ignore[attr-defined]
    begun(own, tmp_path / "run", prepared)
    files = sorted((tmp_path / "run" / "transcripts").iterdir())
    assert [one.stem for one in files] == [f"silo-{silo}" for silo in range(SILOS)]
    content = b"".join(one.read_bytes() for one in files)
    assert len(seen) == ROUNDS * SILOS
    for vector in seen:
        raw = vector.astype("<i8").tobytes()
        assert raw[:16].hex().encode() not in content
        assert raw[:16] not in content


def meddled(network: Any, change: Callable[[Message, list[Message]], tuple[Message, ...]]) -> None:
    earlier: list[Message] = []

    def meddling(message: Message) -> tuple[Message, ...]:
        out = change(message, earlier)
        earlier.append(message)
        return out

    network._meddling = meddling


def flipped(message: Message, _: list[Message]) -> tuple[Message, ...]:
    if message.kind != PartialSum.kind or message.sender != "silo-2" or message.round != 2:
        return (message,)
    body = PartialSum.unpack(message.body)
    words = bytes([body.words[0] ^ 4]) + body.words[1:]
    return (replace(message, body=replace(body, words=words).pack()),)


def replayed(message: Message, earlier: list[Message]) -> tuple[Message, ...]:
    """Put the body of round 1 into the message of round 2."""
    if message.kind != PartialSum.kind or message.sender != "silo-2" or message.round != 2:
        return (message,)
    (old,) = [
        one
        for one in earlier
        if (one.kind, one.sender, one.receiver, one.round)
        == (message.kind, message.sender, message.receiver, 1)
    ]
    return (replace(message, body=old.body),)


@runs
@for_each("system, change", list(zip(SYSTEMS, 2 * (flipped, replayed), strict=True)))
def test_a_changed_partial_sum_ends_in_an_abort_that_names_its_sender(
    system: str, change: Any, tmp_path: Path
) -> None:
    own, folder = settings_of(system), tmp_path / "run"
    prepared = prepare(own)
    assert isinstance(prepared.system.network, Network)
    meddled(prepared.system.network, change)
    folder.mkdir()
    with LogWriter.create(folder) as writer, pytest.raises(ProtocolFault, match="silo-2"):
        execute(prepared, folder, writer)
    (abort,) = of(folder, records.RoundAbort)
    assert (abort.reason, abort.round) == ("error", 2)
    intents, releases = of(folder, records.RoundIntent), of(folder, records.RoundRelease)
    assert ([one.round for one in intents], len(releases)) == ([1, 2], 1)
    report = audit_budget(folder)
    assert (report.spent, report.released) == (2, 1)  # what was begun counts


@runs
def test_a_forecast_says_what_a_peer_would_learn(tmp_path: Path) -> None:
    found = forecast(settings_of())
    assert tuple(one.observer for one in found.observers) == PEER_OBSERVERS
    for one in found.observers:
        assert one.lowered_by is not None
        assert one.lowered_by.name in ("half the rounds", "twice the noise")
    result = begun(settings_of(), tmp_path / "run")
    assert found.observers[1].epsilon == result.guarantees["peer"].epsilon


def test_who_asks_for_too_few_peers_is_told_before_anything_is_made() -> None:
    for silos, colluders in ((2, 0), (4, 2)):
        own = settings_of(colluders=colluders)
        with pytest.raises(InvalidInput):
            prepare(replace(own, data=replace(own.data, silos=silos)))


def test_a_class_for_known_weights_hides_none(made_of: Any, tiny: Any) -> None:
    from privplan.fl.uldp.weighted import UldpAvgKnownWeights

    for name, aggregation, make, says in (
        (
            "uldp-avg",
            "private-weighting",
            lambda setup: UldpAvgKnownWeights(setup, step="average"),
            "UldpAvgKnownWeights of uldp-avg has no aggregation",
        ),
        ("fedavg", "shuffle", FedAvg, 'aggregation = "shuffle" in .* and fedavg cannot sum by it'),
    ):
        security = SecuritySettings(aggregation=aggregation)  # type: ignore[arg-type]
        with pytest.raises(Unsupported, match=says):
            make(replace(made_of(name, tiny(silos=3)), security=security))
