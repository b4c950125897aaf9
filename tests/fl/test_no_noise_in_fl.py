"""No system draws protective noise by itself: other sources of randomness in fl/ are listed here.

Noise and samples that protect people come through the gate, from `accountant.randomness`.  What
is not protective (a public split, initial weights, a name) may use other generators, in the files
below and for the reason given there; every other use in fl/ fails.  A generator that is written by
hand (`models/draws.py` has one, for the order of batches) is no name that could be found.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SOURCES = (
    "random",
    "random.*",
    "secrets",
    "secrets.*",
    "uuid",
    "uuid.*",
    "os.urandom",
    "os.getrandom",
    "numpy.random",
    "numpy.random.*",
    "sklearn.utils.check_random_state",
    "torch.rand*",
    "torch.normal",
    "torch.bernoulli",
    "torch.multinomial",
    "torch.poisson",
    "torch.binomial",
    "torch.seed",
    "torch.manual_seed",
    "torch.random",
    "torch.random.*",
    "torch.Generator",
    "torch.distributions",
    "torch.distributions.*",
    "torch.nn.init",
    "torch.nn.init.*",
    "torch.nn.*Dropout*",
    "torch.nn.functional.*dropout*",
    "torch.nn.functional.gumbel_softmax",
    "torch.utils.data.*Sampler",
    "torch.utils.data.random_split",
    "sklearn.utils.resample",
    "sklearn.utils.shuffle",
    "sklearn.model_selection.*Split",
    "sklearn.model_selection.*split",
    "torch.cuda.manual_seed*",
    "*.mechanisms.samplers*",
    "*.mechanisms.tables*",
    "*.mechanisms.exponentials*",
    "*.Streams.secure",
    "*.Streams.seeded",
)
"""Names that make randomness, as they are imported or reached; matched like file names."""

IN_PLACE = {
    "normal_",
    "uniform_",
    "bernoulli_",
    "random_",
    "exponential_",
    "geometric_",
    "cauchy_",
    "log_normal_",
    "rvs",
}
"""Methods that draw at random (torch's in-place ones, scipy's), whatever they are called on."""

DRAWING = {
    "binomial",
    "gumbel",
    "gumbel_softmax",
    "integers",
    "laplace",
    "logistic",
    "multinomial",
    "multivariate_normal",
    "normal",
    "permutation",
    "permuted",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "random_split",
    "randperm",
    "resample",
    "rrelu",
    "shuffle",
    "standard_cauchy",
    "standard_exponential",
    "standard_gamma",
    "standard_normal",
    "standard_t",
    "train_test_split",
}
"""Functions that draw at random when they are called on whatever: a generator or a module that came
as an argument has no name that could be resolved."""

ALLOWED: dict[str, tuple[set[str], str]] = {
    "allocation.py": (
        {"numpy.random*", "call.*"},
        "a public seed deals records out to users and silos",
    ),
    "canaries/asked.py": (
        {"numpy.random*", "*.Streams.secure", "*.Streams.seeded"},
        "an attacker's coins, and the streams of a rehearsal, in which there are no people",
    ),
    "canaries/coins.py": ({"numpy.random*", "call.*"}, "an attacker's coins, signs and columns"),
    "canaries/settled.py": ({"*.Streams.secure"}, "a system that is planned, and makes no round"),
    "crypto/paillier/keys.py": (
        {"secrets", "secrets.randbelow"},
        "randomness of ciphertexts, from the operating system",
    ),
    "crypto/paillier/residues.py": (
        {"os.urandom"},
        "randomness of ciphertexts, from the operating system",
    ),
    "crypto/keys.py": ({"os.urandom"}, "keys, seeds and nonces, from the operating system"),
    "datasets/*.py": (
        {"numpy.random*", "call.*"},
        "a public seed splits records for training and testing",
    ),
    "initial.py": (
        {"numpy.random*", "call.*"},
        "the first model again, from a public seed, for audits without torch",
    ),
    "log/sealed.py": ({"os.urandom"}, "what makes commitments hide, from the operating system"),
    "models/*.py": ({"numpy.random*"}, "initial weights, from a public seed"),
    "preparation.py": (
        {"numpy.random*", "*.Streams.secure", "*.Streams.seeded"},
        "the one place where a run gets its streams; and the public seed of [data]",
    ),
    "residuals.py": (
        {"os.urandom"},
        "a key for hashes of noise, which stays in memory, and a name for it",
    ),
    "runner.py": ({"secrets", "secrets.token_hex"}, "the name of a run"),
    "uldp/weighting/published_parties.py": (
        {"random", "random.*", "secrets", "secrets.*"},
        "weak seeds, as they were published: no guarantee",
    ),
}
"""By file: which sources, and why they protect nobody."""


def names_used(text: str) -> set[str]:
    """Return every dotted name that a source imports or reaches, with aliases resolved."""
    tree = ast.parse(text)
    known: dict[str, str] = {}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                found.add(one.name)
                top = one.name.split(".")[0]
                known[one.asname or top] = one.name if one.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = ("." if node.level else "") + (node.module or "")
            for one in node.names:
                found.add(f"{module}.{one.name}")
                known[one.asname or one.name] = f"{module}.{one.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr in IN_PLACE:
                found.add(f"method.{node.attr}")
            dotted = _dotted(node, known)
            if dotted:
                found.add(dotted)
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in DRAWING:
                found.add(f"call.{called.attr}")
            first = node.args[0] if node.args and _is_loader(node, known) else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.add(first.value)
    return found


def _dotted(node: ast.expr, known: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, known)
        return f"{base}.{node.attr}" if base else ""
    return ""


def _is_loader(node: ast.Call, known: dict[str, str]) -> bool:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return name == "__import__" or _dotted(node.func, known) == "importlib.import_module"


def sources_in(text: str) -> set[str]:
    """Return the names in a source that make randomness."""
    return {
        name
        for name in names_used(text)
        if name.startswith(("method.", "call."))
        or any(fnmatch.fnmatch(name, one) for one in SOURCES)
    }


def files() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "fl").rglob("*.py")):
        yield path.relative_to(ROOT / "fl").as_posix(), path.read_text("utf-8")


def allowed(file: str, name: str) -> bool:
    return any(
        fnmatch.fnmatch(file, pattern) and any(fnmatch.fnmatch(name, one) for one in names)
        for pattern, (names, _) in ALLOWED.items()
    )


def test_only_listed_files_make_randomness() -> None:
    seen = 0
    for file, text in files():
        seen += 1
        extra = sorted(name for name in sources_in(text) if not allowed(file, name))
        assert extra == [], f"fl/{file}: draw through the gate, or list it with a reason"
    assert seen > 5


def test_every_listed_use_is_there() -> None:
    """A permission that nothing needs any more is withdrawn."""
    used = {(file, name) for file, text in files() for name in sources_in(text)}
    for pattern, (names, _) in ALLOWED.items():
        for own in names:
            assert any(fnmatch.fnmatch(f, pattern) and fnmatch.fnmatch(n, own) for f, n in used), (
                f"{pattern}: {own}"
            )


@pytest.mark.parametrize(
    "text",
    [
        "import random",
        "import secrets",
        "from random import gauss",
        "import os\nnoise = os.urandom(8)",
        "from os import urandom as fill",
        "import numpy as np\nnoise = np.random.normal(0, 1, 5)",
        "import numpy\nrng = numpy.random.default_rng()",
        "from numpy import random",
        "from numpy.random import default_rng",
        "import numpy.random as r",
        "import torch\nnoise = torch.randn(5)",
        "import torch\nnoise = torch.normal(0.0, 1.0, (5,))",
        "import torch as t\nnoise = t.randint(5, (2,))",
        "from torch import randn_like",
        "import torch\nweights = torch.empty(5).normal_()",
        "def add(x):\n    return x.clone().uniform_(-1, 1)",
        "from torch.distributions import Laplace",
        "import torch\nlayer = torch.nn.Dropout(0.5)",
        "from torch.nn import functional as F\ny = F.dropout(x, 0.5)",
        "from scipy import stats\nnoise = stats.norm.rvs(size=5)",
        "def late():\n    from numpy.random import Generator",
        "import importlib\nmodule = importlib.import_module('random')",
        "module = __import__('secrets')",
        "from ...accountant.mechanisms.samplers import discrete_gaussian",
        "from ..accountant.mechanisms import samplers",
        "from ..accountant.randomness import Streams\nown = Streams.seeded(1)",
        "def add(rng, x):\n    return x + rng.normal(0.0, 1.0, len(x))",
        "def add(self, x):\n    return x + self.rng.standard_normal(x.shape)",
        "def add(torch, x):\n    return x + torch.randn_like(x)",
        "def sample(rng, users, rate):\n    return rng.random(users) < rate",
        "from torch.utils.data import WeightedRandomSampler",
        "from torch.nn import functional as F\ny = F.gumbel_softmax(x)",
        "from sklearn.model_selection import train_test_split",
        "from sklearn.utils import resample",
    ],
)
def test_the_rule_sees_each_way_around_it(text: str) -> None:
    assert sources_in(text)
    assert not all(allowed("uldp/weighted.py", name) for name in sources_in(text))


@pytest.mark.parametrize(
    "text",
    [
        "from ...accountant.randomness import Streams, poisson\nmask = poisson(stream, 5, 0.5)",
        "from ...accountant.mechanisms import About, Gaussian",
        "import torch\nx = torch.zeros(3)\ny = torch.nn.functional.relu(x)",
        "import numpy as np\nx = np.zeros(3)\nx.randomness = 1",
        "from scipy.stats import rankdata\ny = rankdata(x)",
        '"""Words: random, secrets, os.urandom, torch.randn."""',
    ],
)
def test_the_rule_lets_the_rest_be(text: str) -> None:
    assert sources_in(text) == set()
