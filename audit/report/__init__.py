"""One page about one run: what was claimed, what is proven, what was measured.

>>> from privplan.audit.report import read, render
"""

from __future__ import annotations

from .page import render, verdict
from .run_facts import RunFacts, read

__all__ = ["RunFacts", "read", "render", "verdict"]
