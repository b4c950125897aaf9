"""One page about one run: what was claimed, what is proven, what was measured.

>>> from privplan.audit.report import read, render

`training_facts` and `training_page` are about an audit of a training that is none of our runs, next
to the verdict on its description.
"""

from __future__ import annotations

from .page import render, verdict
from .run_facts import RunFacts, read

__all__ = ["RunFacts", "read", "render", "verdict"]
