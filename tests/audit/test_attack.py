"""An attack on a run: what it reads, what it refuses, and what it keeps where."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, MissingExtra, PrivplanError, Unsupported
from privplan.accountant.records import Evaluation, Randomness, RunClose, RunOpen
from privplan.audit.attack import Asked, attack
from privplan.audit.attack.rehearsal_size import (
    DEFAULT_CANARIES,
    MAX_REHEARSAL_WORK,
    canaries_for,
    require_feasible,
)
from privplan.audit.configuration.logged_settings import settings_in
from privplan.audit.measurement import NOT_PROOF
from privplan.audit.results import append_results, measurements_in
from privplan.audit.verify import verify
from privplan.fl.log import BadLine, LogWriter, Sealed
from privplan.fl.log.canonical import LOG, SEALED
from privplan.fl.settings.file import parse

from . import ledgers, logs
from .attacked import MEASURED, Stand, configuration, configured, content, run_in, why_not

MEMBERSHIP = Asked(tiers=("membership",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of 20 rounds with noise 5, as its own code would have left its log."""
    return run_in(tmp_path / "run")


def opened_in(folder: Path) -> RunOpen:
    """Return the first record of a log."""
    source = json.loads(logs.lines_of(folder)[0])
    for name in ("seq", "prev", "hash"):
        del source[name]
    return RunOpen.from_json(source)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# The settings of a run, out of its log


@pytest.mark.parametrize(
    ("system", "more"),
    [
        ("uldp-avg", ""),
        ("uldp-avg", "epsilon = 2.5\nsampling_rate = 0.3\n[run_]"),
        ("uldp-sgd", "[training]\nweighting = 'records'"),
        ("uldp-avg", "[security]\naggregation = 'private-weighting'\nkey_bits = 2048"),
        ("uldp-avg", "[security]\naggregation = 'masked'\ndropouts = 1"),
        ("uldp-naive", "[uldp]\nas_published = true"),
        ("uldp-group", "[uldp]\ngroup_records = 8\nrecord_rate = 0.1"),
        ("uldp-avg", "normalisation_noise = 5.0\n[training]\nclip = 0.30000000000000004"),
    ],
)
def test_settings_come_back_from_a_log_as_they_were(folder: Path, system: str, more: str) -> None:
    text = content(system=system).decode() + more.replace("[run_]", "")
    private = "normalisation_noise" in more
    if private:
        text = text.replace("silos = 5", 'silos = 5\nnormalisation = "private"')
    own = parse(text.encode(), "run.toml")
    opened = opened_in(folder)
    group = own.privacy.group
    opened = replace(
        opened,
        system=system,
        claim=replace(opened.claim, group=group, epsilon=own.privacy.epsilon),
        aggregation=own.security.aggregation,
        as_published=own.as_published,
        plan=replace(opened.plan, rounds=20 + private),
        configuration=json.loads(json.dumps(own.to_json())),
    )
    assert settings_in(opened) == own


def test_fedavg_comes_back_too(folder: Path) -> None:
    text = content(system="fedavg").decode().split("[privacy]")[0]
    own = parse(text.encode(), "run.toml")
    opened = replace(
        opened_in(folder), system="fedavg", configuration=json.loads(json.dumps(own.to_json()))
    )
    assert settings_in(opened) == own


