"""`privplan audit attack`."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput, MissingExtra
from privplan.audit.attack.tiers import TierFunctions
from privplan.audit.measurement import ANY_MECHANISM, NOT_PROOF
from privplan.audit.residual.tier import ROUNDS_TESTED, VALUES_TESTED
from privplan.audit.results import append_results, measurements_in
from privplan.audit.verify import verify
from privplan.cli.commands import audit_attack as audit_attack_command
from privplan.fl.log.hash_chain import LOG
from privplan.fl.running import Configuration, ready_new_run
from privplan.fl.running.session import execute

from ..audit.attacked import MEASURED, Stand, configured, run_in
from ..audit.broken import broken
from .conftest import Refused, Run

RESIDUAL = replace(
    MEASURED,
    tier="residual",
    what="variance of the noise",
    quantity="p-value",
    kind="test",
    value=0.4321,
    claimed=None,
    proves="The noise that was drawn is the noise that was logged.",
    observer="auditor",
    level=0.0004,
)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A run of 20 rounds with noise 5."""
    return run_in(tmp_path / "ward").name


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Tools that answer at once."""
    fake = Stand(residual=(RESIDUAL, replace(RESIDUAL, what="shape of the noise", value=0.5)))
    monkeypatch.setattr(TierFunctions, "default", classmethod(lambda _: fake.tools()))
    return fake


@pytest.mark.usefixtures("stand")
def test_each_tier_says_what_was_measured_and_what_it_proves(run: Run, folder: str) -> None:
    outcome = run("audit", "attack", folder)
    assert outcome.code == 0
    head = verify(folder).head or ""
    assert (
        outcome.out
        == f"""\
claim        epsilon at least 1.250 of 3.900 claimed, 95% confidence: not contradicted
             The mechanism is no better than that.

robust       epsilon at least 0.5000 of 3.900 claimed, 95% confidence: not contradicted
             The mechanism is no better than that.

residual     variance of the noise: p-value 0.432
             shape of the noise: p-value 0.5
             2 tests: none is contradicted
             Each p-value is corrected for all of these tests: at 0.0004 or less the log
             is contradicted (at most 1 in 2,500 honest runs), at 0.05 or less it is
             unusual (at most 1 in 20 honest runs).
             The noise that was drawn is the noise that was logged.

hides      adding or removing one user, at delta 1e-05
observer   whoever sees the released models
checked    chain only (privplan explain log)
appended   ward/log.jsonl, lines 43 and 44
head       {head}
sealed     ward/sealed-report.json, never to be published

note: A low value is not proof of privacy: it says that this attack found no more, and
      another one may.
