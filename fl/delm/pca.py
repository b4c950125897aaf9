"""DELM's PCA step as a phase of a run: noisy covariances of clients, and what is projected on them.

    silo s      C_s = its rows, clipped to R and over R, as x x^T on the grid, with noise of its own
    released    sum_s C_s, once, before the training
    anybody     V: the k leading eigenvectors of it; x -> V^T x for every record from then on

`wishart` is Algorithm 2 of the paper (LDP-FPCA) and proves nothing; `gaussian` is the same release
with noise that is accounted for (`pca_terms`).  V is a function of the release alone, and rows that
are projected, clipped to R as in the release, have norm at most R again.  What was released is kept
with the model, so a run that is resumed projects on the same directions.

A system uses it so:

    pca = pca_release(setup, kind="wishart", epsilon=0.6, components=32, row_norm=1.0)
    pca.planned                         the phase in the plan, before that of the training
    pca.as_phase(use)                   the phase of the system: the first of `phases`
    pca.project(federation, released)   the federation on the components of a release

`use` is called with the projected federation, after the release and again on resume; a training
takes it by `local.use`.  Its model must be made for k features.  `pca_sealed` says what
the phase seals, `pca_terms.expected_pca` what its intent states, and `pca_canaries.simulate_pca`
shows what its release gives away.

Source: Cao et al. 2023, *Differentially Private Federated Learning with Functional Mechanism*
(DELM), Algorithm 2.

Components of a released covariance matrix, and records that are projected on them.

    V^T: the k leading eigenvectors of the mean of the clients' noisy covariances
    x  ->  V^T x min(1, R / |x|)

Functions of a release and of each record by itself, so they cost nothing.  Rows of norm at most R
stay so, as the eigenvectors are orthonormal.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.calibrate import calibrate
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gate, NoisyGram, RoundDescription, Ticket, WishartGram
from ...accountant.mechanisms.gram_rows import GramTotal, gram_total
from ...accountant.plan import PlannedPhase
from ...accountant.records import Reach
from ..aggregation.residuals import Residuals
from ..aggregation.sums import Aggregator, PlainAggregator
from ..data.federation import Federation
from ..frame.phases import Phase, PhaseOutcome, SaveArrays, SingleRelease
from ..frame.setup import Setup
from ..frame.state import Arrays, State
from ..observers.reaches import Route, reaches_of
from ..parties.network import silo_name
from ..statistics.exact_sums import ExactSums
from ..statistics.noise_shown import NoiseShown, gram_parts
from ..statistics.run_terms import USUAL_MOST_ROWS
from ..statistics.sum_check import SumCheck
from .pca_terms import GAUSSIAN, PCA, PCA_ROUND, UNDIVIDED, PcaKind, PcaTerms
from .pca_terms import pca_sealed as pca_sealed

_LARGEST: Final = float(np.finfo(np.float32).max)
_SMALLEST: Final = float(np.finfo(np.float64).tiny)


def mean_matrix(released: FloatArray, features: int, clients: int) -> FloatArray:
    """Return the mean of the clients' matrices, (d, d), of the upper triangle of their sum.

    >>> mean_matrix(np.array([2.0, 4.0, 6.0]), 2, 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    upper = np.zeros((features, features))
    upper[np.triu_indices(features)] = released / clients
    return upper + np.triu(upper, 1).T


def leading_directions(matrix: FloatArray, components: int) -> FloatArray:
    """Return V^T (k, d) of a symmetric matrix: the largest eigenvalue first.

    Each direction has its largest entry positive, so that V is the same in every call.

    >>> leading_directions(np.diag([1.0, 3.0, 2.0]), 2).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    leading = np.linalg.eigh(matrix)[1].T[::-1][:components]
    largest = np.abs(leading).argmax(axis=1)
    signs = np.where(leading[np.arange(len(leading)), largest] < 0.0, -1.0, 1.0)
    return np.ascontiguousarray(leading * signs[:, None])


def projected(federation: Federation, directions: FloatArray, row_norm: float) -> Federation:
    """Return a federation with its features projected, (n, k).

    Those of test records are too, and of records that are held out.
    """
    held = federation.held_out
    if held is not None:
        held = replace(held, features=_projected_rows(held.features, directions, row_norm))
    return replace(
        federation,
        held_out=held,
        features=_projected_rows(federation.features, directions, row_norm),
        test_features=_projected_rows(federation.test_features, directions, row_norm),
    )


def _projected_rows(features: Any, directions: FloatArray, row_norm: float) -> Any:
    on_components = on_directions(features, directions, row_norm)
    # A norm beyond the floats of 32 bits would make no number of a feature.
    return np.clip(on_components, -_LARGEST, _LARGEST).astype(np.float32)


def on_directions(features: Any, directions: FloatArray, row_norm: float) -> FloatArray:
    """Return V^T x min(1, R / |x|) of each record by itself, (n, k): others move no bit of it.

    A product of matrices rounds a row otherwise among other rows, and one record would so move
    those of others; here each is a product of its own, of the same shape.  To the last bit this is
    measured, not proven.
    """
    # The width is written out, as -1 has no meaning where there are no records at all.
    width = math.prod(features.shape[1:])
    rows = features.reshape(len(features), width).astype(np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    shrunk = np.minimum(1.0, row_norm / np.maximum(norms, _SMALLEST))
    return np.asarray(np.matmul((rows * shrunk[:, None])[:, None, :], directions.T)[:, 0])


_WHAT: Final = "the covariance matrix that features are projected by"

RELEASED: Final = "pca_released"
DIRECTIONS: Final = "pca_directions"
"""Names of the arrays: the sum that was released (values,), and V^T (k, d)."""


def pca_release(
    setup: Setup,
    *,
    kind: PcaKind,
    components: int,
    row_norm: float,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    most_rows: int | None = None,
    apart: Sequence[str] = (),
) -> PcaRelease:
    """Return the PCA step of a run; nothing is drawn before its phase.

    - `kind` "wishart": as published for `epsilon`.  "gaussian": every client's noise has
      `noise_multiplier`, or the least that gives `epsilon` at the delta of the run by itself,
      before who sees what one client sends; protects records.
    - `components`: k, 1 to the number of features; `row_norm`: R, public, above 0.
    - `most_rows`: public number of rows for which the grid is chosen.
    - `apart`: observers, besides the server, who collect what every client sends, and all others
      that the training has and `views` has not: nobody may be left out of a public release.

    Raises `InvalidInput` unless exactly one of `epsilon` and `noise_multiplier` is given (Wishart
    noise has no multiplier), for private moments with it, for Gaussian noise where another unit
    than a record is protected, and as `PcaTerms`.
    """
    if (epsilon is None) == (noise_multiplier is None) or (kind != GAUSSIAN and epsilon is None):
        raise InvalidInput(
            "The PCA step takes an epsilon, or, if Gaussian, a noise multiplier, and not both.",
            "Wishart noise is published for an epsilon alone.",
            "Give one of them.",
        )
    if kind == GAUSSIAN and setup.privacy.unit != "record":
        raise InvalidInput(
            f"The Gaussian noise of the PCA step protects a record; the unit is "
            f"{setup.privacy.unit!r}.",
            "A row that is clipped is one record, and other units have many.",
            'Write unit = "record" in [privacy], or leave the step out.',
        )
    noise = epsilon if noise_multiplier is None else noise_multiplier
    assert noise is not None
    if kind == GAUSSIAN and noise_multiplier is None:
        privacy = setup.privacy
        calibrated = calibrate(
            ev.Gaussian, epsilon=noise, delta=privacy.delta, neighbours=privacy.neighbours
        )
        noise = calibrated.value
    terms = PcaTerms(
        kind=kind,
        noise=noise,
        row_norm=row_norm,
        components=components,
        features=math.prod(setup.federation.features.shape[1:]),
        silos=setup.silos,
        users=setup.users,
        relation=setup.privacy.neighbours,
        most_rows=most_rows,
        shuffled=setup.aggregation == "shuffle",
    )
    views = terms.views(coalitions=setup.coalitions, apart=apart)
    return PcaRelease(terms, setup.federation, views)


@dataclass(frozen=True, eq=False)
class PcaRelease:
    """One noisy sum of the clients' covariance matrices; `pca_release` makes it.

    - `terms`: its public facts; `federation`: the records with all features.
    - `views`: its event for each observer, those of the model and of the server among them.
    - `aggregator`: adds up what clients send, in the clear.

    Raises `InvalidInput` where no grid suits the noise.
    """

    terms: PcaTerms
    federation: Federation
    views: Mapping[str, ev.Event]
    aggregator: Aggregator = field(default_factory=PlainAggregator)

    def __post_init__(self) -> None:
        _ = self.terms.mechanism  # refused here, and not when it is paid for

    @property
    def mechanism(self) -> NoisyGram | WishartGram:
        """What draws the noise."""
        return self.terms.mechanism

    @cached_property
    def planned(self) -> PlannedPhase:
        """The phase in a plan: one round, whose noise is given."""
        noise = self.terms.noise_of_sum if self.terms.kind == GAUSSIAN else None
        return PlannedPhase(PCA, noise, self.views["model"], 1, self.views)

    @property
    def reaches(self) -> Mapping[str, Reach]:
        """Which of its messages reach each observer: clients send them in the clear."""
        return reaches_of(self.views, Route("plain", self.terms.silos, unit="record"))

    def restate(self, views: Mapping[str, ev.Event]) -> None:
        """Take over the events that a log announced, on resume; the noise is the same."""
        object.__setattr__(self, "views", dict(views))
        self.__dict__.pop("planned", None)

    def as_phase(self, use: Callable[[Federation], None]) -> Phase:
        """Return the phase of a system; `use` is called with the projected federation."""

        def follow(arrays: Arrays) -> PhaseOutcome:
            released = arrays[RELEASED]
            federation = self.project(self.federation, released)
            use(federation)
            return PhaseOutcome(self._arrays(released), federation)

        def digest(arrays: Arrays) -> str:
            return hashlib.sha256(arrays[RELEASED].tobytes()).hexdigest()

        once = SingleRelease(_WHAT, self.state, self.release, digest, follow)
        return Phase(self.planned, PCA_ROUND, once=once)

    @property
    def state(self) -> State:
        """The arrays that it adds to the state of the run."""
        terms = self.terms
        return State(
            pca_released=(self.mechanism.gram.values,),
            pca_directions=(terms.components, terms.features),
        )

    def release(self, gate: Gate, keep: SaveArrays) -> Arrays:
        """Make the one intent and the one release; return the arrays of `state`.

        Exact sums come before the intent: a crash there spends nothing.  `keep` is called before
        the release is logged, as the noise cannot be drawn again.
        """
        mechanism, exact = self.mechanism, self._exact_sums()
        others = {observer: event for observer, event in self.views.items() if observer != "model"}
        about = RoundDescription(
            PCA_ROUND,
            PCA,
            views=others,
            event_override=self.views["model"],
            reaches=self.reaches,
        )
        with gate.open(mechanism.intent(about, self.terms.relation)) as ticket:
            totals = [each.total for each in exact.by_silo]
            shown = self._noise_shown(ticket)
            sends = [
                partial(self._sent, shown, ticket, silo, total) for silo, total in enumerate(totals)
            ]
            received = self.aggregator.total(PCA_ROUND, sends, mechanism.gram.values)
            if shown is not None:
                shown.whole(received.total, totals, received.silos)
            released = mechanism.units(received.total)
            arrays = self._arrays(released)
            keep(arrays)
            ticket.close(
                normaliser=UNDIVIDED,
                aggregate=released.tobytes(),
                sealed=self._sealed(exact, shown),
                values=released.size,
                shares=len(received.silos),
            )
        return arrays

    def directions(self, released: FloatArray) -> FloatArray:
        """Return V^T (k, d), the leading eigenvectors of a release (values,)."""
        terms = self.terms
        matrix = mean_matrix(np.asarray(released, np.float64), terms.features, terms.silos)
        return leading_directions(matrix, terms.components)

    def project(self, federation: Federation, released: FloatArray) -> Federation:
        """Return a federation with its features on the components of a release (values,)."""
        return projected(federation, self.directions(released), self.terms.row_norm)

    def _arrays(self, released: FloatArray) -> dict[str, FloatArray]:
        return {RELEASED: released, DIRECTIONS: self.directions(released)}

    def _exact_sums(self) -> ExactSums:
        """Return the exact sums of all silos, and the check of them; private."""
        federation, mechanism = self.federation, self.mechanism
        features: Any = federation.features.reshape(federation.records, self.terms.features)
        no_labels = np.zeros(federation.records, np.int64)
        check, totals, groups = SumCheck(mechanism, 0.0), list[GramTotal](), federation.by_silo()
        for silo in range(federation.silos):
            here = groups.records(silo)
            total = gram_total(mechanism, features[here])
            check.add(features, no_labels, here, total.total)
            totals.append(total)
        return ExactSums(tuple(totals), check)

    def _noise_shown(self, ticket: Ticket) -> NoiseShown | None:
        """Return what is shown the noise for the sidecar; Wishart noise has no residual test."""
        if not isinstance(self.mechanism, NoisyGram):
            return None
        monitor = Residuals().monitor(ticket.intent.noise, gram_parts(self.mechanism))
        return NoiseShown(monitor, self.mechanism)

    def _sent(
        self, shown: NoiseShown | None, ticket: Ticket, silo: int, total: IntArray
    ) -> IntArray:
        name = f"{PCA}/{silo_name(silo)}"
        if shown is None:
            return self.mechanism.share_steps(ticket, total, name)
        return shown.sent(ticket, silo, name, total)

    def _sealed(self, exact: ExactSums, shown: NoiseShown | None) -> dict[str, object]:
        about_noise = {} if shown is None else shown.items()
        most = self.terms.most_rows
        return {**about_noise, **exact.sealed(USUAL_MOST_ROWS if most is None else most)}
