"""The declaration of FedAvg."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Declaration
from ..declarations.toml_keys import FEDERATED_USES

SYSTEMS: Final = (
    Declaration(
        name="fedavg",
        summary="federated averaging without noise: what privacy costs is measured against it",
        make=f"{__package__}.averaging:fedavg",
        aggregations=("plain", "masked", "shares"),
        promises=False,
        uses=FEDERATED_USES,
        determines=f"{__package__}.terms:EXPECTED",
        carrier="privplan.fl.canaries:canary_models",
    ),
)
