"""An attack on a run: what it reads, what it refuses, and what it keeps where."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, MissingExtra, PrivplanError, Unsupported
from privplan.accountant.records import Evaluation, RunClose
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.attack.tiers import DEFAULT_CANARIES
from privplan.audit.configuration.logged_settings import settings_in
from privplan.audit.measurement import NOT_PROOF
from privplan.audit.results import append_results, measurements_in
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter, Sidecar
from privplan.fl.log.hash_chain import LOG, SEALED

from ..cases import for_each
from . import ledgers, logs
from .attacked import MEASURED, MEMBERSHIP, Stand, configured, content, files_of, opened_in, run_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of 20 rounds with noise 5, as its own code would have left its log."""
    return run_in(tmp_path / "run")


# What is taken, and what is skipped


def test_the_usual_tiers_are_taken_in_order(folder: Path) -> None:
    stand, said = Stand(), list[str]()
    found = attack(folder, tier_functions=stand.tools(), progress=said.append)
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
    own = AttackRequest(
        tiers=("robust", "claim"), observer="server", canaries=77, rounds=5, seed=3, confidence=0.99
    )
    attack(folder, own, tier_functions=stand.tools())
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
    found = attack(folder, tier_functions=Stand(**answers).tools())
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
        attack(folder, AttackRequest(tiers=(tier,)), tier_functions=Stand(**answers).tools())


def test_where_no_tier_can_be_taken_the_first_reason_is_the_error(folder: Path) -> None:
    answers = {"rehearse": MissingExtra("No torch."), "residual": InvalidInput("No sidecar.")}
    with pytest.raises(MissingExtra, match="No torch"):
        attack(folder, tier_functions=Stand(**answers).tools())


@pytest.mark.parametrize("tier", ["claim", "robust"])
def test_too_few_canaries_are_an_error_and_no_skipped_tier(folder: Path, tier: str) -> None:
    stand = Stand(**{tier: InvalidInput("The test needs 100 canaries.")})
    before = files_of(folder)
    with pytest.raises(InvalidInput, match="needs 100 canaries"):
        attack(folder, AttackRequest(canaries=5), tier_functions=stand.tools())
    assert files_of(folder) == before


def test_what_was_seen_must_be_numbers(folder: Path) -> None:
    """Also where no tier was named: a canary that vanished is no reason to skip a tier."""
    stand = Stand(rehearse={"observations": np.array([[0.0, math.nan]])})
    with pytest.raises(InvalidInput, match="is no number"):
        attack(folder, tier_functions=stand.tools())
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
        attack(folder, tier_functions=stand.tools())
    assert stand.names == ["rehearse"]


def test_a_promise_that_the_announced_rounds_do_not_bear_is_refused(tmp_path: Path) -> None:
    """Else what was measured would be held against the rounds, and called not contradicted."""
    low = run_in(tmp_path / "low", change=ledgers.opening(claim=ledgers.part(epsilon=0.1)))
    for tiers in ((), ("robust",)):
        with pytest.raises(InvalidInput, match=r"promises epsilon 0\.1"):
            attack(low, AttackRequest(tiers=tiers), tier_functions=Stand().tools())
    nothing = ledgers.also(
        ledgers.opening(plan=ledgers.part(events={})), ledgers.closing(events={})
    )
    none = run_in(tmp_path / "none", change=nothing)
    with pytest.raises(InvalidInput, match="announces other rounds"):
        attack(none, tier_functions=Stand().tools())
    assert measurements_in(low) == measurements_in(none) == ()


def test_a_promise_without_noise_is_refused(folder: Path) -> None:
    """The settings promise nothing, and the log does."""
    stand = Stand(rehearse={"event": None, "claimed": None})
    with pytest.raises(InvalidInput, match="announces other rounds"):
        attack(folder, tier_functions=stand.tools())


def test_as_published_the_papers_number_is_the_promise(tmp_path: Path) -> None:
    def published(records: ledgers.Records) -> ledgers.Records:
        found = configured(uldp={"as_published": True})(records)
        return ledgers.opening(as_published=True, claim=ledgers.part(epsilon=4.5))(found)

    folder = run_in(tmp_path / "run", change=published)
    with pytest.raises(InvalidInput, match=r"promises epsilon 4\.5"):
        attack(folder, tier_functions=Stand(rehearse={"claimed": 3.9}).tools())
    assert attack(folder, tier_functions=Stand(rehearse={"claimed": 4.5}).tools()).measurements


