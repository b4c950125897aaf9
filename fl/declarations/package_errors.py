"""Code of another package fails by the name of its package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...accountant.errors import PrivplanError
from .declaration import PRIVPLAN_PACKAGE, Declaration


@contextmanager
def blame_package(system: Declaration, what: str) -> Iterator[None]:
    """Let code of another package fail by the name of the package, the system and the field.

    Raises `InvalidInput` for whatever it raises, `SystemExit` too; errors of privplan as they are.
    """
    try:
        yield
    except PrivplanError:
        raise
    except (Exception, SystemExit) as error:
        if system.package == PRIVPLAN_PACKAGE:
            raise
        raise system.failed(what, error) from error
