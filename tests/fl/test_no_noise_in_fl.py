"""No system draws protective noise by itself: other sources of randomness in fl/ are listed here.

Noise and samples that protect people come through the gate, from `accountant.randomness`.  What
is not protective (a public split, initial weights, a name) may use other generators, in the files
below and for the reason given there; every other use in fl/ fails.  A generator that is written by
hand (`models/training_draws.py` has one, for the order of batches) is no name that could be found.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterator
from pathlib import Path

from ..cases import for_each

ROOT = Path(__file__).parents[2]


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SOURCES = words(
    """
    random random.* secrets secrets.* uuid uuid.* os.urandom os.getrandom numpy.random
    numpy.random.* sklearn.utils.check_random_state torch.rand* torch.normal torch.bernoulli
    torch.multinomial torch.poisson torch.binomial torch.seed torch.manual_seed torch.random
    torch.random.* torch.Generator torch.distributions torch.distributions.* torch.nn.init
    torch.nn.init.* torch.nn.*Dropout* torch.nn.functional.*dropout*
    torch.nn.functional.gumbel_softmax torch.utils.data.*Sampler torch.utils.data.random_split
    sklearn.utils.resample sklearn.utils.shuffle sklearn.model_selection.*Split
    sklearn.model_selection.*split torch.cuda.manual_seed* *.mechanisms.discrete_sampler*
    *.mechanisms.exponentials* *.Streams.secure *.Streams.seeded *.keys.fresh
    *PrivateKey.generate
    """
)
"""Names that make randomness, as they are imported or reached; matched like file names."""

IN_PLACE = words(
    """
    bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ rvs uniform_
    """
)
"""Methods that draw at random (torch's in-place ones, scipy's), whatever they are called on."""

DRAWING = words(
    """
    binomial gumbel gumbel_softmax integers laplace logistic multinomial multivariate_normal
    normal permutation permuted rand rand_like randint randint_like randn randn_like random
    random_split randperm resample rrelu shuffle standard_cauchy standard_exponential
    standard_gamma standard_normal standard_t train_test_split
    """
)
"""Functions that draw at random when they are called on whatever: a generator or a module that came
as an argument has no name that could be resolved."""

LISTED = """
the first iterate, which is public
    fedpower/iterate.py call.integers call.permutation numpy.random numpy.random.default_rng
an attacker's directions, which are public
    fedpower/canaries.py call.integers call.normal call.permutation numpy.random
        numpy.random.Generator
an attacker's signs and favoured coordinates
    flame/canary_layout.py call.random numpy.random numpy.random.Generator
an attacker's rows and directions, which are public
    delm/pca_canaries.py call.normal
models of one's own: their public first weights, random public records at the door, the states of
generators that are put back, and layers that drop out by the run's seeds
    models/unseeded_randomness.py
        numpy.random numpy.random.get_state numpy.random.set_state random random.getstate
        random.setstate torch.Generator torch.random torch.random.fork_rng
    models/drawn_dropout.py
        torch.nn.Dropout torch.nn.Dropout1d torch.nn.Dropout2d torch.nn.Dropout3d
    models/gradient_checks.py call.randn torch.Generator torch.randn
    models/module_body.py torch.manual_seed torch.random torch.random.fork_rng
    models/module_checks.py call.rand call.randn torch.Generator torch.rand torch.randn
    models/module_gradients.py
        call.randn torch.Generator torch.randn torch.random torch.random.fork_rng
    models/own_model_building.py
        numpy.random numpy.random.seed random random.seed torch.manual_seed torch.random
        torch.random.fork_rng
a public seed deals records out to users and silos
    data/allocation.py
        call.integers call.multinomial call.permutation call.permuted call.random
        numpy.random.Generator
a public seed draws the labels that an experiment makes bad
    data/bad_labels.py call.integers call.permutation numpy.random.Generator
an attacker's coins, signs and labels
    statistics/canaries.py call.integers call.permutation call.random
