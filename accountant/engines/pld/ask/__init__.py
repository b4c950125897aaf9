"""The questions to the engine, and what an answer says of the event as a whole.

- `engine`, `certificate`: bounds on epsilon and delta, on a grid that fits; proofs at one target.
- `profile_engine`, `upper_profile`: delta at many epsilons, or at all of them.
- `caveats`, `cap`, `claimed_batches`: warnings about an event: caps of truncated samples, batches
  accounted as Poisson samples.
- `best_of_runs`: lower bounds for a search over runs.
"""
