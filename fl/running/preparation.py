"""Everything that can go wrong before a run begins: data, model, noise, plan.  Writes nothing."""

from __future__ import annotations

import hashlib
import math
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np

from ...accountant.errors import InvalidInput, Unsupported
from ...accountant.plan import Plan
from ...accountant.randomness import Streams
from ...accountant.records import Randomness
from ...accountant.slack import require_small
from ..data.federation import Federation
from ..data.moments import Moments
from ..datasets import federate, load
from ..declarations.declaration import NORMALISE, Declaration
from ..declarations.package_errors import naming
from ..declarations.registry import declaration_of
from ..frame.model import Parameters, finite_model
from ..frame.opening import OpeningStatement
from ..frame.phases import checked_phases, last_round
from ..frame.rounds import system_with_package
from ..frame.state import MAX_STATE_ARRAYS, Arrays, Shape, State, declared_state
from ..frame.system import System, SystemWithParts, build
from ..frame.system_checks import checked_data, checked_measurements, checked_parts, require_opening
from ..settings.public_test_data import EvaluationData, evaluation_data
from ..settings.schema import Settings
from ..training.local_training import LocalTraining, NoTraining, TorchLocalTraining
from .checkpoint import Checkpoint

if TYPE_CHECKING:
    from ..models import Model

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
    the run; each has streams of its own.  `trained` is None for a system that does not train.
    `parts` are the names and shapes of what is released, in the order of the vector.
    """

    settings: Settings
    federation: Federation
    trained: Model | None
    system: System
    streams: Streams
    plan: Plan
    opening: OpeningStatement
    dataset: dict[str, str] = field(repr=False)
    test: EvaluationData
    segment: int = 0
    parts: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """The model that is trained; raises `Unsupported` for a system that does not train."""
        if self.trained is None:
            raise Unsupported(
                f"{self.whose} trains no model.",
                "What asks what a model says of a record has nothing to ask.",
                "Read what was released from its file: `fl.running.checkpoint.Checkpoint.arrays`.",
            )
        return self.trained

    @property
    def rounds(self) -> int:
        """How many rounds are planned, of those that `[run] rounds` counts."""
        return last_round(self.system.phases)

    @property
    def width(self) -> int:
        """How many numbers one release of a model has, D."""
        return self.system.initial().size

    @property
    def whose(self) -> str:
        """The system and its package, as messages name them."""
        return system_with_package(self.system.name, declaration_of(self.system.name))

    @property
    def promises(self) -> bool:
        """Whether there is any guarantee: not for a method as published, nor without noise."""
        return not self.opening.as_published and self.opening.claim.epsilon is not None

    @property
    def cut(self) -> bool:
        """Whether the budget allows fewer rounds than were asked for."""
        return self.rounds < self.settings.run.rounds


def first_checkpoint(prepared: Prepared, run_id: str) -> Checkpoint:
    """Return what a run starts from: the first model, and the state beside it."""
    first, parts = prepared.system.initial(), tuple(prepared.parts.items())
    kind = prepared.settings.training.model
    return Checkpoint(run_id, 0, kind, first, state=first_state(prepared), parts=parts)


def first_state(prepared: Prepared) -> Arrays:
    """Return the state that the first round starts from.

    Raises `InvalidInput` where it is not the one stated, where a class inherits a statement that it
    may not keep to, and where two arrays of a run have one name.
    """
    system, stated = prepared.system, declared_state(prepared.system)
    inherited = getattr(system, "state", None)
    if stated is None and inherited:
        kind = type(system).__name__
        raise InvalidInput(
            f"{prepared.whose} keeps what another class states: {', '.join(inherited.shapes)}.",
            f"Its class {kind} may keep more than the one it inherits from, and nobody would know.",
            f"Write `state` into {kind} itself, with the names and shapes of all that it keeps.",
        )
    once = [phase.once.state for phase in system.phases if phase.once is not None]
    results = {name for each in once for name in each.shapes}
    twice = sorted(results & (stated or State()).shapes.keys())
    if twice:
        raise InvalidInput(
            f"The state of {prepared.whose} has an array `{twice[0]}`, and so has a phase of it.",
            "One of them would be lost in the file of the model.",
            "Give it another name.",
        )
    _require_no_half_moments(prepared.whose, (stated or State(), *once))
    _require_few(prepared.whose, (stated or State(), *once))
    return (stated or State()).checked(system.initial_state(), prepared.whose)


def _require_few(whose: str, every: Iterable[State]) -> None:
    """Raise `InvalidInput` for more arrays beside a model than an audit reads of its file.

    All of them stand in one file: those of the state, and what each phase releases once.
    """
    names = [name for each in every for name in each.shapes]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidInput(
            f"Two phases of {whose} release an array `{twice[0]}`.",
            "One of them would be lost in the file of the model.",
            "Give it another name.",
        )
    kept = [name for name in names if name not in Moments.names()]
    if len(kept) > MAX_STATE_ARRAYS:
        raise InvalidInput(
            f"The state of {whose} and what its phases release once are {len(kept)} arrays; at "
            f"most {MAX_STATE_ARRAYS} can be kept beside a model, and the moments of features.",
            "All of them stand in one file, and an audit reads no more of it.",
            "Put several of them into one array.",
        )


def _require_no_half_moments(whose: str, every: Iterable[State]) -> None:
    """Raise `InvalidInput` for a name of released moments where they are not released together."""
    taken = set(Moments.names())
    for each in every:
        names = sorted(taken & each.shapes.keys())
        if names and len(names) < len(taken):
            raise InvalidInput(
                f"The state of {whose} has an array `{names[0]}`.",
                "In the file of a model it says how features were normalised, with four others.",
                "Give it another name.",
            )


def randomness(settings: Settings) -> Randomness:
    """Return where the run's protective randomness comes from."""
    return Randomness("operating-system" if settings.run.seed is None else "seeded")


