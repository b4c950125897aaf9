"""The life cycle of a run: begun once in a folder of its own, and taken up after it was cut off.

`run`, `resume` and `plan_run` are what a program calls; the command line calls the same parts.

- `run_and_resume`, `preparation`, `prepared_run`, `begin_or_resume`: `run`, `resume`, `plan_run`:
  from a configuration to a run that may go.
- `session`, `seat`, `first_state`: a run from its opening to its close, and each party's seat in
  it.
- `resumption`, `interrupted_run`, `log_progress`, `interruption`, `checkpoint`: what was cut off:
  signals, how far it came, what must be the same.
- `configuration`, `run_data`, `rows_from_program`, `model_from_program`: configuration, records
  with the digests by which a resumed run knows them, a program's rows and models.
- `folder`, `run_records`, `metrics_file`, `toml_writer`, `signing_key`: what stands in the folder.
- `forecast`, `warnings`, `run_claim`: before the run: what it would prove, what to know, what it
  claims of a ledger.
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
