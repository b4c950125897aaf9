"""Everything that can go wrong before a run begins: data, model, noise, plan.  Writes nothing."""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np

from ..accountant.plan import Plan
from ..accountant.randomness import Streams
from ..accountant.records import Randomness
from ..accountant.slack import require_small
from .datasets import federate, load
from .evaluation import Declaration, declaration_of
from .federation import Federation
from .local import TorchLocal
from .promise import PHASE
from .settings import Settings
from .system import Opening, Parameters, System, build

if TYPE_CHECKING:
    from .models import Model

PACKAGES: Final = ("privplan", "numpy", "scipy", "torch", "cryptography")
"""What the result of a run depends on; their versions stand in its log."""

_SPLIT: Final = 1
_DEALING: Final = 2
"""Names of the public streams that `[data] seed` feeds."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A run that may begin: nothing is released or written yet.

    `dataset` identifies the records and how they were dealt: a fact about private data, which may
    only be sealed.  `test` says whether the model may be measured.  `segment` counts the starts of
    the run; each has streams of its own.
    """

    settings: Settings
    federation: Federation
    model: Model
    system: System
    streams: Streams
    plan: Plan
    opening: Opening
    dataset: dict[str, str]
    test: Declaration
    segment: int = 0

    @property
    def rounds(self) -> int:
        """How many rounds of training are planned."""
        return sum(phase.rounds for phase in self.plan.phases if phase.name == PHASE)

    @property
    def promises(self) -> bool:
        """Whether there is any guarantee: not for a method as published, nor without noise."""
        return not self.opening.as_published and self.opening.claim.epsilon is not None

    @property
    def cut(self) -> bool:
        """Whether the budget allows fewer rounds than were asked for."""
        return self.rounds < self.settings.run.rounds


def randomness(settings: Settings) -> Randomness:
    """Return where the run's protective randomness comes from."""
    return Randomness("operating-system" if settings.run.seed is None else "seeded")


def prepare(settings: Settings, *, segment: int = 0) -> Prepared:
    """Return a run that may begin, with its plan certified.

    Raises `InvalidInput` for data or settings that do not fit, `BudgetExceeded` where the budget
    does not allow one round, `Unsupported`, `TargetUnreachable`, and `MissingExtra` where a
    package is absent.
    """
    federation, dataset = _federation(settings)
    model = _model(settings, federation)
    seed = settings.run.seed
    streams = Streams.secure() if seed is None else Streams.seeded(seed, segment)
    streams.stream("before the run").bytes(1)  # what cannot be drawn later is better known now
    system = build(settings, federation, TorchLocal(settings, federation, model), streams)
    plan = system.plan()
    return Prepared(
        settings,
        federation,
        model,
        system,
        streams,
        plan,
        system.opening(),
        dataset,
        declaration_of(settings),
        segment,
    )


def require_small_delta(prepared: Prepared) -> None:
    """Raise `InvalidInput` where delta is 1 / units or more, unless the settings accept it.

    The units are those of the claim, as far as their number is public.  A run that promises no
    number is free to have any delta, and one that was begun may go on: its audit says what it is.
    """
    claim, own = prepared.opening.claim, prepared.settings
    if claim.epsilon is None:
        return
    require_small(
        claim.delta,
        prepared.opening.population.units(claim.unit, most_records=own.most_records),
        claim.unit,
        accepted=own.privacy.accept_delta,
        accept="accept_delta = true under [privacy]",
    )


Source: TypeAlias = Callable[[Settings], tuple[Federation, dict[str, str]]]
"""What a system makes of data: from settings to a federation, and digests of private facts."""

Measure: TypeAlias = Callable[[Prepared, Parameters], Mapping[str, float]]
"""How a system is measured on public test data: what it released, as numbers by name."""


def versions(package: str = "privplan") -> dict[str, str]:
    """Return the versions of what the result depends on; `package` is that of the system."""
    known = {"python": platform.python_version()}
    for name in dict.fromkeys((*PACKAGES, package)):
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return known


def _federation(settings: Settings) -> tuple[Federation, dict[str, str]]:
    if settings.system.data is not None:
        return cast("Source", settings.system.load(settings.system.data))(settings)
    own = settings.data
    private = own.normalisation == "private"  # the run does that, once the moments are released
    records = load(
        own.name,
        own.path,
        normalisation="none" if private else own.normalisation,
        rng=np.random.default_rng([own.seed, _SPLIT]),
    )
    made = federate(
        records,
        own.users,
        own.silos,
        own.allocation,
        np.random.default_rng([own.seed, _DEALING]),
        labels_per_user=own.labels_per_user,
    )
    dealt = hashlib.sha256()
    for index in (made.user, made.silo):
        dealt.update(np.ascontiguousarray(index, "<i8").tobytes())
    return made, {"records": records.digest, "allocation": dealt.hexdigest()}


def measure(prepared: Prepared, parameters: Parameters) -> dict[str, float]:
    """Return what the test data say about a model, by metric; nothing unless they are public."""
    if not prepared.test.public:
        return {}
    system = prepared.settings.system
    if system.measure is not None:
        return dict(cast("Measure", system.load(system.measure))(prepared, parameters))
    from .metrics import evaluate

    return evaluate(prepared.model, parameters, prepared.federation)


def _model(settings: Settings, federation: Federation) -> Model:
    from .models import model_named

    features = math.prod(federation.features.shape[1:])
    own = settings.training
    return model_named(own.model, features, federation.classes, dropout=own.dropout)
