"""What tests of writing logs share."""

from __future__ import annotations


def lost(_: int) -> None:
    """Fail as a disk that lost what it was given."""
    raise OSError(5, "Input/output error")
