"""Mathematics and spending: events -> guarantees, targets -> noise.

- `account`: what an event costs: epsilon or delta, with the steps that prove it.
- `account_release`: what a release of a published system costs, under its one relation.
- `calibrate`, `calibration_aims`, `calibration_targets`: the least noise, most rounds or highest
  rate for a target; what may be aimed at.
- `certified_search`, `certifiers`, `rootfinding`, `tpr_search`, `lattice_noise`,
  `exact_lattice_noise`: how a calibration searches, and proves what it returns.
- `bound_routes`: every route to a bound side by side, the ones that do not hold too.
- `key_selection`: the mechanism that releases most keys of a histogram.
- `plan/`, `odometer/`: a budget split over phases; a budget that refuses before a release.
- `curves/`, `risk/`: privacy profiles, Renyi, rho and mu of an event; what its best attack reaches.
- `events/`, `composition`, `event_tree`, `schedules`, `grouping`: what was released, as trees of
  events, and their leaves.
- `engines/`, `engine_order`, `amplification/`: from leaves to numbers; which engine is asked about
  which leaf.
- `sensitivity/`, `mechanisms/`, `randomness`: how far a unit moves a sum; the noise, drawn exactly,
  and its streams.
- `records/`: what a run writes down of itself: the classes of a log's lines.
- `claims/`: five published systems: claimed, proven and attained numbers.
- `guarantee`, `neighbours`, `rounding`: an answer, its relation, and its digits, rounded to the
  safe side.
- `errors`, `validate`, `delta_checks`, `nearest_names`, `work_limit`: refusals: ranges, deltas,
  misspelt names, too much work.
- `decoding`, `toml_source`, `regular_file`: JSON, TOML and files, read strictly.
- `arrays`: the names of array types.
"""
