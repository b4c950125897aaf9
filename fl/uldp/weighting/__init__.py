"""Uldp-FL's Protocol 1: silos use weights n_su / N_u that nobody learns.

- `protocol`, `server`, `silo`: a session in one process, and its parties.
- `terms`, `messages`, `enrolment`, `introductions`: what is agreed, said, and exchanged at the
  start.
- `counts`, `histogram`, `sampling`: record counts, their blinded histogram, who takes part.
- `published`, `published_messages`, `published_parties`: as published: no guarantee.
"""
