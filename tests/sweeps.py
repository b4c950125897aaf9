"""Long sweeps of which the default run takes a part, and `make slow` the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def sweep(cases: Sequence[Any], *, quick: int) -> list[Any]:
    """Return every case for `parametrize`, all but `quick` of them marked slow.

    Those that stay are spread evenly, the first among them.  A tuple holds several arguments.
    """
    stay = {index * len(cases) // quick for index in range(quick)}
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if index in stay else pytest.mark.slow,
        )
        for index, case in enumerate(cases)
    ]
