"""Local training: many units side by side, each as if it trained alone.

units = Units.of_pairs(federation.features, federation.labels, federation.pairs())
deltas = local_deltas(model, parameters, units, Recipe(0.01, epochs=30, batch=64), number=1)

`units` holds who trains on what, `deltas` (with PyTorch) computes, and `local_training` is what
systems ask.
"""
