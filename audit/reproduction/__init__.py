"""What common accountants print for the settings of a run, and for settings near them.

- `search`, `matching`: which accountant and settings give a claim; when a value prints as it.
- `changes`: settings near the described ones: other deltas, relations, batches, epochs.
- `accountants`, `closed_forms`, `renyi_values`, `order_grids`: what accountants print, and how they
  compute it.
- `last_epoch`, `reproduction`: numbers in mid-epoch; one number that was found.
"""
