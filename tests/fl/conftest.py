"""Small federations, plain training and a log in memory, for the tests of the systems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.accountant.records import RoundIntent, RoundRelease
from privplan.fl.data.federation import Federation
from privplan.fl.datasets import published
from privplan.fl.frame.privacy import PrivacyTarget
from privplan.fl.frame.setup import Setup
from privplan.fl.settings.schema import TrainingSettings
from privplan.fl.training.local_training import UpdateBlock

from .foreign import brought


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take small files for the data sets of papers: nothing is published of them."""
    monkeypatch.setattr(published, "PUBLISHED", {})


def make_federation(*, users=6, silos=3, records=40, features=4, seed=0):
    """Return a binary federation with unequal users; every user and every silo has records."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records + 5, features)).astype(np.float32)
    y = (x @ rng.normal(size=features) > 0).astype(np.int64)
    user = np.concatenate([np.arange(users), rng.choice(users, records - users)])
    silo = np.concatenate([np.arange(silos), rng.choice(silos, records - silos)])
    return Federation(
        name="tiny",
        task="binary",
        classes=2,
        users=users,
        silos=silos,
        features=x[:records],
        labels=y[:records],
        user=user,
        silo=silo,
        test_features=x[records:],
        test_labels=y[records:],
    )


class Plain:
    """Full-batch gradient descent on the logistic loss, one user after the other, in numpy."""

    def __init__(self, federation, training):
        self.federation, self.training = federation, training

    def initial(self):
        return np.linspace(-0.2, 0.3, self.federation.features.shape[1])

    def gradient(self, parameters, chosen):
        """Return the mean gradient over some records (zeros for none)."""
        if not len(chosen):
            return np.zeros_like(parameters)
        x = self.federation.features[chosen].astype(float)
        slope = 1.0 / (1.0 + np.exp(-x @ parameters)) - self.federation.labels[chosen]
        return (slope[:, None] * x).mean(axis=0)

    def delta(self, parameters, chosen):
        """Return how some epochs on some records move the model."""
        model = parameters.copy()
        for _ in range(self.training.local_epochs):
            model -= self.training.local_rate * self.gradient(model, chosen)
        return model - parameters

    def _own(self, user, silo):
        return np.flatnonzero((self.federation.user == user) & (self.federation.silo == silo))

    def _parts(self, made, parameters, users):
        for silo, those in enumerate(users):
            for user in those:
                own = self._own(user, silo)
                if len(own):
                    yield UpdateBlock(
                        np.array([user]), np.array([silo]), made(parameters, own)[None, :]
                    )

    def user_deltas(self, parameters, users, _):
        return self._parts(self.delta, parameters, users)

    def user_gradients(self, parameters, users, _):
        return self._parts(self.gradient, parameters, users)

    def silo_deltas(self, parameters, _):
        silo = self.federation.silo
        silos = range(self.federation.silos)
        return np.array([self.delta(parameters, np.flatnonzero(silo == one)) for one in silos])

    def record_gradients(self, models, chosen, _):
        silos = self.federation.silo[chosen]
        pairs = zip(silos, chosen, strict=True)
        rows = [self.gradient(models[silo], np.array([record])) for silo, record in pairs]
        return np.array(rows).reshape(len(rows), models.shape[1])


class Linear(Plain):
    """The loss -z.x of a record with features z: a gradient that does not depend on the model."""

    def gradient(self, parameters, chosen):
        if not len(chosen):
            return np.zeros_like(parameters)
        return -self.federation.features[chosen].astype(float).mean(axis=0)


class Log:
    """A recorder that keeps records in memory."""

    def __init__(self):
        self.records, self.sealed = [], []

    def append(self, record):
        self.records.append(record)
        return len(self.records) - 1

    def seal(self, items):
        self.sealed.append(dict(items))
        return dict.fromkeys(items, "0" * 64)

    def settle(self):
        """It keeps nothing back."""

    @property
    def intents(self):
        return [one for one in self.records if isinstance(one, RoundIntent)]

    @property
    def releases(self):
        return [one for one in self.records if isinstance(one, RoundRelease)]


TRAINING = TrainingSettings(
    clip=0.25, local_rate=0.5, global_rate=3.0, local_epochs=2, batch=4, model="logistic"
)


def make_setup(name, federation, *, local=Plain, rounds=4, training=None, **privacy):
    """Return the setup of a system; `privacy` as for `PrivacyTarget`, noise 5 by default."""
    if "epsilon" not in privacy:
        privacy = {"noise_multiplier": 5.0, **privacy}
    own = replace(TRAINING, **(training or {}))
    return Setup(name, PrivacyTarget(**privacy), rounds, own, federation, local(federation, own))


def carry_out(system, *, seed=1, rounds=None):
    """Run a system; return its models, the first one included, and its log."""
    log, streams = Log(), Streams.seeded(seed)
    opening = system.opening()
    promising = not opening.as_published and opening.claim.epsilon is not None
    gate = Gate(Odometer.for_plan(system.plan()) if promising else None, log, streams)
    models = [system.initial()]
    for number in range(1, (rounds or opening.plan.rounds) + 1):
        models.append(system.round(number, models[-1], gate).parameters)
    return models, log


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Return what makes the run of some settings once, (folder, result); nobody writes there."""
    from .small_runs import started

    kept = {}

    def made(own):
        if repr(own) not in kept:
            folder = tmp_path_factory.mktemp("whole") / "run"
            kept[repr(own)] = folder, started(own, folder)
        return kept[repr(own)]

    return made


@pytest.fixture
def tiny():
    """Return the maker of small federations: `tiny(users=..., silos=..., seed=...)`."""
    return make_federation


@pytest.fixture
def made_of():
    """Return the maker of setups; see `make_setup`."""
    return make_setup


@pytest.fixture
def conducting():
    """Return the module that makes runs of systems of another package, with these declared."""
    with brought() as module:
        yield module


@pytest.fixture
def run():
    """Return what runs a system in memory; see `carry_out`."""
    return carry_out


@pytest.fixture
def log():
    """Return the kind of log that is kept in memory."""
    return Log


@pytest.fixture
def training():
    """Return the kinds of training that are plain numpy, by name."""
    return {"plain": Plain, "linear": Linear}


@pytest.fixture
def totals(monkeypatch):
    """Return a list that collects the integer sums of every draw, before their noise."""
    from privplan.accountant.mechanisms import Gaussian
    from privplan.accountant.mechanisms.noisy_sums import NoisySums

    seen, share, one_noisy = [], Gaussian.share_steps, NoisySums.noisy
    under = []

    def watched(self, ticket, total, *rest, **named):
        if not under or under[-1] is not ticket:
            under.append(ticket)
            seen.append([])
        seen[-1].append(total.copy())
        return share(self, ticket, total, *rest, **named)

    def step_watched(self, sums):
        seen.append(sums.copy())
        return one_noisy(self, sums)

    monkeypatch.setattr(Gaussian, "share_steps", watched)
    monkeypatch.setattr(NoisySums, "noisy", step_watched)
    return seen


@pytest.fixture
def opened(monkeypatch):
    """Return how many ciphertexts of private weighting were decrypted, call by call."""
    from privplan.fl.crypto.paillier.keys import PrivateKey

    seen = []
    decrypt_many = PrivateKey.decrypt_many

    def recording(self, ciphertexts, *rest):
        seen.append(len(ciphertexts))
        return decrypt_many(self, ciphertexts, *rest)

    monkeypatch.setattr(PrivateKey, "decrypt_many", recording)
    return seen
