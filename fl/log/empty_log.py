"""What every command says of a log without a whole line."""

from __future__ import annotations

from typing import Final

UNBEGUN: Final = "as far as the log tells, no run was begun: it holds no record"

WHY: Final = (
    "A start that was cut off leaves such a log, and has released nothing; beside a model or "
    "measurements, it has lost its lines."
)

NEXT: Final = "Begin the run anew: privplan run CONFIG.toml --out DIR; or give the folder of a run."