REFUSED: tuple[tuple[str, ledgers.Change], ...] = (
    ("does not say how its run was configured", ledgers.opening(configuration={})),
    ("unknown table 'flame'", configured(flame={"x": 1})),
    ("unknown key 'path' in [data]", configured(data={"path": "/etc/passwd"})),
    ("unknown key 'sign_key' in [log]", configured(log={"sign_key": "/root/key.pem"})),
    ("[run] of the log's configuration is no table", ledgers.opening(configuration={"run": 1})),
    ("lacks `users` in [data]", configured(data={"users": None})),
    ("[run] rounds of the log's configuration", configured(run={"rounds": True})),
    ("[run] rounds of the log's configuration", configured(run={"rounds": "20"})),
    ("`rounds` must be", configured(run={"rounds": 0})),
    ("`rounds` must be", configured(run={"rounds": 10**30})),
    ("[training] clip of the log's configuration", configured(training={"clip": 0.1})),
    ("[training] clip of the log's configuration", configured(training={"clip": "0.10"})),
    ("`clip` must be", configured(training={"clip": "nan"})),
    ("`clip` must be", configured(training={"clip": "inf"})),
    ("`model` must be", configured(training={"model": "../../model"})),
    ("`name` must be", configured(data={"name": "/etc"})),
    ("[privacy] unit of the log's configuration", configured(privacy={"unit": "person"})),
    ("says unit record, line 1 states user", configured(privacy={"unit": "record"})),
    (
        "says neighbours replace-one, line 1 states add-remove",
        configured(privacy={"neighbours": "replace-one"}),
    ),
    ("says delta 1e-06, line 1 states 1e-05", configured(privacy={"delta": "1e-06"})),
    ("says group_records 8, line 1 states 1", configured(privacy={"group": 8})),
    ("says group_records 8, line 1 states 1", configured(uldp={"group_records": 8})),
    (
        "says aggregation masked, line 1 states plain",
        configured(security={"aggregation": "masked"}),
    ),
    ("says as_published true, line 1 states false", configured(uldp={"as_published": True})),
    ("says rounds 21, line 1 states 20", configured(run={"rounds": 21})),
    ("says rounds 20, line 1 states 19", ledgers.opening(plan=ledgers.part(rounds=19))),
    ("says users 51, line 1 states 50", configured(data={"users": 51})),
    ("says silos 4, line 1 states 5", configured(data={"silos": 4})),
    ("says randomness seeded, line 1 states operating-system", configured(run={"seed": 7})),
    ("says system uldp-sgd, line 1 states uldp-avg", configured(run={"system": "uldp-sgd"})),
    ("says epsilon 0.5 at most, line 1 states", configured(privacy={"epsilon": "0.5"})),
    ("says unit user, line 1 states record", ledgers.opening(claim=ledgers.part(unit="record"))),
    (
        "says neighbours add-remove, line 1 states replace-one",
        ledgers.opening(claim=ledgers.part(neighbours="replace-one")),
    ),
    ("says as_published false, line 1 states true", ledgers.opening(as_published=True)),
    (
        "says randomness operating-system, line 1 states seeded",
        ledgers.opening(randomness=Randomness("seeded")),
    ),
)


@pytest.mark.parametrize(("reason", "change"), REFUSED)
def test_settings_that_do_not_belong_to_the_promise_are_refused(
    tmp_path: Path, reason: str, change: ledgers.Change
) -> None:
    folder, stand = run_in(tmp_path / "run", change=change), Stand()
    before = files_of(folder)
    with pytest.raises(InvalidInput) as caught:
        attack(folder, tools=stand.tools())
    assert reason in caught.value.what
    assert stand.asked == []
    assert files_of(folder) == before


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)
KEYS = [(table, key) for table, own in configuration().items() for key in own]


@settings(max_examples=150)
@given(st.sampled_from(KEYS), ANY)
def test_any_value_of_any_key_is_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, key: tuple[str, str], value: object
) -> None:
    opened = opened_of(tmp_path_factory)
    own = {name: dict(table) for name, table in opened.configuration.items()}  # type: ignore[call-overload]
    own[key[0]][key[1]] = value
    try:
        found = settings_in(replace(opened, configuration=own))
    except InvalidInput:
        return
    assert json.loads(json.dumps(found.to_json())) == own


_OPENED: list[RunOpen] = []


def opened_of(factory: pytest.TempPathFactory) -> RunOpen:
    """Return one opening, made once."""
    if not _OPENED:
        _OPENED.append(opened_in(run_in(factory.mktemp("opened") / "run")))
    return _OPENED[0]


def test_the_settings_of_a_good_log_are_taken(folder: Path) -> None:
    assert why_not(folder) == ""


def test_a_file_that_says_something_else_than_the_log_is_refused(folder: Path) -> None:
    (folder / "config.toml").write_bytes(content())
    assert attack(folder, tools=Stand().tools()).measurements
    (folder / "config.toml").write_bytes(content().replace(b"5.0", b"9.0"))
    with pytest.raises(InvalidInput, match=r"changed: \[privacy\] noise_multiplier"):
        attack(folder, tools=Stand().tools())
    (folder / "config.toml").write_bytes(b"nonsense")
    with pytest.raises(InvalidInput, match=r"config\.toml is not TOML"):
        attack(folder, tools=Stand().tools())


