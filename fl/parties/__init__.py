"""Parties, their typed messages, and the in-process network between them."""
