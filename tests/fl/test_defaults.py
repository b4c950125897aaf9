"""Defaults: the paper's table, and that every one of them can be trained with."""

from __future__ import annotations

import math

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.declarations.dataset_defaults import DATASETS_WITH_DEFAULTS, dataset_defaults
from privplan.fl.declarations.packages import built_in
from privplan.fl.declarations.registry import declaration_of

from ..cases import for_each


def defaults_for(dataset, system, users=None):
    return declaration_of(system).defaults(dataset, users)


PAPER = ("heart-disease", "tcga-brca", "creditcard", "mnist")


@for_each(
    ("dataset", "rate", "epochs", "batch", "rounds", "users", "model"),
    [
        ("heart-disease", 0.001, 50, 4, 50, 50, "logistic"),
        ("tcga-brca", 0.001, 50, 8, 50, 50, "cox"),
        ("creditcard", 0.01, 30, 64, 100, 100, "mlp"),
        ("mnist", 0.01, 50, 64, 200, 100, "cnn"),
    ],
)
def test_the_papers_values(dataset, rate, epochs, batch, rounds, users, model) -> None:
    found = defaults_for(dataset, "uldp-avg")
    assert (found.local_rate, found.local_epochs, found.batch) == (rate, epochs, batch)
    assert (found.rounds, found.users, found.model) == (rounds, users, model)
    assert found.dropout == (0.5 if model in ("mlp", "cnn") else 0.0)
    assert found.silos == (5 if model in ("mlp", "cnn") else None)


@for_each("dataset", PAPER)
@for_each(
    ("system", "usual", "others"),
    [
        ("uldp-avg", (10.0, 0.1), {}),
        ("uldp-sgd", (10.0, 0.1), {}),
        ("uldp-naive", (1.0, 0.1), {}),
        ("uldp-group", (1.0, 0.1), {"mnist": (1.0, 1.0), "tcga-brca": (0.1, 100.0)}),
        ("fedavg", (1.0, math.inf), {}),
    ],
)
def test_steps_and_clips(dataset, system, usual, others) -> None:
    found = defaults_for(dataset, system)
    assert (found.global_rate, found.clip) == others.get(dataset, usual)


def test_what_differs_by_users_and_by_system() -> None:
    assert defaults_for("mnist", "uldp-avg", 10_000).global_rate == 100.0
    assert defaults_for("mnist", "uldp-avg", 10_000).users == 10_000
    assert defaults_for("mnist", "uldp-avg", 9_999).global_rate == 10.0
    assert defaults_for("mnist", "uldp-sgd", 10_000).global_rate == 10.0
    assert defaults_for("creditcard", "uldp-avg").local_epochs == 30
    assert defaults_for("creditcard", "uldp-group").local_epochs == 50
    assert defaults_for("heart-disease", "uldp-avg", 200).users == 200


@for_each("system", built_in())
@for_each("dataset", DATASETS_WITH_DEFAULTS)
def test_every_default_makes_a_recipe_and_a_model(dataset: str, system: str) -> None:
    pytest.importorskip("torch")
    from privplan.fl.models import model_named
    from privplan.fl.training.units import Recipe

    features, classes = {
        "heart-disease": (13, 2),
        "tcga-brca": (39, 1),
        "creditcard": (30, 2),
        "mnist": (784, 10),
        "digits": (64, 10),
        "breast-cancer": (30, 2),
        "low-rank": (50, 2),
        "digits-32": (1024, 10),
        "synthetic-digits": (64, 10),
        "emnist": (784, 47),
        "cifar-10": (3072, 10),
    }[dataset]
    found = defaults_for(dataset, system)
    Recipe(found.local_rate, found.local_epochs, found.batch)
    model = model_named(found.model, features, classes, dropout=found.dropout)
    counts = {"heart-disease": 14, "tcga-brca": 40, "creditcard": 5012, "mnist": 21840}
    assert model.parameters == counts.get(dataset, model.parameters)
    assert found.global_rate > 0.0
    assert found.clip > 0.0


@for_each(
    ("dataset", "system", "match"),
    [
        ("heart_disease", "uldp-avg", "Did you mean heart-disease"),
        ("Digits", "uldp-avg", "Did you mean digits"),
        ("digits", "uldp-average", "Did you mean uldp-avg"),
        ("digits", "zebra", "must be one of delm-linear"),
        (None, "uldp-avg", "dataset"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(dataset, system, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        defaults_for(dataset, system)


def test_users_are_counted() -> None:
    with pytest.raises(InvalidInput, match="users"):
        defaults_for("digits", "uldp-avg", 0)


def test_names_are_those_of_a_configuration() -> None:
    from privplan.fl.declarations import toml_key

    assert set(DATASETS_WITH_DEFAULTS) == set(toml_key.DATASETS) - {
        toml_key.RATINGS,
        toml_key.TABLE,
    }


def test_ratings_have_nodes_and_rounds_and_no_training() -> None:
    found = dataset_defaults("ratings", 943)
    assert (found.users, found.silos, found.rounds, found.model) == (943, 100, 92, "none")
    assert dataset_defaults("ratings").users == 0  # must be said