# Logs that cannot be attacked


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"holds no log\.jsonl"):
        attack(tmp_path, tools=Stand().tools())
    with pytest.raises(InvalidInput, match="There is no folder"):
        attack(tmp_path / "nowhere", tools=Stand().tools())


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("line", [1, 2, 41])
def test_a_broken_chain_is_refused_with_its_line(folder: Path, append: bool, line: int) -> None:
    lines = logs.lines_of(folder)
    lines[line - 1] = lines[line - 1].replace("0", "1", 1)
    logs.write_lines(folder, lines)
    stand = Stand()
    with pytest.raises(BadLine) as caught:
        attack(folder, append=append, tools=stand.tools())
    assert caught.value.number == line
    assert stand.asked == []


def test_a_run_that_is_being_written_is_refused_before_any_work(tmp_path: Path) -> None:
    stand = Stand()
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        writer.append(opened_in(run_in(tmp_path / "other")))
        with pytest.raises(InvalidInput, match="being written by another process"):
            attack(tmp_path / "run", tools=stand.tools())
    assert stand.asked == []


def test_an_empty_log_is_refused(folder: Path) -> None:
    (folder / LOG).write_text("")
    for append in (True, False):
        with pytest.raises(InvalidInput, match=r"no `run\.open`|opens no run"):
            attack(folder, append=append, tools=Stand().tools())


# What is taken, and what is skipped


def test_the_usual_tiers_are_taken_in_order(folder: Path) -> None:
    stand, said = Stand(), list[str]()
    found = attack(folder, tools=stand.tools(), tell=said.append)
    assert stand.names == ["rehearse", "claim", "robust", "residual", "seal"]
    assert [one.tier for one in found.measurements] == ["claim", "robust", "residual"]
    assert not found.contradicted
    assert len(said) == 4
    asked = stand.call("rehearse")
    assert asked["settings"] == settings_in(opened_in(folder))
    assert asked["canaries"] == DEFAULT_CANARIES
    assert (asked["observer"], asked["silos"]) == ("model", 5)
    assert (asked["rounds"], asked["seed"]) == (None, None)
    assert stand.call("claim")["alpha"] == pytest.approx(0.05)


def test_what_is_asked_for_reaches_the_tiers(folder: Path) -> None:
    stand = Stand(rehearse={"event": ev.Repeat(5, ledgers.weighted(1)[1].views["server"])})  # type: ignore[attr-defined]
    own = Asked(
        tiers=("robust", "claim"),
        observer="server",
        canaries=77,
        rounds=5,
        seed=3,
        confidence=0.99,
    )
    attack(folder, own, tools=stand.tools())
    asked = stand.call("rehearse")
    assert [asked[name] for name in ("observer", "canaries", "rounds", "seed")] == [
        *("server", 77, 5, 3)
    ]
    assert stand.names == ["rehearse", "claim", "robust"]
    assert stand.call("robust")["alpha"] == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("answers", "tiers", "skipped"),
    [
        ({"residual": InvalidInput("No sidecar.", "It is sealed.")}, ["claim", "robust"], 1),
        ({"rehearse": Unsupported("Not with canaries.")}, ["residual"], 2),
        ({"claim": InvalidInput("Nothing is claimed.")}, ["robust", "residual"], 1),
    ],
)
def test_a_tier_that_cannot_be_taken_is_skipped_with_its_reason(
    folder: Path, answers: dict[str, object], tiers: list[str], skipped: int
) -> None:
    found = attack(folder, tools=Stand(**answers).tools())
    assert [one.tier for one in found.measurements] == tiers
    assert len(found.skipped) == skipped
    assert all(one.reason for one in found.skipped)


@pytest.mark.parametrize(
    ("tier", "answers"),
    [
        ("residual", {"residual": InvalidInput("No sidecar.")}),
        ("claim", {"rehearse": Unsupported("Not with canaries.")}),
        ("claim", {"claim": InvalidInput("Nothing is claimed.")}),
    ],
)
def test_a_tier_that_was_named_must_work(
    folder: Path, tier: Any, answers: dict[str, object]
) -> None:
    with pytest.raises(PrivplanError):
        attack(folder, Asked(tiers=(tier,)), tools=Stand(**answers).tools())


