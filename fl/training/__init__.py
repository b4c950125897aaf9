"""Local training: many units side by side, each as if it trained alone.

units = Units.of_pairs(federation.features, federation.labels, federation.pairs())
deltas = local_deltas(model, parameters, units, Recipe(0.01, epochs=30, batch=64), number=1)

`units` holds who trains on what, `deltas` (with PyTorch) computes, and `local_training` is what
systems ask.

- `local_training`: what systems ask: deltas and gradients by user, silo and record; begin here.
- `deltas`, `scores`: many units at once: with PyTorch, or with one linear score in numpy.
- `units`, `unit_blocks`, `minibatches`: who trains on what, side by side, in which order.
- `chosen_model`, `metrics`, `single_answers`: the model that settings name, how good it is, answers
  record by record.
- `threads`: how many threads PyTorch uses.
"""
