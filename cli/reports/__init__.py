"""What commands print: guarantees, plans and runs in words and in JSON."""
