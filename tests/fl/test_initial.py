"""The first model that an audit computes is the one that training starts from."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from privplan.fl.datasets import NAMES, load
from privplan.fl.datasets.registry import SHAPES, scaling_of
from privplan.fl.frame.initial_model import initial_digest, initial_tensors

from ..cases import for_each

MODELS = [
    *(("logistic", "breast-cancer"), ("logistic", "heart-disease"), ("cox", "tcga-brca")),
    *(("softmax", "digits"), ("mlp", "creditcard"), ("mlp", "digits"), ("cnn", "mnist")),
    *(("mlp-64", "digits"), ("alexnet", "mnist")),
    *(("alexnet", "digits-32"), ("alexnet", "cifar-10")),
]


@for_each(
    ("model", "data", "seed"),
    [(*named, 7 * (number % 2)) for number, named in enumerate(MODELS)],
)
def test_it_is_the_model_that_training_starts_from(model: str, data: str, seed: int) -> None:
    models = pytest.importorskip("privplan.fl.models")
    from privplan.fl.frame.model import model_digest

    first = models.model_named(model, *SHAPES[data]).initial(seed)
    fused = initial_digest(model, data, seed, fused=True)
    assert model_digest(first) in (initial_digest(model, data, seed), fused)


@for_each(("model", "data"), MODELS)
def test_its_arrays_have_the_lengths_of_those_that_are_trained(model: str, data: str) -> None:
    models = pytest.importorskip("privplan.fl.models")
    parts = models.model_named(model, *SHAPES[data]).parts
    assert initial_tensors(model, data) == tuple(math.prod(shape) for shape in parts.values())


def test_one_rounding_moves_digits_and_every_data_set_has_its_shape() -> None:
    apart, fused = (initial_digest("mlp", "digits", 0, fused=one) for one in (False, True))
    assert apart != fused
    assert set(SHAPES) == set(NAMES)
    for name, (features, _) in SHAPES.items():
        assert np.size(scaling_of(name).lower) in (1, features)


@for_each(
    ("model", "data", "seed"),
    [
        *(("logistic", "ratings", 0), ("forest", "digits", 0), (None, "digits", 0)),
        *(("mlp", ["digits"], 0), ("mlp", "digits", "0")),
        *(("mlp", "digits", True), ("mlp", "digits", -1)),
    ],
)
def test_what_is_not_known_has_no_first_model(model: object, data: object, seed: object) -> None:
    assert initial_digest(model, data, seed) is None
    if seed == 0:
        assert initial_tensors(model, data) is None


@for_each("name", ["digits", "breast-cancer"])
def test_the_shape_is_that_of_the_records(name: str) -> None:
    pytest.importorskip("sklearn")
    found = load(name)
    assert SHAPES[name] == (found.features[0].size, found.classes)


def test_it_needs_no_torch() -> None:
    code = "import sys; from privplan.fl.frame.initial_model import initial_digest as first; "
    code += "assert first('mlp', 'digits', 0); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
