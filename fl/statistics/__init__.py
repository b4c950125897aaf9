"""Private statistics: X^T X and X^T Y of all silos' records, released once."""
