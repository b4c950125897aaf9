"""The folder of a run: begun once, taken up after it was cut off, and never two runs in one."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..accountant.errors import PrivplanError
    from ..accountant.records import Progress
    from ..fl.log import LogWriter
    from ..fl.preparation import Prepared
    from ..fl.settings import Settings

CONFIG: Final = "config.toml"

LOG: Final = "log.jsonl"

SEALED: Final = "sealed.jsonl"

_UNCONFIGURED: Final = (LOG, SEALED, f".{CONFIG}.part")
"""What a run that was cut off before its configuration was kept may have left."""

_BEGUN: Final = (*_UNCONFIGURED, CONFIG)
"""What a run that was cut off before its first line may have left."""

NEW: Final = "privplan run CONFIG.toml --out DIR"
"""How a new run is begun, in a folder of its own."""


_PRIVACY: Final = re.compile(
    rb"^[ \t]*\[[ \t]*privacy[ \t]*\][ \t]*(?:#[^\r\n]*)?(?=\r?$)", re.MULTILINE
)
"""The line that begins the table [privacy]."""


@dataclass(frozen=True, eq=False)
class Ready:
    """A run that may go: everything that can be checked beforehand was checked."""

    prepared: Prepared
    folder: Path
    writer: LogWriter
    progress: Progress | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """A configuration as it was read: the copy in the folder has the same bytes."""

    content: bytes
    settings: Settings

    @classmethod
    def read(cls, path: Path) -> Source:
        """Return a configuration; raises `InvalidInput`, which names what is wrong."""
        from ..fl.settings_file import content_of, parse

        content = content_of(path)
        return cls(content, parse(content, path.name))

    def with_accepted_delta(self) -> Source:
        """Return the configuration with `accept_delta = true` under [privacy], and nothing else.

        It is written into the copy, so that the folder and the log say it.  Raises `InvalidInput`
        where there is no line [privacy] to write it under.
        """
        from ..accountant.errors import InvalidInput
        from ..fl.settings_file import parse

        if self.settings.privacy.accept_delta:
            return self
        accepted = replace(self.settings, privacy=replace(self.settings.privacy, accept_delta=True))
        with contextlib.suppress(InvalidInput):
            content = _PRIVACY.sub(rb"\g<0>\naccept_delta = true", self.content, count=1)
            if content != self.content and parse(content, CONFIG) == accepted:
                return Source(content, accepted)
        raise InvalidInput(
            "--accept-delta needs a line [privacy] in the configuration, without `accept_delta`.",
            "What is accepted stands in the run's configuration and in its log.",
            "Write accept_delta = true under [privacy], and leave the flag out.",
        )


def begin(source: Source, folder: Path, *, again: bool = False) -> Ready:
    """Return a new run; nothing is written unless data, plan and folder are fit for it.

    `again`: the folder holds what was left by a start that was cut off before the first line, and
    is cleared; so it is where not even the configuration was kept, by which it could be resumed.
    Raises `InvalidInput` where it holds anything else, and what `prepare` raises.
    """
    from ..fl.log import LogWriter
    from ..fl.preparation import prepare, require_small_delta

    again = again or _left_unconfigured(folder)
    if not again:
        _require_empty(folder)
    key = signing_key(source.settings)
    prepared = prepare(source.settings)
    require_small_delta(prepared)
    if again:
        _clear(folder)
    writer = LogWriter.create(folder, fsync=source.settings.log.fsync, key=key)
    try:
        _keep_configuration(source, folder)
    except BaseException:
        writer.close()
        _discard(folder)
        raise
    return Ready(prepared, folder, writer)


def take_up(source: Source | None, folder: Path, head: str | None = None) -> Ready:
    """Return a run that was cut off, as far as its log says that it had come.

    `head` is the newest head of its log that was kept elsewhere, or the first digits of it: a log
    that lacks it was restored from an older copy, and has forgotten what was spent since.
    `source` is a configuration that was named again.  The run goes on with the folder's copy; where
    that is gone, with `source`, whose settings must be those of the first line, and which is kept.
    Raises `InvalidInput` where log, configuration, data and kept model do not belong together,
    where the run is closed, and where another process is writing it.
    """
    from ..audit.verify import verify
    from ..fl.log import LogWriter
    from ..fl.preparation import randomness
    from ..fl.resumption import require_resumable, require_same_settings, taken_up

    own = _copied(source, folder)
    if head is not None:
        _require_head(folder, head)
    if not (folder / LOG).exists() and _left_before_begun(folder):
        return begin(own, folder, again=True)
    found = verify(folder)
    if found.first_bad is None and found.opened is None:
        _require_unbegun(folder)
        return begin(own, folder, again=True)
    _require_sound(found, folder)
    if found.opened is not None:
        require_same_settings(found.opened, own.settings.to_json())
    progress = _progress(folder)
    prepared = taken_up(own.settings, progress)
    _require_same_data(prepared.dataset, found.opened, folder)
    key = signing_key(own.settings)
    require_resumable(prepared, folder, progress)
    writer, progress = LogWriter.resume(folder, randomness=randomness(own.settings), key=key)
    try:
        if not (folder / CONFIG).is_file():
            _keep_configuration(own, folder)
    except BaseException:
        writer.close()
        raise
    return Ready(prepared, folder, writer, progress)


def how_to_go_on(folder: Path, head: str | None = None) -> str:
    """Return what to do about a run that stopped: resume it where that can help, or audit it.

    `head` is that of its log: with it, a backup that was restored meanwhile is found.
    """
    from ..accountant.errors import PrivplanError
    from ..audit.verify import verify
    from ..fl.resumption import require_moments_released

    try:
        if verify(folder).complete:
            return _auditing(folder)
        require_moments_released(_progress(folder))
    except PrivplanError as error:
        return error.next_step
    except Exception:  # a log that cannot be read: the command that resumes says why
        return _resuming(folder, head)
    return _resuming(folder, head)


def was_spent(folder: Path) -> str:
    """Return what a run that stopped in a protocol has spent by that, as its log tells it."""
    from ..accountant.records import RoundAbort
    from ..fl.log import read

    last = None
    with contextlib.suppress(Exception):  # what is wrong with a log is for its audit to say
        for line in read(folder):
            last = line.record
    if isinstance(last, RoundAbort) and last.intent is None:
        return "It was before the round began, so nothing is spent by it."
    return "The round is spent, and the log says so."


def _resuming(folder: Path, head: str | None = None) -> str:
    newest = f" --head {head}" if head else ""
    return f"privplan run --resume --out {shlex.quote(str(folder))}{newest}"


def _auditing(folder: Path) -> str:
    return f"privplan audit budget {shlex.quote(str(folder))}"


def signing_key(settings: Settings) -> Any:
    """Return the Ed25519 private key that `[log] sign_key` names, or None.

    Raises as `private_key`.
    """
    path = settings.log.sign_key
    return None if path is None else private_key(path, "`sign_key` in [log]")


def private_key(path: Path, named_by: str) -> Any:
    """Return the Ed25519 private key in a file.

    Raises `InvalidInput` for a file that holds none; the message shows nothing of it.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from ..accountant.errors import InvalidInput

    found: object = None
    with contextlib.suppress(OSError, ValueError, TypeError, RuntimeError, UnsupportedAlgorithm):
        found = load_pem_private_key(path.expanduser().read_bytes(), password=None)
    if not isinstance(found, Ed25519PrivateKey):
        raise InvalidInput(
            f"The file that {named_by} names holds no Ed25519 private key.",
            "It must be PEM, not encrypted, and readable.",
            "Make one: openssl genpkey -algorithm ed25519 -out key.pem",
        )
    return found


