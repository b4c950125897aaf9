"""What every federated system is made of, and what it keeps over all of its rounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput, there_are
from ..aggregation.sums import Aggregator, Plain, aggregator
from ..data.federation import Federation
from ..observers.names import coalitions_in
from ..settings.schema import SecuritySettings
from ..training.local_training import LocalTraining
from .opening import Aggregation
from .privacy import PrivacyTarget
from .private_normalisation import MomentsRelease

if TYPE_CHECKING:
    from ..settings.schema import Settings, TrainingSettings


@dataclass(frozen=True, eq=False)
class Setup:
    """What a system is made of: public constants, a federation, and training inside its silos.

    `aggregator` adds up what the silos send; `normalising` is the phase that releases what features
    are normalised by, where there is one.
    """

    name: str
    privacy: PrivacyTarget
    rounds: int
    training: TrainingSettings
    federation: Federation
    local: LocalTraining
    security: SecuritySettings = field(default_factory=SecuritySettings)
    aggregator: Aggregator = field(default_factory=Plain)
    normalising: MomentsRelease | None = None

    @property
    def aggregation(self) -> Aggregation:
        """What the server sees of the silos' updates."""
        return self.security.aggregation

    @property
    def coalitions(self) -> tuple[int, ...]:
        """With how many silos the server is accounted for, where silos collude with it.

        Among peers there is no server: who colludes there is counted with the peer.
        """
        if self.aggregation == "shares":
            return ()
        named = coalitions_in((self.privacy.observer, *self.privacy.observers))
        return tuple(sorted({*named, self.security.colluders} - {0}))

    @property
    def users(self) -> int:
        """|U|, a public constant."""
        return self.federation.users

    @property
    def silos(self) -> int:
        """|S|, a public constant."""
        return self.federation.silos


def setup(settings: Settings, federation: Federation, local: LocalTraining) -> Setup:
    """Return what the settings say that a system is made of."""
    own = settings.privacy
    security = _bearing(settings, federation)
    by = aggregator(security, federation.silos)
    return Setup(
        settings.run.system,
        PrivacyTarget(
            unit=own.unit or "user",
            neighbours=own.neighbours,
            delta=own.delta,
            epsilon=own.epsilon,
            noise_multiplier=own.noise_multiplier,
            sampling_rate=own.sampling_rate,
            observer=own.observer,
            group=own.group,
            observers=own.observers,
        ),
        settings.run.rounds,
        settings.training,
        federation,
        local,
        security,
        by,
        _normalising(settings, federation, by, security),
    )


def _bearing(settings: Settings, federation: Federation) -> SecuritySettings:
    """Return settings that bear the coalitions that are named; `InvalidInput` for too large ones.

    Of all silos two must be left to hide among; of all users, where these send messages.
    """
    privacy, silos = settings.privacy, federation.silos
    if settings.security.aggregation == "shuffle":
        _require_two_left(settings.security.colluders, federation.users)
        return settings.security
    named = max(coalitions_in((privacy.observer, *privacy.observers)), default=0)
    told = max(named, settings.security.colluders)
    if told > max(0, silos - 2):
        what = f"`colluders` is {told}" if named < told else f"server+{named} is named"
        raise InvalidInput(
            f"{what}, and {there_are(silos, 'silo')}.",
            "Two silos at least must tell nothing: what one alone sends, the others would know.",
            f"Name at most {max(0, silos - 2)} of them, or have more silos.",
        )
    return replace(settings.security, colluders=told)


def _require_two_left(colluders: int, users: int) -> None:
    """Raise `InvalidInput` where shuffled messages have nobody to hide among."""
    if users - colluders < 2:
        told = f", and `colluders` is {colluders:,}" if colluders else ""
        raise InvalidInput(
            f"A shuffle needs two users who tell nothing; there {'is' if users == 1 else 'are'} "
            f"{users:,}{told}.",
            "One message is not hidden among others that are known.",
            "Have more `users` in [data], or lower `colluders` in [security].",
        )


def _normalising(
    settings: Settings, federation: Federation, by: Aggregator, security: SecuritySettings
) -> MomentsRelease | None:
    from ..datasets.registry import scaling_of

    noise = settings.privacy.normalisation_noise
    if (settings.data.normalisation == "private") != (noise is not None):
        raise InvalidInput(
            "Private normalisation and `normalisation_noise` go together.",
            "The moments are released with that noise, and nothing else has a use for it.",
            "Give both, or neither.",
        )
    if noise is None:
        return None
    scaling = scaling_of(settings.data.name)
    return MomentsRelease(
        noise,
        settings.training.weighting,
        settings.privacy.neighbours,
        federation,
        scaling.lower,
        scaling.upper,
        by,
        security,
        coalitions_in((settings.privacy.observer, *settings.privacy.observers)),
    )
