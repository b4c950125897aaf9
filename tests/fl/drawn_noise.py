"""Noise of integer sums as it is drawn, share by share, and the protocols that add shares up."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

PROTOCOLS = ["plain"]
if find_spec("cryptography") is not None:
    PROTOCOLS += ["masked", "shares"]


def noted_shares(monkeypatch: pytest.MonkeyPatch, mechanism: Any) -> list[np.ndarray]:
    """Return the list of the noise that a mechanism draws from now on, as integers."""
    noise: list[np.ndarray] = []
    honest = mechanism.share_steps

    def noted(self: Any, ticket: Any, total: Any, name: str, part: str = "") -> Any:
        sent = honest(self, ticket, total, name, part)
        noise.append(sent - total)
        return sent

    monkeypatch.setattr(mechanism, "share_steps", noted)
    return noise


def wrapped(values: list[int]) -> np.ndarray:
    """Return integers modulo 2^64, as signed words."""
    words = [(value + 2**63) % 2**64 - 2**63 for value in values]
    return np.array(words, np.int64)
