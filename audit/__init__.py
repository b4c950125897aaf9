"""What runs leave behind: logs, re-derived budgets, hazards, attacks, reports.

Logs of privplan's runs, from the file to the verdict:

- `verify`, `ledger/`: the hash chain; intents with their releases.
- `configuration/`, `edits/`: the configuration in the first line; contradictions that no run
  leaves.
- `derivation/`, `evidence/`: the event that a round's facts prove; all rounds together.
- `budget/`, `hazards/`, `findings/`: the verdict about a budget, its rules, and what a finding is.
- `attack/`, `attack_methods/`, `canaries/`, `shadows/`, `residual/`: attacks in tiers: transcripts,
  membership, rehearsals, noise.
- `statistics/`, `measurement`, `counts`, `results`: bounds from counts, one measurement, its place
  in a log.
- `report/`, `plots/`: one page about one run; results as plots.
- `reconciliation`: the logs of the parties of one network.

Runs of others, and services:

- `check/`, `description/`, `readers/`, `reproduction/`: reported numbers: described runs, files of
  other libraries, what accountants print.
- `adapters/`: privplan inside of other libraries.
- `model_audits/`: attacks on models that anybody trained, from their scores.
- `demos/`: published claims against simulations.
- `budget_service/`: the budget ledger that many spend from.
"""
