"""Correlated noise: by how much one unit moves C x, for a strategy C and a participation.

- `bounds`: what is asked from outside; it puts the others together.
- `strategies`: from a strategy to its matrix C.
- `participations`, `separated`: in which rounds one unit may contribute together, and the worst of
  these under a minimum separation.
- `directions`: the worst vectors of one unit in given rounds.
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
