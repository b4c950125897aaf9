"""Everything that can go wrong before a run begins: data, model, noise, plan.  Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ...accountant.delta_checks import require_delta_below_units
from ...accountant.errors import InvalidInput
from ...accountant.randomness import Streams
from ...accountant.records import Randomness
from ..data.federation import Federation
from ..declarations.declaration import HELD_OUT, NORMALISE, Declaration, blame_package
from ..declarations.own_code import ARCHITECTURE_DIGEST, FROM_PYTHON
from ..declarations.registry import declaration_of
from ..frame.model import finite_model
from ..frame.phases import checked_phases
from ..frame.private_system import PrivateSystem
from ..frame.rounds import system_with_package
from ..frame.state import Shape
from ..frame.system import System, SystemWithParts, build
from ..frame.system_checks import checked_parts, require_opening
from ..settings.public_test_data import evaluation_data
from ..settings.schema import Settings
from ..training.local_training import LocalTraining, NoTraining, TorchLocalTraining
from .first_state import first_state
from .prepared_run import PreparedRun
from .run_data import federation_of
from .seat import Seat

if TYPE_CHECKING:
    from ..models import Model


def randomness(settings: Settings) -> Randomness:
    """Return where the run's protective randomness comes from."""
    return Randomness("operating-system" if settings.run.seed is None else "seeded")


def prepare(settings: Settings, *, segment: int = 0, seat: Seat | None = None) -> PreparedRun:
    """Return a run that may begin, with its plan certified.

    `seat` is that of the party that makes it with others; None where all are in this process.

    Raises `InvalidInput` for data or settings that do not fit, `BudgetExceeded` where the budget
    does not allow one round, `Unsupported`, `TargetUnreachable`, and `MissingExtra` where a
    package is absent.
    """
    declaration = declaration_of(settings.run.system)
    federation, dataset = federation_of(settings) if seat is None else seat.federation(settings)
    model = model_of(settings, federation)
    settings = _with_architecture(settings, model)
    # A seeded run has other streams after every start: no byte of noise is used for two sums.
    seed = settings.run.seed
    streams = Streams.secure() if seed is None else Streams.seeded(seed, segment)
    streams.stream("before the run").bytes(1)  # what cannot be drawn later is better known now
    whose = system_with_package(settings.run.system, declaration)
    local = local_of(settings, federation, model)
    with blame_package(declaration, "make"):
        system = build(settings, federation, local, streams)
    if seat is not None:
        seat.connect(system)
    with blame_package(declaration, "plan"):
        plan = system.plan()
    with blame_package(declaration, "phases"):
        checked_phases(system.phases, plan.phases)
        require_declared(settings, system)
    with blame_package(declaration, "opening"):
        opening = require_opening(system.opening(), plan, settings, whose)
    with blame_package(declaration, "initial"):
        first = finite_model(system.initial(), None, f"The first model of {whose}")
    prepared = PreparedRun(
        settings,
        federation,
        _trained(system, declaration, model),
        system,
        streams,
        plan,
        opening,
        dataset,
        evaluation_data(settings),
        segment,
        _parts(system, model, first.size, declaration),
        seat,
    )
    first_state(prepared)  # what cannot be kept is better known now
    return prepared


def _with_architecture(settings: Settings, model: Model | None) -> Settings:
    """Return settings with the digest of a model's architecture, where its code is in no file."""
    how = settings.training
    if model is None or how.model != FROM_PYTHON or how.model_digest is not None:
        return settings
    from ..models.own_model_building import architecture_of

    digest = ARCHITECTURE_DIGEST + architecture_of(model)
    return replace(settings, training=replace(how, model_digest=digest))


def _trained(system: System, declaration: Declaration, model: Model | None) -> Model | None:
    """Return the model that is trained: that of a system which makes its own for other features."""
    local = system.setup.local if isinstance(system, PrivateSystem) else None
    if declaration.reshapes and isinstance(local, TorchLocalTraining):
        return local.model
    return model


def require_declared(settings: Settings, system: System) -> None:
    """Raise `InvalidInput` where the phases of a system are not those that it declares."""
    declaration, tables = settings.system, settings.tables()
    declared_names = declaration.phase_names(lambda table, key: getattr(tables[table], key))
    names = tuple(phase.name for phase in system.phases if phase.name not in (NORMALISE, HELD_OUT))
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
    from ..training.chosen_model import chosen_model

    return chosen_model(
        settings,
        federation.features.shape[1:],
        federation.classes,
        numbers=federation.task == "regression",
    )


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


def require_small_delta(prepared: PreparedRun) -> None:
    """Raise `InvalidInput` where delta is 1 / units or more, unless the settings accept it.

    The units are those of the claim, as far as their number is public.  A run that promises no
    number is free to have any delta, and one that was begun may go on: its audit says what it is.
    """
    claim, settings = prepared.opening.claim, prepared.settings
    if claim.epsilon is None:
        return
    require_delta_below_units(
        claim.delta,
        prepared.opening.population.units(claim.unit, most_records=settings.most_records),
        claim.unit,
        accepted=settings.privacy.accept_delta,
        accept="accept_delta = true under [privacy]",
    )


def _parts(
    system: System, model: Model | None, size: int, declaration: Declaration
) -> dict[str, Shape]:
    """Return the parts of what is released; raise `InvalidInput` where they are not all of it."""
    parts: Mapping[str, Shape] = {} if model is None else model.parts
    with blame_package(declaration, "parts"):
        if isinstance(system, SystemWithParts):
            parts = system.parts
    return checked_parts(parts, size, system_with_package(system.name, declaration))
