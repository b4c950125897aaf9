"""Tables of one's own: people's records in files, read by a public schema and by nothing else."""