def _copied(source: Source | None, folder: Path) -> Source:
    """Return the configuration of the run in the folder."""
    from ..accountant.errors import InvalidInput

    copy = folder / CONFIG
    if not copy.is_file():
        if source is not None and folder.is_dir() and _fits_a_named_configuration(folder):
            return source
        raise InvalidInput(
            f"{folder} holds no run to resume.",
            f"A run keeps its configuration there, as {CONFIG}.",
            _how_to_configure(folder),
        )
    own = Source.read(copy)
    if source is not None and source.content != own.content:
        raise InvalidInput(
            f"The configuration differs from the run's own, {copy}.",
            "A run that goes on keeps the settings under which it was planned.",
            how_to_go_on(folder),
        )
    return own


def _left_unconfigured(folder: Path) -> bool:
    """Return whether a folder holds only what a start left that kept no configuration.

    A whole line of a log is no such thing: the configuration is kept before the first.
    """
    if not folder.is_dir() or folder.is_symlink():
        return False
    names = {path.name for path in folder.iterdir()}
    empty = _is_blank(folder / LOG) and not _sealed_after_a_line(folder)
    return bool(names) and names <= set(_UNCONFIGURED) and empty


def _left_before_begun(folder: Path) -> bool:
    """Return whether a folder holds only what a run leaves that was cut off before its start."""
    return {path.name for path in folder.iterdir()} <= set(_BEGUN)


