"""What keys demand of one another: nothing contradicts, and nothing is without effect.

What is of every system stands here; what is of one, in the rules that it declares.  Each rule
returns what is wrong with a configuration, why, and what to do; None where it is met.
"""

from __future__ import annotations

from typing import Final

from ...accountant.errors import enumerated
from ..declarations.declaration import Complaint, Rule, blame_package
from ..declarations.given_settings import GivenSettings
from ..declarations.own_code import is_own
from ..declarations.packages import without_promise
from ..declarations.registry import with_use_for
from ..declarations.toml_keys import STUDY_KEYS
from .declared_rules import (
    MOMENTS_NOISE_KEY,
    moments_complaint,
    relation_complaint,
    unit_complaint,
)
from .public_test_data import BUNDLED_SOURCES
from .rating_rules import RATING_RULES, path_complaint
from .security_rules import SECURITY_RULES
from .table_rules import TABLE_RULES


def _unit_rule(given: GivenSettings) -> Complaint | None:
    """Require a unit of the system."""
    return unit_complaint(given.system, given.privacy.unit)


def _relation_rule(given: GivenSettings) -> Complaint | None:
    """Require a relation of the system."""
    return relation_complaint(given.system, given.privacy.neighbours)


def _noise_rule(given: GivenSettings) -> Complaint | None:
    """Require `epsilon` or `noise_multiplier` of every system that has a guarantee."""
    privacy = given.privacy
    if not given.system.promises or privacy.epsilon or privacy.noise_multiplier:
        return None
    return (
        "lacks `epsilon` or `noise_multiplier` in [privacy]",
        "One of them decides the noise; with both, epsilon is a limit that cuts the rounds.",
        "Write epsilon = 8.0 under [privacy], for example.",
    )


def _normalisation_rule(given: GivenSettings) -> Complaint | None:
    """Require `normalisation_noise` exactly where the features are normalised privately.

    The moments of the features are then one more release, which the guarantee of the system must
    include.
    """
    private = given.data.normalisation == "private"
    if private and (unpaid := moments_complaint(given.system)) is not None:
        return unpaid
    noisy = given.privacy.normalisation_noise is not None
    if noisy and not private:
        return (
            "gives `normalisation_noise` in [privacy], which has no effect",
            'It is the noise of the moments that normalisation = "private" in [data] releases.',
            'Leave it out, or write normalisation = "private" under [data].',
        )
    if private and not noisy:
        return (
            'has normalisation = "private" in [data], and lacks `normalisation_noise` in [privacy]',
            "The moments of private records are released with that noise, and cost budget.",
            "Write normalisation_noise = 5.0 under [privacy], for example.",
        )
    return None


PRIVACY_RULES: Final[tuple[Rule, ...]] = (
    _unit_rule,
    _relation_rule,
    _noise_rule,
    _normalisation_rule,
)
"""The rules, in the order in which they are checked."""


_BY_LABEL: Final = ("classes-1", "classes-2")


def _both_shares(given: GivenSettings) -> Complaint | None:
    lacking = [key for key in STUDY_KEYS if not given.states("data", key)]
    if len(lacking) != 1:
        return None
    there = next(key for key in STUDY_KEYS if key != lacking[0])
    return (
        f"gives `{there}` in [data], and lacks `{lacking[0]}` there",
        "Bad labels are those of a share of the records of a share of the silos.",
        f"Write `{lacking[0]}` with it, or leave both out.",
    )


def _looked_at(given: GivenSettings) -> Complaint | None:
    """Refuse bad labels where nobody would see what they do."""
    test = given.evaluation.test
    if not given.states("data", *STUDY_KEYS):
        return None
    if test == "public" or (test is None and given.dataset in BUNDLED_SOURCES):
        return None
    given_keys = enumerated([f"`{key}`" for key in STUDY_KEYS], "and")
    return (
        f"gives {given_keys} in [data], and measures nothing",
        "Labels drawn at random are for studies, which are measured on public test data; of any "
        "other run they would only spoil the model.",
        'Leave them out, or write test = "public" with `source` under [evaluation].',
    )


def _labels_said_once(given: GivenSettings) -> Complaint | None:
    data = given.data
    if data.allocation not in _BY_LABEL or data.labels_per_user is None:
        return None
    return (
        f'has allocation = "{data.allocation}" in [data] with `labels_per_user`',
        "That rule says which labels a silo has, and a user has records in any silo.",
        "Leave one of them out.",
    )


def _loss_of_own_model(given: GivenSettings) -> Complaint | None:
    """Refuse a loss with a model of privplan's, which has its own, but for numbers."""
    if not given.states("training", "loss") or is_own(given.training.model):
        return None
    if given.of_table and given.label_kind == "number" and not is_own(given.training.loss):
        return None  # which the rules of tables judge
    return (
        f"gives `loss` in [training], and the model {given.training.model} has its own",
        "Losses are for models of your own.",
        'Leave it out, or write model = "model.py:make" under [training].',
    )


