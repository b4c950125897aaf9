"""An interruption (Ctrl-C, a scheduler's SIGTERM) as an error that says how to go on."""

from __future__ import annotations


class Interruption(Exception):
    """What a command was doing was interrupted: what, why, and what to do next."""

    def __init__(
        self,
        what: str = "privplan was interrupted.",
        why: str = "It had not finished, so there is no answer.",
        next_step: str = "Give the same command again.",
    ) -> None:
        super().__init__(what)
        self.what, self.why, self.next_step = what, why, next_step
