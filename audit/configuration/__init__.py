"""The configuration in the first line of a log: whether it is whole, and what follows from it."""
