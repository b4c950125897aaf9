"""A run that may go: begun in a folder of its own, or taken up; everything else is refused."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.records import Progress, RunOpen
from ..log import LogWriter, Sidecar
from ..log.append_file import AppendFile
from ..log.hash_chain import LOG
from ..tables.table import Table
from . import preparation
from .configuration import Configuration
from .folder import (
    CONFIG_FILE,
    discard_unbegun_run,
    first_line_lost,
    folder_at,
    has_items_sealed_in_rounds,
    holds_unbegun_run,
    holds_unconfigured_start,
    is_empty_log,
    is_new_or_empty,
    require_own_folders,
    require_unbegun,
    save_configuration,
)
from .interrupted_run import audit_command, how_to_resume
from .log_progress import LogProgress, read_log_progress, require_progress
from .model_from_program import with_given_model
from .preparation import randomness
from .prepared_run import PreparedRun
from .resumption import prepare_resumption, require_resumable, require_same_settings
from .run_claim import keep_claim, kept_claim
from .seat import Seat
from .signing_key import signing_key

NEW_RUN_COMMAND: Final = "privplan run CONFIG.toml --out DIR"
"""How a new run is begun, in a folder of its own."""


@dataclass(frozen=True, eq=False)
class ReadyRun:
    """A run that may go: everything that can be checked beforehand was checked.

    `progress` is how far a run had come that was cut off; None for a new one.  `absolute`
    is the folder wherever the program changes its working directory to.
    """

    prepared: PreparedRun
    folder: Path
    writer: LogWriter
    progress: Progress | None = None
    absolute: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "absolute", self.folder.absolute())


def ready_new_run(
    configuration: Configuration, folder: Path, *, again: bool = False, seat: Seat | None = None
) -> ReadyRun:
    """Return a new run; nothing is written unless data, plan and folder are fit for it.

    `seat` is that of the party that makes it with others; None where all are in this process.

    `again`: the folder holds what was left by a start that was cut off before the first line, and
    is cleared; so it is where not even the configuration was kept, by which it could be resumed.
    Raises `InvalidInput` where it holds anything else, and what `prepare` raises.
    """
    folder_at(folder)
    again = again or holds_unconfigured_start(folder)
    if not again:
        _require_empty(folder)
    # All that can fail comes before the folder is touched: key, data, plan, delta.
    key = signing_key(configuration.settings)
    prepared = preparation.prepare(configuration.settings, seat=seat)
    preparation.require_small_delta(prepared)
    claim = kept_claim(folder) if again else None
    if again:
        _clear(folder)
    writer = LogWriter.create(folder, fsync=configuration.settings.log.fsync, key=key)
    try:
        save_configuration(configuration.content, folder)
        keep_claim(folder, claim)
    except BaseException:
        writer.close()
        discard_unbegun_run(folder)
        raise
    return ReadyRun(prepared, folder, writer)


def ready_to_resume(
    given: Configuration | None,
    folder: Path,
    head: str | None = None,
    *,
    data: Table | None = None,
    model: object = None,
    loss: object = None,
    seat: Seat | None = None,
) -> ReadyRun:
    """Return a run that was cut off, as far as its log says that it had come.

    `head` is the newest head of its log that was kept elsewhere, or the first digits of it: a log
    that lacks it was restored from an older copy, and has forgotten what was spent since.
    `given` is a configuration that was named again.  The run goes on with the folder's copy; where
    that is gone, with `given`, whose settings must be those of the first line, and which is kept.
    `data` is the table of a program, where the run was begun with one; `model` and `loss` are the
    objects that a program gave the run, and gives again.  `seat` is that of the party whose log it
    is, of a run that several make together.
    Raises `InvalidInput` where log, configuration, data and kept model do not belong together,
    where the run is closed, and where another process is writing it.
    """
    folder_at(folder)
    configuration = _copied(given, folder).going_on_with(data)
    configuration = with_given_model(configuration, model, loss)
    if head is not None:
        _require_head(folder, head)
    if not (folder / LOG).exists() and holds_unbegun_run(folder):
        return ready_new_run(configuration, folder, again=True, seat=seat)
    seen = read_log_progress(folder)
    if seen.first_bad is None and seen.opened is None:
        require_unbegun(folder)
        return ready_new_run(configuration, folder, again=True, seat=seat)
    _require_sound(seen, folder)
    require_own_folders(folder)
    settings = configuration.settings
    # Under the lock, and read again: what another process is writing fits nothing that it keeps.
    with contextlib.closing(AppendFile.open(folder / LOG)):
        progress = require_progress(read_log_progress(folder), folder)
        _require_party(progress.opened, seat)
        require_same_settings(progress.opened, settings.to_json())
        prepared = prepare_resumption(settings, progress, seat)
        _require_same_data(prepared.dataset, progress.opened, folder)
        key = signing_key(settings)
        require_resumable(prepared, folder, progress)
    writer, progress = LogWriter.resume(folder, randomness=randomness(settings), key=key)
    try:
        if not (folder / CONFIG_FILE).is_file():
            save_configuration(configuration.content, folder)
    except BaseException:
        writer.close()
        raise
    return ReadyRun(prepared, folder, writer, progress)


def _copied(given: Configuration | None, folder: Path) -> Configuration:
    """Return the configuration of the run in the folder."""
    copy = folder / CONFIG_FILE
    if not copy.is_file():
        if given is not None and folder.is_dir() and _fits_a_named_configuration(folder):
            return given
        raise InvalidInput(
            f"{folder} holds no run to resume.",
            f"A run keeps its configuration there, as {CONFIG_FILE}.",
            _how_to_configure(folder),
        )
    kept = Configuration.read(copy, within=folder)
    if given is not None and not given.same_as(kept):
        raise InvalidInput(
            f"The configuration differs from the run's own, {copy}.",
            "A run that goes on keeps the settings under which it was planned.",
            how_to_resume(folder),
        )
    return kept


def _fits_a_named_configuration(folder: Path) -> bool:
    """Return whether a folder without a configuration can be taken up with one that is named.

    It can before the first line, and where a first line says with which settings it must agree.
    """
    if holds_unbegun_run(folder):
        return True
    return (folder / LOG).is_file() and read_log_progress(folder).opened is not None


def _how_to_configure(folder: Path) -> str:
    """Return what to do about a folder that holds no configuration, and was named to go on.

    Raises `InvalidInput` where no configuration helps: the log is bad, or closed, or lost.
    """
    named = shlex.quote(str(folder))
    written = (folder / LOG).is_file() and not is_empty_log(folder / LOG)
    seen = read_log_progress(folder) if written else None
    if seen is not None:
        _require_sound(seen, folder)
    opened = seen is not None and seen.opened is not None
    if not opened and has_items_sealed_in_rounds(folder):
        raise first_line_lost(folder)
    if opened or (written and holds_unbegun_run(folder)):
        return f"Give it: privplan run CONFIG.toml --resume --out {named}"
    if is_new_or_empty(folder) or holds_unconfigured_start(folder):
        return f"Begin it: privplan run CONFIG.toml --out {named}"
    return f"Begin a run in a new folder: {NEW_RUN_COMMAND}"


def _clear(folder: Path) -> None:
    """Clear what a run has left that was cut off before its first line: nothing was drawn.

    Raises `InvalidInput` where another process has begun the run since, or is beginning it.
    """
    held = AppendFile.open(folder / LOG) if (folder / LOG).exists() else None
    try:
        if held is not None and read_log_progress(folder).records:
            raise InvalidInput(
                f"The run in {folder} was begun by another process.",
                "One folder holds one run.",
                how_to_resume(folder),
            )
        require_unbegun(folder)
        discard_unbegun_run(folder)
    finally:
        if held is not None:
            held.close()


def _require_empty(folder: Path) -> None:
    if is_new_or_empty(folder):
        return
    if has_items_sealed_in_rounds(folder) and is_empty_log(folder / LOG):
        raise first_line_lost(folder)
    raise InvalidInput(
        f"{folder} is not an empty folder.",
        "One folder holds one run, and nothing is written over.",
        _how_to_leave(folder),
    )


def _how_to_leave(folder: Path) -> str:
    """Return what to do about a folder that is not empty: go on with its run, or leave it."""
    if (folder / CONFIG_FILE).is_file() and (folder / LOG).is_file():
        return how_to_resume(folder)
    return "Give a new folder."


def _require_sound(seen: LogProgress, folder: Path) -> None:
    if seen.first_bad is not None:
        raise InvalidInput(
            f"The log in {folder} is not what was written: line {seen.first_bad.number} is bad: "
            f"{seen.first_bad.reason}.",
            "A run goes on only from a log that nobody has changed.",
            f"privplan audit log {shlex.quote(str(folder))}",
        )
    if seen.complete:
        raise InvalidInput(
            f"The run in {folder} is closed.",
            "What was planned is spent; more would be another run.",
            audit_command(folder),
        )


def _require_head(folder: Path, head: str) -> None:
    """Raise `InvalidInput` where no line of a log has a head that was kept elsewhere."""
    seen = read_log_progress(folder, head)
    if seen.first_bad is None and not seen.anchored:
        raise InvalidInput(
            f"No line of the log in {folder} has the head {head}.",
            "It is another log, or an older copy of it, which has forgotten what was spent since: "
            "the same rounds would be released once more.",
            "Restore the newest copy; what it lacks is spent, and nobody can take that back.",
        )


def _require_party(opened: RunOpen, seat: Seat | None) -> None:
    """Raise `InvalidInput` where the log is that of another party than the one that goes on."""
    if opened.party == (None if seat is None else seat.party):
        return
    whose = "of a run in one process" if opened.party is None else f"of {opened.party.name}"
    raise InvalidInput(
        f"The log is {whose}, and another party would go on with it.",
        "Each party of a network keeps a log of its own, under the plan that it agreed to.",
        "Go on where it was begun: start the guard of the silo, or the application of the server.",
    )


def _require_same_data(dataset: Mapping[str, str], opened: RunOpen, folder: Path) -> None:
    """Raise `InvalidInput` where the records are not those that the run was begun with."""
    if opened.dataset is None:
        return
    item = Sidecar.read(folder).opening(opened.dataset)
    if item is not None and item.value == dict(dataset):
        return
    what = "The sidecar does not say on which records the run was begun."
    if item is not None:
        what = "The records are not those that the run was begun with."
    raise InvalidInput(
        what,
        "The rest of a run must be made of the same data, dealt to the same users.",
        "Restore the data, or start a new run in another folder.",
    )