def prepare(settings: Settings, *, segment: int = 0) -> Prepared:
    """Return a run that may begin, with its plan certified.

    Raises `InvalidInput` for data or settings that do not fit, `BudgetExceeded` where the budget
    does not allow one round, `Unsupported`, `TargetUnreachable`, and `MissingExtra` where a
    package is absent.
    """
    declaration = declaration_of(settings.run.system)
    federation, dataset = _federation(settings)
    model = model_of(settings, federation)
    seed = settings.run.seed
    streams = Streams.secure() if seed is None else Streams.seeded(seed, segment)
    streams.stream("before the run").bytes(1)  # what cannot be drawn later is better known now
    whose = system_with_package(settings.run.system, declaration)
    local = local_of(settings, federation, model)
    with naming(declaration, "make"):
        system = build(settings, federation, local, streams)
    with naming(declaration, "plan"):
        plan = system.plan()
    with naming(declaration, "phases"):
        checked_phases(system.phases, plan.phases)
        require_declared(settings, system)
    with naming(declaration, "opening"):
        opening = require_opening(system.opening(), plan, settings, whose)
    with naming(declaration, "initial"):
        first = finite_model(system.initial(), None, f"The first model of {whose}")
    prepared = Prepared(
        settings,
        federation,
        model,
        system,
        streams,
        plan,
        opening,
        dataset,
        evaluation_data(settings),
        segment,
        _parts(system, model, first.size, declaration),
    )
    first_state(prepared)  # what cannot be kept is better known now
    return prepared


def require_declared(settings: Settings, system: System) -> None:
    """Raise `InvalidInput` where the phases of a system are not those that it declares."""
    declaration, tables = settings.system, settings.tables()
    declared_names = declaration.phase_names(lambda table, key: getattr(tables[table], key))
    names = tuple(phase.name for phase in system.phases if phase.name != NORMALISE)
    if names != tuple(declared_names):
        raise InvalidInput(
            f"{system_with_package(system.name, declaration)} declares the phases "
            f"{', '.join(declared_names)}, and has {', '.join(names) or 'none'}.",
            "An audit reads what rounds state phase by phase, as they were declared.",
            "Give their names, in order, as `phases` of the declaration.",
        )


def model_of(settings: Settings, federation: Federation) -> Model | None:
    """Return the model that a system trains; None, and no torch, for one that does not train."""
    if not declaration_of(settings.run.system).trains:
        return None
    from ..models import model_named

    features = math.prod(federation.features.shape[1:])
    how = settings.training
    return model_named(how.model, features, federation.classes, dropout=how.dropout)


def local_of(settings: Settings, federation: Federation, model: Model | None) -> LocalTraining:
    """Return the training inside the silos, of a model where there is one."""
    return NoTraining() if model is None else TorchLocalTraining(settings, federation, model)


@contextmanager
def one_thread(model: Model | None) -> Iterator[None]:
    """Let what trains a model use one thread; where nothing does, there is nothing to do."""
    if model is None:
        yield
        return
    from ..training.threads import one_thread as one_of_torch

    with one_of_torch():
        yield


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
        source = cast("Source", settings.system.load(settings.system.data))
        return checked_data(
            source(settings), system_with_package(settings.run.system, settings.system)
        )
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
    """Return what the test data say about a release, by metric; nothing unless they are public.

    A system's own measures come before those of the model that it trains; where it has neither,
    there are none.
    """
    if not prepared.test.public:
        return {}
    system = prepared.settings.system
    if system.measure is not None:
        with naming(system, system.measure):
            how = cast("Measure", system.load(system.measure))
            return checked_measurements(
                how(prepared, parameters.copy()), system_with_package(system.name, system)
            )
    if prepared.trained is None:
        return {}
    from ..training.metrics import evaluate

    return evaluate(prepared.model, parameters, prepared.federation)


def _parts(
    system: System, model: Model | None, size: int, declaration: Declaration
) -> dict[str, Shape]:
    """Return the parts of what is released; raise `InvalidInput` where they are not all of it."""
    parts: Mapping[str, Shape] = {} if model is None else model.parts
    with naming(declaration, "parts"):
        if isinstance(system, SystemWithParts):
            parts = system.parts
    return checked_parts(parts, size, system_with_package(system.name, declaration))
