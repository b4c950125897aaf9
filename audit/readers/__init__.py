"""Files of other libraries, read without running anything in them.

- `recognition`, `content`: which reader a file is for, by what is in it; bytes as text or JSON,
  within limits.
- `opacus`, `opacus_states`, `torch_archive`, `safe_pickle`, `pickle_calls`: Opacus checkpoints:
  torch files and pickles, never run.
- `tf_privacy`, `jax_privacy`, `band_mf`, `dp_accounting_events`: TF Privacy statements, jax_privacy
  plans, dp_accounting's events.
- `flower`, `nvflare`, `opake`, `diffprivlib`: accountant states and budgets of other libraries.
- `history`, `history_rows`, `csv_history`, `jsonl_history`, `text_log`: histories and logs of
  trainings.
- `keyed_config`, `written_description`, `privplan_log`: configurations, descriptions, and
  privplan's own logs.
"""
