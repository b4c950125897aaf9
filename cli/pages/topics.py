"""The topics of `privplan explain`: each is a text file in this folder, named after its topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SUMMARIES: Final[Mapping[str, str]] = {
    "check": "is the number of somebody's run right",
    "causes": "why a reported number is wrong or in doubt",
    "opacus": "what the state of its accountant says, and what it lacks",
    "dp-sgd": "what a private training step must do",
    "events": "every event, with an example",
    "sampling": "who takes part in a step",
    "neighbours": "which change of the data is hidden",
    "delta": "the slack, and how small it must be",
    "risk": "what the best attack reaches, and noise for that",
    "engines": "the ways from an event to a number",
    "group": "from one record to a person with many",
    "shuffle": "hiding in the crowd",
    "matrix": "rounds that share their noise: DP-FTRL, BandMF, BLT, trees",
    "plan": "one budget, several phases",
    "run": "what a run is told, and what it leaves",
    "attack": "what was demonstrably lost, in tiers",
    "log": "what a log proves, and against whom",
    "statistics": "sums of x x^T and x y^T, released once",
    "uldp-fl": "Uldp-FL: privacy for users across silos",
    "flame": "FLAME: shuffled and sampled coordinates",
    "disco": "DISCO: local privacy with a radius from the data",
    "fedpower": "FedPower: private power iteration",
    "delm": "DELM: noisy objectives, PCA and a shuffler",
}
"""What each topic is about, in the order in which topics are listed."""

_ALIASES: Final[Mapping[str, str]] = {
    "matrix": "balls-in-bins banded bandmf blt bnb buffered-toeplitz correlated correlated-noise "
    "dp-ftrl factorization ftrl matrix-factorization matrix-gaussian matrix-mechanism "
    "participation sensitivity toeplitz tree trees",
    "engines": "curve curves gdp pld privacy-profile profile prv rdp renyi zcdp",
    "events": "best-of gaussian gaussian-mixture laplace mixture partition partition-selection "
    "selection threshold-selection truncated-geometric-selection tuning unit-in-silos",
    "sampling": "allocation amplification client-sampled client-sampling fixed-size poisson "
    "random-allocation shuffled-batches truncated-poisson with-replacement",
    "risk": "advantage attack-risk attacks bayes bayes-risk f-dp fdp fnr fpr mia mu reconstruction "
    "roc tpr trade-off",
    "neighbours": "add-remove neighbors neighboring replace-one zero-out",
    "shuffle": "shuffled shuffler shuffle-model",
    "group": "group-privacy groups user user-level users",
    "attack": "canaries canary membership",
    "uldp-fl": "silo silos",
    "dp-sgd": "dpsgd sgd",
}
"""Other names of what a topic explains, by the topic."""

TOPIC_BY_ALIAS: Final[Mapping[str, str]] = {
    alias: topic for topic, aliases in _ALIASES.items() for alias in aliases.split()
}
"""The topic that explains what goes by another name."""

TOPICS: Final = tuple(SUMMARIES)


def page(topic: str) -> str:
    """Return the page about `topic`, which is one of `TOPICS`, without its last line end."""
    text = _file(topic)
    if topic == "run":
        from .configuration_keys import filled

        # Systems and keys come from their declarations, other packages' included.
        text = filled(text)
    if topic == "causes":
        from . import causes

        text = causes.filled(text)
    return text.rstrip("\n")


def listing() -> str:
    """Return the topics, each with a few words."""
    width = max(map(len, TOPICS))
    lines = [f"  privplan explain {name:<{width}}   {about}" for name, about in SUMMARIES.items()]
    return "\n".join(["Topics:", *lines])


def _file(topic: str) -> str:
    from importlib import resources

    return resources.files(__package__).joinpath(f"{topic}.txt").read_text(encoding="utf-8")