def _sealed_after_a_line(folder: Path) -> bool:
    """Return whether the sidecar holds what only a run that had begun can have sealed.

    Before the first line of its log a run seals one item, on which records it is made.  Whatever
    stands behind it, or says that a line stood before it, was sealed in a round.
    """
    sidecar = folder / SEALED
    if not sidecar.is_file():
        return False
    first, _, rest = sidecar.read_bytes().partition(b"\n")
    return bool(rest.strip(b"\0")) or bool(re.match(rb'\{"after":[0-9]', first))


def _fits_a_named_configuration(folder: Path) -> bool:
    """Return whether a folder without a configuration can be taken up with one that is named.

    It can before the first line, and where a first line says with which settings it must agree.
    """
    from ..audit.verify import verify

    if _left_before_begun(folder):
        return True
    return (folder / LOG).is_file() and verify(folder).opened is not None


def _how_to_configure(folder: Path) -> str:
    """Return what to do about a folder that holds no configuration, and was named to go on.

    Raises `InvalidInput` where no configuration helps: the log is bad, or closed, or lost.
    """
    from ..audit.verify import verify

    given = shlex.quote(str(folder))
    written = (folder / LOG).is_file() and not _is_blank(folder / LOG)
    found = verify(folder) if written else None
    if found is not None:
        _require_sound(found, folder)
    opened = found is not None and found.opened is not None
    if not opened and _sealed_after_a_line(folder):
        raise _lost(folder)
    if opened or (written and _left_before_begun(folder)):
        return f"Give it: privplan run CONFIG.toml --resume --out {given}"
    if _is_fresh(folder) or _left_unconfigured(folder):
        return f"Begin it: privplan run CONFIG.toml --out {given}"
    return f"Begin a run in a new folder: {NEW}"


def _keep_configuration(source: Source, folder: Path) -> None:
    """Keep a configuration beside its log; raise `PrivplanError` where it cannot be written."""
    from ..fl import durable

    try:
        durable.write(folder / CONFIG, source.content)
    except OSError as error:
        raise _unusable(folder, error) from None


def _unusable(folder: Path, error: OSError) -> PrivplanError:
    from ..accountant.errors import PrivplanError

    return PrivplanError(
        f"{folder / CONFIG} cannot be written: {error.strerror or error}.",
        "A run keeps its configuration beside its log; without it nothing is begun or spent.",
        "Make room on the disk, or give another folder.",
    )


def _require_unbegun(folder: Path) -> None:
    """Raise `InvalidInput` where a folder is not the rest of a mere beginning.

    What is cleared away must be worth nothing: a log that lost its lines, beside a model that it
    had released, or beside what was sealed for a release, is evidence.
    """
    log = folder / LOG
    lines = log.read_bytes().count(b'"prev":') if log.exists() else 0
    if lines > 1 or not _left_before_begun(folder) or _sealed_after_a_line(folder):
        raise _lost(folder)


