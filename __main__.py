"""`python -m privplan` is `privplan`."""

from __future__ import annotations

import sys

from .cli.__main__ import leave_working_directory, main

if __name__ == "__main__":
    leave_working_directory(sys.path)
    main()
