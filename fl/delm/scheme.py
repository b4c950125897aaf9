"""What every run of DELM's published schemes has in common: its pieces, its parts, its claim.

    pca        once, before the training; everything after it is on its components
    rounds     every client's noisy message; layer by layer shuffled, chosen and averaged; one step
    votes      of records that are held out, on the last model, where there are some

Where every piece is sound, the run has a guarantee like any other.  Where one is not, the run is as
published: it claims the paper's number, its unsound rounds state `no-guarantee`, and its sound ones
what they are.

Source: Cao et al. 2023, *Differentially Private Federated Learning with Functional Mechanism*
(DELM), Algorithms 1 to 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.plan import PlannedPhase, plan_given_noise
from ..data.federation import Federation
from ..frame.model import Parameters
from ..frame.opening import Note, OpeningStatement
from ..frame.phases import Phase
from ..frame.private_system import PrivateSystem
from ..frame.promise import Promise, claimed, promise
from ..frame.state import Arrays, State
from .layers import Layer, layers_of
from .parts import require_claim
from .pieces import Scheme
from .settings import DIVERGENCE, LINEAR_MODELS, NOT_MIXED, PROVEN, WISHART
from .terms import SchemeTerms
from .votes import votes_of_clients

if TYPE_CHECKING:
    from ...accountant import records
    from ...accountant.mechanisms import Ticket
    from ...accountant.records import Planned
    from ..frame.opening import Note
    from ..frame.setup import Setup
    from ..models import Model
    from ..training.local_training import TorchLocalTraining
    from .choice import ClientChoice
    from .parts import Parts
    from .pca import PcaRelease

SHUFFLE_NOTE: Final = (
    "Messages lose their senders layer by layer, and no number here is lower for it: what a client "
    "adds hides a record, and a shuffler hides a client.",
    "Epsilon is not divided by the number of layers: a record moves all of them, and all are seen.",
)

ROUNDS_PROVE_NOTHING: Final = (
    "no sensitivity is proven of what a client adds, as it depends on the weights of the model"
)

CHOICE_NOTE: Final = (
    "Clients are chosen by messages that have their noise already, so the choice costs nothing, "
    "whatever its epsilon.",
)


def notes_of(
    *,
    published: bool,
    pca: str,
    model: str,
    parts: Parts,
    layers: int,
    shuffled: bool,
    choice: ClientChoice | None,
) -> tuple[Note, ...]:
    """Return the notes of a run, by its settings alone."""
    notes = []
    if published:
        unsound = []
        if pca == WISHART:
            unsound.append(
                "The PCA proves nothing: a record that cannot be subtracted from what was released "
                "is absent (privplan explain delm)."
            )
        if model not in LINEAR_MODELS:
            unsound.append(f"The rounds prove nothing: {ROUNDS_PROVE_NOTHING}.")
        numbers = {
            "epsilon_pca": parts.pca,
            "epsilon_training": parts.training,
            "epsilon_selection": parts.selection,
            "layers": float(layers),
        }
        claimed = (
            f"The claim is the paper's: max({parts.pca:.4g} + {parts.training:.4g}/{layers}, "
            f"{parts.selection:.4g}/{layers})."
        )
        notes.append(Note("as published", (*unsound, claimed), numbers))
    if shuffled:
        notes.append(Note("shuffle", SHUFFLE_NOTE))
    if choice is not None and choice.kind == DIVERGENCE:
        notes.append(Note("selection", CHOICE_NOTE))
    return tuple(notes)


DIRECTION = "direction"
"""The last mean gradient, with which the next round's messages are compared."""