STUDY_RULES: Final[tuple[Rule, ...]] = (_both_shares, _looked_at, _labels_said_once)
"""In the order in which they are asked."""


def evaluation_complaint(given: GivenSettings) -> Complaint | None:
    test, source = given.evaluation.test, given.evaluation.source
    name, bundled = given.dataset, given.dataset in BUNDLED_SOURCES
    if test == "public" and source is None and not bundled:
        return (
            'has test = "public" in [evaluation], and lacks `source` there',
            f"{name} is read from a path, and whether it is public nobody can see from it.",
            'Write source = "who published the test data, and where" under [evaluation], or '
            'test = "none".',
        )
    if source is not None and (test == "none" or (test is None and not bundled)):
        return (
            "gives `source` in [evaluation], which has no effect",
            'It says why test = "public" is so.',
            'Write test = "public" with it, or leave it out.',
        )
    named = path_complaint(given, source, "of [data] in `source` of [evaluation]", "data")
    if named is not None:
        return named
    every = given.stated("run", "evaluate_every")
    if every == 0 and test == "public":
        return (
            'has test = "public" in [evaluation] and evaluate_every = 0 in [run]',
            "With 0 the model is never measured.",
            "Leave one of them out.",
        )
    if every and test == "none":
        return (
            f'gives evaluate_every = {every} in [run], and has test = "none" in [evaluation]',
            "Without test data nothing is measured.",
            "Leave one of them out.",
        )
    return None


LEAST_CLIP: Final = 1e-9
MOST_CLIP: Final = 1e9
"""Clips by which floats of 53 bits can move the parameters of a model.

A round moves parameters by the clip at most, and by noise that is made for it, and models begin
near 1, where their steps are 2^-52.  Within the range seven digits are left at either end: for an
update that is divided by the number of contributions, and for a model that has moved away.  Far
below it noise is rounded off, far above it what was learnt is rounded off the noise.  Logs of
earlier versions may have other clips, and are judged by what they released.
"""


def clip_in_floats(given: GivenSettings) -> Complaint | None:
    """Refuse a clip next to which parameters, or next to parameters which, are rounded off."""
    clip = given.stated("training", "clip")
    if clip is None or LEAST_CLIP <= clip <= MOST_CLIP:
        return None
    lost = "a far smaller update is rounded off it"
    if clip > MOST_CLIP:
        lost = "next to a far larger update it is rounded off, and with it what was learnt"
    return (
        f"has clip = {clip:g} in [training], which must be from {LEAST_CLIP:g} to {MOST_CLIP:g}",
        f"A parameter near 1 is a float with steps of 2e-16: {lost}.",
        "Give a clip within the range, about as long as an update is; data may be in other units.",
    )


def first_complaint(given: GivenSettings) -> Complaint | None:
    """Return the first thing that contradicts another, or None: rules of all, then of its own."""
    for rule in _RULES:
        said = rule(given)
        if said is not None:
            return said
    return _complaint_of_system(given)


def _complaint_of_system(given: GivenSettings) -> Complaint | None:
    """Return the first complaint of the rules that the system declares."""
    system = given.system
    for rule in system.rules:
        with blame_package(system, "rules"):
            said = rule(given)
            if said is not None:
                what, why, step = map(str.strip, said)
                said = what, why, step
        if said is not None:
            return said
    return None


def _promises_nothing(given: GivenSettings) -> Complaint | None:
    if given.system.promises or not given.get("privacy"):
        return None
    return (
        f"has keys in [privacy], and {given.system.name} promises nothing",
        "It adds no noise, so a target or a unit would only look like a promise.",
        "Leave [privacy] out, or choose another system.",
    )


def _trains_nothing(given: GivenSettings) -> Complaint | None:
    if given.system.trains or not given.get("training"):
        return None
    return (
        f"has keys in [training], and {given.system.name} trains no model",
        "What is without effect would only look like a choice.",
        "Leave [training] out, or choose another system.",
    )


def _without_effect(given: GivenSettings) -> Complaint | None:
    system = given.system
    for table, keys in given.items():
        for key in keys:
            if (table, key) != MOMENTS_NOISE_KEY and not system.has_use_for(table, key):
                return (
                    f"gives `{key}` in [{table}], and {system.name} has no use for it",
                    f"It belongs to {enumerated(with_use_for(table, key), 'and')}.",
                    f"Leave `{key}` out, or choose another system.",
                )
    return None


def _device(given: GivenSettings) -> Complaint | None:
    device, system = given.run.device, given.system
    if device == "cpu" or not system.promises:
        return None
    return (
        f'asks for device = "{device}" in [run], and {system.name} is private',
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
    *TABLE_RULES,
    *STUDY_RULES,
    _loss_of_own_model,
    *SECURITY_RULES,
    *PRIVACY_RULES,
    _device,
    evaluation_complaint,
)
"""In the order in which a configuration is held against them: the first complaint is told."""
