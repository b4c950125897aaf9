"""Settings for all tests: one thread for algebra each, and no clock on Hypothesis' examples."""

from __future__ import annotations

import os

from hypothesis import settings

# Before numpy is loaded: several workers share the machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("privplan", deadline=None)  # times belong to a machine, not to a test
settings.load_profile("privplan")
