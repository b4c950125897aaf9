"""Audits of models that anybody trained: what membership inference finds in their scores.

    audit_scores(target=phi, membership=coins, shadows=phi_of_shadows, ...)

`score_tables` holds scores and who was in which model, and refuses what no attack can use;
`score_files` reads them, in our layout and in those of three other tools; `coins` says whether
membership was decided by coins that the shadows do not tell, and what a classifier finds that never
sees the model; `guesses` are those of one model, whose rule comes from shadows alone; `score_audit`
is the audit.
"""
