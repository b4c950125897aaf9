"""The facts of a run's rounds that its configuration fixes, without data, model or protocol.

    sigma, C, |S|, rate, ...   ->   contribution, noise, sensitivity, sampling, normaliser

Facts that all systems share are here and, for the first line of the log, in `expected_opening`;
those of one system are in the `ExpectedLog` that its declaration names (`determines`).  Noise comes
from the same mechanisms as in a run.  Where it was calibrated to a target, it is read off the log,
and everything else must fit it.  Neither torch nor the packages of the protocols are imported.

Source: the systems of `fl`, which state these facts when they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypeVar

from ...accountant import events as ev
from ...accountant.errors import InvalidInput, PrivplanError
from ...accountant.mechanisms import FineGaussian, Gaussian
from ...accountant.records import (
    Block,
    Contribution,
    Noise,
    Normaliser,
    Reach,
    RoundIntent,
    Sampling,
    Security,
    Weights,
)
from ..declarations.declaration import (
    HELD_OUT,
    NORMALISE,
    PRIVPLAN_PACKAGE,
    Declaration,
    Read,
    Sealed,
)
from ..declarations.registry import declaration_of
from ..declarations.stated_settings import NotStated as NotStated
from ..declarations.stated_settings import StatedSettings
from ..tables.record_shape import RecordShape, shape_read
from .held_out_messages import VOTE_NUMBERS

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray


Answer = TypeVar("Answer")
About = ParamSpec("About")

Mechanism: TypeAlias = Gaussian | FineGaussian

NOISE_FOUND: Final = "the noise that was found"
"""What no configuration states, and some intents do not either."""


class StatesNoise(Protocol):
    """A mechanism of any family, which states what it adds."""

    @property
    def contribution(self) -> Contribution: ...

    @property
    def weights_used(self) -> Weights: ...

    def noise(self, draws: int = 1) -> Noise: ...

    def sensitivity(self, relation: str) -> float: ...


@dataclass(frozen=True)
class ExpectedPhase:
    """What every intent of a phase states, under the names that the records of the log have.

    `normaliser` and `clip_enforced` are stated by the releases.  `event` and `reaches` are None
    where the configuration does not fix them; `reaches` say nothing of what they rest on, but those
    of votes.  `silos` are those that take part in the round of the intent; None: all of them, so a
    log that states others is not of this configuration.  `block` is that of rounds with correlated
    noise.  Of votes `values` is how many numbers are released, and `sees_each` are observers who
    are accounted as who sees every silo's message, whatever the aggregation shows them.
    """

    contribution: Contribution
    noise: Noise
    sensitivity: float
    weights: Weights
    sampling: Sampling = field(default_factory=Sampling)
    normaliser: Normaliser | None = None
    clip_enforced: bool = True
    silos: tuple[int, ...] | None = None
    event: ev.Event | None = None
    reaches: Mapping[str, Reach] | None = None
    block: Block | None = None
    values: int | None = None
    sees_each: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ExpectedLog:
    """What the configuration of one system fixes of its log; its declaration names an instance.

    - `phase(read, intent, values)`: what a round states; as `phase_of`, but never asked about the
      phase of private moments, which is the same in every system.
    - `security(read)`: the parameters of the system's own protocols; those of plain, masked and
      shared sums are known here.
    - `counted(read)`: how many of the rounds of `[run]` one silo takes part in at most; None: all.
      Without `counted` every silo takes part in every round.
    - `before(read)`: how many releases come before the rounds of `[run]`, besides private moments;
      without it none does.
    - `masks(read, security)`: the parameters of masked sums, with what a protocol of its own adds
      to them.  Without `masks` they are as they are.
    - `shares(read, security)`: likewise those of additive shares, where the system has others.
    - `first(read)`: the vector (D,) float64 that the first round starts from, or None where the
      configuration does not fix it.  Without `first` it is the first model of `[training]`.

    - `votes(read)`: what the release of votes of who is held out states; without it users vote.
    - `values(read, intent)`: how many values a round releases, or would have released where it was
      cut off; None, as without `values`, where that does not follow from its intent.
    - `sealed(read)`: the items that each release seals, by phase, where the declaration names none.

    All raise `NotStated` where a key is missing.
    """

    phase: Callable[[Read, RoundIntent, int | None], ExpectedPhase]
    security: Callable[[Read], Security] | None = None
    first: Callable[[Read], FloatArray | None] | None = None
    masks: Callable[[Read, Security], Security] | None = None
    counted: Callable[[Read], int | None] | None = None
    shares: Callable[[Read, Security], Security] | None = None
    before: Callable[[Read], int] | None = None
    votes: Callable[[Read], ExpectedPhase] | None = None
    values: Callable[[Read, RoundIntent], int | None] | None = None
    sealed: Sealed | None = None


def system_of(read: Read) -> Declaration:
    """Return the declaration of the system that ran; raise `NotStated` for one not known here."""
    name = StatedSettings(read).name
    try:
        return declaration_of(name)
    except InvalidInput:
        raise NotStated(f"[run] system {name}") from None


def expected_of(read: Read) -> ExpectedLog | None:
    """Return what the configured system's declaration names as `determines`; None without it."""
    system = system_of(read)
    if system.determines is None:
        return None
    reference = system.determines
    return call_system(system, lambda: _facts_at(system, reference), loading=True)


