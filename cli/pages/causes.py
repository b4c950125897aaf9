"""The causes that `privplan check` names: what each means, from its rule."""

from __future__ import annotations

import textwrap
from typing import Final

SOURCE: Final = "Source: the rules in privplan.audit.check.causes, one for each id."
CLOSING: Final = (
    "Causes of a run of privplan itself are the findings of `privplan audit budget`, under their "
    "own ids.  `privplan check --json` holds for each of those, in `rules`, the cause above that "
    'stands for it elsewhere, or "not applicable".'
)


def filled(text: str) -> str:
    """Return the page about all causes; `text` is what stands before their list."""
    from ...audit.check.causes import MEANINGS

    width = max(map(len, MEANINGS)) + 4
    lines = [
        textwrap.fill(
            says,
            width=96,
            initial_indent=f"  {name}".ljust(width),
            subsequent_indent=" " * width,
        )
        for name, says in sorted(MEANINGS.items())
    ]
    closing = f"{textwrap.fill(CLOSING, 96)}\n\n{SOURCE}"
    return "\n".join([text.rstrip("\n"), "", *lines, "", closing])


def page_of(name: str) -> str | None:
    """Return what a cause means, by its id; None where there is no such cause."""
    from ...audit.check.causes import MEANINGS

    if name not in MEANINGS:
        return None
    head = f"{name}: a cause that `privplan check` names (privplan explain causes)"
    return f"{head}\n\n{MEANINGS[name]}"