class DelmScheme(PrivateSystem):
    """A published scheme with its pieces; see the module.

    A subclass makes the rounds.  `model` is what is trained, on `pca`'s components where there is
    one.  Raises `InvalidInput` for sampled users, private moments, fewer than two clients behind a
    shuffler, more chosen than there are, parts that do not make the claim.
    """

    def __init__(self, setup: Setup, scheme: Scheme, pca: PcaRelease | None) -> None:
        super().__init__(setup)
        self.scheme, self.table, self.pca = scheme, scheme.table, pca
        self.model: Model = cast("TorchLocalTraining", setup.local).model
        self.layers: tuple[Layer, ...] = layers_of(self.model.parts)
        self.federation = setup.federation  # with a PCA: until that is released
        self.terms: SchemeTerms = SchemeTerms(
            setup,
            scheme,
            self.model.name,
            math.prod(setup.federation.features.shape[1:]),
            setup.federation.classes,
            len(self.layers),
            self.model.parameters,
        )
        self.parts_of_epsilon = self.terms.parts
        self.choice = scheme.choice(setup.silos, self.parts_of_epsilon)
        _require_hidden(self.terms.shuffled, setup.silos)
        if setup.held_out is not None:
            votes = setup.held_out
            views = self.terms.laplace_views(votes.noise_multiplier)
            released = votes_of_clients(votes, views, self.right_answers, silos=setup.silos)
            self.setup = replace(setup, held_out=released)
        if self.published:
            require_claim(self.parts_of_epsilon, self.epsilon, len(self.layers))

    @property
    def epsilon(self) -> float:
        """The claim."""
        return self.terms.epsilon

    @property
    def published(self) -> bool:
        """Whether some piece has no guarantee, so that the run only claims what is printed."""
        return self.table.pca == WISHART

    @property
    def parts(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of the model's arrays."""
        return self.model.parts

    def initial(self) -> Parameters:
        """Return the public model that the first round starts from."""
        return self.setup.local.initial()

    @cached_property
    def promise(self) -> Promise:
        """The promise of the run: what is proven of it, or, as published, what is claimed.

        Raises `InvalidInput` for parts that come to more than the claim.
        """
        setup, multiplier = self.setup, self.terms.multiplier
        earlier = () if self.pca is None else (self.pca.planned,)
        later = () if setup.held_out is None else (setup.held_out.phase,)
        if self.published:
            assert multiplier is not None
            return self._unproven(multiplier, earlier, later)
        privacy = setup.privacy
        if multiplier is not None:
            privacy = replace(privacy, epsilon=None, noise_multiplier=multiplier)
        proven = promise(self.all_views, privacy, setup.rounds, earlier, self.phase, later=later)
        if multiplier is None:
            return proven
        self._require_kept(proven)
        return replace(proven, claim=claimed(setup.privacy, self.epsilon))

    def restate(self, planned: Planned) -> None:
        """Take over the announced plan of a log; on resume."""
        super().restate(planned)
        if self.pca is not None:
            self.pca.restate(self.promise.plan.phases[0].views)

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states; marked where some piece is unsound."""
        return replace(super().opening(), as_published=self.published)

    def reaches(self) -> Mapping[str, records.Reach] | None:
        """Return which messages reach each observer; what is chosen of messages is none of sums."""
        reaches = super().reaches()
        if self.choice is None or reaches is None:
            return reaches
        return {name: replace(reach, sees="each") for name, reach in reaches.items()}

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The PCA, where there is one; then the rounds; then votes, where some are held out."""
        rounds, votes = self.rounds, self.setup.held_out
        return (
            *(() if self.pca is None else (self.pca.as_phase(self.follow),)),
            rounds,
            *(() if votes is None else (votes.as_phase(rounds.last + 1),)),
        )

    @property
    def rounds(self) -> Phase:
        """The rounds of the training."""
        return Phase(self.promise.training, 1, self.round)

    def right_answers(self, parameters: Parameters) -> BoolArray:
        """Return which of the records that are held out a model answers right, as they are now."""
        from ..training.single_answers import right_answers

        held = self.federation.held_out
        assert held is not None
        return right_answers(self.model, parameters, held.features, held.labels)

    def follow(self, federation: Federation) -> None:
        """Train on these features from now on."""
        self.federation = federation
        self.setup.local.use(federation)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is not proven, and what is claimed and not credited."""
        return notes_of(
            published=self.published,
            pca=self.table.pca,
            model=self.model.name,
            parts=self.parts_of_epsilon,
            layers=len(self.layers),
            shuffled=self.terms.shuffled,
            choice=self.choice,
        )

    @property
    def compares(self) -> bool:
        """Whether the next round looks at the last mean gradient."""
        return self.choice is not None and self.choice.compares

    def stated(self) -> State:
        """Return the state of rounds: the last mean gradient, where clients are compared with it.

        Every class states its own `state` by it.
        """
        return State(direction=(self.initial().size,)) if self.compares else State()

    def after(self, gradient: FloatArray) -> Arrays:
        """Return the state after a round with this mean gradient."""
        return {DIRECTION: gradient} if self.compares else {}

    def last(self, state: Arrays | None) -> FloatArray:
        """Return the last mean gradient (D,); zeros before the first, or where none is kept."""
        if state is not None and DIRECTION in state:
            return state[DIRECTION]
        return np.zeros(self.initial().size)

    def chosen(
        self, ticket: Ticket, layer: Layer, messages: FloatArray, last: FloatArray, step: str = ""
    ) -> IntArray:
        """Return which messages (n, d) of a layer are averaged; all of them in the basic scheme."""
        if self.choice is None:
            return np.arange(len(messages))
        draws = self.choice.kind != "top-k"
        stream = ticket.stream(f"choice/{layer.name}{step}") if draws else None
        return self.choice.choose(stream, messages, last[layer.numbers])

    def _unproven(
        self,
        multiplier: float,
        earlier: tuple[PlannedPhase, ...],
        later: tuple[PlannedPhase, ...],
    ) -> Promise:
        """Return the promise of a run as published: a plan, and the paper's number as a claim."""
        privacy, views = self.setup.privacy, dict(self.all_views(multiplier))
        rounds = PlannedPhase(self.phase, multiplier, views["model"], self.setup.rounds, views)
        plan = plan_given_noise(
            [*earlier, rounds, *later],
            delta=privacy.delta,
            neighbours=privacy.neighbours,
            unit=privacy.unit,
        )
        return Promise(multiplier, plan, claimed(privacy, self.epsilon))

    def _require_kept(self, proven: Promise) -> None:
        """Raise `InvalidInput` where sound parts come to more than is claimed."""
        upper = proven.plan.guarantees[self.setup.privacy.observer].epsilon.upper
        if upper <= self.epsilon:
            return
        rounds = self.setup.rounds
        votes = "" if self.setup.held_out is None else ", with the votes of who is held out"
        raise InvalidInput(
            f"The parts of epsilon come to {upper:.6g} in {rounds:,} "
            f"{'round' if rounds == 1 else 'rounds'}{votes}; [privacy] claims {self.epsilon:g}.",
            "Where all pieces are sound the claim is what they compose to, and not what a formula "
            "of layers makes of them.",
            f"Write epsilon = {_shown_up(upper)} or more, give smaller parts in [delm], or leave "
            f'them out with sensitivity = "{PROVEN}": then the noise is found for the claim.',
        )


def _shown_up(value: float) -> str:
    return f"{value * (1.0 + 1e-5):.6g}"


def _require_hidden(shuffled: bool, clients: int) -> None:
    if shuffled and clients < 2:
        raise InvalidInput(
            "A shuffler needs two clients or more; there is one.",
            NOT_MIXED,
            'Have more `silos` in [data], or write shuffle = "none" in [delm].',
        )
