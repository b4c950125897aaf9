"""Small runs of a toy that releases a PCA step before its rounds."""

from __future__ import annotations

from pathlib import Path

TEXT = """[run]
system = "toy-pca"
rounds = 2
seed = {seed}

[data]
name = "breast-cancer"
silos = 3

[privacy]
noise_multiplier = {noise}
unit = "record"

[toy]
pca = "{kind}"
as_published = {published}
components = 10
"""

COMPONENTS = 10
FEATURES = 30
SILOS = 3


def text(kind: str, *, published: bool | None = None, noise: float = 20.0, seed: int = 3) -> str:
    """Return a configuration; as published where the noise of the PCA step is."""
    as_published = kind == "wishart" if published is None else published
    return TEXT.format(kind=kind, published=str(as_published).lower(), noise=noise, seed=seed)


def configured(folder: Path, kind: str, **given: object) -> Path:
    """Return the file of a configuration in a folder."""
    path = folder / f"{kind}.toml"
    path.write_text(text(kind, **given))  # type: ignore[arg-type]
    return path
