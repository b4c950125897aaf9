"""Logs of trainings with other libraries: right ones are not accused, and wrong ones are found."""

from __future__ import annotations

from pathlib import Path

import privplan as pp
from privplan.audit.budget import audit_budget
from privplan.audit.verify import verify


def errors(folder: Path) -> set[str]:
    """Return the ids of what a budget audit calls an error."""
    return {each.id for each in audit_budget(folder).hazards if each.severity == "error"}


def require_not_accused(folder: Path) -> None:
    """Check that a log is complete, has no error, and supports what it claims."""
    assert errors(folder) == set()
    assert audit_budget(folder).supported
    assert verify(folder).complete
    assert pp.check(folder).verdict == "holds"


def require_found(folder: Path, expected: set[str]) -> None:
    """Check that an audit finds what was wrong, and does not support the claim."""
    assert expected
    assert expected <= errors(folder)
    assert not audit_budget(folder).supported
