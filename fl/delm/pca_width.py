"""How many components the PCA keeps, and which part of epsilon it has.

Where noise is found for the claim, the PCA alone has epsilon / (1 + r), and the training what the
two of them leave of the claim; otherwise epsilon1 is a part like any other (`parts`).
"""

from __future__ import annotations

from .pieces import Scheme, parts_of
from .rules import noise_is_given
from .settings import DelmSettings


def components_of(table: DelmSettings, features: int) -> int:
    """Return k: as given, or half of the features, as in the paper (392 of 784)."""
    return table.components or max(1, features // 2)


def pca_epsilon(scheme: Scheme, epsilon: float, model: str, layers: int) -> float:
    """Return the epsilon that the noise of the PCA is made for, of a model with m `layers`."""
    table = scheme.table
    if noise_is_given(model, table.pca, table.sensitivity, table.training_epsilon):
        return parts_of(scheme, epsilon, layers)[0].pca
    return epsilon / (1.0 + table.ratio)
