"""What keys demand of one another: nothing contradicts, and nothing is without effect.

What is of every system stands here; what is of one, in the rules that it declares.
"""

from __future__ import annotations

from typing import Final

from ..declarations.built_in import without_promise
from ..declarations.declaration import Complaint, Given, Rule
from ..declarations.package_errors import blame_package
from ..declarations.registry import with_use_for
from .clip_rule import clip_in_floats
from .evaluation_rule import evaluation_complaint
from .privacy_rules import PRIVACY_RULES
from .rating_rules import RATING_RULES
from .rule_facts import MOMENTS_NOISE_KEY, enumerated, system_of
from .security_rules import SECURITY_RULES
from .study_rules import STUDY_RULES


def first_complaint(given: Given) -> Complaint | None:
    """Return the first thing that contradicts another, or None: rules of all, then of its own."""
    for rule in _RULES:
        said = rule(given)
        if said is not None:
            return said
    return _complaint_of_system(given)


def _complaint_of_system(given: Given) -> Complaint | None:
    """Return the first complaint of the rules that the system declares."""
    system = system_of(given)
    for rule in system.rules:
        with blame_package(system, "rules"):
            said = rule(given)
            if said is not None:
                what, why, step = map(str.strip, said)
                said = what, why, step
        if said is not None:
            return said
    return None


def _promises_nothing(given: Given) -> Complaint | None:
    if system_of(given).promises or not given.get("privacy"):
        return None
    return (
        f"has keys in [privacy], and {system_of(given).name} promises nothing",
        "It adds no noise, so a target or a unit would only look like a promise.",
        "Leave [privacy] out, or choose another system.",
    )


def _trains_nothing(given: Given) -> Complaint | None:
    if system_of(given).trains or not given.get("training"):
        return None
    return (
        f"has keys in [training], and {system_of(given).name} trains no model",
        "What is without effect would only look like a choice.",
        "Leave [training] out, or choose another system.",
    )


def _without_effect(given: Given) -> Complaint | None:
    system = system_of(given)
    for table, keys in given.items():
        for key in keys:
            if (table, key) != MOMENTS_NOISE_KEY and not system.has_use_for(table, key):
                return (
                    f"gives `{key}` in [{table}], and {system.name} has no use for it",
                    f"It belongs to {enumerated(with_use_for(table, key), 'and')}.",
                    f"Leave `{key}` out, or choose another system.",
                )
    return None


def _device(given: Given) -> Complaint | None:
    if given["run"].get("device", "cpu") == "cpu" or not system_of(given).promises:
        return None
    return (
        f'asks for device = "{given["run"]["device"]}" in [run], and {given["run"]["system"]} is '
        "private",
        "On a GPU the last bits of one user's update can change with who else takes part, and the "
        "clip does not bound that; on a CPU it was measured not to happen.",
        f'Write device = "cpu"; {" and ".join(without_promise())} may use a GPU.',
    )


_RULES: Final[tuple[Rule, ...]] = (
    _promises_nothing,
    _trains_nothing,
    _without_effect,
    clip_in_floats,
    *RATING_RULES,
    *STUDY_RULES,
    *SECURITY_RULES,
    *PRIVACY_RULES,
    _device,
    evaluation_complaint,
)
"""In the order in which a configuration is held against them: the first complaint is told."""
