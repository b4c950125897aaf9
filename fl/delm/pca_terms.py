"""The public facts of DELM's PCA step: whose noise, on which grid, and what each observer sees.

    client i sends    C_i = sum x x^T of its rows x (clipped to R, over R)  +  noise of its own
    released          their sum, of which everybody computes components

| kind | noise of each client | parameter |
|---|---|---|
| `wishart` | Z Z^T, Z: d x (d+1) of N(0, 1 / (2 epsilon)), as published | epsilon |
| `gaussian` | symmetric Gaussian, enough for a record by itself | its noise multiplier |

Clients are silos, and every C_i is sent in the clear: so the server, and whoever else collects what
clients send, sees each with its own noise alone.  Wishart noise proves nothing before anybody
(`accountant.mechanisms.wishart_gram`).  Gaussian noise of multiplier m for each of S clients is
noise of m sqrt(S) for who sees the sum.

A run and an audit make the mechanism from these alone, so it is the same mechanism.

How many components the PCA keeps, and which part of epsilon it has.

Where noise is found for the claim, the PCA alone has epsilon / (1 + r), and the training what the
two of them leave of the claim; otherwise epsilon1 is a part like any other (`parts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, TypeAlias

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import NoisyGram, WishartGram, wishart_bits
from ...accountant.mechanisms.wishart_gram import WISHART_EVENT, published_deviation
from ...accountant.records import Normaliser, RoundIntent, Sampling
from ...accountant.sensitivity.gram import GramBound
from ...accountant.sensitivity.release import root_up
from ..aggregation.unweighted_views import unweighted_views
from ..declarations.sealed_items import NOISE, RECOMPUTED
from ..frame.expected_log import ExpectedPhase, NotStated, expected_phase
from ..observers.names import ANALYZER, MODEL, SERVER, SHUFFLER
from ..statistics.run_terms import USUAL_MOST_ROWS, RunTerms
from ..statistics.settings import BEYOND, CLIPPED, DROPPED, ROWS, StatisticsSettings
from .pieces import Scheme, parts_of
from .settings import DelmSettings, noise_is_given


def components_of(table: DelmSettings, features: int) -> int:
    """Return k: as given, or half of the features, as in the paper (392 of 784)."""
    return table.components or max(1, features // 2)


def pca_epsilon(scheme: Scheme, epsilon: float, model: str, layers: int) -> float:
    """Return the epsilon that the noise of the PCA is made for, of a model with m `layers`."""
    table = scheme.table
    if noise_is_given(model, table.pca, table.sensitivity, table.training_epsilon):
        return parts_of(scheme, epsilon, layers).pca
    return epsilon / (1.0 + table.ratio)


PcaKind: TypeAlias = Literal["wishart", "gaussian"]

WISHART: Final = "wishart"
GAUSSIAN: Final = "gaussian"

PCA: Final = "pca"
"""The name of the phase."""

PCA_ROUND: Final = 0
"""The number of its one round, before the first round of training."""

UNDIVIDED: Final = Normaliser("constant", 1.0)
"""The sum is released as it is; its mean has the same components."""


@dataclass(frozen=True, kw_only=True)
class PcaTerms:
    """What of a run's public settings decides its PCA step; see the module.

    - `kind`: `wishart` or `gaussian`; `noise`: epsilon as published, or the noise multiplier of
      each client, above 0.
    - `row_norm`: R, above 0; `components`: k, 1 to `features`.
    - `features`: d; `silos`: how many clients; `users` and `relation` are those of the run.
    - `most_rows`: the public number of rows for which the grid is chosen; None: a million.
    - `shuffled`: whether the run has a shuffler.  Its log says that a model is made of what the
      analyzer sees, so who sees the model is counted as if it saw what each client sends.

    Raises `InvalidInput` for what is out of range.
    """

    kind: PcaKind
    noise: float
    row_norm: float
    components: int
    features: int
    silos: int
    users: int
    relation: str
    most_rows: int | None = None
    shuffled: bool = False

    def __post_init__(self) -> None:
        validate.choice((WISHART, GAUSSIAN), pca=self.kind)
        noise = {"epsilon" if self.kind == WISHART else "noise_multiplier": self.noise}
        object.__setattr__(self, "noise", validate.positive(**noise))
        object.__setattr__(self, "row_norm", validate.positive(row_norm=self.row_norm))
        if validate.count(components=self.components) > self.features:
            raise InvalidInput(
                f"`components` must be at most {self.features:,}; it is {self.components:,}.",
                "There are no more directions than features.",
                "Lower it in [delm], or leave it out for half of the features.",
            )

    @cached_property
    def mechanism(self) -> NoisyGram | WishartGram:
        """What draws the noise, in a share for each client.

        Raises `InvalidInput` where no grid suits the noise and the number of rows.
        """
        if self.kind == GAUSSIAN:
            return self.gram_terms.mechanism(self.noise_of_sum)
        gram = GramBound(dimension=self.features)
        rows = USUAL_MOST_ROWS if self.most_rows is None else self.most_rows
        bits = wishart_bits(
            gram, most_rows=rows, std=published_deviation(self.noise), shares=self.silos
        )
        return WishartGram.as_published(
            self.noise, gram=gram, bits=bits, shares=self.silos, row_norm=self.row_norm
        )

    @cached_property
    def noise_of_sum(self) -> float:
        """The noise multiplier of who sees the sum alone: m sqrt(S), rounded up; Gaussian noise."""
        return root_up(Fraction(self.noise) ** 2 * self.silos)

    def views(
        self, *, coalitions: Sequence[int] = (), apart: Sequence[str] = ()
    ) -> dict[str, ev.Event]:
        """Return the event of the release for each observer.

        `coalitions`: sizes of those of the server with clients that are accounted for; `apart`:
        observers, besides the server, who collect what every client sends.  Whoever sees anything
        of the training must be one of the names, as this release is public.
        """
        noise = self.noise_of_sum if self.kind == GAUSSIAN else 1.0
        views = unweighted_views(
            noise, family=GAUSSIAN, unit="record", silos=self.silos, coalitions=coalitions
        )
        shuffling = (MODEL, ANALYZER, SHUFFLER) if self.shuffled else ()
        views |= dict.fromkeys((*apart, *shuffling), views[SERVER])
        return views if self.kind == GAUSSIAN else dict.fromkeys(views, WISHART_EVENT)

    @property
    def gram_terms(self) -> RunTerms:
        """The facts of the same release with Gaussian noise, as private statistics have them."""
        return RunTerms(
            settings=StatisticsSettings(
                row_norm=self.row_norm, intercept=0.0, most_rows=self.most_rows, fit="none"
            ),
            unit="record",
            relation=self.relation,
            features=self.features,
            classes=0,
            users=self.users,
            silos=self.silos,
        )


def expected_pca(terms: PcaTerms, intent: RoundIntent) -> ExpectedPhase:
    """Return what the PCA step of these terms must state; for a system's `ExpectedLog.phase`.

    Of Gaussian noise that was found for a target, the multiplier in `terms` counts for nothing: it
    is that of the event that `intent` states.  Raises `NotStated` where it states none.
    """
    mechanism = terms.mechanism
    if terms.kind == GAUSSIAN:
        if not isinstance(intent.event, ev.Gaussian):
            raise NotStated("the noise of the PCA step")
        times = terms.silos if terms.shuffled else 1  # shares in what the event is of
        noise = root_up(Fraction(intent.event.noise_multiplier) ** 2 * times)
        mechanism = terms.gram_terms.mechanism(noise)
    return expected_phase(mechanism, terms.relation, 1, Sampling(), UNDIVIDED)


def pca_sealed(kind: PcaKind) -> tuple[str, ...]:
    """Return what the phase seals: what Gaussian noise was drawn, and counts of the rows."""
    about_noise = NOISE if kind == GAUSSIAN else (RECOMPUTED,)
    return (*about_noise, ROWS, CLIPPED, DROPPED, BEYOND)
