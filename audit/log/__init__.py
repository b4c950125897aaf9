"""The audit log of a run: written as it goes, and checked by whoever does not trust it.

`LogWriter` is the recorder that a run is handed; `read` and `verify` check what it left;
`append_results` adds what an audit found, and `measurements_in` reads it.  A folder holds
`log.jsonl`, which is itself a release and may be published, and `sealed.jsonl`, which may not: it
opens the commitments of the log to a trusted auditor.
"""

from ...accountant.errors import LogBroken
from .reader import BadLine, Line, read
from .results import Result, append_results, measurements_in, results_in
from .sealed import Sealed, SealedItem, commitment
from .verify import Signature, Verified, verify
from .writer import LogWriter

__all__ = [
    "BadLine",
    "Line",
    "LogBroken",
    "LogWriter",
    "Result",
    "Sealed",
    "SealedItem",
    "Signature",
    "Verified",
    "append_results",
    "commitment",
    "measurements_in",
    "read",
    "results_in",
    "verify",
]
