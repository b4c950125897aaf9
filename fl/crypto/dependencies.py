"""The packages that protocols stand on, looked for before anything begins."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from ...accountant.errors import MissingExtra

MASKS: Final = ("cryptography", "nacl", "msgpack")
"""What sums under masks need, by the names that are imported."""

WEIGHTING: Final = (*MASKS, "phe", "gmpy2")
"""What private weighting needs."""

_CALLED: Final = {"nacl": "pynacl"}


def require(names: tuple[str, ...]) -> None:
    """Raise `MissingExtra`, which names all of these packages that are not installed."""
    missing = [_CALLED.get(name, name) for name in names if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"The protocol needs {', '.join(missing)}, not installed.",
            "Its keys, ciphertexts and messages are theirs.",
            'Install the extra: pip install "privplan[fl]".',
        )
