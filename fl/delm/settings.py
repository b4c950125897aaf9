"""The table `[delm]`: what is released of records, and the pieces of the published schemes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ...accountant import validate
from ..declarations.declaration import Complaint, Rule, Table
from ..declarations.given_settings import GivenSettings
from ..declarations.own_code import is_own
from ..declarations.toml_key import key
from ..statistics.settings import ReleaseSettings, of_classes

LossName = Literal["linear", "logistic", "softmax"]

LOGISTIC: Final = "logistic"

WISHART: Final = "wishart"
NO_PCA: Final = "none"
"""The PCA as published, which proves nothing, and none at all."""

FRESH: Final = "fresh"
ONCE: Final = "once"
"""New noise in every round, as published, or noise that is drawn once."""

LAYERS: Final = "layers"
"""The shuffle as published, layer by layer."""

DIVERGENCE: Final = "divergence"
UNIFORM: Final = "uniform"
TOP_K: Final = "top-k"
"""How a layer's clients are chosen: as published, at random, or the least divergent."""

PRINTED: Final = "printed"
PROVEN: Final = "proven"
"""Noise for the sensitivity that was printed, or for the one that is proven."""

LINEAR_MODELS: Final = ("logistic", "softmax")
"""Models whose objective is a polynomial with coefficients that depend on records alone."""


IMAGE_MODELS: Final[Mapping[str, tuple[int, ...]]] = {
    "alexnet": (784, 1_024, 3_072),
    "cnn": (64, 784),
}
"""How many features models of images take."""


@dataclass(frozen=True, kw_only=True)
class DelmSettings(ReleaseSettings):
    """`[delm]`: what is released and how, in the sound and in the published schemes.

    `loss` is of `delm-linear`; what follows it, of `delm-basic` and `delm-enhanced`.
    """

    loss: LossName = key(
        "what is minimised: squares against one-hot labels, or the logistic loss of two classes "
        "or more, to the second degree; all are read off the same release",
        default="softmax",
    )
    pca: Literal["wishart", "gaussian", "none"] = key(
        "dimensions are reduced by components with Wishart noise, as published, which proves "
        "nothing; with symmetric Gaussian noise; or not at all",
        default="wishart",
    )
    objective: Literal["fresh", "once"] = key(
        "coefficients get new noise in every round, as published, or once for all rounds",
        default="fresh",
    )
    sensitivity: Literal["printed", "proven"] = key(
        "noise is made for the sensitivity that the paper prints, or for the one that is proven",
        default="printed",
    )
    shuffle: Literal["layers", "none"] = key(
        "messages lose their senders layer by layer, as published, which hides no record; or not",
        default="layers",
    )
    selection: Literal["divergence", "uniform", "top-k"] = key(
        "a layer's clients are chosen by the exponential mechanism on their divergence, as "
        "published; at random; or the least divergent",
        default="divergence",
    )
    selected: int | None = key(
        "k, how many clients are chosen of each layer",
        validate.count,
        default=None,
        shown="half of them",
        why="The mean of a layer is of so many clients.",
    )
    ratio: float = key(
        "epsilon of the training over that of the PCA, where only [privacy] epsilon is given",
        validate.positive,
        default=2.0,
        why="It divides the budget between two pieces.",
    )
    pca_epsilon: float | None = key(
        "epsilon of the PCA",
        validate.positive,
        default=None,
        shown="by ratio, from [privacy] epsilon",
    )
    training_epsilon: float | None = key(
        "epsilon of the coefficients in one round",
        validate.positive,
        default=None,
        shown="by ratio, from [privacy] epsilon",
    )
    selection_epsilon: float | None = key(
        'epsilon of the selection, for selection = "divergence"',
        validate.positive,
        default=None,
        shown="m times [privacy] epsilon, for m layers",
    )


PIECE_KEYS: Final = tuple(name for name in DelmSettings.__annotations__ if name != "loss")
"""Keys of the pieces of the published schemes."""

CHOICE_KEYS: Final = ("selection", "selected", "selection_epsilon")
"""Keys of the choice of clients, which only the enhanced scheme makes."""

TABLE: Final = Table(
    name="delm",
    about="what is released of records, how it is bounded, and what is made of it",
    settings=DelmSettings,
)

WITHOUT_REPLACEMENT: Final = "Clients are chosen without replacement."
NOT_MIXED: Final = "A message that is not mixed with another has its sender."
"""Why there must be more clients."""

_PARTS: Final = ("pca_epsilon", "training_epsilon", "selection_epsilon")


def epsilon_alone(given: GivenSettings) -> Complaint | None:
    """Refuse a noise multiplier: noise follows from the parts of epsilon."""
    if not given.states("privacy", "noise_multiplier"):
        return None
    return (
        f"gives `noise_multiplier` in [privacy], and {given.system.name} takes none",
        "Noise follows from the parts of epsilon, of which every piece has one.",
        "Give epsilon alone, and training_epsilon in [delm] for other noise.",
    )


