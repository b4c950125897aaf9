"""Five published systems: what they claim, exactly as printed, and what can be proven.

- `table`: every row of every system, and the verdict between its numbers.
- `uldp_fl`, `flame`, `disco`, `fedpower`, `delm`: the rows of one paper each.
- `flame_formulas`, `flame_published`, `flame_lower`: FLAME's setting and formulas as printed, and
  exact tests against them.
- `uldp_leaks`: what Uldp-FL's Protocol 1 shows its server.
- `proofs`: proven bounds of an event, as a row has them.
"""
