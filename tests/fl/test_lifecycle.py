"""A run's life cycle from Python: as by the command, and each goes on with what the other began."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput, MissingExtra, PrivplanError
from privplan.audit.budget import audit_budget
from privplan.audit.verify import verify
from privplan.fl.frame.rounds import Draft
from privplan.fl.frame.user_sum import UserRecords
from privplan.fl.running import RunInterrupted, preparation
from privplan.fl.settings.schema import Settings
from privplan.fl.settings.toml_file import read_settings

from ..usual_signals import usual_signals
from .extras import needs
from .wards import Tables, command, ward, written

pytestmark = needs("torch", "cryptography")


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stopped_after(rounds: int) -> Any:
    """Return what interrupts a run once so many rounds were measured."""
    seen = 0

    def tell(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == rounds:
            raise KeyboardInterrupt

    return tell


@pytest.fixture
def signing_key() -> str:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    plain = form.NoEncryption()
    Path("key.pem").write_bytes(
        key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, plain)
    )
    return "key.pem"


# --- run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["file", "tables", "settings"])
def test_a_run_is_carried_out_whatever_describes_it(way: str) -> None:
    described: Any = written(ward())
    if way != "file":
        described = ward() if way == "tables" else read_settings(described)
    outcome = pp.run(described, "out")
    assert {path.name for path in Path("out").iterdir()} == {
        *("config.toml", "log.jsonl", "sealed.jsonl", "model.npz", "metrics.json"),
    }
    assert read_settings("out/config.toml") == read_settings(written(ward()))
    checked = verify("out", expected_head=outcome.head)
    assert checked.complete
    assert checked.anchor == checked.records
    assert audit_budget("out", sealed=True).ok
    assert outcome.folder == Path("out")
    assert outcome.result.rounds == 3
    assert np.array_equal(np.load("out/model.npz")["parameters"], outcome.parameters)
    assert outcome.guarantee == outcome.guarantees["model"]
    assert set(outcome.metrics) >= {"accuracy"}
    assert "3 of 3 rounds" in repr(outcome)
    proven = {one.observer: one.epsilon for one in pp.plan_run(described).observers}
    assert proven == {who: one.epsilon for who, one in outcome.guarantees.items()}


def test_a_plan_writes_nothing_and_a_run_says_what_a_person_must_know() -> None:
    expected = pp.plan_run(ward())
    assert expected.rounds == 3
    assert list(Path().iterdir()) == []
    assert any("seed" in one for one in pp.run(ward(run={"seed": 7}), "out").warnings)


def test_what_is_shown_of_a_run_shows_nothing_of_its_records() -> None:
    """A notebook shows what a cell returns, and which records there are is only to be sealed."""
    prepared = pp.run(ward(), "out").prepared
    assert prepared.dataset["records"] not in repr(prepared)
    assert prepared.dataset["allocation"] not in repr(prepared)
    held = UserRecords(np.array([[7.25]]), np.array([1]))
    draft = Draft(np.zeros(1), sealed={"norms": [7.25]})
    assert not any("7.25" in repr(one) for one in (held, draft))


# --- cut off, and taken up ------------------------------------------------------------------------

PAILLIER: Final = {"aggregation": "private-weighting", "key_bits": 2048, "keep_transcripts": True}

VARIANTS: Final[dict[str, Tables]] = {
    "plain": {},
    "signed": {"log": {"sign_key": "key.pem"}},
    "moments": {
        "data": {"normalisation": "private"},
        "privacy": {"normalisation_noise": 5.0},
    },
    "models": {"log": {"save_models": True}},
    "transcripts": {"security": {"aggregation": "masked", "keep_transcripts": True}},
    "hidden": {"security": PAILLIER},
    "sampled": {"privacy": {"sampling_rate": 0.5, "observers": ["model", "server+1"]}},
}


@pytest.mark.parametrize(
    ("name", "begun_by"),
    [
        *(("plain", "python"), ("signed", "command"), ("moments", "python"), ("models", "command")),
        *(("transcripts", "python"), ("sampled", "command"), ("signed", "python")),
        pytest.param("hidden", "python", marks=pytest.mark.slow),
    ],
)
def test_each_goes_on_with_what_the_other_began(
    name: str, begun_by: str, signing_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ward(**VARIANTS[name])
    if begun_by == "python":
        with pytest.raises(RunInterrupted) as stopped:
            pp.run(tables, "out", report=stopped_after(1))
        head = verify("out").head
        assert stopped.value.next_step == (
            f"pp.resume('out'), or: privplan run --resume --out out --head {head}"
        )
        code, said = command("run", "--resume", "--out", "out", "--head", str(head))
        assert (code, said["ok"]) == (0, True)
        assert said["result"]["rounds"] == 3
    else:
        from privplan.fl.running import session

        with monkeypatch.context() as patch:
            measure = session.measure
            tell = stopped_after(2)
            patch.setattr(session, "measure", lambda *given: (tell(), measure(*given))[1])
            code, said = command("run", written(tables), "--out", "out")
        assert code == 130
        head = said["error"]["next"].split("--head ")[1]
        assert pp.resume("out", head=head[:40].upper()).result.rounds == 3
    given = {}
    if name == "signed":
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        private: Any = load_pem_private_key(Path(signing_key).read_bytes(), password=None)
        given["public_key"] = private.public_key()
    checked = verify("out", **given)
    assert checked.complete
    assert checked.recoveries == 1
    assert audit_budget("out", sealed=True, **given).ok
    if name == "models":
        assert command("audit", "log", "out", "--models", "out/models")[0] == 0
    if name in ("transcripts", "hidden"):
        assert any(Path("out").glob("*transcript*"))


def test_an_interruption_ends_what_interruptions_end() -> None:
    with pytest.raises(KeyboardInterrupt) as stopped:
        pp.run(ward(), "out", report=stopped_after(1))
    assert "The run was interrupted." in str(stopped.value)
    assert "pp.resume('out')" in str(stopped.value)
    assert not isinstance(stopped.value, Exception)


@usual_signals()
def test_a_scheduler_that_ends_a_run_is_an_abort_in_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from privplan.fl.training.local_training import TorchLocalTraining

    def ended(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal was not seen")

    with monkeypatch.context() as patch:
        patch.setattr(TorchLocalTraining, "user_deltas", ended)
        with pytest.raises(RunInterrupted, match="is spent, and the log says so"):
            pp.run(ward(), "out")
    last = json.loads(Path("out/log.jsonl").read_text().splitlines()[-1])
    assert (last["type"], last["reason"]) == ("round.abort", "interrupted")
    outcome = pp.resume("out")
    assert (outcome.result.rounds, outcome.result.planned) == (2, 3)
    assert verify("out").complete


def test_a_program_that_handles_a_signal_goes_on_doing_so() -> None:
    seen: list[int] = []

    def tell(measured: Any, _: int) -> None:
        if measured.round == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        assert pp.run(ward(), "out", report=tell).result.rounds == 3
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM]


def test_a_run_in_another_thread_is_a_run() -> None:
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(pp.run(ward(), "out")))
    thread.start()
    thread.join()
    assert outcomes[0].result.rounds == 3
    assert verify("out").complete


def test_an_interruption_before_the_run_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    from privplan.fl.running import begin_or_resume

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(begin_or_resume, "save_configuration", interrupted)
    with pytest.raises(RunInterrupted, match=r"No round was under way\. Begin it again"):
        pp.run(ward(), "out")
    assert not Path("out").exists()


def test_a_configuration_that_is_named_again_is_compared() -> None:
    with pytest.raises(RunInterrupted):
        pp.run(written(ward()), "out", report=stopped_after(1))
    with pytest.raises(InvalidInput, match="differs from the run's own"):
        pp.resume("out", ward(privacy={"noise_multiplier": 6.0}))
    Path("out/config.toml").unlink()
    with pytest.raises(InvalidInput, match=r"changed: \[privacy\] noise_multiplier"):
        pp.resume("out", ward(privacy={"noise_multiplier": 6.0}))
    assert pp.resume("out", ward()).result.rounds == 3


# --- one folder, one run, one writer --------------------------------------------------------------


def test_who_writes_a_folder_is_alone() -> None:
    """Neither another process nor another thread takes up a run that is under way."""
    refused: list[str] = []

    def resumed() -> None:
        try:
            pp.resume("out")
        except PrivplanError as error:
            refused.append(error.what)

    def tell(*_: object) -> None:
        if refused:
            return
        thread = threading.Thread(target=resumed)
        thread.start()
        thread.join()
        program = "import privplan as pp; pp.resume('out')"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        refused.append(done.stderr)

    outcome = pp.run(ward(), "out", report=tell)
    assert len(refused) == 2
    assert all("is being written by another process" in one for one in refused)
    assert outcome.result.rounds == 3
    assert verify("out").recoveries == 0


def test_a_run_under_way_is_no_run_whose_files_were_changed() -> None:
    """Its log is ahead of its kept model for a moment, which is nobody's fault."""
    kept, refused = Path("out/checkpoint.npz"), []
    contents: list[bytes] = []

    def tell(*_: object) -> None:
        contents.append(kept.read_bytes() if kept.exists() else b"")
        if len(contents) < 3:
            return
        kept.write_bytes(contents[0])  # that of a release before the last
        with pytest.raises(InvalidInput) as caught:
            pp.resume("out")
        refused.append(caught.value)
        kept.write_bytes(contents[-1])

    pp.run(ward(), "out", report=tell)
    (error,) = refused
    assert "is being written by another process" in error.what
    assert error.next_step == "Wait until that run ends, or give another folder."