def of_known_layers(given: GivenSettings) -> Complaint | None:
    """Refuse a model of one's own, whose layers nobody here knows."""
    model = given.training.model
    if not is_own(model):
        return None
    return (
        f'has model = "{model}" in [training], and {given.system.name} perturbs layers that it '
        "knows",
        "What is released of a layer, and how it is bounded, follows from what it computes.",
        "Choose a model of privplan's, or another system.",
    )


def of_linear_models(given: GivenSettings) -> Complaint | None:
    """Refuse what only a linear model has: coefficients that do not depend on its weights."""
    model, table = given.training.model, given.of(DelmSettings)
    if model in LINEAR_MODELS:
        return None
    for name, only in (("objective", ONCE), ("sensitivity", PROVEN)):
        if getattr(table, name) == only:
            return (
                f'has {name} = "{only}" in [delm] and model = "{model}" in [training]',
                "The coefficients of such a model's objective depend on its weights: they cannot "
                "be released once, and no sensitivity of them is proven.",
                f'Write model = "softmax", or {name} = '
                f'"{FRESH if name == "objective" else PRINTED}".',
            )
    return None


def images_of_components(given: GivenSettings) -> Complaint | None:
    """Refuse components that are no image, for a model of images."""
    model, table = given.training.model, given.of(DelmSettings)
    if model not in IMAGE_MODELS or table.pca == NO_PCA:
        return None
    sizes = IMAGE_MODELS[model]
    components = given.stated(TABLE.name, "components")
    if components in sizes:
        return None
    kept = "half of the features" if components is None else f"{components:,}"
    return (
        f'has model = "{model}" in [training] and pca = "{table.pca}" in [delm], which '
        f"keeps {kept} as components",
        "The model is for images, and what the PCA keeps takes the place of their pixels.",
        f'Write components = {" or ".join(map(str, sizes))} under [delm], or pca = "{NO_PCA}".',
    )


def parts_of_pieces(given: GivenSettings) -> Complaint | None:
    """Refuse parts of epsilon that are of no piece of the run, or not all of them."""
    table = given.of(DelmSettings)
    unfit = parts_complaint(table, chooses=given.system.name == "delm-enhanced")
    named = _parts_named(table)
    if unfit is not None or not named or not given.states(TABLE.name, "ratio"):
        return unfit
    return (
        f"gives `ratio` with `{named[0]}` in [delm]",
        "It divides epsilon where its parts are not given.",
        "Leave one of them out.",
    )


def parts_complaint(table: DelmSettings, *, chooses: bool) -> Complaint | None:
    """Refuse parts of no piece, or not all of them; `chooses`: whether clients are chosen."""
    named = _parts_named(table)
    has_pca, has_choice = pieces_of(table, chooses=chooses)
    used = dict(zip(_PARTS, (has_pca, True, has_choice), strict=True))
    for name in named:
        if not used[name]:
            return (
                f"gives `{name}` in [delm], and the run has no such piece",
                "It would count in the claim, and do nothing.",
                "Leave it out.",
            )
    for name in _PARTS:
        if named and name not in named and used[name]:
            return (
                f"gives `{named[0]}` in [delm], and not `{name}`",
                "The parts make the claim together.",
                "Give the part of every piece of the run, or none of them.",
            )
    return None


def pieces_of(table: DelmSettings, *, chooses: bool) -> tuple[bool, bool]:
    """Return whether a run has a PCA, and whether it has a private selection.

    `chooses`: whether it is of the enhanced scheme.
    """
    return table.pca != NO_PCA, chooses and table.selection == DIVERGENCE


def _parts_named(table: DelmSettings) -> list[str]:
    return [name for name in _PARTS if getattr(table, name) is not None]


def ratio_of_pieces(given: GivenSettings) -> Complaint | None:
    """Refuse a ratio of which one side is missing, and components without a PCA."""
    if given.of(DelmSettings).pca != NO_PCA:
        return None
    for name in ("ratio", "components"):
        if given.states(TABLE.name, name):
            return (
                f'gives `{name}` in [delm] with pca = "{NO_PCA}"',
                "It is of the PCA, and there is none.",
                "Leave it out.",
            )
    return None


def enough_clients(given: GivenSettings) -> Complaint | None:
    """Refuse more chosen clients than there are, and a shuffler of one."""
    clients, table = given.stated("data", "silos"), given.of(DelmSettings)
    if clients is None:
        return None
    chosen = table.selected
    if chosen is not None and chosen > clients:
        return (
            f"has selected = {chosen:,} in [delm], and silos = {clients:,} in [data]",
            WITHOUT_REPLACEMENT,
            f"Write selected = {clients:,} or fewer.",
        )
    if table.shuffle == LAYERS and clients < 2:
        return (
            f'has shuffle = "{LAYERS}" in [delm], and silos = {clients} in [data]',
            NOT_MIXED,
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


SCHEME_RULES: Final[tuple[Rule, ...]] = (
    of_known_layers,
    of_classes,
    epsilon_alone,
    of_linear_models,
    images_of_components,
    parts_of_pieces,
    ratio_of_pieces,
    enough_clients,
)
"""In the order in which they are asked."""