"""
    )
    assert outcome.err.startswith("warning: Results of the tier residual were seen before the")


def test_the_residual_tier_says_how_much_was_tested(run: Run, folder: str, stand: Stand) -> None:
    sample = {ROUNDS_TESTED: 20, VALUES_TESTED: 3100}
    stand.answers["residual"] = (replace(RESIDUAL, sample=sample),)
    outcome = run("audit", "attack", folder, "--tier", "residual")
    assert "1 test of 3,100 values in 20 rounds: none is contradicted" in outcome.out
    shown = run("audit", "attack", folder, "--tier", "residual", "--json").json
    (tier,) = shown["result"]["tiers"]
    assert tier["sample"] == sample


def test_what_was_measured_is_drawn_over_what_the_log_proves_but_what_is_sealed(
    run: Run, folder: str, stand: Stand
) -> None:
    curves = {"trade-off": ((0.1, 0.7), (0.5, 0.3))}
    stand.answers["claim"] = replace(MEASURED, curves=curves)
    sealed = replace(RESIDUAL, observer="model", curves={"trade-off": ((0.25, 0.125),)})
    stand.answers["residual"] = (sealed,)
    outcome = run("audit", "attack", folder, "--plot", "-", "--json")
    plot = outcome.json["result"]["plot"]
    by_label = {mark["label"]: mark for mark in plot["marks"]}
    assert by_label["measured, tier claim"]["y"] == [0.7, 0.3]
    assert 0.125 not in [y for mark in plot["marks"] for y in mark.get("y", ())]
    assert "Sealed, and not drawn: residual." in plot["notes"]
    assert "proven: no attack comes below" in by_label
    assert plot["subtitle"] == "unit: user; neighbours: add-remove; delta: 1e-05; observer: model"
    again = run("audit", "attack", folder, "--plot", "-")
    assert "▲ measured, tier claim" in again.out


def test_a_contradiction_leaves_with_exit_code_1(run: Run, folder: str, stand: Stand) -> None:
    stand.answers["claim"] = replace(MEASURED, value=9.876543, contradicted=True)
    outcome = run("audit", "attack", folder, "--tier", "claim")
    assert outcome.code == 1
    assert "epsilon at least 9.876 of 3.900 claimed, 95% confidence: CONTRADICTED" in outcome.out
    assert NOT_PROOF[:40] not in outcome.out
    again = run("audit", "attack", folder, "--tier", "claim", "--json")
    assert again.code == 1
    assert again.json["ok"] is False
    assert again.json["result"]["contradicted"] is True
    assert again.json["result"]["note"] == NOT_PROOF


def test_the_tests_that_fail_are_named(run: Run, folder: str, stand: Stand) -> None:
    failed = replace(RESIDUAL, value=0.001, contradicted=True)
    stand.answers["residual"] = (RESIDUAL, failed)
    outcome = run("audit", "attack", folder, "--tier", "residual")
    assert outcome.code == 1
    assert "variance of the noise: p-value 0.001: CONTRADICTED\n" in outcome.out
    assert "the exit code" in outcome.err  # a scheduler keeps it, and it was seen before the noise
    assert "2 tests: 1 CONTRADICTED\n" in outcome.out


RARE = "unusual: at most one honest run in 20 looks like this"


@pytest.mark.parametrize("tier", ["claim", "robust"])
def test_what_is_unusual_is_said_and_accuses_nobody(
    run: Run, folder: str, stand: Stand, tier: str
) -> None:
    rare = {"value": 4.25, "unusual": True, "level": 0.0004, "proves": "It may be chance."}
    stand.answers[tier] = replace(MEASURED, tier=tier, **rare)
    outcome = run("audit", "attack", folder, "--tier", tier)
    assert outcome.code == 0
    assert f"epsilon at least 4.250 of 3.900 claimed, 95% confidence: {RARE}\n" in outcome.out
    assert "CONTRADICTED" not in outcome.out
    again = run("audit", "attack", folder, "--tier", tier, "--json").json
    assert (again["ok"], again["result"]["verdict"]) == (True, "unusual")
    (tier,) = again["result"]["tiers"]
    assert (tier["verdict"], tier["contradicted"], tier["level"]) == ("unusual", False, 0.0004)


def test_an_observer_that_is_none_gets_the_nearest_name(run: Run, folder: str) -> None:
    outcome = run("audit", "attack", folder, "--observer", "serevr")
    assert outcome.code == 2
    assert 'Did you mean "server"?' in outcome.err


def test_nothing_is_called_no_accusation_where_any_tier_accuses(
    run: Run, folder: str, stand: Stand
) -> None:
    rare = replace(RESIDUAL, value=0.01, unusual=True)
    stand.answers["residual"] = (rare,)
    sound = run("audit", "attack", folder)
    assert "p-value 0.01: unusual: about one honest run in 20 looks like this\n" in sound.out
    assert "What is unusual may be chance, and is no accusation." in sound.out
    for tier, wrong in (
        ("residual", (rare, replace(RESIDUAL, value=1e-9, contradicted=True))),
        ("claim", replace(MEASURED, value=9.0, contradicted=True)),
    ):
        stand.answers[tier] = wrong
        accused = run("audit", "attack", folder)
        assert (accused.code, "no accusation" in accused.out) == (1, False)


def test_the_words_for_other_confidences(run: Run, folder: str, stand: Stand) -> None:
    stand.answers["claim"] = replace(MEASURED, unusual=True, confidence=0.99)
    outcome = run("audit", "attack", folder, "--tier", "claim")
    assert "unusual: at most one honest run in 100 looks like this" in outcome.out


def test_a_page_of_tests_never_says_that_nothing_was_found_beside_a_finding(
    run: Run, folder: str, stand: Stand
) -> None:
    sound = replace(RESIDUAL, proves="Nothing was found.")
    rare = replace(RESIDUAL, what="shape", value=0.01, unusual=True, proves="It may be chance.")
    wrong = replace(RESIDUAL, what="zeros", value=1e-9, contradicted=True, proves="It is wrong.")
    for answers, verdict, said, unsaid in (
        ((sound, sound), "none is contradicted", ["Nothing was found."], []),
        ((sound, rare), "none is contradicted, 1 unusual", ["It may"], ["Nothing was"]),
        ((sound, rare, wrong), "1 CONTRADICTED, 1 unusual", ["It is wrong", "It may"], ["Nothing"]),
    ):
        stand.answers["residual"] = answers
        outcome = run("audit", "attack", folder, "--tier", "residual")
        assert outcome.code == ("CONTRADICTED" in verdict)
        assert f"{len(answers)} tests: {verdict}\n" in outcome.out
        assert all(sentence in outcome.out for sentence in said)
        assert not any(sentence in outcome.out for sentence in unsaid)


def test_where_nothing_is_claimed_nothing_is_called_not_contradicted(
    run: Run, folder: str, stand: Stand
) -> None:
    stand.answers["robust"] = replace(MEASURED, tier="robust", claimed=None, value=7.5)
    outcome = run("audit", "attack", folder, "--tier", "robust")
    assert "epsilon at least 7.500, 95% confidence: nothing is claimed\n" in outcome.out


@pytest.mark.usefixtures("stand")
def test_json_is_one_object(run: Run, folder: str) -> None:
    outcome = run("audit", "attack", folder, "--json")
    assert outcome.code == 0
    result = outcome.json["result"]
    assert [tier["tier"] for tier in result["tiers"]] == ["claim", "robust", "residual", "residual"]
    assert result["contradicted"] is False
    assert result["sealed"] == ["residual"]
    assert result["appended"] == [43, 44]
    assert result["verdict"] == "not-contradicted"
    assert any("errs with the probability" in line for line in outcome.json["assumptions"])
    assert any(
        "at most once in 1,000 calls" in sentence for sentence in outcome.json["assumptions"]
    )
    assert any("Canaries are users." in line for line in outcome.json["assumptions"])


def test_quiet_prints_the_claim_tiers_number_alone(run: Run, folder: str, stand: Stand) -> None:
    assert run("audit", "attack", folder, "--quiet").out == "1.25000\n"
    stand.answers["claim"] = replace(MEASURED, value=float("inf"))
    assert run("audit", "attack", folder, "-q").out == "inf\n"
    assert run("audit", "attack", folder, "-q", "--tier", "robust").out == "0.500000\n"


@pytest.mark.parametrize("option", ["--no-append", "--dry-run"])
@pytest.mark.usefixtures("stand")
def test_the_folder_can_be_left_alone(run: Run, folder: str, option: str) -> None:
    before = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    outcome = run("audit", "attack", folder, option)
    assert outcome.code == 0
    assert "appended" not in outcome.out
    assert "sealed" not in outcome.out
    assert {path.name: path.read_bytes() for path in Path(folder).iterdir()} == before


def test_every_option_reaches_the_attack(run: Run, tmp_path: Path, stand: Stand) -> None:
    folder = run_in(tmp_path / "heart", data="heart-disease").name
    words = ["--canaries", "300", "--seed", "4", "--confidence", "0.99", "--tier", "claim"]
    outcome = run("audit", "attack", folder, *words, "--tier", "membership", "--data", "records")
    assert outcome.code == 0, outcome.err
    asked = stand.call("rehearse")
    assert (asked["canaries"], asked["seed"]) == (300, 4)
    assert stand.call("claim")["alpha"] == pytest.approx(0.01)
    assert stand.call("membership")["given"][0].data.path == Path("records")
    assert "Membership read the records in records." in outcome.err
    assert "the tier membership were seen before the noise" in " ".join(outcome.err.split())


def test_a_skipped_tier_has_its_reason(run: Run, folder: str, stand: Stand) -> None:
    stand.answers["residual"] = InvalidInput("There is no sidecar.", "It is sealed.")
    outcome = run("audit", "attack", folder)
    assert outcome.code == 0
    assert "skipped    residual: There is no sidecar. It is sealed.\n" in outcome.out
    assert outcome.err == ""


@pytest.mark.usefixtures("stand")
def test_what_a_stranger_wrote_is_shown_plain(run: Run, folder: str, stand: Stand) -> None:
    stand.answers["claim"] = replace(MEASURED, proves="\x1b[2Jgone\n\x07", quantity="e\x1b[31m")
    outcome = run("audit", "attack", folder, "--tier", "claim")
    assert "\x1b" not in outcome.out
    assert "\x07" not in outcome.out


# Refused, with what, why and next


def test_a_run_without_a_log_is_refused(refused: Refused) -> None:
    Path("empty").mkdir()
    assert "holds no log.jsonl" in refused("audit", "attack", "empty")


def test_a_broken_chain_is_refused_with_its_line(refused: Refused, folder: str) -> None:
    log_file = Path(folder) / LOG
    log_file.write_text(log_file.read_text().replace('"round":2,', '"round":3,', 1))
    assert "Line 4 of" in refused("audit", "attack", folder)


def test_another_unit_than_claimed_is_refused(refused: Refused, tmp_path: Path) -> None:
    run_in(tmp_path / "edited", change=configured(privacy={"unit": "record"}))
    assert "says unit record, line 1 states user" in refused("audit", "attack", "edited")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tier", "claims"], "Did you mean --tier claim?"),
        (["--canaries", "0"], "`canaries`"),
        (["--confidence", "2"], "`confidence`"),
        (["--data", "x"], "`data` has no effect"),
        (["--sign-key", "nothing.pem"], "The file that --sign-key names"),
        (["--tier", "membership", "--data", "x"], "comes with privplan"),
    ],
)
@pytest.mark.usefixtures("stand")
def test_bad_options_are_refused(
    refused: Refused, folder: str, words: list[str], said: str
) -> None:
    if "--sign-key" in words:
        pytest.importorskip("cryptography")
    assert said in refused("audit", "attack", folder, *words)


def test_a_missing_extra_names_its_command(refused: Refused, folder: str, stand: Stand) -> None:
    stand.answers["rehearse"] = MissingExtra("Training needs torch.", "It is an extra.")
    error = refused("audit", "attack", folder, "--tier", "claim", code=4)
    assert "[fl]" in error.splitlines()[-1]


def test_a_log_that_is_signed_needs_its_key(
    run: Run, refused: Refused, folder: str, stand: Stand
) -> None:
    module = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization as forms

    key = module.Ed25519PrivateKey.generate()
    Path("key.pem").write_bytes(
        key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    )
    append_results(folder, [MEASURED], key=key)
    assert "is signed" in refused("audit", "attack", folder)
    assert stand.asked == []
    outcome = run("audit", "attack", folder, "--sign-key", "key.pem")
    assert outcome.code == 0, outcome.err
    assert verify(folder, key.public_key()).complete


def test_progress_is_shown_on_a_terminal_only(
    run: Run, folder: str, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    del stand
    assert "rehearsing" not in run("audit", "attack", folder, "--tier", "claim").err
    shown: list[bool] = []
    real = audit_attack_command._status

    def status(*, shown_: list[bool] = shown, **more: Any) -> Any:
        shown_.append(more["shown"])
        return real(**more)

    monkeypatch.setattr(audit_attack_command, "_status", status)
    run("audit", "attack", folder, "--tier", "claim", "--json")
    run("audit", "attack", folder, "--tier", "claim", "-q")
    run("audit", "attack", folder, "--tier", "claim")
    assert shown == [False, False, True]


def test_results_are_read_back_from_the_log_by_a_program(
    run: Run, folder: str, stand: Stand
) -> None:
    promised = json.loads((Path(folder) / LOG).read_text().splitlines()[0])["claim"]["epsilon"]
    stand.answers["claim"] = replace(MEASURED, claimed=float(promised), value=1.25)
    run("audit", "attack", folder, "--tier", "claim")
    line = json.loads((Path(folder) / LOG).read_text().splitlines()[-1])
    assert (line["type"], line["tier"]) == ("audit.result", "claim")
    assert line["result"]["value"] == "1.25"
    assert run("audit", "log", folder).code == 0
    assert run("audit", "budget", folder).code == 0


# The real thing

RUN = """\
[run]
system = "uldp-avg"
rounds = 3
[data]
name = "breast-cancer"
users = 12
silos = 2
[privacy]
noise_multiplier = 3.0
sampling_rate = 0.5
[training]
local_epochs = 1
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real run of three rounds."""
    for name in ("torch", "sklearn", "cryptography"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("ran")
    (folder / "run.toml").write_text(RUN)
    ready = ready_new_run(Configuration.read(folder / "run.toml"), folder / "run")
    with ready.writer:
        execute(ready.prepared, ready.folder, ready.writer)
    return ready.folder


@pytest.fixture
def real(ran: Path, tmp_path: Path) -> str:
    """A copy of it, in the working directory."""
    return Path(shutil.copytree(ran, tmp_path / "real")).name


def test_a_sound_run_is_not_contradicted_and_its_log_holds_what_was_found(
    run: Run, real: str
) -> None:
    """Under a fixed seed; each tier accuses a sound run with probability 5 % at most."""
    words = ("--canaries", "4000", "--seed", "11")
    outcome = run("audit", "attack", real, "--tier", "claim", "--tier", "robust", *words, "--json")
    assert outcome.code == 0, outcome.err
    claim, robust = outcome.json["result"]["tiers"]
    proven = run("audit", "budget", real, "--json").json["result"]["epsilon"]["upper"]
    for tier in (claim, robust):
        assert 0.2 * proven < tier["value"] < proven
        assert tier["claimed"] == pytest.approx(proven, rel=1e-3)
        assert (tier["unit"], tier["neighbours"]) == ("user", "add-remove")
    kept = measurements_in(real)
    assert [result.value for result in kept] == [claim["value"], robust["value"]]
    assert verify(real).complete
    again = run("audit", "attack", real, "-q", "--tier", "claim", *words)
    assert float(again.out) == pytest.approx(claim["value"], rel=1e-5)


def test_the_residual_tier_leaves_no_trace_in_the_log(run: Run, real: str) -> None:
    before = (Path(real) / LOG).read_bytes()
    outcome = run("audit", "attack", real, "--tier", "residual", "--json")
    assert outcome.json["result"]["sealed"] == ["residual"]
    assert {tier["kind"] for tier in outcome.json["result"]["tiers"]} == {"test"}
    assert (Path(real) / LOG).read_bytes() == before
    report = Path(real) / "sealed-report.json"
    assert report.stat().st_mode & 0o777 == 0o600


def test_an_honest_run_with_unusual_noise_is_not_accused(run: Run, tmp_path: Path) -> None:
    """The noise of seed 18 has p-value .045, as that of about one seed in twenty is below .05."""
    (tmp_path / "run.toml").write_text(RUN.replace("rounds = 3", "rounds = 2\nseed = 18"))
    ready = ready_new_run(Configuration.read(tmp_path / "run.toml"), tmp_path / "rare")
    with ready.writer:
        execute(ready.prepared, ready.folder, ready.writer)
    outcome = run("audit", "attack", str(ready.folder), "--tier", "residual")
    assert outcome.code == 0
    assert (
        f"shape of the noise: p-value 0.0449: {RARE.replace('at most', 'about')}\n" in outcome.out
    )
    assert "10 tests of 124 values in 2 rounds: none is contradicted, 1 unusual\n" in outcome.out
    assert "Nothing was found" not in outcome.out


def test_half_the_noise_is_caught(run: Run, real: str) -> None:
    with broken("half-noise"):
        words = ("--canaries", "4000", "--seed", "11")
        outcome = run("audit", "attack", real, "--tier", "claim", *words, "-q")
    assert outcome.code == 1
    (kept,) = measurements_in(real)
    assert kept.contradicted


def test_too_few_canaries_are_refused(refused: Refused, real: str) -> None:
    words = ("--tier", "claim", "--canaries", "5")
    assert "5 canaries" in refused("audit", "attack", real, *words)
    assert measurements_in(real) == ()


def test_an_observer_that_the_run_does_not_know_is_refused(refused: Refused, real: str) -> None:
    assert "Known: model, server" in refused("audit", "attack", real, "--observer", "me")
    assert "must be one of model" in refused("audit", "attack", real, "--observer", "server+2")


def test_a_run_that_was_cut_off_is_audited_and_then_resumed(ran: Path, run: Run) -> None:
    content = (ran / "config.toml").read_bytes()
    Path("run.toml").write_bytes(content)
    ready = ready_new_run(Configuration.read(Path("run.toml")), Path("cut"))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with ready.writer, pytest.raises(KeyboardInterrupt):
        execute(ready.prepared, ready.folder, ready.writer, report=stop)
    outcome = run("audit", "attack", "cut", "--tier", "claim", "--canaries", "2000", "--seed", "1")
    assert outcome.code == 0, outcome.err
    assert "The run is not closed" in outcome.err
    assert run("run", "--resume", "--out", "cut").code == 0
    assert verify("cut").complete
    assert len(measurements_in("cut")) == 1
    assert run("audit", "budget", "cut").code == 0


@pytest.mark.usefixtures("stand")
def test_a_robust_number_stands_beside_that_of_any_mechanism(
    run: Run, folder: str, stand: Stand
) -> None:
    stand.answers["robust"] = replace(
        MEASURED, tier="robust", value=4.9499, sample={ANY_MECHANISM: 3.6689}
    )
    outcome = run("audit", "attack", folder, "--tier", "robust")
    assert "epsilon at least 4.949 (any mechanism: 3.668) of 3.900 claimed" in outcome.out