def test_of_two_that_begin_at_once_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare, both = preparation.prepare, threading.Barrier(2)

    def together(given: Settings, **more: Any) -> Any:
        prepared = prepare(given, **more)
        both.wait(60)
        return prepared

    monkeypatch.setattr(preparation, "prepare", together)
    ended: list[object] = []

    def begun() -> None:
        try:
            ended.append(pp.run(ward(), "out"))
        except PrivplanError as error:
            ended.append(error)

    threads = [threading.Thread(target=begun) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(isinstance(one, InvalidInput) for one in ended) == [False, True]
    assert verify("out").complete
    assert verify("out").recoveries == 0


def full() -> None:
    Path("out").mkdir()
    (Path("out") / "notes.txt").write_text("mine")


def closed() -> None:
    pp.run(ward(), "out")


def cut() -> None:
    with pytest.raises(RunInterrupted):
        pp.run(ward(), "out", report=stopped_after(1))


def edited() -> None:
    cut()
    log = Path("out/log.jsonl")
    log.write_bytes(log.read_bytes().replace(b"uldp-avg", b"uldp-sgd", 1))


def other_data() -> None:
    cut()
    sealed = Path("out/sealed.jsonl")
    sealed.write_bytes(b"")


NEW: Final = ("run", "run.toml", "--out", "out")
AGAIN: Final = ("run", "--resume", "--out", "out")


def require_refused_alike(words: tuple[str, ...], call: Callable[[], object]) -> None:
    code, said = command(*words)
    with pytest.raises(InvalidInput) as refused:
        call()
    assert code == 2
    own = refused.value
    assert {"what": own.what, "why": own.why, "next": own.next_step} == said["error"]


@pytest.mark.parametrize("state", [full, closed, cut, edited])
def test_a_new_run_is_refused_as_by_the_command(state: Any) -> None:
    written(ward())
    state()
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    require_refused_alike(NEW, lambda: pp.run("run.toml", "out"))
    assert before == {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}


@pytest.mark.parametrize("state", [full, closed, edited, other_data, lambda: None])
def test_going_on_is_refused_as_by_the_command(state: Any) -> None:
    state()
    code, said = command(*AGAIN)
    with pytest.raises(InvalidInput) as refused:
        pp.resume("out")
    assert code == 2
    own = refused.value
    assert {"what": own.what, "why": own.why, "next": own.next_step} == said["error"]


@pytest.mark.parametrize("head", ["0" * 64, "0" * 31, "not a head"])
def test_a_log_that_lacks_a_head_is_refused(head: str) -> None:
    cut()
    code, said = command(*AGAIN, "--head", head)
    with pytest.raises(InvalidInput) as refused:
        pp.resume("out", head=head)
    assert (code, refused.value.what) == (2, said["error"]["what"])
    assert pp.resume("out").result.rounds == 3


def test_a_large_delta_is_refused_unless_it_is_accepted() -> None:
    tables = ward(privacy={"delta": 0.1})
    for refusing in (lambda: pp.plan_run(tables), lambda: pp.run(tables, "out")):
        with pytest.raises(InvalidInput, match="accept_delta"):
            refusing()
    assert not Path("out").exists()
    assert pp.plan_run(tables, accept_delta=True).rounds == 3
    pp.run(tables, "out", accept_delta=True)
    assert read_settings("out/config.toml").privacy.accept_delta
    opened = json.loads(Path("out/log.jsonl").read_text().splitlines()[0])
    assert opened["configuration"]["privacy"]["accept_delta"] is True


# --- floors ---------------------------------------------------------------------------------------


UNTRAINED: Final = {  # a system that need not wait for torch
    "run": {"system": "statistics"},
    "data": {"name": "breast-cancer", "users": 20, "silos": 3},
    "privacy": {"noise_multiplier": 5.0, "delta": 1e-3},
    "statistics": {"row_norm": 6.0},
}


def test_a_run_needs_nothing_of_the_floors_above() -> None:
    program = (
        f"import sys; import privplan as pp; pp.run({UNTRAINED!r}, 'out')\n"
        "names = ('privplan.audit', 'privplan.cli')\n"
        "print([name for name in sys.modules if name.startswith(names)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_key_without_its_package_is_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from privplan.fl.running.signing_key import private_key

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(MissingExtra, match="cryptography"):
        private_key(Path("key.pem"), "the test")
