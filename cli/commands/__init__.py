"""What each command does, one file a command.

- `account`, `calibrate`, `plan`: what an event costs, how much noise, a budget over phases.
- `check`, `claims`, `explain`, `examples`, `doctor`: reported numbers, published systems, pages,
  files to begin with, the installation.
- `run`, `report`, `plot`, `data`: a run, its page for people, results drawn, tables of one's own.
- `audit_log`, `audit_budget`, `audit_attack`, `audit_counts`, `audit_scores`, `audit_canaries`,
  `audit_demo`: `privplan audit ...`.
- `guard`, `flower`, `network`: runs over a network.
- `serve`, `ledger`: the budget ledger, and what holds it to account.
"""
