"""What meets the terminal: text, JSON, errors and exit codes."""
