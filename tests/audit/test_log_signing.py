"""Signed heads, and what happens without the package that signs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput, MissingExtra
from privplan.accountant.records import AuditResult
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter
from privplan.fl.log import signing as signing_module
from privplan.fl.log.hash_chain import LOG, chained

from . import logs

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A signed run: a head after every second record, and after the close."""
    return logs.small_log(tmp_path / "run", key=KEY, sign_every=2)


def test_heads_stand_every_few_lines_and_at_the_end(folder: Path) -> None:
    kinds = [json.loads(line)["type"] for line in logs.lines_of(folder)]
    assert [at for at, kind in enumerate(kinds) if kind == "head"] == [2, 5, 8, 11]
    assert kinds[-2:] == ["run.close", "head"]
    found = verify(folder, KEY.public_key())
    assert found.complete
    assert found.signed == len(kinds) - 1
    assert verify(folder).signed is None
    assert found.checked == "chain and key"
    assert str(found.signature) == "lines 1 to 11, by the key that was given"


def test_another_key_is_refused(folder: Path) -> None:
    found = verify(folder, OTHER.public_key())
    assert found.first_bad == (3, "it is signed by another key")
    assert found.records == 2
    assert not found.complete


def test_a_log_that_was_written_anew_does_not_fit_its_signatures(folder: Path) -> None:
    logs.rechained(folder, lambda all_: all_[3]["streams"][0].update(first=7))
    for key in (None, KEY.public_key()):  # the key beside it is enough to tell
        found = verify(folder, key)
        assert found.first_bad == (6, "its signature does not fit the line before")
        assert found.checked == "chain only"


def test_without_a_key_a_signature_is_held_against_the_key_beside_it(folder: Path) -> None:
    found = verify(folder)
    assert found.ok
    assert found.checked == "chain only"
    own = KEY.public_key().public_bytes_raw().hex()
    assert found.signature is not None
    assert found.signature.keys == (own,)
    assert str(found.signature) == (f"lines 1 to 11, by key {own[:8]}..., whose owner is not known")


def test_a_key_beside_a_signature_that_is_none_is_named(folder: Path) -> None:
    logs.rechained(folder, lambda all_: all_[2].update(key="zz"))
    assert verify(folder).first_bad == (3, "its key is none")


def test_who_signs_anew_is_another_owner(folder: Path) -> None:
    """Without the key nothing tells; with it, everything does."""
    other = logs.small_log(folder.parent / "other", key=OTHER)
    assert verify(other).ok
    assert verify(other).checked == "chain only"
    assert not verify(other, KEY.public_key()).ok


def test_a_run_is_resumed_with_its_own_key_alone(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False, key=KEY, sign_every=3)
    before = (folder / LOG).read_bytes()
    with pytest.raises(InvalidInput, match="signed by another key"):
        LogWriter.resume(folder, randomness=logs.SECURE, key=OTHER)
    with pytest.raises(InvalidInput, match="would go on without a signature"):
        LogWriter.resume(folder, randomness=logs.SECURE)
    assert (folder / LOG).read_bytes() == before
    LogWriter.resume(folder, randomness=logs.SECURE, key=KEY)[0].close()


@pytest.mark.parametrize("signature", ["", "zz", "00" * 64])
def test_what_is_no_signature_is_refused(folder: Path, signature: str) -> None:
    logs.rechained(folder, lambda all_: all_[-1].update(signature=signature))
    found = verify(folder, KEY.public_key())
    assert found.first_bad is not None
    assert found.first_bad[0] == 12


def test_a_log_without_signatures_does_not_pass_for_signed(tmp_path: Path) -> None:
    found = verify(logs.small_log(tmp_path / "run"), KEY.public_key())
    assert not found.ok
    assert not found.complete
    assert found.problem == "nothing is signed by the key"


