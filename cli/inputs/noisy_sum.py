"""The noisy sum of one step, by the word of --mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...accountant.events import Event


def noisy_sum(mechanism: str | None, noise_multiplier: float) -> Event:
    """Return the event of one sum; `mechanism` is gaussian or laplace.  Noise 0 protects nobody."""
    from ...accountant import events as ev

    if noise_multiplier == 0.0:
        return ev.NoGuarantee("no noise is added")
    return ev.Laplace(noise_multiplier) if mechanism == "laplace" else ev.Gaussian(noise_multiplier)
