"""Audits of models that anybody trained: what membership inference finds in their scores.

    audit_scores(target=phi, membership=coins, shadows=phi_of_shadows, ...)

- `score_audit`: the audit: attacks, the bound on epsilon, what is withheld.
- `score_tables`, `score_files`: scores and who was in which model, and the files that hold them, in
  our layout and in those of three other tools.
- `coins`: whether coins decided membership, and what a classifier tells that never sees the model.
- `canary_draw`, `example_columns`, `example_files`: examples to insert into a training, each by a
  secret coin.
- `canary_folder`, `canary_manifest`: their files, and what is fixed beforehand.
- `canary_scores`, `canary_score_files`: the coins, opened once, against what the model says.
- `guesses`: guesses about one model, whose rule comes from shadows alone.
"""
