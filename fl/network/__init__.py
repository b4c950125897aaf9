"""Runs over a real network: each silo's guard decides, a server sums, and others only carry."""
