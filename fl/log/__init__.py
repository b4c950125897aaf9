"""The log of a run: written as it goes, and read back line by line.

`LogWriter` is the recorder that a run is handed; `read` returns what it left, up to the first line
that is not as it was written.  A folder holds `log.jsonl`, which is itself a release and may be
published, and `sealed.jsonl`, which may not: it opens the commitments of the log to a trusted
auditor.  What is judged of a log stands in `audit`.

- `writer`, `append_file`, `signing`: lines as they are written, forced to disk and signed; a log
  taken up after a crash.
- `reader`, `decoding`: lines as they are read, up to the first bad one.
- `hash_chain`, `record_order`, `anchors`: the chain, what may follow what, and heads kept
  elsewhere.
- `sidecar`: sealed items and their commitments.
- `post_processing`, `append_permission`: what is added later, and by whom.
"""

from ...accountant.errors import LogBroken
from .post_processing import append_post_processing
from .reader import BadLine, Line, read
from .sidecar import SealedItem, Sidecar, commitment
from .writer import LogWriter

__all__ = [
    "BadLine",
    "Line",
    "LogBroken",
    "LogWriter",
    "SealedItem",
    "Sidecar",
    "append_post_processing",
    "commitment",
    "read",
]
