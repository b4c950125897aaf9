"""What a party of a network keeps on disk next to its log, so that nothing is given out twice.

guard.lock      empty; a guard that runs holds the lock on it
starts.json     the run that the plan became, and the last start of the server
peers.json      by silo, the last spent counter and length of its log with its head, and the last
                round that it took part in
replies/        what was given out, by the digest of the request that asked for it, with its round

A reply is on the disk before it leaves.  The same request again is answered by the same bytes.  A
log that ends before the last round of these was lost, or restored without the rest of the folder.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import own_folder, regular_content
from ..crypto.keys import KEY_BYTES, Identity, fresh
from ..files import atomic
from .wire import Hello

KEY_FILE: Final = "identity.key"
LOCK_FILE: Final = "guard.lock"
STARTS_FILE: Final = "starts.json"
PEERS_FILE: Final = "peers.json"
REPLIES_FOLDER: Final = "replies"
RUN_FOLDER: Final = "run"

_MAX_SMALL_BYTES: Final = 2**22
_MAX_REPLY_BYTES: Final = 2**33
_KEPT_ROUNDS: Final = 2
"""Replies of so many rounds are kept; what was asked for in earlier ones is refused as spent."""

NO_ROUND: Final = 0
"""The number under which a hello is kept: the last one alone, as it takes part in no round."""


def state_folder(folder: Path) -> Path:
    """Return a party's folder, which is made if need be and is its owner's alone.

    Raises `InvalidInput` where it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise InvalidInput(
            f"{folder} cannot be the folder of a party: {error.strerror}.",
            "It holds its key, its log and what it gave out.",
            "Name a folder of its own that can be written.",
        ) from None
    return folder


def identity_in(folder: Path, *, make: bool = False) -> Identity:
    """Return the key of a party, by which others know it; `make` draws one where there is none.

    Raises `InvalidInput` where there is none, or where others may read it.
    """
    path = folder / KEY_FILE
    if make and not path.exists():
        atomic.write(path, fresh(KEY_BYTES), private=True)
    try:
        raw = regular_content(path, KEY_BYTES, within=folder)
        open_to_others = path.stat().st_mode & 0o077
    except OSError:
        raise InvalidInput(
            f"There is no key in {folder}.",
            "A party is known by its key, which is made once and never leaves its folder.",
            "Make it: privplan guard key DIR",
        ) from None
    if open_to_others or len(raw) != KEY_BYTES:
        raise InvalidInput(
            f"The key in {folder} can be read by others, or is damaged.",
            "Who has it can speak in the name of this party.",
            f"Close it (chmod 600 {path}), or begin with a new key and a new plan.",
        )
    return Identity.restore(raw)


@dataclass(frozen=True)
class Starts:
    """The run that a plan became (empty before the first hello), and the server's last start.

    `plan` is the digest of the plan, in hexadecimal digits.
    """

    run: str = ""
    segment: int = 0
    plan: str = ""


class Journal:
    """The files of one party; raises `OSError` where they cannot be written: then none leaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own_folder(folder / REPLIES_FOLDER)

    def starts(self) -> Starts:
        """Return the last start that was seen; `InvalidInput` for a damaged file."""
        said = self._read(STARTS_FILE)
        segment = said.get("segment", 0)
        if type(segment) is not int:
            raise _damaged(self.folder / STARTS_FILE)
        return Starts(str(said.get("run", "")), segment, str(said.get("plan", "")))

    def begin(self, starts: Starts) -> None:
        """Keep a start, before anything is given out in it."""
        self._write(STARTS_FILE, asdict(starts))

    def reply(self, digest: bytes) -> bytes | None:
        """Return what was given out for a request; None where nothing is kept of it."""
        for path in (self.folder / REPLIES_FOLDER).glob(f"*-{digest.hex()}"):
            with contextlib.suppress(OSError):
                return regular_content(path, _MAX_REPLY_BYTES, within=self.folder)
        return None

    def keep(self, round: int, digest: bytes, reply: bytes) -> None:
        """Keep what is about to be given out, and forget what was in rounds long before."""
        folder = self.folder / REPLIES_FOLDER
        atomic.write(folder / f"{round:09}-{digest.hex()}", reply, private=True)
        for path, number in self._kept():
            before = round == NO_ROUND == number and not path.name.endswith(digest.hex())
            if before or NO_ROUND < number <= round - _KEPT_ROUNDS:
                path.unlink(missing_ok=True)

    def last_given_out(self) -> int:
        """Return the last round in which something was given out; 0 where there is none."""
        return max((number for _, number in self._kept()), default=NO_ROUND)

    def _kept(self) -> list[tuple[Path, int]]:
        """Return the replies that are kept, each with its round."""
        named = [
            (path, path.name.partition("-")[0]) for path in (self.folder / REPLIES_FOLDER).iterdir()
        ]
        return [(path, int(number)) for path, number in named if number.isdecimal()]

    def refusal_of(self, hellos: Mapping[str, Hello]) -> str | None:
        """Return why the hellos of other parties are not those of parties that went on.

        A log that is shorter than it was, as long with another head, or without a round that its
        silo took part in, is that of a backup which has forgotten what was spent since.
        """
        known = self._read(PEERS_FILE)
        for name, hello in hellos.items():
            before = known.get(name)
            if not isinstance(before, dict):
                continue
            spent, lines = int(before.get("spent", 0)), int(before.get("lines", 0))
            last = int(before.get("round", 0))
            if hello.spent < spent or hello.lines < lines or hello.round < last:
                return (
                    f"{name} has forgotten what it spent: its log ends with round {hello.round}, "
                    f"and it took part in round {max(last, spent)}."
                )
            if hello.lines == lines and hello.head != before.get("head"):
                return f"{name} has another log than before."
        return None

    def remember(self, hellos: Mapping[str, Hello]) -> None:
        """Keep what the parties said of what they had spent."""
        known = dict(self._read(PEERS_FILE))
        for name, hello in hellos.items():
            known[name] = {
                "spent": hello.spent,
                "lines": hello.lines,
                "head": hello.head,
                "round": hello.round,
            }
        self._write(PEERS_FILE, known)

    def took_part(self, names: Iterable[str], number: int) -> None:
        """Keep that parties took part in a round, which is spent there from now on."""
        known = dict(self._read(PEERS_FILE))
        for name in names:
            before = known.get(name)
            known[name] = {**(before if isinstance(before, dict) else {}), "round": number}
        self._write(PEERS_FILE, known)

    def _read(self, name: str) -> dict[str, object]:
        path = self.folder / name
        if not path.exists():
            return {}
        try:
            said = parsed_json(regular_content(path, _MAX_SMALL_BYTES, within=self.folder))
            if isinstance(said, dict):
                return said
        except (OSError, ValueError):
            pass
        raise _damaged(path)

    def _write(self, name: str, content: Mapping[str, object]) -> None:
        text = json.dumps(content, sort_keys=True, indent=1) + "\n"
        atomic.write(self.folder / name, text.encode(), private=True)


def _damaged(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{path} is damaged.",
        "It says what was given out before, and nothing may be given out twice.",
        "Restore the newest copy of the whole folder.",
    )
