"""What each release of a system is, by public facts alone: said once, for a run and for its audits.

    settings of a run          |                mechanism and noise, the event of each observer,
                               | ->  Terms  ->  sampling, draws, divisor, what is sealed
    configuration in a log     |

A run draws by its terms, and an audit makes the same terms of what a log says of its configuration
(`by_terms`): what that fixes is what every intent must state.  So a mistake in terms is in
both, and no comparison of the two finds it; audits that know no system do, which derive what an
observer learned from the facts of a log (`audit/derivation`), and measure it (`audit/residual`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from ...accountant import events as ev
from ...accountant.records import Block, Normaliser, Reach, RoundIntent, Sampling
from ..declarations.declaration import Read, Sealed
from ..declarations.shared_tables import PrivacySettings
from ..declarations.stated_settings import StatedSettings
from .expected_log import ExpectedPhase, StatesNoise, noise_in

if TYPE_CHECKING:
    from .setup import Setup

About = ParamSpec("About")
Answer = TypeVar("Answer")


PublicSetup: TypeAlias = "Setup | StatedSettings"
"""What is public of a run before it starts: what a run is built from, or its configuration says.

They have the same names for that, and terms may ask for no others.
"""


class Terms:
    """What each release of one phase is; a system's own terms are a frozen dataclass of this class.

    A subclass gives `neighbours`, `mechanism` and `views`, and of the rest what is not as here.
    """

    @property
    def neighbours(self) -> str:
        """The relation that it is accounted under."""
        raise NotImplementedError

    def mechanism(self, noise_multiplier: float) -> Any:
        """Return the mechanism that draws the noise of this multiplier."""
        raise NotImplementedError

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one release for each observer, by the observer's name."""
        raise NotImplementedError

    @property
    def sealed(self) -> tuple[str, ...]:
        """The names of what a release seals: computed before the noise, for a trusted auditor."""
        return ()

    @property
    def draws(self) -> int:
        """How many noisy sums a release is made of."""
        return 1

    @property
    def sampling(self) -> Sampling:
        """How those who take part are drawn, and by whom."""
        return Sampling()

    @property
    def divisor(self) -> float | None:
        """The public constant that the sum is divided by; None where none is stated."""
        return None

    @property
    def normaliser(self) -> Normaliser | None:
        """The divisor as releases state it."""
        return None if self.divisor is None else Normaliser("constant", float(self.divisor))

    @property
    def clip_enforced(self) -> bool:
        """Whether every contribution is clipped to the stated bound."""
        return True

    @property
    def stated_silos(self) -> tuple[int, ...] | None:
        """The silos that take part, by a public schedule; None: all."""
        return None

    def noise(self, privacy: PrivacySettings, intent: RoundIntent) -> float:
        """Return the noise multiplier: as configured, or what the noise of an intent implies."""
        given = privacy.noise_multiplier
        return noise_in(intent, self.mechanism) if given is None else given

    def expected(self, privacy: PrivacySettings, intent: RoundIntent) -> ExpectedPhase:
        """Return what `intent` must state under these settings of `[privacy]`."""
        return self.stated(self.mechanism(self.noise(privacy, intent)))

    def stated(
        self,
        mechanism: StatesNoise,
        *,
        event: ev.Event | None = None,
        reaches: Mapping[str, Reach] | None = None,
        block: Block | None = None,
        sees_each: frozenset[str] = frozenset(),
    ) -> ExpectedPhase:
        """Return what a release with this noise states."""
        return ExpectedPhase(
            mechanism.contribution,
            mechanism.noise(self.draws),
            mechanism.sensitivity(self.neighbours),
            mechanism.weights_used,
            self.sampling,
            self.normaliser,
            self.clip_enforced,
            self.stated_silos,
            event,
            reaches,
            block,
            sees_each=sees_each,
        )


@dataclass(frozen=True)
class SetupTerms(Terms):
    """Terms that are read off the public facts of a run as they are asked for."""

    setup: PublicSetup

    @property
    def neighbours(self) -> str:
        """The relation that it is accounted under."""
        return self.setup.privacy.neighbours


def by_terms(
    make: Callable[[StatedSettings, RoundIntent, int | None], Terms],
) -> Callable[[Read, RoundIntent, int | None], ExpectedPhase]:
    """Return `ExpectedLog.phase` of a system, given how its terms are made of stated settings.

    `make` is also given an intent, which states what settings do not fix, and the length of a
    release, or None before the first.
    """

    def phase(read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
        given = StatedSettings(read)
        return make(given, intent, values).expected(given.privacy, intent)

    return phase


def sealed_by(phase: str, make: Callable[[StatedSettings], Terms]) -> Sealed:
    """Return `ExpectedLog.sealed` of a system of one phase: what its terms seal."""

    def sealed(read: Read) -> Mapping[str, tuple[str, ...]]:
        return {phase: make(StatedSettings(read)).sealed}

    return sealed


def typed(
    ask: Callable[Concatenate[StatedSettings, About], Answer],
) -> Callable[Concatenate[Read, About], Answer]:
    """Return a function of `Read`, such as `ExpectedLog` has, that asks one of stated settings."""

    def asked(read: Read, /, *about: About.args, **named: About.kwargs) -> Answer:
        return ask(StatedSettings(read), *about, **named)

    return asked
