"""Files that are whole or absent."""
