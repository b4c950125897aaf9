"""May what an audit found be added to this log, and by whom is it signed?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput
from ...accountant.records import Head
from . import signing
from .reader import BadLine, Scan

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def require_fit_for_results(scan: Scan, key: Ed25519PrivateKey | None) -> None:
    """Read the whole log, and raise unless a result may be added to it, signed by `key` or by none.

    Raises `BadLine` for a line or a signature that is bad; `InvalidInput` for a log that opens no
    run, that is torn and unfinished, or that would no longer hold for whoever checks it by its key.
    """
    signers = _signers(scan, key)
    if scan.record_order.opened is None:
        raise InvalidInput(
            f"{scan.path} has no `run.open`, so there is no run to say anything about.",
            "A result is about the run that its log opens.",
            "Give the folder of a run.",
        )
    # What follows a torn line of an unfinished run would stand before its recovery.
    if scan.torn is not None and not scan.record_order.closed:
        raise InvalidInput(
            f"The last line of {scan.path} was cut off while it was written.",
            "Whoever resumes the run says what was lost there; until then nothing is added.",
            "Resume the run, or leave its log alone.",
        )
    if key is None:
        _require_unsigned(scan, signers)
    else:
        _require_same_key(scan, signers, key)


def require_fit_for_resuming(scan: Scan, key: Ed25519PrivateKey | None) -> None:
    """Read the whole log, and raise unless its run may go on, signed by `key` or by none.

    Raises `BadLine` for a line or a signature that is bad, and `InvalidInput` for another key than
    the one that signed, or for none where one did.
    """
    signers = _signers(scan, key)
    if key is None and signers:
        raise InvalidInput(
            f"{scan.path} is signed, and the run would go on without a signature.",
            "Whoever checks it with the key would take the rest for somebody else's.",
            "Give the key that it is signed with: `sign_key` in [log] of its configuration.",
        )
    if key is not None:
        _require_one_key(scan, signers, key)


def _signers(scan: Scan, key: Ed25519PrivateKey | None) -> set[str]:
    """Return the public keys of the log's signatures; those of `key` are checked."""
    keys: set[str] = set()
    public = None if key is None else key.public_key()
    for line in scan:
        if not isinstance(line.record, Head):
            continue
        keys.add(line.record.key)
        if public is not None and line.record.key == public.public_bytes_raw().hex():
            complaint = signing.complaint(public, line.record, line.prev)
            if complaint is not None:
                raise BadLine(scan.path, line.number, complaint)
    return keys


def _require_unsigned(scan: Scan, signers: set[str]) -> None:
    """An unfinished run goes on signing, which covers the line; a closed one does not."""
    if signers and scan.record_order.closed:
        raise InvalidInput(
            f"{scan.path} is signed, and one more line would stand there without a signature.",
            "Whoever checks it with the key would take the end for somebody else's.",
            "Give the key that it is signed with, or leave the log alone.",
        )


def _require_one_key(scan: Scan, signers: set[str], key: Ed25519PrivateKey) -> None:
    if signers - {key.public_key().public_bytes_raw().hex()}:
        raise InvalidInput(
            f"{scan.path} is signed by another key.",
            "A log that two keys sign holds for neither.",
            "Give the key that it is signed with, or leave the log alone.",
        )


def _require_same_key(scan: Scan, signers: set[str], key: Ed25519PrivateKey) -> None:
    _require_one_key(scan, signers, key)
    if not signers and not scan.record_order.closed:
        raise InvalidInput(
            f"{scan.path} is not finished, and nothing in it is signed yet.",
            "The run goes on with a key of its own, or with none.",
            "Add the result without a key; what the run signs later covers it.",
        )
