"""The name and the version of a library, as a free text says them."""

from __future__ import annotations

import re
from typing import Final

ALIASES: Final = {
    "flwr": "flower",
    "tf_privacy": "tensorflow_privacy",
    "tensorflow_privacy": "tensorflow_privacy",
    "dp_accounting": "dp_accounting",
    "jax_privacy": "jax_privacy",
    "opake_accounting": "opake",
}


def named_library(text: str | None) -> tuple[str, tuple[int, ...] | None]:
    """Return the name of a library and its version, as far as a free text says them.

    >>> named_library("Opacus v1.4.0"), named_library("tf-privacy")
    (('opacus', (1, 4, 0)), ('tensorflow_privacy', None))
    """
    if not text:
        return "", None
    words = re.match(r"\s*([A-Za-z][A-Za-z_\- ]*?)[\s=v@]*(\d+(?:\.\d+)*)?\s*$", text)
    name = (words[1] if words else text).strip().lower().replace("-", "_").replace(" ", "_")
    digits = re.search(r"\d+(?:\.\d+)*", text)
    version = None if digits is None else tuple(int(part[:9]) for part in digits[0].split("."))
    return ALIASES.get(name, name), version


def same_library(left: str, right: str) -> bool:
    """Return whether two texts name one library, of versions that can be one.

    >>> same_library("opacus 1.5", "Opacus"), same_library("opacus 1.5", "opacus 1.5.2")
    (True, True)
    >>> same_library("opacus 1.5", "opacus 1.4"), same_library("opacus", "flower")
    (False, False)
    """
    (name, version), (other, other_version) = named_library(left), named_library(right)
    shared = min(len(version or ()), len(other_version or ()))
    return name == other and (version or ())[:shared] == (other_version or ())[:shared]


def precision(text: str) -> int:
    """Return how many parts of a version a text says.

    >>> precision("opacus"), precision("opacus 1.5")
    (0, 2)
    """
    return len(named_library(text)[1] or ())