def test_an_end_that_is_not_signed_is_named(folder: Path) -> None:
    logs.write_lines(folder, logs.lines_of(folder)[:-1])
    found = verify(folder, KEY.public_key())
    assert not found.ok
    assert found.problem == "the end is not signed: the last signature covers line 8"
    logs.write_lines(folder, logs.lines_of(folder)[:-1])
    found = verify(folder, KEY.public_key())
    assert not found.ok  # a run under way, or one whose end was cut off and written anew
    assert found.checked == "chain only"
    assert found.signed == 8
    assert found.records == 10


def test_an_audit_result_after_the_close_is_signed_too(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "run", fsync="never", key=KEY) as writer:
        writer.append(logs.opening())
        writer.append(logs.closing())
        writer.append(AuditResult("claim", {}))
    kinds = [json.loads(line)["type"] for line in logs.lines_of(tmp_path / "run")]
    assert kinds == ["run.open", "run.close", "head", "audit.result", "head"]
    assert verify(tmp_path / "run", KEY.public_key()).complete


def test_a_result_that_somebody_else_adds_does_not_pass_for_signed(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", key=KEY)
    assert verify(folder, KEY.public_key()).complete
    added = AuditResult("claim", {"verdict": "proven"}).to_json()
    head, lines = verify(folder).head, logs.lines_of(folder)
    logs.write_lines(folder, [*lines, chained(added, len(lines), head or "")[0]])
    assert verify(folder).ok  # the chain alone cannot tell
    found = verify(folder, KEY.public_key())
    assert not found.complete
    assert "the end is not signed" in (found.problem or "")


def test_a_resumed_run_goes_on_signing(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False, key=KEY, sign_every=3)
    writer, _ = LogWriter.resume(folder, randomness=logs.SECURE, key=KEY, sign_every=1)
    with writer:
        writer.append(logs.closing())
    found = verify(folder, KEY.public_key())
    assert found.complete
    assert found.signed == found.records - 1


def test_a_signature_is_for_this_purpose_only(folder: Path) -> None:
    head = json.loads(logs.lines_of(folder)[2])
    public, signature = KEY.public_key(), bytes.fromhex(head["signature"])
    public.verify(signature, signing_module.PURPOSE + head["prev"].encode())
    for message in (head["prev"].encode(), bytes.fromhex(head["prev"])):
        with pytest.raises(Exception):  # noqa: B017
            public.verify(signature, message)


def test_a_public_key_is_read_from_a_file(tmp_path: Path) -> None:
    public = KEY.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for content in (pem, public.public_bytes_raw().hex().encode() + b"\n"):
        (tmp_path / "key").write_bytes(content)
        assert signing_module.public_key(tmp_path / "key") == public


def test_what_is_no_public_key_is_refused(tmp_path: Path) -> None:
    other: Any = X25519PrivateKey.generate().public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for content in (b"", b"zz", b"00" * 31, b"\xff" * 64, b"-----BEGIN PUBLIC KEY-----", pem):
        (tmp_path / "key").write_bytes(content)
        with pytest.raises(InvalidInput, match="no Ed25519 public key"):
            signing_module.public_key(tmp_path / "key")
    with pytest.raises(InvalidInput, match="cannot be read"):
        signing_module.public_key(tmp_path / "nowhere")


def test_without_the_package_logs_are_written_and_checked_but_not_signatures(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = KEY.public_key()
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)  # type: ignore[arg-type]
    found = verify(folder)
    assert found.complete
    assert str(found.signature).endswith("not checked: that needs the package cryptography")
    with pytest.raises(MissingExtra, match="cryptography"):
        verify(folder, public)
    with pytest.raises(MissingExtra, match="cryptography"):
        signing_module.public_key(folder / LOG)


def test_the_log_itself_loads_nothing_heavy(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "plain")
    heavy = ("numpy", "scipy", "torch", "cryptography", "typer", "privplan.fl.frame.system")
    program = (
        "import sys; from privplan.audit.verify import verify\n"
        f"assert verify(sys.argv[1]).complete\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
