"""Audits of models that anybody trained: what membership inference finds in their scores.

    audit_scores(target=phi, membership=coins, shadows=phi_of_shadows, ...)
    audit_model(None, train, (features, labels), folder="audit", delta=1e-5)

- `score_audit`: the audit: attacks, the bound on epsilon, what is withheld.
- `score_tables`, `score_files`: scores and who was in which model, and the files that hold them, in
  our layout and in those of three other tools.
- `score_archives`, `score_lines`: arrays and lines of such files, read with a limit on memory.
- `copies`: which records are copies of each other.
- `coins`: whether coins decided membership, and what a classifier tells that never sees the model.
- `canary_draw`, `example_columns`, `example_files`: examples to insert into a training, each by a
  secret coin.
- `canary_folder`, `canary_manifest`: their files, and what is fixed beforehand.
- `canary_scores`, `canary_score_files`: the coins, opened once, against what the model says.
- `guesses`: guesses about one model, whose rule comes from shadows alone.
- `model_audit`, `kept_audit`: the audit of a training, and the folder that it leaves behind.
- `audit_plan`, `audit_chain`: what is fixed beforehand, coins above all, and the log of it.
- `shadow_training`, `model_scores`: trainings by somebody else's function, and what models say.
- `pooled_targets`, `audit_results`: every shadow as a target, and all that the scores tell.
"""
