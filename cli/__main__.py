"""`python -m privplan.cli` is `privplan`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; an interruption while its modules load is an error like any other."""
    try:
        from .main import app

        app()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would cut off the sentence
        from .terminal import output
        from .terminal.interruption import Interruption

        sys.exit(output.fail(Interruption(), as_json="--json" in sys.argv[1:]))


if __name__ == "__main__":
    main()
