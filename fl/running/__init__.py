"""The life cycle of a run: begun once in a folder of its own, and taken up after it was cut off.

`run`, `resume` and `plan_run` are what a program calls; the command line calls the same parts.
"""

from .configuration import Configuration
from .folder import CONFIG
from .interrupted_run import RunInterrupted, how_to_go_on
from .lifecycle import Outcome, plan_run, resume, run
from .starting import Ready, begin, take_up

__all__ = [
    "CONFIG",
    "Configuration",
    "Outcome",
    "Ready",
    "RunInterrupted",
    "begin",
    "how_to_go_on",
    "plan_run",
    "resume",
    "run",
    "take_up",
]
