"""What a system declares of itself: its TOML keys, defaults, sealed items, and the registry.

- `declaration`, `checking`, `registry`, `packages`: what a system declares, whether it is sound,
  and every system by name.
- `toml_key`, `toml_keys`, `shared_tables`, `data_table`, `evaluation_table`, `ledger_table`: the
  keys of a configuration, table by table.
- `dataset_defaults`: what is trained with by default: a paper's values, for each data set.
- `given_settings`, `stated_settings`: settings as they are given, and typed views of them.
- `sealed_items`: what each release seals.
- `own_code`: code of one's own: where it lies, and its digest.
"""
