"""A run that somebody describes: its claim, its settings, and where each fact comes from.

- `key`, `keys`: every key of a description: range, meaning, question.
- `files`, `tables`: TOML, JSON and options, to facts.
- `run_description`, `merging`, `agreement`, `printed_number`: facts with their sources, side by
  side; when two agree, by printed digits.
- `run_settings`, `sampling_facts`, `schedule_facts`: typed settings: rates from batches, steps from
  epochs.
"""
