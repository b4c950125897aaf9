"""One page about one run: what was claimed, what is proven, what was measured.

>>> from privplan.audit.report import read, render
"""

from __future__ import annotations

from .facts import RunFacts, read
from .page import render, verdict

__all__ = ["RunFacts", "read", "render", "verdict"]