def test_fewer_rounds_may_be_rehearsed_and_never_more(folder: Path) -> None:
    event = ledgers.weighted(1)[1].event  # type: ignore[attr-defined]
    fewer = Stand(rehearse={"event": ev.Repeat(7, event)})
    found = attack(folder, AttackRequest(rounds=7), tier_functions=fewer.tools())
    assert any("A part of the run is rehearsed" in said for said in found.warnings)
    with pytest.raises(InvalidInput, match="announces other rounds"):
        attack(folder, tier_functions=fewer.tools())
    more = Stand(rehearse={"event": ev.Repeat(21, event)})
    with pytest.raises(InvalidInput, match="`rounds` is 21, and the run has 20"):
        attack(folder, AttackRequest(rounds=21), tier_functions=more.tools())
    with pytest.raises(InvalidInput, match="announces other rounds"):
        attack(folder, AttackRequest(rounds=20), tier_functions=more.tools())


@pytest.mark.parametrize(("rounds", "said"), [(7, True), (20, False)])
def test_what_is_held_against_the_whole_promise_is_not_called_a_part(
    folder: Path, rounds: int, said: bool
) -> None:
    """As with blocks of rounds, each of which is paid whole where its first round is made."""
    asked = AttackRequest(rounds=rounds)
    found = attack(folder, asked, tier_functions=Stand().tools(), append=False)
    assert not any("held against what is claimed of that part" in line for line in found.warnings)
    whole = [line for line in found.warnings if "held against all that the log promises" in line]
    assert bool(whole) == said


@pytest.mark.parametrize(("share", "said"), [(1.0, False), (0.894, True)])
def test_how_much_of_a_claim_can_be_shown_is_said(folder: Path, share: float, said: bool) -> None:
    tools = Stand(rehearse={"share": share}).tools()
    found = attack(folder, tier_functions=tools, append=False)
    lines = [line for line in found.warnings if "told apart by 0.894 times what it allows" in line]
    assert bool(lines) == said


