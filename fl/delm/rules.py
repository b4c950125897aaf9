"""Rules between the keys of a configuration of DELM's published schemes."""

from __future__ import annotations

from typing import Any, Final

from ..declarations.dataset_defaults import dataset_defaults
from ..declarations.declaration import Complaint, Given, Rule
from ..statistics.settings_rules import of_classes
from .settings import (
    DIVERGENCE,
    FRESH,
    IMAGE_MODELS,
    LAYERS,
    LINEAR_MODELS,
    NO_PCA,
    ONCE,
    PRINTED,
    PROVEN,
    WISHART,
    DelmSettings,
)

_PARTS: Final = ("pca_epsilon", "training_epsilon", "selection_epsilon")


def epsilon_alone(given: Given) -> Complaint | None:
    """Refuse a noise multiplier: noise follows from the parts of epsilon."""
    if "noise_multiplier" not in given.get("privacy", {}):
        return None
    return (
        f"gives `noise_multiplier` in [privacy], and {_system(given)} takes none",
        "Noise follows from the parts of epsilon, of which every piece has one.",
        "Give epsilon alone, and training_epsilon in [delm] for other noise.",
    )


def of_linear_models(given: Given) -> Complaint | None:
    """Refuse what only a linear model has: coefficients that do not depend on its weights."""
    model = _model(given)
    if model in LINEAR_MODELS:
        return None
    for key, only in (("objective", ONCE), ("sensitivity", PROVEN)):
        if _value(given, key) == only:
            return (
                f'has {key} = "{only}" in [delm] and model = "{model}" in [training]',
                "The coefficients of such a model's objective depend on its weights: they cannot "
                "be released once, and no sensitivity of them is proven.",
                f'Write model = "softmax", or {key} = '
                f'"{FRESH if key == "objective" else PRINTED}".',
            )
    return None


def images_of_components(given: Given) -> Complaint | None:
    """Refuse components that are no image, for a model of images."""
    model = _model(given)
    if model not in IMAGE_MODELS or _value(given, "pca") == NO_PCA:
        return None
    sizes, components = IMAGE_MODELS[model], given.get("delm", {}).get("components")
    if components in sizes:
        return None
    kept = "half of the features" if components is None else f"{components:,}"
    return (
        f'has model = "{model}" in [training] and pca = "{_value(given, "pca")}" in [delm], which '
        f"keeps {kept} as components",
        "The model is for images, and what the PCA keeps takes the place of their pixels.",
        f'Write components = {" or ".join(map(str, sizes))} under [delm], or pca = "{NO_PCA}".',
    )


def parts_of_pieces(given: Given) -> Complaint | None:
    """Refuse parts of epsilon that are of no piece of the run, or not all of them."""
    table = given.get("delm", {})
    named = [key for key in _PARTS if key in table]
    if not named:
        return None
    used = {
        "pca_epsilon": _value(given, "pca") != NO_PCA,
        "training_epsilon": True,
        "selection_epsilon": _chooses(given) and _value(given, "selection") == DIVERGENCE,
    }
    for key in named:
        if not used[key]:
            return (
                f"gives `{key}` in [delm], and the run has no such piece",
                "It would count in the claim, and do nothing.",
                "Leave it out.",
            )
    for key in _PARTS:
        if key not in table and used[key]:
            return (
                f"gives `{named[0]}` in [delm], and not `{key}`",
                "The parts make the claim together.",
                "Give the part of every piece of the run, or none of them.",
            )
    if "ratio" in table:
        return (
            f"gives `ratio` beside `{named[0]}` in [delm]",
            "It divides epsilon where its parts are not given.",
            "Leave one of them out.",
        )
    return None


def ratio_of_pieces(given: Given) -> Complaint | None:
    """Refuse a ratio of which one side is missing, and components without a PCA."""
    table = given.get("delm", {})
    if _value(given, "pca") != NO_PCA:
        return None
    for key in ("ratio", "components"):
        if key in table:
            return (
                f'gives `{key}` in [delm] beside pca = "{NO_PCA}"',
                "It is of the PCA, and there is none.",
                "Leave it out.",
            )
    return None


def enough_clients(given: Given) -> Complaint | None:
    """Refuse more chosen clients than there are, and a shuffler of one."""
    clients = given["data"].get("silos")
    if clients is None:
        return None
    chosen = given.get("delm", {}).get("selected")
    if chosen is not None and chosen > clients:
        return (
            f"has selected = {chosen:,} in [delm], and silos = {clients:,} in [data]",
            "Clients are chosen without replacement.",
            f"Write selected = {clients:,} or fewer.",
        )
    if _value(given, "shuffle") == LAYERS and clients < 2:
        return (
            f'has shuffle = "{LAYERS}" in [delm], and silos = {clients} in [data]',
            "A message that is not mixed with another has its sender.",
            'Have more silos, or write shuffle = "none".',
        )
    return None


def is_published(model: object, pca: object) -> bool:
    """Return whether some piece has no guarantee: the PCA as published, or a model not linear."""
    return pca == WISHART or model not in LINEAR_MODELS


def noise_is_given(model: object, pca: object, sensitivity: object, training: object) -> bool:
    """Return whether the parts of epsilon give the noise, so that none is searched for the claim.

    `training` is the part of the training, None where it is not given.
    """
    return is_published(model, pca) or sensitivity == PRINTED or training is not None


def _system(given: Given) -> str:
    return str(given["run"]["system"])


def _chooses(given: Given) -> bool:
    return _system(given) == "delm-enhanced"


def _model(given: Given) -> str:
    usual = dataset_defaults(given["data"]["name"]).model
    return str(given.get("training", {}).get("model", usual))


def _value(given: Given, key: str) -> Any:
    return given.get("delm", {}).get(key, getattr(_USUAL, key))


_USUAL: Final = DelmSettings(row_norm=1.0)

SCHEME_RULES: Final[tuple[Rule, ...]] = (
    of_classes,
    epsilon_alone,
    of_linear_models,
    images_of_components,
    parts_of_pieces,
    ratio_of_pieces,
    enough_clients,
)
"""In the order in which they are asked."""
