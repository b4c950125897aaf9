"""The versions of what the result of a run depends on."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Final

PACKAGES: Final = ("privplan", "numpy", "scipy", "torch", "cryptography")
"""What the result of a run depends on; their versions stand in its log."""


def versions(package: str = "privplan") -> dict[str, str]:
    """Return the versions of what the result depends on; `package` is that of the system."""
    known = {"python": platform.python_version()}
    for name in dict.fromkeys((*PACKAGES, package)):
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return known