an attacker's coins, and the streams of a rehearsal, in which there are no people
    canaries/request.py
        .accountant.randomness.Streams.secure .accountant.randomness.Streams.seeded numpy.random
        numpy.random.Generator numpy.random.default_rng
an attacker's coins, signs and columns
    canaries/federation.py call.permutation call.random numpy.random numpy.random.Generator
a system that is planned, and makes no round
    canaries/rehearsal_settings.py .accountant.randomness.Streams.secure
seeds of shares, from the operating system
    crypto/additive.py .keys.fresh
keys, seeds and nonces, from the operating system
    crypto/keys.py os.urandom
secrets of a transfer, from the operating system
    crypto/oblivious.py .keys.fresh
randomness of ciphertexts, from the operating system
    crypto/paillier/keys.py secrets secrets.randbelow
    crypto/paillier/residues.py os.urandom
coefficients that hide a shared secret, from the operating system
    crypto/shamir.py .keys.fresh
names of sessions, from the operating system
    disco/float_shares.py .crypto.keys.fresh
a public seed splits records for training and testing
    datasets/breast_cancer.py numpy.random.Generator
    datasets/bundled.py call.permutation numpy.random.Generator
    datasets/cifar_10.py numpy.random.Generator
    datasets/creditcard.py call.permutation numpy.random.Generator
    datasets/digits.py numpy.random.Generator
    datasets/digits_32.py numpy.random.Generator
    datasets/emnist.py numpy.random.Generator
    datasets/federate.py numpy.random.Generator
    datasets/heart_disease.py numpy.random.Generator
    datasets/mnist.py numpy.random.Generator
    datasets/registry.py numpy.random numpy.random.Generator numpy.random.default_rng
    datasets/tcga_brca.py numpy.random.Generator
a public seed generates records
    datasets/synthetic_digits.py
        call.integers call.multivariate_normal numpy.random numpy.random.Generator
        numpy.random.default_rng
rows that are generated from a public seed, and are nobody's
    datasets/low_rank.py call.normal numpy.random numpy.random.Generator numpy.random.default_rng
a public seed deals rows out to nodes
    datasets/ratings.py call.permutation numpy.random.Generator
the public seed of [data]
    fedpower/data.py numpy.random numpy.random.default_rng
    running/run_data.py numpy.random numpy.random.default_rng
the name of a session
    fedpower/noise_removal/driver.py .crypto.keys.fresh
    aggregation/masked_sums.py .crypto.keys.fresh
    aggregation/share_sums.py .crypto.keys.fresh
    shuffling/rounds.py .crypto.keys.fresh
    uldp/weighting/published.py .crypto.keys.fresh
whose noise stays, from the operating system
    fedpower/noise_removal/server.py secrets secrets.randbelow
the first model again, from a public seed, for audits without torch
    frame/initial_model.py call.random numpy.random numpy.random.default_rng
what makes commitments hide, from the operating system
    log/sidecar.py os.urandom
initial weights, from a public seed
    models/images.py numpy.random.Generator
    models/layers.py numpy.random.Generator
    models/model.py numpy.random numpy.random.default_rng
the one place where a run gets its streams
    running/preparation.py
        .accountant.randomness.Streams.secure .accountant.randomness.Streams.seeded
a key for hashes of noise, which stays in memory, and a name for it
    aggregation/residuals.py os.urandom
the name of a file that is being written
    files/atomic.py secrets secrets.token_hex
    ledger_client/remembered_keys.py secrets secrets.token_hex
the name of a run
    running/session.py secrets secrets.token_hex
    network/hub.py secrets secrets.token_hex
keys of claims on a ledger, so that a retry is the same claim
    ledger_client/ledger.py secrets secrets.token_hex
    running/run_claim.py secrets secrets.token_hex
the part of a silo in the name of a session, and the key of a party
    network/guard.py .crypto.keys.fresh
    network/journal.py .crypto.keys.fresh