@for_each(
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
        AttackRequest(**bad)


# What is kept, and where


def test_public_results_join_the_log_and_sealed_ones_do_not(folder: Path) -> None:
    before = verify(folder)
    found = attack(folder, tier_functions=Stand().tools())
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
        attack(
            folder, AttackRequest(tiers=("membership", "residual")), tier_functions=stand.tools()
        )
    assert [one.tier for one in measurements_in(folder)] == ["membership"]


def test_where_the_records_are_is_asked_before_any_work(tmp_path: Path) -> None:
    folder, stand = run_in(tmp_path / "heart", data="heart-disease"), Stand()
    with pytest.raises(InvalidInput, match="`data` is missing"):
        attack(folder, AttackRequest(tiers=("claim", "membership")), tier_functions=stand.tools())
    assert stand.asked == []
    assert measurements_in(folder) == ()


def test_what_joins_the_log_does_not_depend_on_what_was_seen_before_the_noise(
    tmp_path: Path,
) -> None:
    contradicts = replace(MEASURED, tier="residual", kind="test", contradicted=True)
    kept = []
    for number, residual in enumerate((InvalidInput("No sidecar."), (contradicts,), (MEASURED,))):
        folder = run_in(tmp_path / str(number))
        attack(folder, tier_functions=Stand(residual=residual).tools())
        kept.append((folder / LOG).read_bytes())
    assert kept[0] == kept[1] == kept[2]


def test_without_append_nothing_is_written(folder: Path) -> None:
    before = files_of(folder)
    stand = Stand()
    found = attack(folder, append=False, tier_functions=stand.tools())
    assert "seal" not in stand.names
    assert (found.appended, found.sealed_report) == ((), None)
    own = AttackRequest(tiers=("claim", "membership"))
    attack(folder, own, append=False, tier_functions=Stand().tools())
    assert files_of(folder) == before


def test_membership_of_data_that_everybody_has_is_public(folder: Path) -> None:
    stand = Stand()
    found = attack(folder, MEMBERSHIP, tier_functions=stand.tools())
    assert stand.names == ["membership"]
    assert stand.call("membership")["given"][0].data.path is None
    assert [one.tier for one in measurements_in(folder)] == ["membership"]
    assert found.sealed_tiers == ()
    assert any("could not be checked" in one for one in found.warnings)


def test_membership_of_private_records_is_sealed(tmp_path: Path) -> None:
    folder = run_in(tmp_path / "run", data="heart-disease")
    own, stand = replace(MEMBERSHIP, data=tmp_path / "records"), Stand()
    found = attack(folder, own, tier_functions=stand.tools())
    assert stand.call("membership")["given"][0].data.path == tmp_path / "records"
    assert stand.names == ["membership", "seal"]
    assert measurements_in(folder) == ()
    line = json.loads(logs.lines_of(folder)[-1])
    assert set(line["result"]) == {"sealed"}
    (item,) = Sidecar.read(folder).items
    assert item.name == "audit.membership"
    assert found.sealed_tiers == ("membership",)
    assert any(str(tmp_path / "records") in one for one in found.warnings)


def test_no_path_is_taken_from_the_folder(tmp_path: Path) -> None:
    folder = run_in(tmp_path / "run", data="heart-disease")
    named = content("heart-disease").replace(b"users", b'path = "/etc/secret"\nusers')
    (folder / "config.toml").write_bytes(named)
    stand = Stand()
    with pytest.raises(InvalidInput) as caught:
        attack(folder, MEMBERSHIP, tier_functions=stand.tools())
    assert "`data` is missing" in caught.value.what
    assert "/etc/secret" in caught.value.next_step  # for the person to confirm, or not
    assert stand.asked == []
    attack(folder, tier_functions=stand.tools())
    assert all(str(call.get("settings")).find("secret") < 0 for _, call in stand.asked)


def test_data_that_come_along_take_no_path(folder: Path, tmp_path: Path) -> None:
    own = replace(MEMBERSHIP, data=tmp_path)
    with pytest.raises(InvalidInput, match="comes with privplan"):
        attack(folder, own, tier_functions=Stand().tools())


@for_each("same", [True, False])
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
        assert attack(folder, MEMBERSHIP, tier_functions=stand.tools()).warnings == ()
    else:
        with pytest.raises(InvalidInput, match="not those that the run was made on"):
            attack(folder, MEMBERSHIP, tier_functions=stand.tools())
    assert stand.names == (["membership"] if same else [])


def test_a_signed_run_takes_results_with_its_key_alone(tmp_path: Path) -> None:
    module = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key = module.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    records = run_in(tmp_path / "plain")
    append_results(records, [MEASURED], key=key)
    stand = Stand()
    with pytest.raises(InvalidInput, match="is signed"):
        attack(records, tier_functions=stand.tools())
    assert stand.asked == []
    assert attack(records, append=False, tier_functions=stand.tools()).measurements
    attack(records, key=key, tier_functions=stand.tools())
    assert verify(records, key.public_key()).complete


# What is said


def test_a_contradiction_of_any_tier_is_one(folder: Path) -> None:
    for tier in ("claim", "robust"):
        contradicts = replace(MEASURED, tier=tier, value=9.0, contradicted=True)
        found = attack(folder, append=False, tier_functions=Stand(**{tier: contradicts}).tools())
        assert found.contradicted
        assert found.to_json()["contradicted"] is True


def test_what_is_unusual_contradicts_nothing(folder: Path) -> None:
    for tier in ("claim", "robust", "residual"):
        rare = replace(MEASURED, tier=tier, unusual=True)
        answer: object = (rare,) if tier == "residual" else rare
        found = attack(folder, append=False, tier_functions=Stand(**{tier: answer}).tools())
        assert (found.contradicted, found.unusual, found.verdict) == (False, True, "unusual")
        assert found.to_json()["verdict"] == "unusual"
    assert (
        attack(folder, append=False, tier_functions=Stand().tools()).verdict == "not-contradicted"
    )


def test_the_json_of_a_report(folder: Path) -> None:
    found = attack(
        folder, tier_functions=Stand(residual=InvalidInput("No sidecar.", "Why.")).tools()
    )
    shown: Any = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert [one["tier"] for one in shown["tiers"]] == ["claim", "robust"]
    assert all(one["note"] == NOT_PROOF for one in [shown, *shown["tiers"]])
    assert shown["skipped"] == [{"tier": "residual", "reason": "No sidecar. Why."}]
    assert shown["claim"]["unit"] == "user"
    assert shown["appended"] == [43, 44]


@for_each(
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
    found = attack(folder, tier_functions=Stand().tools())
    assert any(said in one for one in found.warnings)


def test_a_second_attack_says_that_there_was_a_first(folder: Path) -> None:
    assert attack(folder, tier_functions=Stand().tools()).warnings == ()
    again = attack(folder, tier_functions=Stand().tools())
    assert any("2 results of earlier attacks" in one for one in again.warnings)
