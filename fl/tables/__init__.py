"""Tables of one's own: people's records in files, read by a public schema and by nothing else.

- `table`, `federated_table`, `rows`, `batches`, `row_reading`: rows of files as a federation, batch
  by batch.
- `schema`, `schema_file`, `schema_text`, `schema_draft`, `record_shape`: what the owner says of
  columns, and a draft of it.
- `csv_file`, `arrow_file`, `arrow_cells`, `array_file`, `array_cells`, `array_header`, `frames`:
  formats of files, and frames of a program.
- `cell_features`: from a cell to features and labels.
- `user_names`, `user_list`, `hidden_ids`: ids of users: names, the public list, keyed hashes.
- `value_checks`, `duplicate_rows`: what is wrong, for who owns the data.
"""