def test_where_no_tier_can_be_taken_the_first_reason_is_the_error(folder: Path) -> None:
    answers = {"rehearse": MissingExtra("No torch."), "residual": InvalidInput("No sidecar.")}
    with pytest.raises(MissingExtra, match="No torch"):
        attack(folder, tools=Stand(**answers).tools())


@pytest.mark.parametrize("tier", ["claim", "robust"])
def test_too_few_canaries_are_an_error_and_no_skipped_tier(folder: Path, tier: str) -> None:
    stand = Stand(**{tier: InvalidInput("The test needs 100 canaries.")})
    before = files_of(folder)
    with pytest.raises(InvalidInput, match="needs 100 canaries"):
        attack(folder, Asked(canaries=5), tools=stand.tools())
    assert files_of(folder) == before


def test_what_was_seen_must_be_numbers(folder: Path) -> None:
    """Also where no tier was named: a canary that vanished is no reason to skip a tier."""
    stand = Stand(rehearse={"observations": np.array([[0.0, math.nan]])})
    with pytest.raises(InvalidInput, match="is no number"):
        attack(folder, tools=stand.tools())
    assert measurements_in(folder) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": "record"},
        {"neighbours": "replace-one"},
        {"delta": 1e-6},
        {"event": ev.Repeat(20, ev.Gaussian(4.0))},
        {"event": ev.Repeat(19, ledgers.weighted(1)[1].event)},  # type: ignore[attr-defined]
        {"event": ev.Group(2, ev.Repeat(20, ledgers.weighted(1)[1].event))},  # type: ignore[attr-defined]
    ],
)
def test_a_rehearsal_of_another_claim_is_refused(folder: Path, changes: dict[str, object]) -> None:
    stand = Stand(rehearse=changes)
    with pytest.raises(InvalidInput, match=r"differ in|announces other rounds"):
        attack(folder, tools=stand.tools())
    assert stand.names == ["rehearse"]


def test_a_promise_that_the_announced_rounds_do_not_bear_is_refused(tmp_path: Path) -> None:
    """Else what was measured would be held against the rounds, and called not contradicted."""
    low = run_in(tmp_path / "low", change=ledgers.opening(claim=ledgers.part(epsilon=0.1)))
    for tiers in ((), ("robust",)):
        with pytest.raises(InvalidInput, match=r"promises epsilon 0\.1"):
            attack(low, Asked(tiers=tiers), tools=Stand().tools())
    nothing = ledgers.also(
        ledgers.opening(plan=ledgers.part(events={})), ledgers.closing(events={})
    )
    none = run_in(tmp_path / "none", change=nothing)
    with pytest.raises(InvalidInput, match="announces other rounds"):
        attack(none, tools=Stand().tools())
    assert measurements_in(low) == measurements_in(none) == ()


def test_a_promise_without_noise_is_refused(folder: Path) -> None:
    """The settings promise nothing, and the log does."""
    stand = Stand(rehearse={"event": None, "claimed": None})
    with pytest.raises(InvalidInput, match="announces other rounds"):
        attack(folder, tools=stand.tools())


def test_as_published_the_papers_number_is_the_promise(tmp_path: Path) -> None:
    def published(records: ledgers.Records) -> ledgers.Records:
        found = configured(uldp={"as_published": True})(records)
        return ledgers.opening(as_published=True, claim=ledgers.part(epsilon=4.5))(found)

    folder = run_in(tmp_path / "run", change=published)
    with pytest.raises(InvalidInput, match=r"promises epsilon 4\.5"):
        attack(folder, tools=Stand(rehearse={"claimed": 3.9}).tools())
    assert attack(folder, tools=Stand(rehearse={"claimed": 4.5}).tools()).measurements


def test_fewer_rounds_may_be_rehearsed_and_never_more(folder: Path) -> None:
    event = ledgers.weighted(1)[1].event  # type: ignore[attr-defined]
    fewer = Stand(rehearse={"event": ev.Repeat(7, event)})
    found = attack(folder, Asked(rounds=7), tools=fewer.tools())
    assert any("A part of the run is rehearsed" in said for said in found.warnings)
    with pytest.raises(InvalidInput, match="announces other rounds"):
        attack(folder, tools=fewer.tools())
    more = Stand(rehearse={"event": ev.Repeat(21, event)})
    with pytest.raises(InvalidInput, match="`rounds` is 21, and the run has 20"):
        attack(folder, Asked(rounds=21), tools=more.tools())
    with pytest.raises(InvalidInput, match="announces other rounds"):
        attack(folder, Asked(rounds=20), tools=more.tools())


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"tiers": ("everything",)}, "tier"),
        ({"canaries": 0}, "canaries"),
        ({"rounds": 0}, "rounds"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.0}, "confidence"),
        ({"seed": -1}, "seed"),
        ({"data": Path("x")}, "data"),
    ],
)
def test_what_is_asked_is_checked_at_the_door(bad: Any, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"`{field}`"):
        Asked(**bad)


