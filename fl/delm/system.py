"""The systems `delm-basic` and `delm-enhanced`: the published schemes, piece by piece exchangeable.

| piece | as published | sound |
|---|---|---|
| PCA | `wishart` | `gaussian`, `none` |
| objective | `fresh`: noise in every round | `fresh` or `once`, of a linear model |
| sensitivity | `printed` | `printed` or `proven`: either states its true event |
| shuffle | `layers` | `layers` or `none`: neither lowers a number |
| selection | `divergence` | `divergence`, `uniform`, `top-k`: none of them costs anything |

Which model is trained decides who makes the rounds: `coefficients` those of a linear one, `printed`
those of any other.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput
from ..frame.setup import Setup, setup
from .coefficients import CoefficientRounds
from .layers import layers_of
from .pca_terms import components_of, pca_epsilon
from .pieces import Scheme, claim_of
from .printed import PrintedRounds
from .scheme import DelmScheme
from .settings import LAYERS, LINEAR_MODELS, NO_PCA, ONCE, DelmSettings

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining, TorchLocalTraining
    from .pca import PcaRelease


def basic(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> DelmScheme:
    """Return the system `delm-basic`."""
    return _scheme(settings, federation, local, chooses=False)


def enhanced(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> DelmScheme:
    """Return the system `delm-enhanced`."""
    return _scheme(settings, federation, local, chooses=True)


def _scheme(
    settings: Settings, federation: Federation, local: LocalTraining, *, chooses: bool
) -> DelmScheme:
    table = settings.of(DelmSettings)
    scheme = Scheme(table, chooses, settings.run.rounds)
    parts = setup(settings, federation, local, whole_ring=True)
    linear = settings.training.model in LINEAR_MODELS
    if table.objective == ONCE and not linear:
        raise InvalidInput(
            f'objective = "{ONCE}" in [delm] needs a linear model; the model is '
            f"{settings.training.model}.",
            "Coefficients that depend on the weights cannot be released before they are known.",
            f'Write model = {" or ".join(LINEAR_MODELS)} under [training], or objective = "fresh".',
        )
    pca = None
    if table.pca != NO_PCA:
        components = components_of(table, math.prod(federation.features.shape[1:]))
        reduced = _reduced(settings, federation, components)
        parts = replace(parts, local=reduced)
        pca = _pca(parts, scheme, components, len(layers_of(reduced.model.parts)))
    make = CoefficientRounds if linear else PrintedRounds
    return make(parts, scheme, pca)


def _pca(parts: Setup, scheme: Scheme, components: int, layers: int) -> PcaRelease:
    """Return the PCA step, with the part of epsilon that is its own."""
    from ..observers.names import SHUFFLER
    from .pca import pca_release

    table = scheme.table
    assert table.pca != NO_PCA
    epsilon = claim_of(parts.privacy, parts.name)
    return pca_release(
        parts,
        kind=table.pca,
        epsilon=pca_epsilon(scheme, epsilon, parts.training.model, layers),
        components=components,
        row_norm=table.row_norm,
        most_rows=table.most_rows,
        apart=(SHUFFLER,) if table.shuffle == LAYERS else (),
    )


def _reduced(settings: Settings, federation: Federation, components: int) -> TorchLocalTraining:
    """Return the training of a model for so many features, on records that are projected later."""
    from ..models import model_named
    from ..training.local_training import TorchLocalTraining

    how = settings.training
    model = model_named(how.model, components, federation.classes, dropout=how.dropout)
    return TorchLocalTraining(settings, federation, model)
