"""The noisy sum of one step, by the word of --mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...accountant.events import Event


def noisy_sum(mechanism: str | None, noise_multiplier: float) -> Event:
    """Return the event of one noisy sum; `mechanism` is gaussian or laplace."""
    from ...accountant import events as ev

    return ev.Laplace(noise_multiplier) if mechanism == "laplace" else ev.Gaussian(noise_multiplier)
