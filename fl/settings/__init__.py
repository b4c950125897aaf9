"""Settings of a run: their schema, rules and file.

- `schema`, `toml_file`, `logged_tables`: settings as frozen values; from a file, and from a log.
- `rules`, `declared_rules`, `security_rules`, `table_rules`, `rating_rules`, `held_out_rules`: what
  keys demand of one another.
- `public_test_data`: whether test data are public, and who says so.
"""
