"""What the releases of DELM's systems are, for their runs and for audits of these.

| model | a round releases | its noise |
|---|---|---|
| linear | coefficients of every client's objective | Laplace, by the printed or the proven Delta |
| any other | what one step reads of an expansion, as printed | Laplace, by the printed Delta |

Every client adds all of the noise and sends in the clear.  What the PCA step before them is, where
there is one, is in `pca_terms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from ...accountant import events as ev
from ...accountant.mechanisms import Laplace, NoisyGram
from ...accountant.records import Sampling
from ..aggregation.unweighted_views import unweighted_views
from ..declarations.shared_tables import PrivacySettings
from ..declarations.stated_settings import StatedSettings
from ..frame.expected_log import (
    ExpectedLog,
    ExpectedPhase,
    NotStated,
    expected_phase,
    noise_of_event,
    stated_shape,
    votes_noise,
)
from ..frame.initial_model import initial_vector, layers_in
from ..frame.terms import SetupTerms, typed
from ..observers.names import SERVER, SHUFFLER
from ..statistics.run_terms import RunTerms, expected_log
from .declaration import phases_of, rounds_phase
from .noise_width import multiplier_of, printed_event, printed_mechanism
from .parts import Parts
from .pca_terms import PCA, PcaTerms, components_of, expected_pca, pca_epsilon, pca_sealed
from .pieces import Scheme, claim_of, parts_of, selected_of
from .settings import (
    LAYERS,
    LINEAR_MODELS,
    NO_PCA,
    TABLE,
    WISHART,
    DelmSettings,
    noise_is_given,
)
from .votes import votes_mechanism

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray
    from ...accountant.records import RoundIntent
    from ..declarations.declaration import Read


@dataclass(frozen=True)
class SchemeTerms(SetupTerms):
    """A round of the published schemes; see the module.

    - `scheme`: the table, whether clients are chosen, and how many steps are taken.
    - `model`, `layers`, `parameters`: the name of what is trained, and how large it is.
    - `features`, `classes`: of a record, before the PCA where there is one.
    """

    scheme: Scheme
    model: str
    features: int
    classes: int
    layers: int
    parameters: int

    @property
    def table(self) -> DelmSettings:
        """The settings of the pieces."""
        return self.scheme.table

    @property
    def linear(self) -> bool:
        """Whether its objective is a polynomial whose coefficients depend on records alone."""
        return self.model in LINEAR_MODELS

    @property
    def epsilon(self) -> float:
        """The claim; raises as `claim_of`."""
        return claim_of(self.setup.privacy, self.setup.name)

    @cached_property
    def parts(self) -> Parts:
        """The parts of epsilon; raises as `parts_of`."""
        return parts_of(self.scheme, self.epsilon, self.layers)

    @property
    def pca_epsilon(self) -> float:
        """The epsilon that the noise of the PCA is made for."""
        return pca_epsilon(self.scheme, self.epsilon, self.model, self.layers)

    @property
    def trained_features(self) -> int:
        """How many features the model has: after the PCA, where there is one."""
        return trained_features(self.table, self.features)

    @property
    def shuffled(self) -> bool:
        """Whether messages lose their senders."""
        return self.table.shuffle == LAYERS

    @property
    def divisor(self) -> float:
        """How many messages a mean is of: of all clients, or of those that are chosen."""
        clients = self.setup.silos
        chosen = selected_of(self.table.selected, clients) if self.scheme.chooses else clients
        return float(chosen)

    @property
    def clip_enforced(self) -> bool:
        """Whether rows are clipped: not where a client sends gradients."""
        return self.linear

    @property
    def sealed(self) -> tuple[str, ...]:
        """What coefficients seal; of gradients, of which nothing is proven, nothing."""
        return RunTerms.sealed if self.linear else ()

    @cached_property
    def coefficients(self) -> RunTerms:
        """The release of a linear model's coefficients, with Laplace noise of every client.

        Raises `InvalidInput` as `RunTerms`.
        """
        settings = replace(self.table, noise="laplace", components=0)
        terms = RunTerms.of(self.setup, settings, self.trained_features, self.classes)
        return replace(terms, unit="record", dropouts=0)

    @property
    def multiplier(self) -> float | None:
        """The noise multiplier that the parts of epsilon give; None where it is to be found."""
        table = self.table
        if not self.linear:
            return 1.0 / self.parts.training  # the noise over the printed Delta
        if not noise_is_given(self.model, table.pca, table.sensitivity, table.training_epsilon):
            return None
        training = self.parts.training
        return multiplier_of(self.coefficients, self.model, table.sensitivity, training)

    def mechanism(self, noise_multiplier: float) -> NoisyGram | Laplace:
        """Return the noise of every client's message."""
        if self.linear:
            return self.coefficients.mechanism(noise_multiplier)
        return printed_mechanism(
            self.model,
            features=self.trained_features,
            classes=self.classes,
            parameters=self.parameters,
            epsilon=self.parts.training,
        )

    def laplace_views(self, noise_multiplier: float) -> dict[str, ev.Event]:
        """Return the event of a release for each observer, where every client adds Laplace noise.

        Who shuffles sees each message.
        """
        views = unweighted_views(
            noise_multiplier,
            family="laplace",
            unit="record",
            silos=self.setup.silos,
            coalitions=self.setup.coalitions,
        )
        return {**views, SHUFFLER: views[SERVER]} if self.shuffled else views

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for each observer; of a model not linear, no guarantee."""
        views = self.laplace_views(noise_multiplier)
        return views if self.linear else dict.fromkeys(views, printed_event(self.model))

    def noise(self, privacy: PrivacySettings, intent: RoundIntent) -> float:
        """Return the noise multiplier: what the parts give, or that of the event of an intent."""
        del privacy
        given = self.multiplier
        return noise_of_event(intent.event, ev.Laplace) if given is None else given

    def expected(self, privacy: PrivacySettings, intent: RoundIntent) -> ExpectedPhase:
        """Return what a round states; of gradients also its event."""
        mechanism = self.mechanism(self.noise(privacy, intent))
        return self.stated(mechanism, event=None if self.linear else printed_event(self.model))

    def of_pca(self) -> PcaTerms:
        """Return the public facts of the PCA step, as an audit needs them.

        Of Gaussian noise, which was found, the multiplier counts for nothing.
        """
        table, setup = self.table, self.setup
        assert table.pca != NO_PCA
        return PcaTerms(
            kind=table.pca,
            noise=self.pca_epsilon if table.pca == WISHART else 1.0,
            row_norm=table.row_norm,
            components=components_of(table, self.features),
            features=self.features,
            silos=setup.silos,
            users=setup.users,
            relation=setup.privacy.neighbours,
            most_rows=table.most_rows,
        )


def trained_features(table: DelmSettings, features: int) -> int:
    """Return how many features a model has: after the PCA, where there is one."""
    return features if table.pca == NO_PCA else components_of(table, features)


def _terms(given: StatedSettings, *, chooses: bool) -> SchemeTerms:
    """Return the terms of a configuration; `NotStated` for a model or data not known here."""
    table: DelmSettings = given.complete(TABLE)
    (features, classes), model = stated_shape(given.read), str(given.training.model)
    trained = trained_features(table, features)
    layers, first = layers_in(model, trained, classes), None
    if layers is None:
        raise NotStated(f"the layers of {model}")
    if model not in LINEAR_MODELS:
        first = initial_vector(model, trained, classes, 0)
        if first is None:
            raise NotStated(f"the parameters of {model}")
    scheme = Scheme(table, chooses, given.rounds)
    parameters = 0 if first is None else first.size
    return SchemeTerms(given, scheme, model, features, classes, layers, parameters)


def _phase(chooses: bool, read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    given = StatedSettings(read)
    terms = _terms(given, chooses=chooses)
    if intent.phase == PCA:
        return expected_pca(terms.of_pca(), intent)
    return terms.expected(given.privacy, intent)


def _votes(given: StatedSettings) -> ExpectedPhase:
    """Return what the release of votes states: it is the same of every piece and model."""
    mechanism = votes_mechanism(votes_noise(given), silos=given.silos)
    return expected_phase(mechanism, given.privacy.neighbours, 1, Sampling(), None)


def _first(given: StatedSettings) -> FloatArray:
    (features, classes), model = stated_shape(given.read), str(given.training.model)
    trained = trained_features(given.complete(TABLE), features)
    first = initial_vector(model, trained, classes, given.training.seed)
    if first is None:
        raise NotStated(f"the first model of {model}")
    return first


def _sealed(given: StatedSettings) -> Mapping[str, tuple[str, ...]]:
    """Return what coefficients and the PCA seal."""
    table: DelmSettings = given.of(TABLE)
    linear = given.training.model in LINEAR_MODELS
    rounds = {rounds_phase(given.read): RunTerms.sealed if linear else ()}
    return rounds if table.pca == NO_PCA else {PCA: pca_sealed(table.pca), **rounds}


LINEAR: Final = expected_log(TABLE)

BASIC: Final = ExpectedLog(
    partial(_phase, False),
    first=typed(_first),
    before=lambda read: len(phases_of(read)) - 1,  # the PCA, where there is one
    votes=typed(_votes),
    sealed=typed(_sealed),
)
ENHANCED: Final = replace(BASIC, phase=partial(_phase, True))
"""The basic scheme, and the enhanced one."""
