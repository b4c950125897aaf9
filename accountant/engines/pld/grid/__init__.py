"""Where the mass of a loss lies, and which way its place on a grid errs."""
