"""What a system is made from: its settings as public constants, its federation and aggregator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput, there_are
from ..aggregation.choice import aggregator
from ..aggregation.sums import Aggregator, PlainAggregator
from ..data.federation import Federation
from ..observers.names import coalition_sizes, coalitions_in
from ..settings.schema import SecuritySettings
from ..settings.table_rules import list_complaint
from ..training.local_training import LocalTraining
from .held_out_release import HeldOutRelease
from .held_out_setup import held_out_release
from .opening import Aggregation
from .privacy import PrivacyTarget
from .private_normalisation import MomentsRelease

if TYPE_CHECKING:
    from ..settings.schema import Settings, TrainingSettings


@dataclass(frozen=True, eq=False)
class Setup:
    """The parts that a system is built from; the same for every round.

    - `privacy`, `rounds`, `training`, `security`: the settings, all public.
    - `federation`: the records by user and silo; `local`: the training inside the silos.
    - `aggregator`: adds up what the silos send.
    - `normalisation`: the private release of the moments that features are normalised by, if any.
    - `held_out`: the release of votes of users who are held out of the training, if any.
    - `public_users`: |U| of a table, as its settings say it; None where it is the federation's.
    """

    name: str
    privacy: PrivacyTarget
    rounds: int
    training: TrainingSettings
    federation: Federation
    local: LocalTraining
    security: SecuritySettings = field(default_factory=SecuritySettings)
    aggregator: Aggregator = field(default_factory=PlainAggregator)
    normalisation: MomentsRelease | None = None
    public_users: int | None = None
    held_out: HeldOutRelease | None = None

    @property
    def aggregation(self) -> Aggregation:
        """What the server sees of the silos' updates."""
        return self.security.aggregation

    @property
    def coalitions(self) -> tuple[int, ...]:
        """The sizes of coalitions of the server with silos that guarantees are computed for."""
        asked = (self.privacy.observer, *self.privacy.observers)
        return coalition_sizes(self.aggregation, asked, self.security.colluders)

    @property
    def users(self) -> int:
        """|U|, a public constant: how many users there are, or at most.

        Arrays of users have `federation.users` rows, which may be a private number.
        """
        return self.federation.users if self.public_users is None else self.public_users

    @property
    def silos(self) -> int:
        """|S|, a public constant."""
        return self.federation.silos


def setup(
    settings: Settings,
    federation: Federation,
    local: LocalTraining,
    *,
    whole_ring: bool = False,
    fewest: int | None = None,
) -> Setup:
    """Return the setup of a system, as its settings have it.

    With `whole_ring` its aggregator sums any integers of 64 bits modulo 2^64, without a bound.
    `fewest` is the smallest group that sums by additive shares, as a coordinator gathers it; None:
    all silos, without a coordinator.
    """
    privacy = settings.privacy
    _require_list(settings, federation)
    security = _with_coalitions(settings, federation, fewest)
    silo_aggregator = aggregator(security, federation.silos, whole_ring=whole_ring, fewest=fewest)
    return Setup(
        settings.run.system,
        PrivacyTarget(
            unit=privacy.unit or "user",
            neighbours=privacy.neighbours,
            delta=privacy.delta,
            epsilon=privacy.epsilon,
            noise_multiplier=privacy.noise_multiplier,
            sampling_rate=privacy.sampling_rate,
            observer=privacy.observer,
            group=privacy.group,
            observers=privacy.observers,
        ),
        settings.run.rounds,
        settings.training,
        federation,
        local,
        security,
        silo_aggregator,
        _moments_release(settings, federation, silo_aggregator, security),
        None if federation.user_names is None else settings.data.users,
        held_out_release(settings, federation, local, silo_aggregator, security),
    )


def _require_list(settings: Settings, federation: Federation) -> None:
    """Raise `InvalidInput` for messages of each user where their list is private."""
    if federation.user_names is None or settings.data.users_public is not None:
        return
    complaint = list_complaint(settings.security.aggregation)
    if complaint is not None:
        what, why, step = complaint
        raise InvalidInput(f"The setup of {settings.run.system} {what}.", why, step)


def _with_coalitions(
    settings: Settings, federation: Federation, fewest: int | None
) -> SecuritySettings:
    """Return security settings whose colluders cover every coalition that an observer names.

    Two silos (or users, where users send the messages) of the smallest group must stay outside of
    it, so that neither's contribution follows from the sum.  Raises `InvalidInput` for a larger
    coalition.
    """
    privacy, silos = settings.privacy, federation.silos if fewest is None else fewest
    if settings.security.aggregation == "shuffle":
        _require_two_left(settings.security.colluders, federation.users)
        return settings.security
    # An observer such as server+2 names a coalition, whatever `colluders` says.
    named = max(coalitions_in((privacy.observer, *privacy.observers)), default=0)
    colluders = max(named, settings.security.colluders)
    if colluders > max(0, silos - 2):
        # One peer more is left out of additive shares: it sees the sum, as its colluders do.
        among_peers = settings.security.aggregation == "shares"
        most = max(0, silos - (3 if among_peers else 2))
        what = f"`colluders` is {colluders}" if named < colluders else f"server+{named} is named"
        there = there_are(silos, "silo") + ("" if fewest is None else " in the smallest round")
        raise InvalidInput(
            f"{what}, and {there}.",
            "Two silos at least must tell nothing: what one alone sends, the others would know.",
            f"Name at most {most} of them, or have more silos.",
        )
    return replace(settings.security, colluders=colluders)


def _require_two_left(colluders: int, users: int) -> None:
    """Raise `InvalidInput` where shuffled messages have nobody to hide among."""
    if users - colluders < 2:
        colluding = f", and `colluders` is {colluders:,}" if colluders else ""
        raise InvalidInput(
            f"A shuffle needs two users who tell nothing; there {'is' if users == 1 else 'are'} "
            f"{users:,}{colluding}.",
            "One message is not hidden among others that are known.",
            "Have more `users` in [data], or lower `colluders` in [security].",
        )


def _moments_release(
    settings: Settings,
    federation: Federation,
    silo_aggregator: Aggregator,
    security: SecuritySettings,
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
        silo_aggregator,
        security,
        coalitions_in((settings.privacy.observer, *settings.privacy.observers)),
    )
