"""What attacks on example runs measured, by system; kept between runs, see `store`."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Any, cast

from ...audit.measurement import ExampleResult
from . import measured_rows, store


def recall(system: str, version: str | None) -> ExampleResult | None:
    """Return what was measured of a system's example by this version on this machine, or None."""
    try:
        kept = cast("dict[str, Any]", store.read(f"run-{system}", version, "measured"))
        return ExampleResult(**kept)
    except Exception:  # whatever is wrong with a cache, the answer is to measure
        return None


def keep(measured: ExampleResult, version: str | None) -> None:
    """Keep what was measured; do nothing if that fails, or if the code has changed."""
    with contextlib.suppress(Exception):
        if measured_rows.current() == version:
            store.write(f"run-{measured.system}", version, "measured", asdict(measured))
