"""What an audit of a history may take of the machine that it runs on: a hostile one costs no more.

How large a file is, is asked before any of it is read.  Work and memory are bounded as well: by the
time of the processor altogether, by what one event may take, and by how many balances are kept.
An audit that reaches a limit says so, and says nothing of the history.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.regular_file import open_regular

MEGABYTE: Final = 10**6

MAX_ENTRY_BYTES: Final = 2**24
"""Most bytes of a line: an event has at most 1 MB, and a restored backup names receipts."""

MAX_PRICING_BYTES: Final = 2**31
"""How much memory the price of an event may take; a service gives it 512 MB."""

MAX_AUDIT_BYTES: Final = 2**33
"""How much memory an audit may take beyond the lines themselves."""

MAX_LIMITED_BALANCES: Final = 2_000_000
"""Most pairs of a block and of a project, or a holder, whose spending is added up."""


@dataclass(frozen=True)
class AuditLimits:
    """Most megabytes of a history, and most seconds of a processor that its audit may take."""

    megabytes: int = 2_000
    seconds: float = 900.0


@contextmanager
def memory_of_audit() -> Iterator[None]:
    """Have the body raise `InvalidInput` where it takes more memory than an audit may."""
    try:
        with memory_limited(MAX_AUDIT_BYTES):
            yield
    except MemoryError:
        raise InvalidInput(
            f"The audit takes more than {MAX_AUDIT_BYTES // 2**30} GB of memory beyond the lines.",
            "A history can be written to take any memory; nothing is said of this one.",
            "Ask its owner what it holds.",
        ) from None


@dataclass
class AuditWork:
    """The work of an audit since it began."""

    limits: AuditLimits
    _since: float = field(default_factory=time.process_time)

    def require_within(self, entry: int, balances: int) -> None:
        """Raise `InvalidInput` where an audit reached a limit before an entry."""
        if time.process_time() - self._since > self.limits.seconds:
            raise InvalidInput(
                f"The audit took {self.limits.seconds:,g} seconds of a processor, and is at entry "
                f"{entry:,}.",
                "A history can be written to take any time; nothing is said of this one.",
                "Where you trust whoever gave it, allow more: --limit-seconds N",
            )
        if balances > MAX_LIMITED_BALANCES:
            raise InvalidInput(
                f"The history has more than {MAX_LIMITED_BALANCES:,} balances of projects and "
                f"holders by entry {entry:,}.",
                "They take the memory of whoever audits it; nothing is said of this history.",
                "No service that limits its holders writes so many: ask its owner.",
            )


def exported_lines(path: str | Path, limits: AuditLimits | None = None) -> list[bytes]:
    """Return the lines of an exported history.

    Raises `InvalidInput` for a file that cannot be read, that has more bytes than the limit, or a
    line that is longer than any entry.
    """
    most = (limits or AuditLimits()).megabytes
    lines: list[bytes] = []
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > most * MEGABYTE:
                raise InvalidInput(
                    f"{path} has {size / MEGABYTE:,.0f} MB, and an audit reads {most:,} MB.",
                    "All of it is kept in memory, and nothing of it was read.",
                    "Where there is memory for it, allow more: --limit-megabytes N",
                )
            while line := file.readline(MAX_ENTRY_BYTES + 1):
                if len(line) > MAX_ENTRY_BYTES:
                    raise InvalidInput(
                        f"Line {len(lines) + 1:,} of {path} has more than "
                        f"{MAX_ENTRY_BYTES // 2**20} MB.",
                        "No entry of a ledger is as long.",
                        "Export it: privplan ledger export URL NAME --out FILE",
                    )
                if line.strip():
                    lines.append(line)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}.",
            "It is the history of a data set, one entry a line.",
            "Export it: privplan ledger export URL NAME --out FILE",
        ) from None
    return lines


@contextmanager
def memory_limited(size: int) -> Iterator[None]:
    """Have the body raise `MemoryError` where it takes more bytes than that.

    Where the system does not say how much a program has, the body is not limited.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ModuleNotFoundError, OSError):
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + size
    known = [each for each in (most, before, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(known), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


__all__ = ["AuditLimits", "AuditWork", "exported_lines", "memory_limited"]