def _facts_at(system: Declaration, reference: str) -> ExpectedLog:
    facts = system.load(reference)
    if not isinstance(facts, ExpectedLog):
        raise TypeError(f"{reference} of {system.name} is no `ExpectedLog`")
    return facts


def call_system(
    system: Declaration, call: Callable[[], Answer], *, loading: bool = False
) -> Answer:
    """Return the result of a system's own code; `NotStated` where another package's code fails.

    An `InvalidInput` of that code is about the log, and passed on; while `loading` it is about the
    package, and counts as a failure.
    """
    try:
        return call()
    except NotStated:
        raise
    except (Exception, SystemExit) as error:
        if system.package == PRIVPLAN_PACKAGE or (isinstance(error, PrivplanError) and not loading):
            raise
        raise NotStated(f"what {system.name} of package {system.package} determines") from None


def phase_names(read: Read) -> tuple[str, ...]:
    """Return the phases of a run in their order, and what rounds release with their model.

    Raises `NotStated` for a system that is not known.
    """
    system = system_of(read)
    if system.determines is None:
        raise NotStated(f"rounds of {system.name}")
    first = (NORMALISE,) if has_moments(read) else ()
    last = (HELD_OUT,) if holds_out(read) else ()
    return (*first, *system.phase_names(read), *system.names_with_model(read), *last)


def has_moments(read: Read) -> bool:
    """Return whether moments of the features are released before the rounds."""
    return StatedSettings(read).data.normalisation == "private"


def holds_out(read: Read) -> bool:
    """Return whether users who are held out vote on the last model: one release more."""
    return StatedSettings(read).evaluation.held_out_noise is not None


def first_of(read: Read) -> FloatArray | None:
    """Return the vector that the first round starts from, (D,) float64.

    None where that is the first model of `[training]` (`fl.frame.initial_model`).  Raises
    `NotStated` where the system's declaration does not fix it.
    """
    expected, system = expected_of(read), system_of(read)
    if expected is not None and expected.first is not None:
        first = expected.first(read)
        if first is not None:
            return first
    elif system.trains and (expected is not None or system.package == PRIVPLAN_PACKAGE):
        return None
    raise NotStated(f"what {system.name} starts from")


