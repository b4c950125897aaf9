"""Keys, heads and what was checked, in all four commands that judge a log; and resuming one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.audit.attack.tiers import TierFunctions
from privplan.audit.results import append_results
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter
from privplan.fl.log.hash_chain import LOG

from ..audit import logs
from ..audit.attacked import Stand, run_in
from .conftest import Refused, Run

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))

COMMANDS = {
    "log": ("audit", "log", "ward"),
    "budget": ("audit", "budget", "ward"),
    "attack": ("audit", "attack", "ward", "--tier", "claim", "--no-append"),
    "report": ("report", "ward", "-o", "page.html"),
}


@pytest.fixture(autouse=True)
def _stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack with tools that answer at once."""
    monkeypatch.setattr(TierFunctions, "default", classmethod(lambda _: Stand().tools()))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A run that nobody signed."""
    return run_in(tmp_path / "ward")


@pytest.fixture
def signed(plain: Path, tmp_path: Path) -> Path:
    """A run that is signed at its end; and the public keys of two owners."""
    for name, key in (("key", KEY), ("other", OTHER)):
        (tmp_path / name).write_text(key.public_key().public_bytes_raw().hex())
    sign(plain, KEY)
    return plain


def sign(folder: Path, key: Ed25519PrivateKey) -> None:
    """Put a signature of all lines at the end."""
    from privplan.fl.log import signing
    from privplan.fl.log.hash_chain import chained

    head, lines = verify(folder).head or "", logs.lines_of(folder)
    line = chained(signing.signed(key, head).to_json(), len(lines), head)[0]
    logs.write_lines(folder, [*lines, line])


@pytest.fixture(params=list(COMMANDS))
def judged(request: pytest.FixtureRequest, run: Run) -> Callable[..., Any]:
    """Run one of the four commands."""
    return lambda *more: run(*COMMANDS[request.param], *more)


def test_a_chain_alone_is_a_chain_alone(judged: Callable[..., Any], plain: Path) -> None:
    assert plain.is_dir()
    outcome = judged()
    assert outcome.code == 0, outcome.err
    assert "checked chain only (privplan explain log)" in " ".join(outcome.out.split())
    assert judged("--json").json["result"]["checked"] == "chain only"


def test_a_head_in_full_or_its_first_digits(judged: Callable[..., Any], plain: Path) -> None:
    head = verify(plain).head or ""
    for given in (head, head.upper(), head[:32]):
        outcome = judged("--head", given)
        assert outcome.code == 0, outcome.err
        assert "chain and head" in outcome.out
        assert judged("--head", given, "--json").json["result"]["checked"] == "chain and head"
    assert judged("--head", head[:31]).code == 2


def test_a_head_of_an_earlier_line_covers_no_more(judged: Callable[..., Any], plain: Path) -> None:
    head = json.loads(logs.lines_of(plain)[7])["hash"]
    outcome = judged("--head", head)
    assert outcome.code == 0, outcome.err
    assert "chain and head, up to line 8: lines after it may be anybody's" in outcome.out
    assert judged("--head", head, "--json").json["result"]["up_to"] == 8


def test_another_head_is_an_error(judged: Callable[..., Any], plain: Path) -> None:
    head = verify(plain).head or ""
    logs.write_lines(plain, logs.lines_of(plain)[:-1])
    outcome = judged("--head", head)
    assert outcome.code in (1, 2)
    assert "chain and head" not in outcome.out
    said = outcome.out + outcome.err
    assert "o line has the expected head" in said or "does not support what it claims" in said


def test_a_key_that_signed_the_end(judged: Callable[..., Any], signed: Path) -> None:
    assert signed.is_dir()
    outcome = judged("--public-key", "key")
    assert outcome.code == 0, outcome.err
    assert "chain and key" in outcome.out
    assert "by the key that was given" in outcome.out
    assert judged("--public-key", "key", "--json").json["result"]["checked"] == "chain and key"


def test_a_signature_is_shown_where_no_key_is_given(
    judged: Callable[..., Any], signed: Path
) -> None:
    assert signed.is_dir()
    outcome = judged()
    assert outcome.code == 0
    digits = KEY.public_key().public_bytes_raw().hex()[:8]
    assert f"by key {digits}..., whose owner is not known" in outcome.out
    assert "checked" in outcome.out
    assert "chain only" in outcome.out


def test_the_key_of_another_is_an_error(judged: Callable[..., Any], signed: Path) -> None:
    assert signed.is_dir()
    outcome = judged("--public-key", "other")
    assert outcome.code in (1, 2)
    assert "signed by another key" in outcome.out + outcome.err


@pytest.mark.quick(2)
@pytest.mark.usefixtures("signed")
@pytest.mark.parametrize("command", ["budget", "attack"])
def test_the_key_of_another_is_not_called_a_broken_line(run: Run, command: str) -> None:
    outcome = run("audit", command, "ward", "--public-key", "other")
    assert outcome.code in (1, 2)
    said = " ".join((outcome.out + outcome.err).split())
    assert "not signed by the key that was given" in said
    assert "changed, missing" not in said


@pytest.mark.parametrize("lines", [-1, -2])
def test_an_end_that_is_not_signed_is_an_error(
    judged: Callable[..., Any], signed: Path, lines: int
) -> None:
    """Nothing is signed at all, closed or not."""
    logs.write_lines(signed, logs.lines_of(signed)[:lines])
    outcome = judged("--public-key", "key")
    assert outcome.code in (1, 2)
    assert "chain and key" not in outcome.out


def test_a_line_behind_the_signature_is_an_error(judged: Callable[..., Any], signed: Path) -> None:
    from ..audit.attacked import MEASURED

    sign(signed, KEY)
    logs.write_lines(signed, logs.lines_of(signed)[:-1])
    from privplan.audit.results import encoded
    from privplan.fl.log.hash_chain import chained

    less = replace(
        MEASURED, value=0.5, claimed=1.0
    )  # of fewer rounds: no more than line 1 promises
    line = {"type": "audit.result", "tier": "claim", "result": encoded(less)}
    before = logs.lines_of(signed)
    logs.write_lines(signed, [*before, chained(line, len(before), verify(signed).head or "")[0]])
    assert judged().code == 0
    assert judged("--public-key", "key").code in (1, 2)


def test_an_edit_under_a_kept_signature_is_an_error_without_any_key(
    judged: Callable[..., Any], signed: Path
) -> None:
    logs.rechained(signed, lambda records: records[0].update(opened="yesterday"))
    outcome = judged()
    assert outcome.code in (1, 2)
    assert "its signature does not fit the line before" in outcome.out + outcome.err


def test_the_page_says_what_was_checked(run: Run, signed: Path) -> None:
    assert signed.is_dir()
    assert run(*COMMANDS["report"]).code == 0
    page = Path("page.html").read_text()
    assert "Checked: chain only" in page
    assert "whose owner is not known" in page
    assert run(*COMMANDS["report"], "--public-key", "key").code == 0
    assert "Checked: chain and key" in Path("page.html").read_text()


def test_without_the_package_a_log_is_audited_and_a_signature_is_not(
    judged: Callable[..., Any], signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert signed.is_dir()
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)  # type: ignore[arg-type]
    outcome = judged()
    assert outcome.code == 0, outcome.err
    assert "not checked" in outcome.out
    refused = judged("--public-key", "key")
    assert refused.code == 4
    assert "cryptography" in refused.err


def test_the_page_on_logs_is_where_verdicts_point(run: Run) -> None:
    said = " ".join(run("explain", "log").out.split())
    for sentence in (
        "checked: chain only",
        "checked: chain and head",
        "checked: chain and key",
        "A log proves nothing by itself against its owner",
        "Lines that were cut off at the end leave no trace",
    ):
        assert sentence in said


# --- going on -------------------------------------------------------------------------------------


def cut_off(folder: Path) -> str:
    """Leave a run of this version that was cut off after its first round; return its head."""
    from privplan.fl.running import Configuration, ready_new_run
    from privplan.fl.running.session import execute

    Path("run.toml").write_text(
        '[run]\nsystem = "uldp-avg"\nrounds = 3\n[data]\nname = "breast-cancer"\nusers = 6\n'
        "silos = 2\n[privacy]\nnoise_multiplier = 5.0\n[training]\nlocal_epochs = 1\nbatch = 64\n"
    )
    ready = ready_new_run(Configuration.read(Path("run.toml")), folder)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with ready.writer, pytest.raises(KeyboardInterrupt):
        execute(ready.prepared, folder, ready.writer, report=stop)
    return str(ready.writer.head)


def test_a_restored_backup_is_refused_by_the_newest_head(
    run: Run, refused: Refused, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    folder = tmp_path / "out"
    old = cut_off(folder)
    shutil.copytree(folder, tmp_path / "backup")
    assert run("run", "--resume", "--out", "out", "--head", old[:40]).code == 0
    new = verify(folder).head or ""
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    before = (folder / LOG).read_bytes()
    said = refused("run", "--resume", "--out", "out", "--head", new)
    assert "has the head" in said
    assert "has forgotten what was spent since" in said
    assert (folder / LOG).read_bytes() == before
    assert "32 to 64" in refused("run", "--resume", "--out", "out", "--head", "abc")


def test_a_new_run_takes_no_head(refused: Refused) -> None:
    Path("run.toml").write_text("")
    assert "new one" in refused("run", "run.toml", "--out", "out", "--head", "0" * 64)


def test_results_of_a_signed_log_are_json_and_signed(signed: Path) -> None:
    """What an attack adds is covered as well."""
    from ..audit.attacked import MEASURED

    append_results(signed, (MEASURED,), key=KEY)
    verified = verify(signed, KEY.public_key())
    assert verified.checked == "chain and key"
    assert json.loads(logs.lines_of(signed)[-1])["type"] == "head"
    assert LogWriter.reopen(signed, key=KEY).head == verified.head