a secret between a supernode and its guard, in a demonstration
    network/demo.py secrets secrets.token_bytes
seeds of masks, from the operating system
    secagg/client.py .crypto.keys.fresh
values that were released are split by noise on top of theirs, which protects nobody
    statistics/noise_split.py
        call.normal numpy.random numpy.random.Generator numpy.random.default_rng
the one place where a release without a run gets its streams
    statistics/private_statistics.py
        .accountant.randomness.Streams.secure .accountant.randomness.Streams.seeded
a secret of all silos, from the operating system
    uldp/weighting/enrolment.py .crypto.keys.fresh
a secret of all silos and a session's name, from the operating system unless a run gives a stream
    uldp/weighting/protocol.py .crypto.keys.fresh
ids that are UUIDs in a frame, which are written as texts
    tables/frames.py uuid.UUID uuid.UUID.__str__
weak seeds, and keys, as they were published: no guarantee
    uldp/weighting/published_parties.py
        cryptography.hazmat.primitives.asymmetric.x25519.X25519PrivateKey.generate random
        random.Random secrets secrets.randbits
"""
"""Why a use protects nobody, or hides without being noise; below it by file exactly which it is."""


def allowed() -> dict[str, set[str]]:
    """Return by file which names it may use: on its own line, or on those further in."""
    found: dict[str, set[str]] = {}
    own: set[str] = set()
    for line in LISTED.strip().splitlines():
        names = line.split()
        if line.startswith("    ") and line[4] != " ":
            own = found.setdefault(names.pop(0), set())
        if line.startswith("    "):
            own.update(names)
    return found


ALLOWED = allowed()


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


def test_what_makes_randomness_is_exactly_what_is_listed() -> None:
    """A permission that nothing needs any more is withdrawn."""
    used = {file: found for file, text in files() if (found := sources_in(text))}
    for file, found in used.items():
        extra = sorted(found - ALLOWED.get(file, set()))
        assert extra == [], f"fl/{file}: draw through the gate, or list it with a reason"
    for file, names in ALLOWED.items():
        assert names == used.get(file, set()), f"fl/{file} does not use all that is listed"


@for_each(
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
        "from ...accountant.mechanisms.discrete_sampler import discrete_gaussian",
        "from ..accountant.mechanisms import discrete_sampler",
        "from ..accountant.randomness import Streams\nown = Streams.seeded(1)",
        "def add(rng, x):\n    return x + rng.normal(0.0, 1.0, len(x))",
        "def add(self, x):\n    return x + self.rng.standard_normal(x.shape)",
        "def add(torch, x):\n    return x + torch.randn_like(x)",
        "def sample(rng, users, rate):\n    return rng.random(users) < rate",
        "from torch.utils.data import WeightedRandomSampler",
        "from torch.nn import functional as F\ny = F.gumbel_softmax(x)",
        "from sklearn.model_selection import train_test_split",
        "from sklearn.utils import resample",
        "from ..crypto.keys import fresh\nnoise = fresh(8)",
    ],
)
def test_the_rule_sees_each_way_around_it(text: str) -> None:
    assert sources_in(text)
    assert "uldp/weighted.py" not in ALLOWED  # so it fails there


@for_each(
    "text",
    [
        "from ...accountant.randomness import Streams, poisson\nmask = poisson(stream, 5, 0.5)",
        "from ...accountant.mechanisms import RoundDescription, Gaussian",
        "import torch\nx = torch.zeros(3)\ny = torch.nn.functional.relu(x)",
        "import numpy as np\nx = np.zeros(3)\nx.randomness = 1",
        "from scipy.stats import rankdata\ny = rankdata(x)",
        '"""Words: random, secrets, os.urandom, torch.randn."""',
    ],
)
def test_the_rule_lets_the_rest_be(text: str) -> None:
    assert sources_in(text) == set()