def _lost(folder: Path) -> PrivplanError:
    from ..accountant.errors import InvalidInput

    return InvalidInput(
        f"The log in {folder} has lost its first line, and the run had begun.",
        "What was spent can no longer be told from it, so the run cannot go on.",
        "Restore the log from a copy, or start a new run in another folder.",
    )


def _clear(folder: Path) -> None:
    """Clear what a run has left that was cut off before its first line: nothing was drawn.

    Raises `InvalidInput` where another process has begun the run since, or is beginning it.
    """
    from ..accountant.errors import InvalidInput
    from ..audit.verify import verify
    from ..fl.log.disk import AppendFile

    held = AppendFile.open(folder / LOG) if (folder / LOG).exists() else None
    try:
        if held is not None and verify(folder).records:
            raise InvalidInput(
                f"The run in {folder} was begun by another process.",
                "One folder holds one run.",
                how_to_go_on(folder),
            )
        _require_unbegun(folder)
        _discard(folder)
    finally:
        if held is not None:
            held.close()


def _require_empty(folder: Path) -> None:
    from ..accountant.errors import InvalidInput

    if _is_fresh(folder):
        return
    if _sealed_after_a_line(folder) and _is_blank(folder / LOG):
        raise _lost(folder)
    held = (folder / CONFIG).is_file()
    raise InvalidInput(
        f"{folder} is not an empty folder.",
        "One folder holds one run, and nothing is written over.",
        how_to_go_on(folder) if held else "Give --out a new folder.",
    )


def _is_fresh(folder: Path) -> bool:
    if folder.is_dir():
        return not any(folder.iterdir())
    return not folder.exists() and not folder.is_symlink()


def _is_blank(log: Path) -> bool:
    return not log.exists() or not log.stat().st_size


def _require_sound(found: Any, folder: Path) -> None:
    from ..accountant.errors import InvalidInput

    if found.first_bad is not None:
        number, reason = found.first_bad
        raise InvalidInput(
            f"The log in {folder} is not what was written: line {number} is bad: {reason}.",
            "A run goes on only from a log that nobody has changed.",
            f"privplan audit log {shlex.quote(str(folder))}",
        )
    if found.complete:
        raise InvalidInput(
            f"The run in {folder} is closed.",
            "What was planned is spent; more would be another run.",
            _auditing(folder),
        )


def _require_head(folder: Path, head: str) -> None:
    """Raise `InvalidInput` where no line of a log has a head that was kept elsewhere."""
    from ..accountant.errors import InvalidInput
    from ..audit.verify import verify

    found = verify(folder, expected_head=head)
    if found.first_bad is None and found.anchor is None:
        raise InvalidInput(
            f"No line of the log in {folder} has the head {head}.",
            "It is another log, or an older copy of it, which has forgotten what was spent since: "
            "the same rounds would be released once more.",
            "Restore the newest copy; what it lacks is spent, and nobody can take that back.",
        )


def _require_same_data(dataset: Mapping[str, str], opened: Any, folder: Path) -> None:
    """Raise `InvalidInput` where the records are not those that the run was begun with."""
    from ..accountant.errors import InvalidInput
    from ..fl.log import Sealed

    if opened is None or opened.dataset is None:
        return
    item = Sealed.read(folder).opening(opened.dataset)
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


def _progress(folder: Path) -> Progress:
    """Return how far the run had come, without changing its log."""
    from ..fl.log.reader import Scan

    scan = Scan(folder)
    for _ in scan:
        pass
    found = scan.course.progress()
    assert found is not None
    return found


def _discard(folder: Path) -> None:
    """Clear what a run has left that was cut off before its first line: nothing was drawn."""
    for name in _BEGUN:
        with contextlib.suppress(OSError):
            (folder / name).unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()
