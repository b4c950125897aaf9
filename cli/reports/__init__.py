"""What commands print: guarantees, plans and runs in words and in JSON.

- `guarantee_words`, `event_words`, `assumption_words`, `run_words`: guarantees, events, assumptions
  and runs in words.
- `account`, `epsilon_noise`, `risk_noise`, `gram`, `plan`, `curve`: answers of `account`,
  `calibrate` and `plan`.
- `run`, `forecast`, `training_log`: what a run left; what one would prove; the log of an audit.
- `attack`, `check`, `checked_runs`, `loaders`, `claims`: attacks tier by tier, verdicts about runs,
  the table of claims.
"""