def phase_of(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    """Return what a round of the phase of `intent` must state.

    Noise that was calibrated to a target is taken from `intent`.  `values` is the length of a
    release, None before the first.  Raises `NotStated`, and what mechanisms raise for noise or a
    bound out of range.
    """
    if intent.phase == NORMALISE:
        return _moments(read, intent, values)
    expected = expected_of(read)
    if intent.phase == HELD_OUT:
        votes = _votes if expected is None or expected.votes is None else expected.votes
        released = call_system(system_of(read), lambda: votes(read))
        return replace(released, values=VOTE_NUMBERS)
    if expected is None:
        raise NotStated(f"rounds of {system_of(read).name}")
    return call_system(system_of(read), lambda: expected.phase(read, intent, values))


def values_of(read: Read, intent: RoundIntent) -> int | None:
    """Return how many values a round of the training releases; None where only its release says.

    Raises `NotStated`.
    """
    if intent.phase in (NORMALISE, HELD_OUT):
        return None
    return said_by_system(read, lambda expected: expected.values, intent)


def said_by_system(
    read: Read,
    ask: Callable[[ExpectedLog], Callable[Concatenate[Read, About], Answer] | None],
    *about: About.args,
    **named: About.kwargs,
) -> Answer | None:
    """Return what a function of a system's `ExpectedLog` says; None where it has none."""
    expected = expected_of(read)
    function = None if expected is None else ask(expected)
    if function is None:
        return None
    return call_system(system_of(read), lambda: function(read, *about, **named))


def expected_phase(
    mechanism: StatesNoise,
    relation: str,
    draws: int,
    sampling: Sampling,
    normaliser: Normaliser | None,
) -> ExpectedPhase:
    """Return what a round states that draws `draws` times from `mechanism`."""
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(draws),
        mechanism.sensitivity(relation),
        mechanism.weights_used,
        sampling,
        normaliser,
    )


def _moments(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    """Return what the release of private moments states; its bound depends on the features."""
    from ..aggregation.weighted_sum import weighted_sum
    from ..data.normalise import contribution_bound

    given = StatedSettings(read)
    rule, noise = given.training.weighting, given.privacy.normalisation_noise
    assert noise is not None  # else nothing of that phase is known
    counted = rule == "uniform" and given.silos > 1
    bound = intent.contribution.bound
    if values is not None:
        # Two moments of each feature, and under uniform weights the sum of the weights.
        features, odd = divmod(values - counted, 2)
        if odd or features < 1:
            raise InvalidInput(
                f"Moments of features are two values each{' and a count' * counted}, not {values:,}"
            )
        bound = contribution_bound(features, counted=counted)
    mechanism = weighted_sum(
        noise,
        bound=bound,
        users=given.users,
        silos=given.silos,
        rule=rule,
        tolerated_dropouts=given.security.dropouts,
    )
    return expected_phase(mechanism, given.privacy.neighbours, 1, Sampling(), None)


def _votes(read: Read) -> ExpectedPhase:
    """Return what the release of the votes of users who are held out states, one by one."""
    from .held_out_votes import votes_sum

    given = StatedSettings(read)
    mechanism = votes_sum(
        votes_noise(given),
        users=given.users,
        silos=given.silos,
        rule=given.training.weighting,
        dropouts=given.security.dropouts,
    )
    return expected_phase(mechanism, given.privacy.neighbours, 1, Sampling(), None)


def votes_noise(given: StatedSettings) -> float:
    """Return the noise multiplier of votes of who is held out; `NotStated` where nobody votes."""
    noise = given.evaluation.held_out_noise
    if noise is None:
        raise NotStated("[evaluation] held_out_noise")
    return noise


def noise_multiplier_of(
    read: Read, intent: RoundIntent, make: Callable[[float], Mechanism]
) -> float:
    """Return the noise multiplier: the configured one, or what the intent's noise implies."""
    given = StatedSettings(read).privacy.noise_multiplier
    return noise_in(intent, make) if given is None else given


def noise_in(intent: RoundIntent, make: Callable[[float], Mechanism]) -> float:
    """Return the noise multiplier of noise that was calibrated to a target, by its deviation.

    Such noise is known from the log alone; `NotStated` where an intent states none.
    """
    std = intent.noise.std
    if not 0.0 < std < math.inf:
        raise NotStated(NOISE_FOUND)
    return std / make(1.0).std  # the std is proportional to the multiplier


def noise_of_event(event: ev.Event, *families: type[ev.Gaussian | ev.Laplace]) -> float:
    """Return the noise multiplier of noise that was calibrated, by an event of a family."""
    if not isinstance(event, families):
        raise NotStated(NOISE_FOUND)
    return event.noise_multiplier


def stated_shape(read: Read) -> RecordShape:
    """Return how many features and classes records have; `NotStated` of unknown data sets."""
    shape = shape_read(read)
    if shape is None:
        raise NotStated("[data] name")
    return shape
