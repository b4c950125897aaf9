"""DELM: a functional mechanism, private principal components, selection and a shuffler."""
