"""Next steps that many rules advise."""

from __future__ import annotations

from typing import Final

UNTOUCHED_COPY: Final = "Take the log from a copy that nobody has touched."
"""What to do where a log was changed."""

COPY_OF_CUT_LOG: Final = (
    "Take the log from a copy that nobody has touched; what was cut out is spent all the same, and "
    "is not in the numbers here."
)
"""What to do where something was cut out of a log."""
