"""Shadow models: many at once against one by one, and replicas against the run itself."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.audit.shadows import JoblibExecutor, SerialExecutor, replicas, train_batched
from privplan.audit.shadows.batched import BatchedRecipe
from privplan.audit.shadows.replicas import DiscardingRecorder, without_cryptography
from privplan.fl.frame.system import build
from privplan.fl.models import model_named
from privplan.fl.running.preparation import prepare
from privplan.fl.running.session import execute
from privplan.fl.settings.toml_file import parse
from privplan.fl.training.local_training import TorchLocalTraining

from ..cases import for_each


def configured(system="uldp-avg", *, data="", privacy="noise_multiplier = 2.0", more=""):
    """Return settings of a small run on digits or breast cancer, with a seed."""
    name = "" if "name" in data else 'name = "breast-cancer"\n'
    text = (
        f'[run]\nsystem = "{system}"\nrounds = 3\nseed = 5\n'
        f"[data]\n{name}users = 20\nsilos = 3\n{data}\n[privacy]\n{privacy}\n{more}\n"
    )
    return parse(text.encode(), "test.toml")


def pool(model, *, records=30, seed=0):
    """Return records for a model."""
    rng = np.random.default_rng(seed)
    classes = max(model.outputs, 2)
    return rng.normal(size=(records, model.features)), rng.integers(0, classes, records)


MODELS = [("logistic", 2), ("softmax", 3), ("mlp", 3)]


@for_each(("name", "classes"), MODELS)
def test_models_in_a_batch_are_those_that_train_alone(name, classes):
    import torch

    model, rng = model_named(name, 6, classes), np.random.default_rng(1)
    x, y = pool(model)
    inside = rng.random((3, len(x))) < 0.5
    recipe = BatchedRecipe(rate=0.1, epochs=3, batch=7, momentum=0.5, seed=2, precision="float64")
    found = train_batched(model, x, y, inside, recipe)
    order = np.random.default_rng(2)
    epochs = [order.permutation(len(x)) for _ in range(recipe.epochs)]
    for own, mask in zip(found, inside, strict=True):
        parameters, speed = model.initial(2), np.zeros(model.parameters)
        for epoch in epochs:
            for first in range(0, len(x), recipe.batch):
                batch = epoch[first : first + recipe.batch]
                chosen = batch[mask[batch]]
                slope = np.zeros(model.parameters)
                if len(chosen):  # by the project's derivatives, which are written by hand
                    weights = model.spread(torch.from_numpy(parameters), 1)
                    into = [torch.zeros(one.shape, dtype=one.dtype) for one in weights]
                    model.add_gradient(
                        weights,
                        torch.from_numpy(x[chosen])[None],
                        torch.from_numpy(y[chosen])[None],
                        torch.full((1, len(chosen)), 1 / len(chosen), dtype=torch.float64),
                        None,
                        into=into,
                        scale=1.0,
                    )
                    slope = model.flat(into)[0].numpy()
                speed = recipe.momentum * speed + slope
                parameters = parameters - recipe.rate * speed
        assert own == pytest.approx(parameters, abs=1e-10)


@for_each(("name", "classes"), MODELS)
def test_what_is_not_a_model_s_own_moves_it_by_nothing(name, classes):
    model = model_named(name, 6, classes)
    x, y = pool(model)
    inside = np.arange(len(x)) % 2 == np.arange(2)[:, None]
    other, labels = x.copy(), y.copy()
    other[1::2] += 9.0
    labels[1::2] = 0
    recipe = BatchedRecipe(epochs=4, batch=8)
    one, two = (train_batched(model, *given, inside, recipe) for given in ((x, y), (other, labels)))
    assert np.array_equal(one[0], two[0])
    assert not np.array_equal(one[1], two[1])


def test_models_that_do_not_fit_a_batch_are_refused():
    cox = model_named("cox", 6, 1)
    with pytest.raises(Unsupported, match="cox"):
        train_batched(cox, np.zeros((3, 6)), np.ones((3, 2)), np.ones((1, 3), bool))
    dropping = model_named("mlp", 6, 2, dropout=0.5)
    with pytest.raises(Unsupported, match="dropout"):
        train_batched(dropping, *pool(dropping), np.ones((1, 30), bool))
    model = model_named("softmax", 6, 3)
    x, y = pool(model)
    for inside in (np.ones((1, 29), bool), np.ones(30, bool), np.ones((1, 30))):
        with pytest.raises(InvalidInput, match="inside"):
            train_batched(model, x, y, inside)
    with pytest.raises(InvalidInput, match="Model 1 has no record"):
        train_batched(model, x, y, np.array([[True] * 30, [False] * 30]))


@for_each(
    "wrong",
    [
        {"rate": 0.0},
        {"epochs": 0},
        {"batch": 0},
        {"momentum": 1.0},
        {"seed": -1},
        {"precision": "half"},
    ],
)
def test_recipes_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        BatchedRecipe(**wrong)


RUNS = {
    "avg": configured(),
    "avg, epsilon": configured(privacy="epsilon = 8.0"),
    "sgd, sampled": configured("uldp-sgd", privacy="noise_multiplier = 2.0\nsampling_rate = 0.5"),
    "naive": configured("uldp-naive"),
    "group": configured("uldp-group", more="[uldp]\ngroup_records = 4"),
    "fedavg": configured("fedavg", privacy=""),
    "private moments": configured(
        data='normalisation = "private"',
        privacy="noise_multiplier = 2.0\nnormalisation_noise = 5.0",
    ),
}


@for_each("settings", RUNS.values(), ids=RUNS.keys())
def test_a_replica_with_everybody_is_the_run_itself(settings, tmp_path):
    own = prepare(settings)
    result = execute(own, tmp_path, DiscardingRecorder())
    federation = prepare(settings).federation
    everybody = np.ones((1, federation.records), bool)
    (made,) = replicas(settings, federation, everybody, seed=settings.run.seed)
    assert np.array_equal(made.parameters, result.parameters)
    assert (made.moments is not None) == (settings.privacy.normalisation_noise is not None)


def test_a_replica_without_a_user_is_the_run_on_the_neighbour():
    settings = configured()
    own = prepare(settings)
    inside = (own.federation.user != 7)[None]
    (made,) = replicas(settings, own.federation, inside, seed=5)
    neighbour = own.federation.without(7)
    streams = Streams.seeded(5)
    system = build(settings, neighbour, TorchLocalTraining(settings, neighbour, own.model), streams)
    gate = Gate(Odometer.for_plan(system.plan()), DiscardingRecorder(), streams)
    parameters = system.initial()
    for number in range(1, own.rounds + 1):
        parameters = system.round(number, parameters, gate).parameters
    assert np.array_equal(made.parameters, parameters)


def test_replicas_have_noise_of_their_own_and_executors_change_nothing():
    settings = configured()
    federation = prepare(settings).federation
    inside = np.ones((3, federation.records), bool)
    one, two = (
        replicas(settings, federation, inside, seed=5, executor=executor)
        for executor in (SerialExecutor(), JoblibExecutor(2))
    )
    assert all(np.array_equal(a.parameters, b.parameters) for a, b in zip(one, two, strict=True))
    assert len({made.parameters.tobytes() for made in one}) == 3
    again = replicas(settings, federation, inside[:1])  # from the operating system
    assert not np.array_equal(again[0].parameters, one[0].parameters)


def test_a_masked_run_is_repeated_in_the_clear_and_a_private_weighting_is_refused():
    masked = configured(more='[security]\naggregation = "masked"')
    assert without_cryptography(masked).security.aggregation == "plain"
    missing = configured(more='[security]\naggregation = "masked"\ndropouts = 1')
    assert without_cryptography(missing).security == missing.security
    hidden = configured(more='[security]\naggregation = "private-weighting"')
    with pytest.raises(Unsupported, match="private weighting"):
        without_cryptography(hidden)


def test_a_subset_keeps_the_public_constants():
    federation = prepare(configured()).federation
    kept = federation.silo == 0
    own = federation.only(kept)
    assert (own.users, own.silos) == (federation.users, federation.silos)
    assert own.records == kept.sum()
    assert np.array_equal(own.test_features, federation.test_features)
    assert np.array_equal(own.features, federation.features[kept])


def test_masks_that_do_not_fit_are_refused():
    settings = configured()
    federation = prepare(settings).federation
    for inside in (np.ones((1, 3), bool), np.ones(federation.records, bool)):
        with pytest.raises(InvalidInput, match="inside"):
            replicas(settings, federation, inside)
    with pytest.raises(InvalidInput, match="seed"):
        replicas(settings, federation, np.ones((1, federation.records), bool), seed=-1)
