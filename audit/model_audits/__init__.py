"""Audits of models that anybody trained: what membership inference finds in their scores.

    audit_scores(target=phi, membership=coins, shadows=phi_of_shadows, ...)
    audit_model(None, train, (features, labels), folder="audit", delta=1e-5)

- `score_audit`: the audit: attacks, the bound on epsilon, what is withheld.
- `score_tables`, `score_files`: scores and who was in which model, and the files that hold them, in
  our layout and in those of three other tools.
- `coins`: whether coins decided membership, and what a classifier tells that never sees the model.
- `guesses`: guesses about one model, whose rule comes from shadows alone.
- `model_audit`: the audit of a training: coins, shadows and attacks, in a folder that `kept_audit`
  reads; `audit_plan`, `audit_chain`, `shadow_training`, `model_scores`, `pooled_targets` and
  `audit_results` are its parts.
"""
