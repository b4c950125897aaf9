"""The log of a run that is attacked: whole, the expected one, and what a reader of it must know."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput, counted
from ...accountant.records import RunOpen
from ...fl.declarations.own_code import CodeFile, OwnCode, is_own
from ...fl.log import BadLine, LogWriter, read
from ...fl.log.reader import log_of
from ...fl.log.signing import OTHER_KEY
from ...fl.settings.schema import Settings
from ..budget import audit_budget
from ..ledger import Entry, Ledger
from ..results import results_in
from ..verify import Verification, verify

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


def verified_log(
    folder: Path, public_key: Ed25519PublicKey | None, expected_head: str | None
) -> Verification:
    """Return what a log turned out to be; raise where it is bad, or not the one that is meant."""
    verified = verify(folder, public_key, expected_head=expected_head)
    if verified.first_bad is not None and verified.first_bad[1] == OTHER_KEY:
        raise InvalidInput(
            f"The log in {folder} is not signed by the key that was given: line "
            f"{verified.first_bad[0]} is signed by another key.",
            "Whoever signed it may have written all of it.",
            "Give the public key of the owner of the run, or ask the owner for the log.",
        )
    if verified.first_bad is not None:
        raise BadLine(log_of(folder), *verified.first_bad)
    if verified.mismatch is not None:
        raise InvalidInput(
            f"The log in {folder} is not the one that was expected: {verified.mismatch}.",
            "An attack on another log says nothing about the run.",
            f"privplan audit log {shlex.quote(str(folder))}",
        )
    return verified


def ledger_of(folder: Path, append: bool, key: Ed25519PrivateKey | None) -> Ledger:
    """Return what a log says that is whole, and that takes results if it is to."""
    if append:
        # Fails before any work where the log is being written, or the key is another's.
        LogWriter.reopen(folder, key=key).close()
    lines = tuple(read(folder))  # all of them: the first bad one is an error
    if not lines or not isinstance(lines[0].record, RunOpen):
        raise InvalidInput(
            f"The log in {folder} opens no run.",
            "Its first line must be a `run.open`, which says what is promised and to whom.",
            "Give the folder of a run.",
        )
    return Ledger.of(Entry(line.number, line.seq, line.record) for line in lines)


def warnings_of(folder: Path, opened: RunOpen) -> list[str]:
    """Return the warnings that a reader of the results needs."""
    warnings = []
    budget = audit_budget(folder)
    if not budget.ok:
        what = "supports no number, and claims none"
        if budget.supported:
            errors = [hazard.id for hazard in budget.hazards if hazard.severity == "error"]
            what = f"has errors ({', '.join(errors)})"
        elif budget.supported is not None:
            what = "does not support its claim, whatever is measured"
        warnings.append(f"What stands in the log {what}. See: privplan audit budget")
    if not budget.complete:
        warnings.append("The run is not closed; what is judged is the whole of its plan.")
    if opened.randomness.source == "seeded":
        warnings.append("The run's noise comes from a seed: it protects nobody.")
    before = sum(result.tier in ("claim", "robust") for result in results_in(folder))
    if before:
        warnings.append(
            f"The log holds {counted(before, 'result')} of earlier attacks. Each may err with the "
            "probability that it states; do not choose among them."
        )
    return warnings


def with_code_of(settings: Settings, files: Sequence[Path]) -> Settings:
    """Return settings of a log that carry the code which was given; nothing of it is executed here.

    Raises `InvalidInput` for a file whose digest the log does not have, and where the run has no
    model of its owner's in a file.
    """
    if not files:
        return settings
    how = settings.training
    named = {"model": (how.model, how.model_digest), "loss": (how.loss, how.loss_digest)}
    wanted = {
        key: (reference, digest)
        for key, (reference, digest) in named.items()
        if is_own(reference) and reference is not None and ":" in reference and digest is not None
    }
    if not wanted:
        raise InvalidInput(
            "`model` is given, and the log names no file of code.",
            "The run trained a model of privplan's, or an object that a program gave it.",
            "Leave it out.",
        )
    # The digest decides which file is which, whatever a stranger's log calls them.
    given = {file: CodeFile.digest_at(file) for file in files}
    digests = {digest for _, digest in wanted.values()}
    other = next((file for file, digest in given.items() if digest not in digests), None)
    if other is not None:
        raise InvalidInput(
            f"{other} is not the code of the run: its digest is not in the log.",
            "What another model shows says nothing of this run.",
            "Give the file as it was when the run began.",
        )
    files_by_key: dict[str, CodeFile] = {}
    for key, (reference, digest) in wanted.items():
        file = next((file for file, of in given.items() if of == digest), None)
        if file is not None:
            attribute = reference.rpartition(":")[2]
            files_by_key[key] = CodeFile(reference, file, None, attribute, digest)
    code = OwnCode(files_by_key.get("model"), files_by_key.get("loss"))
    return replace(settings, training=replace(how, executable=code))