def test_a_log_cannot_ask_for_endless_work(tmp_path: Path, folder: Path) -> None:
    stand = Stand()
    with pytest.raises(InvalidInput, match="too many"):
        attack(folder, Asked(canaries=MAX_REHEARSAL_WORK), tools=stand.tools())
    many = ledgers.opening(plan=ledgers.part(rounds=10**12))
    endless = run_in(
        tmp_path / "endless",
        change=lambda records: many(configured(run={"rounds": 10**12})(records)),
    )
    with pytest.raises(InvalidInput, match="too many"):
        attack(endless, tools=stand.tools())
    assert stand.asked == []


@pytest.mark.parametrize(
    "change",
    [
        {"silos": 10**6},
        {"rounds": 10**7},
        {"system": "uldp-group", "epochs": 10**6},
        {"system": "uldp-group", "rate": 1e-300},
        {"system": "uldp-naive", "silos": 1000, "rounds": 10**4},
        {"aggregation": "masked", "silos": 1000},
        {"canaries": 10**9},
    ],
)
def test_work_without_end_is_refused(change: dict[str, Any]) -> None:
    own = parse(content(), "run.toml")
    own = replace(
        own,
        run=replace(
            own.run, system=change.get("system", "uldp-avg"), rounds=change.get("rounds", 20)
        ),
        security=replace(own.security, aggregation=change.get("aggregation", "plain")),
        training=replace(own.training, local_epochs=change.get("epochs", 10)),
        table=replace(own.table, record_rate=change.get("rate")),
    )
    with pytest.raises(InvalidInput, match="too many"):
        canaries_for(own, change.get("silos", 5), rounds=None, asked=change.get("canaries"))


def test_membership_makes_no_replicas_without_end(folder: Path) -> None:
    own = parse(content(), "run.toml")
    require_feasible(own, 5)
    for name, change in (("rounds", own.run), ("local_epochs", own.training)):
        table = "run" if name == "rounds" else "training"
        with pytest.raises(InvalidInput, match="made again many times"):
            require_feasible(replace(own, **{table: replace(change, **{name: 10**9})}), 5)
    stand = Stand()
    attack(folder, replace(MEMBERSHIP, confidence=0.99), tools=stand.tools())
    assert stand.call("membership")["alpha"] == pytest.approx(0.01)


def test_what_people_ask_for_is_not_refused() -> None:
    own = parse(content(), "run.toml")
    assert canaries_for(own, 5, rounds=None, asked=100_000) == 100_000
    large = replace(own, run=replace(own.run, rounds=1_000))
    assert canaries_for(large, 100, rounds=None, asked=None) >= 2_000
    assert canaries_for(large, 5, rounds=10, asked=None) == DEFAULT_CANARIES


@pytest.mark.parametrize(
    ("system", "more", "canaries"),
    [
        ("uldp-naive", "", 1_000),
        ("uldp-avg", "[security]\naggregation = 'private-weighting'", 200),
    ],
)
def test_fewer_canaries_are_used_where_each_costs_more(
    system: str, more: str, canaries: int
) -> None:
    own = parse((content(system=system).decode() + more).encode(), "run.toml")
    assert canaries_for(own, 5, rounds=None, asked=None) == canaries


def test_fewer_canaries_are_used_for_many_rounds(tmp_path: Path) -> None:
    def longer(records: ledgers.Records) -> ledgers.Records:
        planned = ledgers.opening(plan=ledgers.part(rounds=10**5))
        return planned(configured(run={"rounds": 10**5})(records))

    folder, stand = run_in(tmp_path / "run", change=longer), Stand(rehearse=Unsupported("Asked."))
    with pytest.raises(Unsupported):
        attack(folder, Asked(tiers=("claim",)), tools=stand.tools())
    assert stand.call("rehearse")["canaries"] == DEFAULT_CANARIES // 2**6


