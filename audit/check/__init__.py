"""Is this reported epsilon right?  The verdict about a described run, and its causes.

- `front`, `checking`: `privplan.check`: files and facts in; prove, recompute, look for causes.
- `checked_run`, `check_case`, `pinned_run`, `completions/`: the described run, what rules look at,
  and every run that it allows.
- `proving`, `bounds`, `bounding_event`, `events`, `sampler_events`, `unit_samplers`: what is
  proven: the hull over the allowed runs, and the events that bound each.
- `shuffled_events`, `loader_passes`, `kept_records`, `noise_draws`, `phase_classes`: loaders and
  batches, noise of a step, schedules of many phases.
- `release_readings`, `grouped_events`, `stated_event`, `event_comparison`, `flattening`: other
  releases, several records of a user, events that were given.
- `concentrated`: claims of zCDP and Gaussian DP.
- `claim_status`, `second_layer`, `verdict`, `headline`, `log_verdict`: how the claim stands,
  whether it is the settings' number, and the sentence.
- `causes/`, `library_defects`, `conventions`, `printed_facts`: why a number is wrong; known
  defects; what nobody mentioned; printed digits.
- `check_result`, `result_json`: the answer, and its JSON.
"""
