"""What a system's declaration requires of a setup, whoever made it."""

from __future__ import annotations

from ...accountant.errors import InvalidInput, Unsupported
from ..declarations.declaration import Complaint, Declaration
from ..declarations.registry import declaration_or_none
from ..settings.declared_rules import (
    aggregation_complaint,
    moments_complaint,
    relation_complaint,
    sampling_complaint,
    unit_complaint,
)
from .setup import Setup


def require_declared(setup: Setup) -> None:
    """Raise for a setup that its system's declaration does not allow.

    That is `Unsupported` for an aggregation, and `InvalidInput` for a unit, a relation, sampled
    users, or private moments.  A system that is declared nowhere sums in the clear, or masked.
    """
    declared = declaration_or_none(setup.name)
    system = declared or Declaration(name=setup.name, make="", summary="")
    refuse(setup, aggregation_complaint(system, setup.aggregation), kind=Unsupported)
    if declared is None:
        return
    refuse(
        setup,
        moments_complaint(system) if setup.normalisation is not None else None,
        sampling_complaint(system) if setup.privacy.sampling_rate != 1.0 else None,
        unit_complaint(system, setup.privacy.unit),
        relation_complaint(system, setup.privacy.neighbours),
    )


def refuse(
    setup: Setup,
    *complaints: Complaint | None,
    kind: type[InvalidInput | Unsupported] = InvalidInput,
) -> None:
    """Raise `kind` for the first complaint about a setup, if there is one."""
    for complaint in complaints:
        if complaint is not None:
            what, why, step = complaint
            raise kind(f"The setup of {setup.name} {what}.", why, step)


def require_user_unit(setup: Setup) -> None:
    """Raise `InvalidInput` unless a user is protected, who comes, goes or is replaced as a whole.

    It is for systems of other packages that declare more.  A user of zeros is still trained on, so
    zero-out is no such relation.
    """
    usual = Declaration(
        name=setup.name, make="", summary="", relations=("add-remove", "replace-one")
    )
    refuse(
        setup,
        unit_complaint(usual, setup.privacy.unit),
        relation_complaint(usual, setup.privacy.neighbours),
    )


def require_all_users(setup: Setup) -> None:
    """Raise `InvalidInput` where users are sampled; for systems of other packages."""
    usual = Declaration(name=setup.name, make="", summary="")
    refuse(setup, sampling_complaint(usual) if setup.privacy.sampling_rate != 1.0 else None)
