"""DELM: a functional mechanism, private principal components, selection and a shuffler.

- `declaration`, `settings`, `terms`, `pca_terms`: keys, and what each release is.
- `system`, `scheme`, `pieces`, `parts`: `delm-basic` and `delm-enhanced`, their pieces and parts of
  epsilon.
- `coefficients`, `objective`, `printed`, `noise_width`: noisy objectives, and the printed noise or
  the proven one.
- `pca`, `pca_canaries`: private components, and canaries for them.
- `choice`, `layers`: which clients' layers are averaged; messages without senders.
- `measure`, `votes`: test data; records that are held out.
"""
