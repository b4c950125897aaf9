"""Data sets: read from files that the user names, bundled with scikit-learn, or generated.

`load` reads one by name, `federate` allocates its records to users and silos, and `normalise`
scales features by public constants, or by moments that a mechanism released.
"""

from __future__ import annotations

from .dataset import Dataset
from .federate import federate
from .registry import NAMES, load

__all__ = ["NAMES", "Dataset", "federate", "load"]
