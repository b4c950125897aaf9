"""What commands print: guarantees, plans and runs in words and in JSON.

- `guarantee_words`, `event_words`, `assumption_words`, `run_words`: guarantees, events, assumptions
  and runs in words.
- `account`, `epsilon_noise`, `risk_noise`, `gram`, `plan`, `curve`: answers of `account`,
  `calibrate` and `plan`.
- `run`, `forecast`, `training_log`, `plots`: what a run left; what one would prove; the log of an
  audit; charts of answers.
- `attack`, `check`, `checked_runs`, `statement`, `loaders`, `claims`: attacks tier by tier,
  verdicts about runs, what may be said of one, the table of claims.
"""
