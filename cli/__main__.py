"""`python -m privplan.cli` is `privplan`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path


def main() -> None:
    """Run the command line; an interruption while its modules load is an error like any other."""
    try:
        from .main import app

        app()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would cut off the sentence
        from .terminal import output
        from .terminal.exit_codes import Interruption

        sys.exit(output.fail(Interruption(), as_json="--json" in sys.argv[1:]))


def leave_working_directory(path: list[str]) -> None:
    """Take the working directory out of the places that code is loaded from.

    `python -m` puts it first, so that a folder of a stranger could bring code along; it stays where
    this package itself was loaded from it.
    """
    here = Path.cwd()
    if path and path[0] in ("", str(here)) and Path(__file__).resolve().parents[2] != here:
        del path[0]


if __name__ == "__main__":
    leave_working_directory(sys.path)
    main()
