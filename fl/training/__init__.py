"""Local training: many units side by side, each as if it trained alone.

units = Units.of_pairs(federation.features, federation.labels, federation.pairs())
deltas = local_deltas(model, parameters, units, Recipe(0.01, epochs=30, batch=64), number=1)
"""

from .local import delta_blocks, device_named, gradients, local_deltas, per_example_gradients
from .threads import one_thread
from .units import Recipe, Units

__all__ = [
    "Recipe",
    "Units",
    "delta_blocks",
    "device_named",
    "gradients",
    "local_deltas",
    "one_thread",
    "per_example_gradients",
]
