"""The declaration of FedAvg."""

from __future__ import annotations

from typing import Final

from ..frame.declaration import Declaration

SYSTEMS: Final = (
    Declaration(
        name="fedavg",
        make=f"{__package__}.averaging:fedavg",
        carrier=f"{__package__}.canaries:carry",
    ),
)
