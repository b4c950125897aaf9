"""One page about one run: what was claimed, what is proven, what was measured.

>>> from privplan.audit.report import read, render

- `run_facts`, `page`: what the public files of a run say, and the page about it.
- `training_facts`, `training_page`: an audit of a training that is none of our runs, next to the
  verdict on its description.
- `figures`, `template`: drawings, and templates that are filled so that texts stay texts.
"""

from __future__ import annotations

from .page import render, verdict
from .run_facts import RunFacts, read

__all__ = ["RunFacts", "read", "render", "verdict"]
