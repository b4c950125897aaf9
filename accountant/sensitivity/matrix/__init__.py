"""Correlated noise: by how much one unit moves C x, for a strategy C and a participation.

`strategies` turns a strategy into its matrix, `participations` says in which rounds one unit may
contribute together, `separated` and `patterns` look for the worst of these, `directions` for the
worst vectors, and `bounds` puts them together: it is what is asked from outside.
"""

from .bounds import MatrixSensitivity, sensitivity, sensitivity_bounds
from .strategies import MAX_MATRIX_ENTRIES, column_bands, strategy_matrix, strategy_steps

__all__ = [
    "MAX_MATRIX_ENTRIES",
    "MatrixSensitivity",
    "column_bands",
    "sensitivity",
    "sensitivity_bounds",
    "strategy_matrix",
    "strategy_steps",
]
