"""The code of a run's own model, which a person gives an attack: a log names none that is loaded.

digest in the log  =  digest of a file that was given      the file is executed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...accountant.errors import InvalidInput
from ...fl.declarations.own_code import CodeFile, OwnCode, is_own
from ...fl.settings.schema import Settings


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
