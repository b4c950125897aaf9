"""The audit log of a run: written as it goes, and checked by whoever does not trust it.

`LogWriter` is the recorder that a run is handed; `read` and `verify` check what it left.  A folder
holds `log.jsonl`, which is itself a release and may be published, and `sealed.jsonl`, which may
not: it opens the commitments of the log to a trusted auditor.
"""

from ...accountant.errors import LogBroken
from .reader import BadLine, Line, read
from .sealed import Sealed, SealedItem, commitment
from .verify import Verified, verify
from .writer import LogWriter

__all__ = [
    "BadLine",
    "Line",
    "LogBroken",
    "LogWriter",
    "Sealed",
    "SealedItem",
    "Verified",
    "commitment",
    "read",
    "verify",
]
