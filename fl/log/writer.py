"""Writing and signing the log of a run, and taking it up again after the run was cut off.

No line carries a time or a duration, save `opened` in `run.open`: how long a round takes depends
on how many users were sampled and on what they hold, which the noise does not cover.  For the same
reason publish what stands in the files, not the times of the files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from ...accountant import validate
from ...accountant.errors import InvalidInput, LogBroken, kind_of
from ...accountant.records import (
    KINDS,
    AuditResult,
    Evaluation,
    Head,
    PostProcessing,
    Progress,
    Randomness,
    Record,
    RoundAbort,
    RunClose,
    RunOpen,
    RunRecover,
)
from . import signing
from .append_file import AppendFile, new_folder
from .append_permission import require_fit_for_results, require_fit_for_resuming
from .decoding import Decoder
from .hash_chain import CHAIN, LOG, LONGEST, SEALED, START, canonical, chained, parsed
from .reader import Scan
from .record_order import RecordOrder
from .sidecar import checked_sidecar, new_sidecar, opened_sidecar, sealed_lines

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Fsync: TypeAlias = Literal["records", "always", "never"]

FSYNC: Final = ("records", "always", "never")

_LOG_WRITTEN: Final = (Head, RunRecover)
"""Records that only the log itself writes."""

_ADDED_LATER: Final = (AuditResult, PostProcessing)
"""Records that are added to the log of a run that was made, by others than the run."""


class LogWriter:
    """The recorder of a run: each record becomes a line that is chained to all lines before.

    `fsync` says which lines are on the disk when `append` returns: `records` (all but aborts and
    what public data say, which `settle` brings there), `always`, or `never` (for benchmarks: a
    crash of the machine may then lose an intent; `run.open` says so).  With `key`, heads are
    signed every `sign_every` lines and at the end.

    One process writes a folder, and any of its threads.  Whatever goes wrong in a write (a full
    disk, somebody else who writes, an interrupt) leaves the writer broken: it raises `LogBroken`
    then and ever after, so nothing more can be released.  The run can be resumed.
    """

    def __init__(
        self,
        log: AppendFile,
        sealed: AppendFile | None,
        *,
        record_order: RecordOrder,
        records: int,
        head: str | None,
        fsync: Fsync,
        key: Ed25519PrivateKey | None,
        sign_every: int,
        results_only: bool = False,
    ) -> None:
        self.folder = log.path.parent
        self._log = log
        self._sealed = sealed
        self._results_only = results_only
        self._record_order = record_order
        self._records = records
        self._head = head
        self._fsync: Fsync = fsync
        self._key = key
        self._sign_every = validate.count(sign_every=sign_every)
        self._unsigned = 0
        self._decoder = Decoder()
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._trouble = ""

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        fsync: Fsync = "records",
        key: Ed25519PrivateKey | None = None,
        sign_every: int = 1000,
    ) -> Self:
        """Make the folder of a run, and its empty log.

        Raises `InvalidInput` where the folder holds anything, or cannot be written.
        """
        validate.choice(FSYNC, fsync=fsync)
        validate.count(sign_every=sign_every)
        folder_path = Path(folder)
        new_folder(folder_path)
        log = AppendFile.create(folder_path / LOG, 0o666)
        try:
            sealed = new_sidecar(folder_path / SEALED)
        except BaseException:
            log.close()
            raise
        return cls(
            log,
            sealed,
            record_order=RecordOrder(),
            records=0,
            head=None,
            fsync=fsync,
            key=key,
            sign_every=sign_every,
        )

    @classmethod
    def resume(
        cls,
        folder: str | Path,
        *,
        randomness: Randomness,
        key: Ed25519PrivateKey | None = None,
        sign_every: int = 1000,
    ) -> tuple[Self, Progress]:
        """Take up the log of a run that was cut off, and return how far the run had come.

        A torn last line is dropped (its record was never confirmed, so nothing rests on it), and a
        `run.recover` states how much was dropped, which intents have no release, and the
        `randomness` from here on.  `Progress.recoveries` counts the recoveries before this one.
        Lines are forced to the disk as `run.open` says.

        Raises `BadLine` for a log with a bad line, `InvalidInput` for one that another process
        writes, that was never opened or that is closed, and for another key than the one that
        signed it.
        """
        validate.count(sign_every=sign_every)
        folder_path = Path(folder)
        log, sealed = AppendFile.open(Scan(folder_path).path), None
        try:
            scan = Scan(folder_path)
            require_fit_for_resuming(scan, key)
            progress = _resumable(scan)
            sealed = opened_sidecar(folder_path / SEALED)
            # A torn last line was never confirmed: nothing rests on it, and the next stands there.
            log.truncate(scan.size)
            writer = cls(
                log,
                sealed,
                record_order=scan.record_order,
                records=scan.records,
                head=scan.head,
                fsync=progress.opened.fsync,
                key=key,
                sign_every=sign_every,
            )
            writer._write(
                RunRecover(
                    dropped_bytes=0 if scan.torn is None else scan.torn.size,
                    dangling=progress.dangling,
                    next_round=scan.record_order.next_round,
                    randomness=randomness,
                )
            )
        except BaseException:
            for file in (log, sealed):
                if file is not None:
                    file.close()
            raise
        return writer, progress

    @classmethod
    def reopen(cls, folder: str | Path, *, key: Ed25519PrivateKey | None = None) -> Self:
        """Take up the log of a run, closed or not, to add what was found or computed later.

        That is what an audit found, and what was computed of a release; nothing else is taken.

        The whole chain is checked first.  A torn last line of a closed run is dropped, as nothing
        rests on it; that of an unfinished run stays for whoever resumes it, and nothing is added.
        Every line is forced to the disk.  A run that is signed is signed on by the same key.

        Raises `BadLine` for a log with a bad line, `InvalidInput` for one that another process
        writes, that was never opened, that is torn and unfinished, or that the key does not fit.
        """
        log = AppendFile.open(Scan(folder).path)
        try:
            scan = Scan(folder)
            require_fit_for_results(scan, key)
            log.truncate(scan.size)
            return cls(
                log,
                None,
                record_order=scan.record_order,
                records=scan.records,
                head=scan.head,
                fsync="always",
                key=key,
                sign_every=1,
                results_only=True,
            )
        except BaseException:
            log.close()
            raise

    @property
    def head(self) -> str | None:
        """The hash of the last line; None before the first."""
        return self._head

    @property
    def records(self) -> int:
        """How many lines the log has."""
        return self._records

    def append(self, record: Record) -> int:
        """Return the sequence number of the record once its line is kept as `fsync` says.

        Raises `InvalidInput`, and writes nothing, for a record that may not stand here; raises
        `LogBroken` where the line could not be written, and from then on.
        """
        with self._lock:
            self._usable()
            if type(record) is not KINDS.get(record.type) or isinstance(record, _LOG_WRITTEN):
                name = kind_of(record)
                raise InvalidInput(
                    f"{name[0].upper()}{name[1:]} is not a record that a run may append.",
                    "Heads and recoveries are written by the log itself.",
                    "Append one of the records in `accountant.records`.",
                )
            if self._results_only and not isinstance(record, _ADDED_LATER):
                raise InvalidInput(
                    f"`{record.type}` is nothing that an audit adds to a log.",
                    "Only the run itself says what it did.",
                    "Append an `audit.result`, or a `post-processing`.",
                )
            if isinstance(record, RunOpen):
                record = replace(record, fsync=self._fsync)
            return self._write(record)

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Keep items in the sidecar; return a hiding commitment for each, by name.

        Only `always` forces them to the disk at once: where the machine itself fails, an auditor
        may miss the last of them, and nobody's privacy depends on that.
        """
        with self._lock:
            self._usable()
            lines, commitments = sealed_lines(items, self._records - 1 if self._records else None)
            if lines:
                if self._sealed is None:
                    self._sealed = checked_sidecar(self.folder)
                self._trouble = "a write was interrupted"
                self._sealed.write(lines, durable=self._fsync == "always")
                self._trouble = ""
            return commitments

    def settle(self) -> None:
        """Return when every line of the log and of the sidecar is on the disk.

        Does nothing with `fsync="never"`.  Raises `LogBroken` where the disk fails.
        """
        with self._lock:
            self._usable()
            if self._fsync != "never":
                self._trouble = "the disk did not keep it"
                self._settle_sealed()
                self._log.sync()
                self._trouble = ""

    def close(self) -> None:
        """Let go of the files and of the lock; this ends no run (`run.close` does)."""
        with self._lock:
            if self._trouble != "closed":
                self._trouble = "closed"
                self._log.close()
                if self._sealed is not None:
                    self._sealed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _usable(self) -> None:
        trouble = self._trouble
        if os.getpid() != self._process:
            trouble = "this is another process than the one that opened it"
        if trouble:
            raise LogBroken(
                f"The log in {self.folder} takes no more records: {trouble}.",
                "Nothing is released that is not in the log.",
                "Resume the run.",
            )

    def _write(self, record: Record) -> int:
        seq = self._append(record)
        self._unsigned += 1
        if self._key is not None and (
            self._record_order.closed or self._unsigned >= self._sign_every
        ):
            self._append(signing.signed(self._key, self._head or START))
            self._unsigned = 0
        return seq

    def _append(self, record: Record) -> int:
        # The same state machine that a verifier runs: what it would refuse is not written.
        refusal = self._record_order.refusal(record)
        if refusal is not None:
            raise InvalidInput(
                f"The log refuses a record: {refusal}.",
                "Every release stands under one intent of its own, between `run.open` and "
                "`run.close`.",
                "Append records in the order in which they happen.",
            )
        seq = self._records
        line, head = chained(record.to_json(), seq, self._head or START)
        self._readable(line)
        # Until all is done, an interrupt or an error leaves the writer broken.
        self._trouble = "a write failed or was interrupted"
        if self._fsync != "never" and isinstance(record, (RunOpen, RunClose)):
            self._settle_sealed()
        durable = self._fsync == "always" or (self._fsync == "records" and not _may_wait(record))
        # One write for a line: another process sees all of it or nothing.
        self._log.write(line.encode("ascii") + b"\n", durable=durable)
        self._record_order.accept(record, seq)
        self._records, self._head = seq + 1, head
        self._trouble = ""
        return seq

    def _settle_sealed(self) -> None:
        if self._sealed is not None:
            self._sealed.sync()

    def _readable(self, line: str) -> None:
        """Refuse a line that a reader would refuse; better now than when it is needed."""
        source = parsed(line)
        if canonical(source) != line:
            raise InvalidInput(
                "A record does not read back as it is written.",
                "Keys that are no texts would change their order.",
                "Give objects with text keys.",
            )
        for name in CHAIN:
            del source[name]
        self._decoder.record(source)
        if len(line) >= LONGEST:
            raise InvalidInput(
                f"A record would be a line of {len(line)} bytes; {LONGEST} is the longest.",
                "Readers refuse longer lines.",
                "Write what repeats as Repeat.",
            )


def _may_wait(record: Record) -> bool:
    """Return whether `fsync="records"` leaves a record to the system.

    Without it nothing is forgotten that was spent; the next line takes it along, and `settle` does
    before files show what it says.
    """
    if isinstance(record, Evaluation):
        return record.data == "declared-public" and record.event is None
    return isinstance(record, RoundAbort)


def _resumable(scan: Scan) -> Progress:
    progress = scan.record_order.progress()
    if progress is None:
        raise InvalidInput(
            f"{scan.path} has no `run.open`, so there is no run to resume.",
            "Nothing was drawn or released under it.",
            "Start the run in a new folder.",
        )
    if scan.record_order.closed:
        raise InvalidInput(
            f"The run in {scan.path.parent} is closed.",
            "What was planned is spent or given up; more would be another run.",
            "Start a new run in a new folder.",
        )
    return progress