# What is kept, and where


def test_public_results_join_the_log_and_sealed_ones_do_not(folder: Path) -> None:
    before = verify(folder)
    found = attack(folder, tools=Stand().tools())
    assert [one.tier for one in measurements_in(folder)] == ["claim", "robust"]
    assert found.appended == (before.records + 1, before.records + 2)
    assert found.head == verify(folder, expected_head=before.head).head
    assert found.sealed_tiers == ("residual",)
    assert found.sealed_report == folder / "sealed-report.json"
    assert not (folder / SEALED).exists()
    added = (folder / LOG).read_text().splitlines()[before.records :]
    assert not any("residual" in line for line in added)


def test_whether_membership_joins_the_log_does_not_depend_on_the_sidecar(folder: Path) -> None:
    stand = Stand(residual=InvalidInput("No sidecar."))
    with pytest.raises(InvalidInput, match="No sidecar"):
        attack(folder, Asked(tiers=("membership", "residual")), tools=stand.tools())
    assert [one.tier for one in measurements_in(folder)] == ["membership"]


def test_where_the_records_are_is_asked_before_any_work(tmp_path: Path) -> None:
    folder, stand = run_in(tmp_path / "heart", data="heart-disease"), Stand()
    with pytest.raises(InvalidInput, match="`data` is missing"):
        attack(folder, Asked(tiers=("claim", "membership")), tools=stand.tools())
    assert stand.asked == []
    assert measurements_in(folder) == ()


def test_what_joins_the_log_does_not_depend_on_what_was_seen_before_the_noise(
    tmp_path: Path,
) -> None:
    contradicts = replace(MEASURED, tier="residual", kind="test", contradicted=True)
    kept = []
    for number, residual in enumerate((InvalidInput("No sidecar."), (contradicts,), (MEASURED,))):
        folder = run_in(tmp_path / str(number))
        attack(folder, tools=Stand(residual=residual).tools())
        kept.append((folder / LOG).read_bytes())
    assert kept[0] == kept[1] == kept[2]


def test_without_append_nothing_is_written(folder: Path) -> None:
    before = files_of(folder)
    stand = Stand()
    found = attack(folder, append=False, tools=stand.tools())
    assert "seal" not in stand.names
    assert (found.appended, found.sealed_report) == ((), None)
    own = Asked(tiers=("claim", "membership"))
    attack(folder, own, append=False, tools=Stand().tools())
    assert files_of(folder) == before


def test_membership_of_data_that_everybody_has_is_public(folder: Path) -> None:
    stand = Stand()
    found = attack(folder, MEMBERSHIP, tools=stand.tools())
    assert stand.names == ["membership"]
    assert stand.call("membership")["given"][0].data.path is None
    assert [one.tier for one in measurements_in(folder)] == ["membership"]
    assert found.sealed_tiers == ()
    assert any("could not be checked" in one for one in found.warnings)


def test_membership_of_private_records_is_sealed(tmp_path: Path) -> None:
    folder = run_in(tmp_path / "run", data="heart-disease")
    own, stand = replace(MEMBERSHIP, data=tmp_path / "records"), Stand()
    found = attack(folder, own, tools=stand.tools())
    assert stand.call("membership")["given"][0].data.path == tmp_path / "records"
    assert stand.names == ["membership", "seal"]
    assert measurements_in(folder) == ()
    line = json.loads(logs.lines_of(folder)[-1])
    assert set(line["result"]) == {"sealed"}
    (item,) = Sealed.read(folder).items
    assert item.name == "audit.membership"
    assert found.sealed_tiers == ("membership",)
    assert any(str(tmp_path / "records") in one for one in found.warnings)


def test_no_path_is_taken_from_the_folder(tmp_path: Path) -> None:
    folder = run_in(tmp_path / "run", data="heart-disease")
    named = content("heart-disease").replace(b"users", b'path = "/etc/secret"\nusers')
    (folder / "config.toml").write_bytes(named)
    stand = Stand()
    with pytest.raises(InvalidInput) as caught:
        attack(folder, MEMBERSHIP, tools=stand.tools())
    assert "`data` is missing" in caught.value.what
    assert "/etc/secret" in caught.value.next_step  # for the person to confirm, or not
    assert stand.asked == []
    attack(folder, tools=stand.tools())
    assert all(str(call.get("settings")).find("secret") < 0 for _, call in stand.asked)


