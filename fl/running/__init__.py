"""The life cycle of a run: begun once in a folder of its own, and taken up after it was cut off.

`run`, `resume` and `plan_run` are what a program calls; the command line calls the same parts.
"""

from .begin_or_resume import ReadyRun, ready_new_run, ready_to_resume
from .configuration import Configuration
from .folder import CONFIG_FILE
from .interrupted_run import RunInterrupted, how_to_resume
from .run_and_resume import Outcome, plan_run, resume, run

__all__ = [
    "CONFIG_FILE",
    "Configuration",
    "Outcome",
    "ReadyRun",
    "RunInterrupted",
    "how_to_resume",
    "plan_run",
    "ready_new_run",
    "ready_to_resume",
    "resume",
    "run",
]
