"""Examples and formulas in docstrings, as blocks of code on the site."""

from __future__ import annotations

import re
from typing import Any

import griffe

BLOCK = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).*\n?)*)+", re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Puts a fence around every example of a docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one object."""
        if obj.docstring is not None:
            text = obj.docstring.value + "\n"
            obj.docstring.value = BLOCK.sub(
                lambda each: f"```pycon\n{each[0].rstrip()}\n```\n", text
            )