def test_data_that_come_along_take_no_path(folder: Path, tmp_path: Path) -> None:
    own = replace(MEMBERSHIP, data=tmp_path)
    with pytest.raises(InvalidInput, match="comes with privplan"):
        attack(folder, own, tools=Stand().tools())


@pytest.mark.parametrize("same", [True, False])
def test_records_of_another_run_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    from types import SimpleNamespace

    from privplan.fl.running import preparation

    sealed = {"records": "ab" * 32, "allocation": "cd" * 32}
    commitments: dict[str, str] = {}
    scratch = LogWriter.create(tmp_path / "scratch", fsync="never")
    commitments = scratch.seal({"dataset": sealed})
    scratch.close()
    folder = run_in(tmp_path / "run", change=ledgers.opening(dataset=commitments["dataset"]))
    (folder / SEALED).write_bytes((tmp_path / "scratch" / SEALED).read_bytes())
    found = sealed if same else {**sealed, "records": "ef" * 32}
    monkeypatch.setattr(preparation, "prepare", lambda _: SimpleNamespace(dataset=found))
    stand = Stand()
    if same:
        assert attack(folder, MEMBERSHIP, tools=stand.tools()).warnings == ()
    else:
        with pytest.raises(InvalidInput, match="not those that the run was made on"):
            attack(folder, MEMBERSHIP, tools=stand.tools())
    assert stand.names == (["membership"] if same else [])


def test_a_signed_run_takes_results_with_its_key_alone(tmp_path: Path) -> None:
    module = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key = module.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    records = run_in(tmp_path / "plain")
    append_results(records, [MEASURED], key=key)
    stand = Stand()
    with pytest.raises(InvalidInput, match="is signed"):
        attack(records, tools=stand.tools())
    assert stand.asked == []
    assert attack(records, append=False, tools=stand.tools()).measurements
    attack(records, key=key, tools=stand.tools())
    assert verify(records, key.public_key()).complete


# What is said


def test_a_contradiction_of_any_tier_is_one(folder: Path) -> None:
    for tier in ("claim", "robust"):
        contradicts = replace(MEASURED, tier=tier, value=9.0, contradicted=True)
        found = attack(folder, append=False, tools=Stand(**{tier: contradicts}).tools())
        assert found.contradicted
        assert found.to_json()["contradicted"] is True


def test_what_is_unusual_contradicts_nothing(folder: Path) -> None:
    for tier in ("claim", "robust", "residual"):
        rare = replace(MEASURED, tier=tier, unusual=True)
        answer: object = (rare,) if tier == "residual" else rare
        found = attack(folder, append=False, tools=Stand(**{tier: answer}).tools())
        assert (found.contradicted, found.unusual, found.verdict) == (False, True, "unusual")
        assert found.to_json()["verdict"] == "unusual"
    assert attack(folder, append=False, tools=Stand().tools()).verdict == "not-contradicted"


def test_the_json_of_a_report(folder: Path) -> None:
    found = attack(folder, tools=Stand(residual=InvalidInput("No sidecar.", "Why.")).tools())
    shown: Any = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert [one["tier"] for one in shown["tiers"]] == ["claim", "robust"]
    assert all(one["note"] == NOT_PROOF for one in [shown, *shown["tiers"]])
    assert shown["skipped"] == [{"tier": "residual", "reason": "No sidecar. Why."}]
    assert shown["claim"]["unit"] == "user"
    assert shown["appended"] == [43, 44]


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("is not closed", lambda records: [one for one in records if type(one) is not RunClose]),
        (
            "does not support its claim",
            lambda records: [*records[:-1], Evaluation(20, "private", {}), records[-1]],
        ),
    ],
)
def test_doubts_about_the_log_stand_beside_the_results(
    tmp_path: Path, said: str, change: ledgers.Change
) -> None:
    folder = run_in(tmp_path / "run", change=change)
    found = attack(folder, tools=Stand().tools())
    assert any(said in one for one in found.warnings)


def test_a_second_attack_says_that_there_was_a_first(folder: Path) -> None:
    assert attack(folder, tools=Stand().tools()).warnings == ()
    again = attack(folder, tools=Stand().tools())
    assert any("2 results of earlier attacks" in one for one in again.warnings)
